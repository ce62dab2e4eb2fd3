package jobserver

// What these tests would catch: a span of a create that never ends, or ends well
// where nothing was made; a worker that is told another trace context than the
// tracer has for it; a create or a claim that pays for tracing while it is off.

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// noted notes what a tracer is told.
type noted struct{ said []string }

func (n *noted) Create(j *store.NewJob) (job.Trace, func(store.Created, error)) {
	task, from := j.Task, j.Trace
	return job.Trace("kept-" + task), func(c store.Created, err error) {
		n.said = append(n.said, fmt.Sprintf("%s from %q: made %t, found %t, %v", task, from, c.ID != "", c.Found, err != nil))
	}
}

func (n *noted) Attempt(j *job.Job) job.Trace {
	return job.Trace(fmt.Sprintf("%s/%d", j.Trace, j.Attempt))
}

func TestJobsAreTraced(t *testing.T) {
	n, st := &noted{}, open(t, sqlite.Options{})
	s, err := NewServer(Options{Store: st, Config: twoQueues, Trace: n})
	must(t, err)
	must(t, s.Open(t.Context()))
	one := New{Queue: "emails", Task: "a", Payload: []byte("1"), Trace: trace, Key: "k"}
	two := New{Queue: "emails", Task: "b", Payload: []byte("1")}
	made, err := s.Create(t.Context(), ops, []New{one, two})
	must(t, err)
	if made[0].Job.Trace != "kept-a" || made[1].Job.Trace != "kept-b" {
		t.Errorf("%+v", made)
	}
	create(t, s, one) // the same again
	other := one
	other.Payload = []byte("2")
	if _, err := s.Create(t.Context(), ops, []New{two, other}); !errors.As(err, new(*store.ConflictError)) {
		t.Errorf("%v", err)
	}
	if _, err := s.Create(t.Context(), ops, []New{{}}); err == nil { // never tried: no span
		t.Error("it was made")
	}
	want := []string{
		fmt.Sprintf("a from %q: made true, found false, false", trace), `b from "": made true, found false, false`,
		fmt.Sprintf("a from %q: made true, found true, false", trace),
		`b from "": made false, found false, true`, fmt.Sprintf("a from %q: made false, found false, true", trace),
	}
	if diff := cmp.Diff(want, n.said); diff != "" {
		t.Error(diff)
	}
	for _, c := range claim(t, s, Want{Queues: []string{"emails"}, Max: 10}) {
		if want := "kept-" + c.Job.Task; string(c.Job.Trace) != want || string(c.Trace) != want+"/1" {
			t.Errorf("%s: the job has %q, its worker gets %q", c.Job.Task, c.Job.Trace, c.Trace)
		}
	}
}

// A message is put into a queue by an attempt, which is what its trace goes on from.
func TestATraceIsThatOfTheAttemptThatPutTheMessage(t *testing.T) {
	s := stored(t, twoQueues)
	const own = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
	ctx := connector.WithTrace(t.Context(), connector.TraceContext{Parent: own, State: "a=1"})
	m := messageWith(map[string][]string{"traceparent": {trace}, "tracestate": {"b=2", "c=3"}})
	for _, c := range []struct {
		put                   func() error
		wantParent, wantState string
	}{
		{func() error {
			_, err := s.Messages().Put(ctx, connector.Put{Queue: "emails", Message: m})
			return err
		}, own, "a=1"},
		{func() error {
			_, err := s.Messages().Put(t.Context(), connector.Put{Queue: "emails", Message: m})
			return err
		}, trace, "b=2,c=3"},
	} {
		must(t, c.put())
		got := take(t, s.Messages(), "emails")
		want := map[string][]string{"traceparent": {c.wantParent}, "tracestate": {c.wantState}}
		if diff := cmp.Diff(want, got.Message.Headers); diff != "" {
			t.Error(diff)
		}
	}
}

func TestTracingOffIsFree(t *testing.T) {
	s := unstored(t, twoQueues)
	asked := make([]store.NewJob, 3)
	if n := testing.AllocsPerRun(100, func() { s.traceNew(asked)(nil, nil) }); n != 0 {
		t.Errorf("a create made %v allocations", n)
	}
}
