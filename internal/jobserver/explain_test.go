package jobserver

// What these tests would catch: a reason why a job waits that is not told, or
// told where it is none; a cause without a next step; a worker that is taken for
// one that it is not.

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
)

// causes are the kinds of an explanation, in order.
func causes(t *testing.T, s *Server, id string) (kinds string, e Explanation) {
	t.Helper()
	e, err := s.Explain(t.Context(), id)
	must(t, err)
	var all []string
	for _, c := range e.Causes {
		all = append(all, string(c.Kind))
		if c.Text == "" || c.Next == "" {
			t.Errorf("%+v says too little", c)
		}
	}
	return strings.Join(all, " "), e
}

func TestExplainTellsAllThatStandsBefore(t *testing.T) {
	clock := newClock()
	s := opened(t, open(t, clock.options()), Config{
		Queues:    map[string]Queue{"q": {Concurrency: 1}, "r": {}},
		Endpoints: map[string]Endpoint{"e": {Rate: &limit.Rate{PerSecond: 0.1, Burst: 1}, Circuit: &circuit.Settings{Failures: 1, Cooldown: time.Minute}}},
	})
	first := create(t, s, New{Queue: "q", Task: "t", Endpoint: "e", Payload: []byte("1"), Retry: job.Overlay{MaxAttempts: new(1)}})
	waits := create(t, s, New{Queue: "q", Task: "t", Endpoint: "e", Payload: []byte("1"), Delay: new(5 * time.Second)})
	if got, e := causes(t, s, first.ID); got != "no_worker" || !e.Causes[0].Since.IsZero() || !strings.HasSuffix(e.Causes[0].Text, "remembers none from before") {
		t.Errorf("nobody yet: %s %+v", got, e.Causes)
	}
	lease := claim(t, s, Want{Queues: []string{"q"}, Tasks: []lane.Task{{Name: "t"}}})[0].Lease
	if got, e := causes(t, s, first.ID); got != "running" || e.Causes[0].Text != "attempt 1 runs on worker-1" {
		t.Errorf("it runs: %s %+v", got, e.Causes)
	}
	if got, e := causes(t, s, waits.ID); got != "not_due concurrency rate" || e.Causes[0].Until.Sub(e.Now) != 5*time.Second || e.Causes[2].Until.Sub(e.Now) != 10*time.Second {
		t.Errorf("%s %+v", got, e.Causes)
	}
	must(t, s.store.Pause(t.Context(), lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
	report(t, s, store.Report{Type: store.Fail, Lease: lease, Error: &job.Error{Message: "503"}})
	clock.step(6 * time.Second)
	got, e := causes(t, s, waits.ID)
	if got != "paused circuit_open rate" || e.Causes[0].Text != `the queue "q" was paused by ops` || e.Causes[1].Until.Sub(e.Now) != 54*time.Second {
		t.Errorf("%s %+v", got, e.Causes)
	}
	if got, e := causes(t, s, first.ID); got != "exhausted" || e.Causes[0].Text != "it is a dead letter: its attempts are used up: 503" {
		t.Errorf("%s %+v", got, e.Causes)
	}
	must(t, s.store.Resume(t.Context(), lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
	clock.step(2 * time.Minute)
	if got, e := causes(t, s, waits.ID); got != "circuit_half_open no_worker" || e.Now.Sub(e.Causes[1].Since) != 2*time.Minute+6*time.Second {
		t.Errorf("the worker is silent: %s %+v", got, e.Causes)
	}
	// A worker of another version is none; it is named.
	claim(t, s, Want{Worker: "worker-2", Queues: []string{"q"}, Tasks: []lane.Task{{Name: "t", Version: "9"}}})
	if got, e := causes(t, s, waits.ID); got != "circuit_half_open no_worker" || !strings.HasSuffix(e.Causes[1].Text, "; worker-2 works the queue, but not this task and version") {
		t.Errorf("%s %+v", got, e.Causes)
	}
	free := create(t, s, New{Queue: "r", Task: "t", Payload: []byte("1")})
	claim(t, s, Want{Queues: []string{"r"}, Tasks: []lane.Task{{Name: "other"}, {Name: "t", Version: "2"}}})
	if got, _ := causes(t, s, free.ID); got != "no_worker" {
		t.Error(got)
	}
	s.workers.claims("worker-3", []string{"r"}, nil, clock.wall())
	if got, _ := causes(t, s, free.ID); got != "turn" {
		t.Error(got)
	}
	must(t, s.Configure(Config{}))
	if got, _ := causes(t, s, free.ID); got != "no_queue" {
		t.Error(got)
	}
	_, err := s.Cancel(t.Context(), ops, free.ID)
	must(t, err)
	if got, _ := causes(t, s, free.ID); got != "cancelled" {
		t.Error(got)
	}
}

func TestEveryReasonHasANextStep(t *testing.T) {
	for _, r := range job.Reasons() {
		if NextStepOf(r) == "" || reasonTexts[r] == "" {
			t.Errorf("%s has none", r)
		}
	}
	for _, b := range []store.Barrier{store.BarrierPause, store.BarrierCircuit, store.BarrierProbe, store.BarrierHold, store.BarrierRate, store.BarrierConcurrency} {
		if c := atGate(store.GateState{Barrier: b}); NextStep(c.Kind) == "" || c.Text == "" {
			t.Errorf("%s has none", b)
		}
	}
}

func TestWorkersAreForgotten(t *testing.T) {
	var w workers
	now := time.Unix(1000, 0)
	w.claims("first", []string{"q"}, nil, now)
	big := make([]lane.Task, maxNames/4)
	for _, id := range []string{"b", "c", "d"} {
		w.claims(id, []string{"q"}, big, now)
	}
	w.heard("first", now)
	w.claims("e", []string{"q"}, big, now) // too many names: b was silent for longest
	var ids []string
	w.of(now, func(at *Worker) bool { ids = append(ids, at.ID); return true })
	if diff := cmp.Diff([]string{"e", "first", "d", "c"}, ids); diff != "" {
		t.Error(diff)
	}
	w.claims("e", []string{"q"}, nil, now.Add(time.Second))
	for i := range maxWorkers {
		w.claims("many-"+string(rune('a'+i%26))+time.Duration(i).String(), nil, nil, now.Add(time.Minute))
	}
	if len(w.byID) != maxWorkers || w.order.Len() != maxWorkers || w.names != 0 {
		t.Errorf("%d workers, %d in order, %d names", len(w.byID), w.order.Len(), w.names)
	}
}

func TestStats(t *testing.T) {
	clock := newClock()
	s := opened(t, open(t, clock.options()), Config{Queues: map[string]Queue{"a": {}, "b": {}}, Endpoints: map[string]Endpoint{"e": {Circuit: &circuit.Settings{Failures: 1}}}})
	for range 3 {
		create(t, s, New{Queue: "a", Task: "t", Endpoint: "e", Payload: []byte("1")})
	}
	create(t, s, New{Queue: "b", Task: "t", Payload: []byte("1")})
	clock.step(2 * time.Second)
	got := claim(t, s, Want{Queues: []string{"a"}, Max: 1})
	clock.step(20 * time.Second)
	report(t, s, store.Report{Type: store.Fail, Lease: got[0].Lease, Failure: job.Failure{Permanent: true}})
	st, err := s.Stats(t.Context(), ops)
	must(t, err)
	if st.Counts != (Counts{Queued: 3, Failed: 1}) || len(st.Queues) != 2 || st.Queues[0].Oldest != 22*time.Second || st.Workers != 1 ||
		len(st.Circuits) != 1 || st.Circuits[0].State != circuit.Open || st.Totals.Created != 4 || st.Totals.Failed != 1 {
		t.Errorf("%+v", st)
	}
	// Two seconds of waiting, twenty of running.
	delay, run := st.Totals.Delay, st.Totals.Run
	if delay.Sum != 2 || delay.Counts[6] != 0 || delay.Counts[7] != 1 || delay.Count != 1 {
		t.Errorf("delay: %+v", delay)
	}
	if run.Sum != 20 || run.Counts[8] != 0 || run.Counts[9] != 1 || run.Count != 1 {
		t.Errorf("run: %+v", run)
	}
	limited, err := s.Stats(t.Context(), Principal{Queues: []string{"b"}})
	must(t, err)
	if limited.Counts != (Counts{Queued: 1}) || limited.Circuits != nil || limited.Totals.Created != 0 {
		t.Errorf("%+v", limited)
	}
}
