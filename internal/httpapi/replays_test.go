package httpapi

// What these tests would catch: a replay that is not what was asked for, of a queue
// that the key does not see, or that begins without the review that it needs; a move
// that its state forbids and that is taken all the same.

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/problem"
)

func (r *rig) replay(key, path, body string) answer {
	r.Helper()
	return r.call(key, "POST", "/v3/replays"+path, body)
}

func TestAReplayIsWhatWasAskedFor(t *testing.T) {
	r := newRig(t)
	r.failed()
	r.failed()
	const ask = `{"action":"retry","filter":{"queue":"emails","task":"send","reason":"non_retryable","created_before":"2099-12-01T03:00:00+01:00"},"per_second":2.5,"stop_share":0.25,"review":true}`
	preview := is[Preview](r.replay("operate", "/preview", ask), 200)
	if diff := cmp.Diff(Preview{Jobs: 2, Tasks: map[string]int64{"send@1": 2}, Reasons: map[string]int64{"non_retryable": 2}}, preview); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	a := r.replay("operate", "", ask)
	got := is[Replay](a, 201)
	if at := a.header.Get("Location"); at != "/v3/replays/"+got.ID || !strings.HasPrefix(got.ID, "rpl_") {
		t.Errorf("Location is %q", at)
	}
	want := Replay{
		ID: got.ID, Action: "retry", Filter: ReplayFilter{Queue: "emails", Task: "send", Status: "failed", Reason: "non_retryable", CreatedBefore: new(Time("2099-12-01T02:00:00.000Z"))},
		Before: got.Before, CreatedAt: got.CreatedAt, PerSecond: 2.5, StopShare: 0.25, State: "in_review", CreatedBy: "operate", Total: 2,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, is[Replay](r.call("operate", "GET", "/v3/replays/"+got.ID, ""), 200)); diff != "" {
		t.Errorf("read back (-want +got):\n%s", diff)
	}
	if list := is[Replays](r.call("operate", "GET", "/v3/replays?limit=1", ""), 200); len(list.Replays) != 1 || list.Replays[0].ID != got.ID {
		t.Errorf("%+v", list)
	}
	// Who asked for it does not approve it.
	if a := r.replay("operate", "/"+got.ID+"/approve", ""); a.status == 200 {
		t.Errorf("the same key approves: %s", a.body)
	}
	if p := is[Replay](r.replay("admin", "/"+got.ID+"/approve", ""), 200); p.State != "running" || *p.ApprovedBy != "admin" {
		t.Errorf("%+v", p)
	}
	is[Replay](r.replay("operate", "/"+got.ID+"/cancel", ""), 200)
	d := r.replay("operate", "/"+got.ID+"/pause", "").fails(problem.Status)
	if d.Detail != "the replay is cancelled and can't be paused; that is its end" {
		t.Error(d.Detail)
	}
}

func TestWhatIsWrongWithAReplay(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string][]string{
		`{}`: {"/filter", "is missing; {} is every job that the action fits"},
		`{"filter":{"queue":"a b","reason":"lots","status":"failde"}}`: {
			"/filter/queue", "may hold A-Z, a-z, 0-9 and . _ : - only", "/filter/reason", `unknown; did you mean "lost"?`, "/filter/status", `unknown; did you mean "failed"?`},
		`{"filter":{},"action":"retyr"}`:                                {"/action", `unknown; did you mean "retry"?`},
		`{"filter":{},"per_second":-1,"stop_share":2}`:                  {"/stop_share", "must be from 0 to 1, not 2", "/per_second", "must be from 0 (as fast as it goes) to 10000, not -1"},
		`{"filter":{"status":"running"}}`:                               {"/filter/status", "must be failed for this action, not running"},
		`{"filter":{},"action":"delete","accept_uncertain":true,"x":1}`: {"/x", "unknown member; known are action, filter, accept_uncertain, per_second, stop_share, review"},
	} {
		for _, path := range []string{"", "/preview"} {
			a := r.replay("operate", path, body)
			if a.status != 422 {
				t.Errorf("%s %s is answered %d", path, body, a.status)
				continue
			}
			d := a.fails(problem.Invalid)
			t.Run(body, func(t *testing.T) { d.faults(t, want...) })
		}
	}
	// To look is to accept nothing.
	const uncertain = `{"filter":{"reason":"uncertain"}}`
	is[Preview](r.replay("operate", "/preview", uncertain), 200)
	r.replay("operate", "", uncertain).fails(problem.Invalid).faults(t,
		"/accept_uncertain", "must be true: the effect of these jobs may have happened already, and may happen again")
}

// TestAReplayIsOfAQueueThatItsKeySees has a key for one queue.
func TestAReplayIsOfAQueueThatItsKeySees(t *testing.T) {
	r := newRig(t)
	hidden := is[Replay](r.replay("operate", "", `{"filter":{"queue":"reports"},"review":true}`), 201).ID
	all := is[Replay](r.replay("operate", "", `{"filter":{},"review":true}`), 201).ID
	for _, path := range []string{"", "/preview"} {
		r.replay("mail", path, `{"filter":{}}`).fails(problem.Invalid)
		r.replay("mail", path, `{"filter":{"queue":"reports"}}`).fails(problem.Forbidden)
	}
	mine := is[Replay](r.replay("mail", "", `{"filter":{"queue":"emails"},"review":true}`), 201).ID
	for _, id := range []string{hidden, all} {
		r.call("mail", "GET", "/v3/replays/"+id, "").fails(problem.NotFound)
		for _, what := range []string{"approve", "pause", "resume", "cancel"} {
			r.replay("mail", "/"+id+"/"+what, "").fails(problem.NotFound)
		}
	}
	if list := is[Replays](r.call("mail", "GET", "/v3/replays", ""), 200); len(list.Replays) != 1 || list.Replays[0].ID != mine {
		t.Errorf("%+v", list)
	}
}
