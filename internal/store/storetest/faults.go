package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// runFaults does every operation under every fault. Whatever the answer says, it
// is true, then, once the fault is over, and after a restart; and once the fault
// is over, a repeat does what the first could not.
func runFaults(t *testing.T, open func(t *testing.T) Harness) {
	t.Run("among many callers", func(t *testing.T) { faultyWork(newRig(t, open(t))) })
	for _, f := range Faults() {
		t.Run(string(f), func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(operations(store.Claimed{}))) {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					underFault(newRig(t, open(t)), f, name)
				})
			}
		})
	}
}

// seen is what an operation could have changed.
type seen struct {
	Jobs    []*job.Job
	Logs    []job.LogLine
	Letters int
	Keys    int
	Pauses  int
	// What is told, and what is kept of endpoints, replays and readers.
	Events   []store.Event
	Circuits []store.CircuitState
	Replays  []store.Replay
	Read     int64
}

func (r *rig) look(lease store.Claimed) (s seen) {
	r.Helper()
	for _, j := range r.all(store.Filter{}) {
		s.Jobs = append(s.Jobs, r.job(j.ID))
	}
	s.Logs = r.logs(lease.Job.ID, 1).Lines
	var err error
	s.Letters, err = r.CountLetters(r.ctx, store.LetterFilter{})
	r.must(err)
	keys, err := r.Store.Keys(r.ctx)
	r.must(err)
	pauses, err := r.Paused(r.ctx)
	r.must(err)
	s.Keys, s.Pauses = len(keys), len(pauses)
	s.Events = r.read(store.EventFilter{}, 0).Events
	s.Circuits, err = r.Circuits(r.ctx)
	r.must(err)
	s.Replays, err = r.ListReplays(r.ctx, store.MaxPage, "")
	r.must(err)
	s.Read, err = r.Cursor(r.ctx, "reader")
	r.must(err)
	return s
}

// underFault does an operation. What is claimed is the probe of the circuit of e,
// and a failure of what is held opens the circuit of f; a replay runs.
func underFault(r *rig, f Fault, name string) {
	quick := &circuit.Settings{Failures: 1, Cooldown: time.Minute}
	limits := map[lane.Gate]store.Limits{endpointE: {Circuit: quick}, {Kind: lane.EndpointGate, Name: "f"}: {Circuit: quick}}
	r.limits(limits)
	r.say(failure(r.begin(behind("dead", "t")), job.Failure{Permanent: true}))
	r.replay("rpl_1", store.ActionRetry, store.Selection{})
	r.h.Clock.Pass(time.Minute)
	r.put(behind("claimed", "t"))
	held := newJob("held")
	held.Endpoint = "f"
	lease := r.begin(held)
	do := operations(lease)[name]
	before := r.look(lease)
	r.h.Clock.Pass(time.Second)
	end := r.h.Inject(f)
	err := do(r.ctx, r.Store)
	end()
	// It heals by itself.
	r.until("the store can be written again", func() bool {
		_, err := r.Sweep(r.ctx)
		return err == nil
	})
	r.must(r.Ready(r.ctx))
	after := r.look(lease)
	happened := !equal(before, after)
	switch {
	case err == nil && !happened:
		r.Error("answered ok, and it is not there")
	case err == nil:
		if f != LostAnswer && f != Busy {
			r.Errorf("a %s was not noticed", f)
		}
	case f == Busy:
		r.Errorf("a lock of a moment was not waited for: %v", err)
	case errors.Is(err, store.ErrUnknown):
	case !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull):
		r.Errorf("err = %v", err)
	case happened:
		r.Errorf("answered %v, and it is there", err)
	}
	if f == FullDisk && !errors.Is(err, store.ErrFull) {
		r.Errorf("full disk: err = %v", err)
	}
	r.must(CheckCounts(r.ctx, r.Store))
	r.restart(0)
	r.limits(limits)
	r.same("after a restart", after, r.look(lease))
	if err == nil {
		return
	}
	// Whether it happened or not, a repeat leads to the same end.
	if err := do(r.ctx, r.Store); err != nil && (!happened || !errors.Is(err, store.ErrExists) && !errors.Is(err, store.ErrStatus)) {
		r.Errorf("again: %v", err)
	}
	r.must(CheckCounts(context.Background(), r.Store))
	if equal(before, r.look(lease)) {
		r.Error("done at last, and not there")
	}
}

// faultyWork lets callers create, claim and complete jobs while one fault follows
// another. Each repeats what was answered with an error, under the same key,
// claim id and token, so in the end every job was made once and done at its first
// attempt.
func faultyWork(r *rig) {
	const jobs = 12 // of each caller
	var calls atomic.Int64
	again := func(do func() error) {
		for {
			err := do()
			calls.Add(1)
			switch {
			case err == nil:
				return
			case r.ctx.Err() != nil, !errors.Is(err, store.ErrUnavailable) && !errors.Is(err, store.ErrFull) && !errors.Is(err, store.ErrUnknown):
				r.Error(err)
				return
			}
			runtime.Gosched()
		}
	}
	var over atomic.Bool
	var wg sync.WaitGroup
	for i := range callers {
		wg.Go(func() {
			queue := fmt.Sprint("q", i)
			for n := 0; n < jobs || !over.Load(); n++ {
				var made []store.Created
				again(func() (err error) {
					made, err = r.Create(r.ctx, []store.NewJob{keyed(queue, fmt.Sprint(i, "/", n), 1)})
					return err
				})
				w := want(queue)
				w.ClaimID = fmt.Sprint("claim-", i, "-", n)
				var got store.Claim
				again(func() (err error) { got, err = r.Claim(r.ctx, w); return err })
				if len(made) != 1 || len(got.Jobs) != 1 || got.Jobs[0].Job.ID != made[0].ID {
					r.Errorf("%s: made %v, claimed %v", queue, made, ids(got.Jobs))
					return
				}
				var answers []store.Answer
				again(func() (err error) {
					answers, err = r.Report(r.ctx, []store.Report{report(store.Complete, got.Jobs[0])})
					return err
				})
				if len(answers) != 1 || answers[0] != (store.Answer{Status: store.ReportTaken, JobStatus: job.Succeeded}) {
					r.Errorf("%s: %+v", made[0].ID, answers)
					return
				}
			}
		})
	}
	for range 2 {
		for _, f := range Faults() {
			from := calls.Load()
			end := r.h.Inject(f)
			r.until("calls under a "+string(f), func() bool { return calls.Load() > from+2*callers || r.Failed() })
			end()
			from = calls.Load()
			r.until("calls after a "+string(f), func() bool { return calls.Load() > from+2*callers || r.Failed() })
		}
	}
	over.Store(true)
	wg.Wait()
	for range 2 {
		for _, j := range r.all(store.Filter{}) {
			if j.Status != job.Succeeded || j.Attempt != 1 {
				r.Errorf("%s is %s at attempt %d", j.ID, j.Status, j.Attempt)
			}
		}
		r.must(CheckCounts(r.ctx, r.Store))
		r.restart(0)
	}
}
