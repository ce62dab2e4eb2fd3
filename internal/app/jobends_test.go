package app

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/telemetry"
)

func naming(queues ...string) *config.Config {
	c := &config.Config{Jobs: &config.Jobs{Queues: map[string]config.Queue{}}}
	for _, q := range queues {
		c.Jobs.Queues[q] = config.Queue{}
	}
	return c
}

// Catches: a series for each queue that somebody makes up, and a counter that goes
// back, or jumps, when a reload names a queue or names it no more.
func TestEndsAreCountedByTheNamesOfTheirMoment(t *testing.T) {
	names := &queueNames{}
	names.configure(naming("a", "idle"))
	e := newJobEnds(names)
	ends := []store.Finished{
		{Queue: "a", Status: job.Succeeded, Jobs: 2}, {Queue: "b", Status: job.Succeeded, Jobs: 3},
		{Queue: "a", Status: job.Failed, Jobs: 1}, {Queue: "c", Status: job.Succeeded, Jobs: 4},
	}
	e.add(ends)
	names.configure(naming("b"))
	e.add(ends)
	want := map[string]map[job.Status]int64{
		"a":                   {job.Succeeded: 2, job.Failed: 1},
		"b":                   {job.Succeeded: 3},
		"idle":                {},
		telemetry.OtherQueues: {job.Succeeded: 7 + 6, job.Failed: 1},
	}
	if diff := cmp.Diff(want, e.read()); diff != "" {
		t.Error(diff)
	}
}

// Catches: a bound that does not hold, also over names that come and go; one that
// takes a name from the configuration, or from a queue that had it.
func TestNamesOfQueuesAreBounded(t *testing.T) {
	names := &queueNames{}
	names.configure(naming("a"))
	if got := names.label("api-0"); got != telemetry.OtherQueues {
		t.Errorf("a queue that nobody names is %q", got)
	}
	gone := ""
	names.ask(func(queue string) bool { return strings.HasPrefix(queue, "api-") && queue != gone })
	for i := range telemetry.MaxQueueNames - 1 {
		if queue := fmt.Sprint("api-", i); names.label(queue) != queue {
			t.Fatalf("%s has no metrics of its own", queue)
		}
	}
	gone = "api-0"
	for queue, want := range map[string]string{
		"api-0": telemetry.OtherQueues, "api-1": "api-1", "api-late": telemetry.OtherQueues, "b": telemetry.OtherQueues, "a": "a",
	} {
		if got := names.label(queue); got != want {
			t.Errorf("%s counts as %q, want %q", queue, got, want)
		}
	}
	names.configure(naming("a", "b"))
	if diff := cmp.Diff(map[string]bool{"a": true, "api-1": true, "b": true}, names.labels([]string{"api-1", "api-late", "b"})); diff != "" {
		t.Error(diff)
	}
	gone = ""
	if got := names.label("api-0"); got != "api-0" {
		t.Errorf("a queue that is defined again is %q", got)
	}
}

// A queue of the API has metrics of its own, from 0 on, once somebody defines it, and
// a stored source once a reload brings it; a counter outlives the source.
func TestMetricsOfADefinedQueue(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	conf := w.jobsConf(ep.URL, `{ queues: { q: {} } }`)
	w.write(conf)
	a := w.start()
	defer a.end()
	call := func(method, path, body string) string {
		t.Helper()
		status, text := w.ask(method, "127.0.0.1:2", path, w.key(), body)
		if status/100 != 2 {
			t.Fatalf("%s: %d %s", path, status, text)
		}
		return text
	}
	shows := func(want ...string) {
		t.Helper()
		text := call(http.MethodGet, "/metrics", "")
		for _, line := range want {
			if !strings.Contains(text, "\n"+line+"\n") {
				t.Errorf("no %s", line)
			}
		}
	}
	call(http.MethodPut, "/v3/queues/mine", `{}`)
	shows(`pawl_jobs{queue="mine",status="queued"} 0`, `pawl_jobs_finished_total{queue="mine",status="cancelled"} 0`)
	_, id, _ := strings.Cut(call(http.MethodPost, "/v3/jobs", `{"queue":"mine","task":"t","payload":{}}`), `"id":"`)
	id, _, _ = strings.Cut(id, `"`)
	shows(`pawl_jobs{queue="mine",status="queued"} 1`)
	call(http.MethodPost, "/v3/jobs/"+id+"/cancel", "")
	shows(`pawl_jobs{queue="mine",status="cancelled"} 1`, `pawl_jobs_finished_total{queue="mine",status="cancelled"} 1`,
		`pawl_jobs_finished_total{queue="(other)",status="cancelled"} 0`)

	w.write(strings.NewReplacer("name: web", "name: next", "from: [web]", "from: [next]").Replace(conf))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	shows(`pawl_jobs{queue="relay:next",status="queued"} 0`, `pawl_jobs_finished_total{queue="relay:next",status="failed"} 0`,
		`pawl_jobs_finished_total{queue="relay:web",status="failed"} 0`, `pawl_jobs_finished_total{queue="mine",status="cancelled"} 1`)
}
