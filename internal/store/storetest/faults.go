package storetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// runFaults does every operation under every fault. Whatever the answer says, it
// is true, then, once the fault is over, and after a restart; and once the fault
// is over, a repeat does what the first could not.
func runFaults(t *testing.T, open func(t *testing.T) Harness) {
	for _, f := range Faults() {
		t.Run(string(f), func(t *testing.T) {
			for _, name := range slices.Sorted(maps.Keys(operations(store.Claimed{}))) {
				t.Run(name, func(t *testing.T) {
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
	return s
}

func underFault(r *rig, f Fault, name string) {
	r.put(newJob("claimed"))
	lease := r.begin(newJob("held"))
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
	r.same("after a restart", after, r.look(lease))
	if err == nil {
		return
	}
	// Whether it happened or not, a repeat leads to the same end.
	if err := do(r.ctx, r.Store); err != nil && (!happened || !errors.Is(err, store.ErrExists)) {
		r.Errorf("again: %v", err)
	}
	r.must(CheckCounts(context.Background(), r.Store))
	if equal(before, r.look(lease)) {
		r.Error("done at last, and not there")
	}
}
