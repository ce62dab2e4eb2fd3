package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

var claimTests = []test{
	{"a lease", func(r *rig) {
		n := numbered("q", 7)
		n.Endpoint, n.Tags, n.Trace, n.Content.Head = "e", []string{"x"}, "trace", []byte("head")
		id := r.put(n)
		r.h.Clock.Pass(3 * time.Second)
		c, err := r.Claim(r.ctx, want("q"))
		r.must(err)
		if len(c.Jobs) != 1 || !c.Now.Equal(Start.Add(3*time.Second)) {
			r.Fatalf("%d jobs at %v", len(c.Jobs), c.Now)
		}
		got := c.Jobs[0]
		if got.LeaseFor != leaseFor || !got.LeaseUntil.Equal(c.Now.Add(leaseFor)) || !got.Deadline.Equal(c.Now.Add(timeout)) {
			r.Errorf("lease for %v until %v, deadline %v, claimed at %v", got.LeaseFor, got.LeaseUntil, got.Deadline, c.Now)
		}
		if got.Lease == "" || len(got.Lease) > 64 {
			r.Errorf("the token %q is not of 1 to 64 characters", got.Lease)
		}
		j := r.job(id)
		if j.Status != job.Running || j.Attempt != 1 || (j.Counts != job.Counts{}) {
			r.Errorf("%+v", j)
		}
		r.same("the running attempt", []job.Attempt{{Number: 1, Worker: worker, StartedAt: c.Now}}, j.Attempts)
		j.Attempts = nil
		r.same("the job of the claim", j, got.Job)
		if n := r.Vitals().Running; n != 1 {
			r.Errorf("%d running by the vitals", n)
		}
		if again := r.claim(want("q")); len(again) != 0 {
			r.Errorf("claimed twice: %v", ids(again))
		}
	}},
	{"in the order of priority and due time", func(r *rig) {
		var order []string
		add := func(priority int, due time.Duration, task string) string {
			n := newJob("q")
			n.Priority, n.Task, n.RunAt = priority, task, Start.Add(due)
			return r.put(n)
		}
		c := add(0, 3*time.Second, "t")
		d := add(0, 4*time.Second, "u")
		a := add(9, 5*time.Second, "t")
		e := add(-3, 1*time.Second, "t")
		b := add(0, 2*time.Second, "u")
		add(100, 6*time.Second+time.Millisecond, "t") // not due
		r.h.Clock.Pass(6 * time.Second)
		for range 6 {
			w := want("q")
			w.Max = 1
			order = append(order, ids(r.claim(w))...)
		}
		r.same("the order", []string{a, b, c, d, e}, order)
	}},
	{"jobs due at one moment come as they were created", func(r *rig) {
		var made []string
		for i := range 5 {
			made = append(made, r.put(numbered("q", i)))
		}
		r.same("the order", made, ids(r.claim(want("q"))))
	}},
	{"only what is due", func(r *rig) {
		n := newJob("q")
		n.Delay = time.Minute
		id := r.put(n)
		r.h.Clock.Pass(time.Minute - time.Millisecond)
		if got := r.claim(want("q")); len(got) != 0 {
			r.Error("claimed a millisecond early")
		}
		r.h.Clock.Pass(time.Millisecond)
		r.same("claimed when due", []string{id}, ids(r.claim(want("q"))))
	}},
	{"only what is wanted", func(r *rig) {
		made := map[string]string{}
		for _, q := range []string{"q", "other"} {
			for _, task := range []string{"a", "b"} {
				for _, version := range []string{"1", "2"} {
					n := newJob(q)
					n.Task, n.Version = task, version
					made[q+" "+task+"@"+version] = r.put(n)
				}
			}
		}
		for _, c := range []struct {
			tasks []lane.Task
			want  []string
		}{
			{[]lane.Task{{Name: "a", Version: "2"}}, []string{"q a@2"}},
			{[]lane.Task{{Name: "A"}, {Name: "a", Version: "3"}, {Name: "c"}}, nil},
			{[]lane.Task{{Name: "b"}}, []string{"q b@1", "q b@2"}},
			{nil, []string{"q a@1"}},
		} {
			w := want("q", "none")
			w.Tasks = c.tasks
			var wanted []string
			for _, name := range c.want {
				wanted = append(wanted, made[name])
			}
			r.same(fmt.Sprintf("claimed for %v", c.tasks), wanted, ids(r.claim(w)))
		}
	}},
	{"no more than asked for", func(r *rig) {
		for i := range 5 {
			n := numbered("q", i)
			n.Content.Payload = make([]byte, 1000)
			r.put(n)
		}
		w := want("q")
		w.Max = 2
		if got := r.claim(w); len(got) != 2 {
			r.Errorf("%d jobs, want 2", len(got))
		}
		w.Max, w.MaxBytes = 100, 2500
		if got := r.claim(w); len(got) != 2 {
			r.Errorf("%d jobs of 1,000 bytes in 2,500, want 2", len(got))
		}
		w.MaxBytes = 10
		if got := r.claim(w); len(got) != 1 {
			r.Errorf("%d jobs, want the one that is always returned", len(got))
		}
	}},
	{"each queue has its lease", func(r *rig) {
		r.put(newJob("short"))
		r.put(newJob("long"))
		w := want("short", "long")
		w.Queues[1].Lease = time.Hour
		for _, c := range r.claim(w) {
			if is := map[string]time.Duration{"short": leaseFor, "long": time.Hour}[c.Job.Queue]; c.LeaseFor != is || !c.LeaseUntil.Equal(Start.Add(is)) {
				r.Errorf("%s: %v until %v", c.Job.Queue, c.LeaseFor, c.LeaseUntil)
			}
		}
	}},
	{"queues in turn", func(r *rig) {
		for range 40 {
			r.put(newJob("full"))
		}
		for range 3 {
			r.put(newJob("small"))
		}
		w := want("full", "small")
		w.Max = 1
		small := 0
		for range 6 {
			if r.claim(w)[0].Job.Queue == "small" {
				small++
			}
		}
		if small != 3 {
			r.Errorf("%d of 6 claims were served from the small queue, want 3", small)
		}
	}},
	{"a claim id makes a repeat the same leases", func(r *rig) {
		for i := range 4 {
			r.put(numbered("q", i))
		}
		w := want("q")
		w.ClaimID, w.Max = "claim-1", 2
		first := r.claim(w)
		if len(first) != 2 {
			r.Fatalf("%d jobs", len(first))
		}
		r.same("again", first, r.claim(w))
		r.say(report(store.Complete, first[0]))
		r.same("what still holds", first[1:], r.claim(w))
		other := w
		other.Worker = "worker-2"
		if got := r.claim(other); len(got) != 2 || got[0].Job.ID == first[1].Job.ID {
			r.Errorf("another worker with this id got %v", ids(got))
		}
		r.restart(time.Second)
		again := r.claim(w)
		if len(again) != 1 || again[0].Lease != first[1].Lease || again[0].Job.ID != first[1].Job.ID {
			r.Errorf("after a restart: %v", ids(again))
		}
		if a := r.say(report(store.Complete, again[0])); a.Status != store.ReportTaken {
			r.Errorf("its lease: %+v", a)
		}
		id := r.put(newJob("q"))
		r.same("none holds any more: fresh ones", []string{id}, ids(r.claim(w)))
	}},
	{"a claim id does not bring back a lease that lapsed", func(r *rig) {
		id := r.put(newJob("q"))
		w := want("q")
		w.ClaimID = "claim-1"
		first := r.claim(w)[0]
		r.pass(leaseFor)
		second := r.claim(w)[0]
		if second.Job.ID != id || second.Lease == first.Lease || second.Job.Attempt != 2 {
			r.Errorf("attempt %d under %s, the first was under %s", second.Job.Attempt, second.Lease, first.Lease)
		}
	}},
	{"nothing for a caller who is gone", func(r *rig) {
		id := r.put(newJob("q"))
		ctx, cancel := context.WithCancel(r.ctx)
		cancel()
		if _, err := r.Claim(ctx, want("q")); !errors.Is(err, context.Canceled) {
			r.Errorf("err = %v", err)
		}
		if j := r.job(id); j.Status != job.Queued || j.Attempt != 0 {
			r.Errorf("%s, attempt %d", j.Status, j.Attempt)
		}
	}},
	{"tokens are no one's guess", func(r *rig) {
		seen := map[string]bool{}
		for i := range 20 {
			c := r.begin(numbered("q", i))
			if seen[c.Lease] {
				r.Errorf("the token %s was given out twice", c.Lease)
			}
			seen[c.Lease] = true
		}
	}},
}

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
		r.must(r.Resume(r.ctx, g))
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
