package storetest

import (
	"context"
	"errors"
	"fmt"
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
	{"a claim id is its caller's", func(r *rig) {
		ids1 := []string{r.put(numbered("q", 1)), r.put(numbered("q", 2))}
		w := want("q")
		w.Caller, w.ClaimID, w.Max = "key-1", "claim-1", 1
		r.same("the first", ids1[:1], ids(r.claim(w)))
		other := w
		other.Caller = "key-2"
		r.same("another caller's", ids1[1:], ids(r.claim(other)))
		w.Wait = time.Hour
		empty := w
		empty.Queues = want("none").Queues
		ch := r.waiting(r.ctx, empty)
		other.Queues, other.ClaimID = empty.Queues, empty.ClaimID
		if got := r.claim(other); len(got) != 0 {
			r.Errorf("another caller got %v", ids(got))
		}
		if n := r.Vitals().Parked; n != 1 {
			r.Errorf("another caller ended the wait: %d wait", n)
		}
		id := r.put(newJob("none"))
		r.same("who waited", []string{id}, ids(r.served(ch)))
		r.restart(0)
		r.same("after a restart", ids1[:1], ids(r.claim(w)))
	}},
	{"a claim id brings back nothing that the claim does not ask for", func(r *rig) {
		made := map[string]string{"q": r.put(newJob("q")), "other": r.put(newJob("other"))}
		w := want("q", "other")
		w.ClaimID = "claim-1"
		if got := r.claim(w); len(got) != 2 {
			r.Fatalf("%d jobs", len(got))
		}
		for q, id := range made {
			w.Queues = want(q).Queues
			r.same("of "+q, []string{id}, ids(r.claim(w)))
		}
		w.Queues, w.Tasks = want("q").Queues, []lane.Task{{Name: "t", Version: "2"}}
		if got := r.claim(w); len(got) != 0 {
			r.Errorf("of another version: %v", ids(got))
		}
	}},
	{"a claim's own timeout", func(r *rig) {
		id := r.put(newJob("q"))
		w := want("q")
		w.Timeout = time.Hour
		w.Queues[0].Lease = 2 * time.Hour
		c := r.claim(w)[0]
		if !c.Deadline.Equal(Start.Add(time.Hour)) || c.Job.Timeout != timeout {
			r.Errorf("until %v, the job says %v", c.Deadline, c.Job.Timeout)
		}
		r.h.Clock.Pass(time.Second)
		r.sweep()
		r.say(report(store.Start, c))
		if s := r.pass(time.Hour - time.Second); s.TimedOut != 0 {
			r.Errorf("ended before: %+v", s)
		}
		if s := r.pass(time.Second); s.TimedOut != 1 {
			r.Errorf("not ended an hour after its start: %+v", s)
		}
		r.pass(time.Minute)
		c = r.take("q") // the job has its own again
		if until := r.Now().Add(timeout); c.Job.ID != id || !c.Deadline.Equal(until) {
			r.Errorf("%s until %v, want %v", c.Job.ID, c.Deadline, until)
		}
		r.say(report(store.Release, c))
		w.Timeout = time.Second
		short := r.claim(w)[0]
		if until := r.Now().Add(time.Second); !short.Deadline.Equal(until) {
			r.Errorf("until %v, want %v", short.Deadline, until)
		}
		r.restart(0)
		r.sweep()
		r.h.Clock.Pass(time.Minute) // a restart gives a full lease; a start counts its own again
		r.sweep()
		if a := r.say(report(store.Start, short)); a.Status != store.ReportTaken {
			r.Errorf("%+v", a)
		}
		if s := r.pass(time.Second); s.TimedOut != 1 {
			r.Errorf("after a restart: %+v", s)
		}
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
	{"a claim id does not bring back a lease that is over", func(r *rig) {
		r.put(newJob("q"))
		w := want("q")
		w.ClaimID = "claim-1"
		r.claim(w)
		r.h.Clock.Pass(leaseFor)
		if got := r.claim(w); len(got) != 0 { // the sweep was not there yet
			r.Errorf("got %v, until %v", ids(got), got[0].LeaseUntil)
		}
	}},
	{"no room", func(r *rig) {
		var kept []string
		sum := 0
		for i := range 3 {
			n := numbered("q", i)
			n.Content.Head = []byte("head")
			sum += n.Content.Size()
			kept = append(kept, r.put(n))
		}
		full, asked, many := errors.New("full"), 0, 0
		w := want("q")
		w.ClaimID = "claim-1"
		w.Room = func(_ context.Context, jobs, bytes int) error { asked, many = bytes, jobs; return full }
		if _, err := r.Claim(r.ctx, w); !errors.Is(err, full) || asked != sum || many != len(kept) {
			r.Fatalf("asked for room for %d jobs and %d bytes of %d: %v", many, asked, sum, err)
		}
		for _, id := range kept {
			if j := r.job(id); j.Status != job.Queued || j.Counts != (job.Counts{}) || len(j.Attempts) != 1 || j.Attempts[0].Outcome != job.OutcomeReleased {
				r.Errorf("what there was no room for is %+v", j)
			}
		}
		r.h.Clock.Pass(time.Minute)
		w.Room = func(_ context.Context, _, bytes int) error { asked = -bytes; return nil }
		if got := r.claim(w); len(got) != len(kept) || asked != -sum {
			r.Errorf("got %v, asked for %d", ids(got), -asked)
		}
		w.Room = func(context.Context, int, int) error { return full }
		if _, err := r.Claim(r.ctx, w); !errors.Is(err, full) {
			r.Errorf("a repeat: %v", err)
		}
		if n := r.Vitals().Running; n != len(kept) {
			r.Errorf("%d leases are left to the first", n)
		}
		w.Queues, w.ClaimID = want("none").Queues, ""
		if got := r.claim(w); len(got) != 0 {
			r.Errorf("got %v", ids(got))
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
