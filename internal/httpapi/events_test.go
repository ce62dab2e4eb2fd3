package httpapi

// What these tests would catch: an event that a page leaves out or tells twice; a
// key that reads of another queue; a page that does not wait, or waits for what its
// filter leaves out.

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/problem"
)

// happen makes so many events: jobs of the queue, cancelled. It returns the jobs.
func (r *rig) happen(queue string, n int) []string {
	r.Helper()
	ids := make([]string, n)
	for i := range ids {
		ids[i] = r.make(`{"queue":"` + queue + `","task":"t","version":"2","endpoint":"e","payload":1}`).ID
		is[Job](r.call("operate", "POST", "/v3/jobs/"+ids[i]+"/cancel", ""), 200)
	}
	return ids
}

func jobsOf(events []Event) (ids []string) {
	for _, e := range events {
		ids = append(ids, e.Job)
	}
	return ids
}

func TestEventsAreReadByCursor(t *testing.T) {
	r := newRig(t)
	ids := append(r.happen("emails", 3), r.happen("reports", 2)...)
	is[Gate](r.call("operate", "POST", "/v3/endpoints/mailer/pause", ""), 200)
	var got []Event
	cursor := ""
	for range 10 {
		page := is[Events](r.call("operate", "GET", "/v3/events?limit=2"+cursor, ""), 200)
		if len(page.Events) > 2 || page.Gone {
			t.Fatalf("%+v", page)
		}
		got, cursor = append(got, page.Events...), "&cursor="+page.NextCursor
	}
	if diff := cmp.Diff(append(slices.Clone(ids), ""), jobsOf(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if e := got[0]; e.Type != "job.cancelled" || e.Queue != "emails" || e.Task != "t" || e.Version != "2" || e.Endpoint != "e" ||
		!strings.Contains(string(e.Data), `"by":"operate"`) || e.At == "" {
		t.Errorf("%+v", e)
	}
	if e := got[5]; e.Type != "endpoint.paused" || e.Endpoint != "mailer" || e.Queue != "" {
		t.Errorf("%+v", e)
	}
	for query, want := range map[string][]string{
		"queue=reports": ids[3:], "queue=reports,emails": ids, "type=job.failed": nil, "type=job.failed,job.cancelled&queue=emails": ids[:3],
		"cursor=" + got[1].ID: append(slices.Clone(ids[2:]), ""),
	} {
		if diff := cmp.Diff(want, jobsOf(is[Events](r.call("operate", "GET", "/v3/events?"+query, ""), 200).Events)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", query, diff)
		}
	}
}

func TestAKeyReadsTheEventsOfItsQueues(t *testing.T) {
	r := newRig(t)
	hidden, seen := r.happen("reports", 2), r.happen("emails", 2)
	is[Gate](r.call("operate", "POST", "/v3/endpoints/mailer/pause", ""), 200)
	page := is[Events](r.call("mail", "GET", "/v3/events", ""), 200)
	if diff := cmp.Diff(seen, jobsOf(page.Events)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, of := range []string{"reports", "emails,reports"} {
		r.call("mail", "GET", "/v3/events?queue="+of, "").fails(problem.Forbidden)
	}
	s := r.follow("mail", "/v3/events?type=job.cancelled&cursor=0")
	for _, id := range seen {
		if e := s.next(); !strings.Contains(e.data, id) {
			t.Errorf("%+v is not of %s (hidden: %v)", e, id, hidden)
		}
	}
}

func TestWhatIsWrongWithAReaderOfEvents(t *testing.T) {
	r := newRig(t)
	for query, want := range map[string][]string{
		"type=job.faild":             {"type", `has the unknown "job.faild"; did you mean job.failed?`},
		"type=job.failed,,x":         {"type", "has an empty place; part names by single commas"},
		"queue=a%20b":                {"queue", `"a b" is no name: up to 128 of A-Z, a-z, 0-9 and . _ : -`},
		"limit=501":                  {"limit", "must be a number from 1 to 500"},
		"wait=61s":                   {"wait", "must be a duration from 0s to 1m, such as 30s"},
		"cursor=+1":                  {"cursor", "is none that the events gave out; begin without one"},
		"cursor=-1":                  {"cursor", "is none that the events gave out; begin without one"},
		"cursor=01":                  {"cursor", "is none that the events gave out; begin without one"},
		"cursor=9999999999999999999": {"cursor", "is none that the events gave out; begin without one"},
		"queue=" + strings.Repeat("q,", 100) + "q": {"queue", "names 101; at most 100 are allowed"},
	} {
		d := r.call("operate", "GET", "/v3/events?"+query, "").fails(problem.Invalid)
		if got := []string{d.Errors[0].Parameter, d.Errors[0].Message}; !slices.Equal(got, want) {
			t.Errorf("%.40s: %q, not %q", query, got, want)
		}
	}
}

// TestAPageWaitsForAnEvent asks for events before there are any, and gets the first
// that its filter lets through.
func TestAPageWaitsForAnEvent(t *testing.T) {
	r := newRig(t)
	before := is[Events](r.call("operate", "GET", "/v3/events?wait=0s", ""), 200)
	if page := is[Events](r.call("operate", "GET", "/v3/events?wait=60s&cursor=1000", ""), 200); !page.Gone || page.NextCursor != before.NextCursor {
		t.Errorf("a cursor that is ahead of every event, after a restore: %+v", page)
	}
	ended := make(chan answer, 1)
	go func() {
		ended <- r.call("operate", "GET", "/v3/events?type=job.cancelled&queue=emails&wait=60s&cursor="+before.NextCursor, "")
	}()
	r.happen("reports", 3)
	want := r.happen("emails", 1)
	if diff := cmp.Diff(want, jobsOf(is[Events](<-ended, 200).Events)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	go func() { ended <- r.call("operate", "GET", "/v3/events?type=job.failed&wait=60s", "") }()
	r.stop()
	if a := <-ended; a.status == 200 {
		if got := is[Events](a, 200); len(got.Events) != 0 {
			t.Errorf("%+v", got)
		}
	} else {
		a.fails(problem.Unavailable)
	}
}
