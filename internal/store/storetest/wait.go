package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

var waitTests = []test{
	{"for nothing", func(r *rig) {
		w := want("q")
		w.Wait = 20 * time.Millisecond
		c, err := r.Claim(r.ctx, w)
		if err != nil || len(c.Jobs) != 0 || !c.Now.Equal(Start) {
			r.Errorf("%+v, %v", c, err)
		}
		if n := r.Vitals().Parked; n != 0 {
			r.Errorf("%d claims still wait", n)
		}
	}},
	{"for a create", func(r *rig) {
		ch := r.waiting(r.ctx, long("q"))
		r.put(newJob("other"))
		id := r.put(newJob("q"))
		got := r.served(ch)
		r.same("served", []string{id}, ids(got))
		want := r.job(id)
		want.Attempts = nil
		r.same("its job", want, got[0].Job)
		if a := r.say(report(store.Complete, got[0])); a.Status != store.ReportTaken {
			r.Errorf("its lease: %+v", a)
		}
	}},
	{"for the task that it wants", func(r *rig) {
		w := long("q")
		w.Tasks = []lane.Task{{Name: "t", Version: "2"}, {Name: "u"}}
		ch := r.waiting(r.ctx, w)
		r.put(newJob("q")) // t@1
		n := newJob("q")
		n.Version = "2"
		id := r.put(n)
		r.same("served", []string{id}, ids(r.served(ch)))
	}},
	{"in the order they came", func(r *rig) {
		var waits []<-chan parked
		for i := range 4 {
			w := long("q")
			w.Worker, w.Max = fmt.Sprintf("worker-%d", i), 2
			waits = append(waits, r.waiting(r.ctx, w))
		}
		var made []string
		for _, c := range r.create(newJob("q"), newJob("q"), newJob("q")) {
			made = append(made, c.ID)
		}
		r.same("the first", made[:2], ids(r.served(waits[0])))
		r.same("the second", made[2:], ids(r.served(waits[1])))
		id := r.put(newJob("q"))
		r.same("the third", []string{id}, ids(r.served(waits[2])))
		if n := r.Vitals().Parked; n != 1 {
			r.Errorf("%d wait, want the fourth alone", n)
		}
	}},
	{"in the order they came, whatever else they take", func(r *rig) {
		some := func(w store.Want) store.Want {
			w.Tasks = []lane.Task{{Name: "t"}}
			return w
		}
		for _, order := range [][2]store.Want{{long("a", "q"), some(long("q"))}, {some(long("q")), long("q", "b")}} {
			first, second := r.waiting(r.ctx, order[0]), r.waiting(r.ctx, order[1])
			for _, ch := range []<-chan parked{first, second} {
				id := r.put(newJob("q"))
				r.same("served", []string{id}, ids(r.served(ch)))
			}
		}
	}},
	{"for a job that is handed back", func(r *rig) {
		c := r.begin(newJob("q"))
		ch := r.waiting(r.ctx, long("q"))
		r.say(report(store.Release, c))
		r.same("served", []string{c.Job.ID}, ids(r.served(ch)))
	}},
	{"for a job whose worker was lost", func(r *rig) {
		c := r.begin(newJob("q"))
		ch := r.waiting(r.ctx, long("q"))
		r.pass(leaseFor)
		r.same("served", []string{c.Job.ID}, ids(r.served(ch)))
	}},
	{"for a gate", func(r *rig) {
		g := lane.Gate{Kind: lane.QueueGate, Name: "q"}
		r.must(r.Pause(r.ctx, g, "ops"))
		ch := r.waiting(r.ctx, long("q"))
		id := r.put(newJob("q"))
		if n := r.Vitals().Parked; n != 1 {
			r.Fatalf("%d wait behind the gate, want 1", n)
		}
		r.must(r.Resume(r.ctx, g, "ops"))
		r.same("served", []string{id}, ids(r.served(ch)))
	}},
	{"for a job to come due, by itself", func(r *rig) {
		n := newJob("q")
		n.Delay = 40 * time.Millisecond
		id := r.put(n)
		ch := r.waiting(r.ctx, long("q"))
		r.h.Clock.Pass(40 * time.Millisecond)
		r.same("served", []string{id}, ids(r.served(ch)))
	}},
	{"not past the caller's end", func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		ch := r.waiting(ctx, long("q"))
		cancel()
		if p := <-ch; !errors.Is(p.err, context.Canceled) || len(p.claim.Jobs) != 0 {
			r.Errorf("%+v", p)
		}
		id := r.put(newJob("q"))
		if j := r.job(id); j.Attempt != 0 {
			r.Error("a job was taken for a caller who is gone")
		}
		r.same("left for the next", []string{id}, ids(r.claim(want("q"))))
	}},
	{"one wait for one claim id", func(r *rig) {
		w := long("q")
		w.ClaimID = "claim-1"
		first := r.waiting(r.ctx, w)
		second := make(chan parked, 1)
		go func() {
			c, err := r.Claim(r.ctx, w)
			second <- parked{c, err}
		}()
		if got := r.served(first); len(got) != 0 {
			r.Errorf("the older wait got %v", ids(got))
		}
		id := r.put(newJob("q"))
		r.same("the newer", []string{id}, ids(r.served(second)))
	}},
	{"a close ends it", func(r *rig) {
		ch := r.waiting(r.ctx, long("q"))
		r.must(r.Close())
		if p := <-ch; !errors.Is(p.err, store.ErrClosed) || len(p.claim.Jobs) != 0 {
			r.Errorf("%+v", p)
		}
	}},
	{"many wait for other things", func(r *rig) {
		ctx, cancel := context.WithCancel(r.ctx)
		var waits []<-chan parked
		for i := range 200 {
			waits = append(waits, r.waiting(ctx, long(fmt.Sprintf("queue-%d", i))))
		}
		ch := r.waiting(r.ctx, long("q"))
		id := r.put(newJob("q"))
		r.same("served", []string{id}, ids(r.served(ch)))
		id = r.put(newJob("queue-77"))
		r.same("served", []string{id}, ids(r.served(waits[77])))
		cancel()
		for _, ch := range slices.Delete(waits, 77, 78) {
			if p := <-ch; !errors.Is(p.err, context.Canceled) {
				r.Fatalf("%+v", p)
			}
		}
	}},
}

// long waits for longer than any test runs.
func long(queues ...string) store.Want {
	w := want(queues...)
	w.Wait = time.Hour
	return w
}
