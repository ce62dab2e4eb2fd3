package storetest

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
)

var gateTests = []test{
	{"a queue", func(r *rig) {
		g := lane.Gate{Kind: lane.QueueGate, Name: "q"}
		running := r.begin(newJob("q"))
		id, other := r.put(newJob("q")), r.put(newJob("other"))
		r.must(r.Pause(r.ctx, g, "ops"))
		r.same("claimed", []string{other}, ids(r.claim(want("q", "other"))))
		if a := r.say(report(store.Complete, running)); a.JobStatus != job.Succeeded {
			r.Errorf("what runs already: %+v", a)
		}
		later := r.put(newJob("q"))
		if got := r.claim(want("q")); len(got) != 0 {
			r.Errorf("claimed of a paused queue: %v", ids(got))
		}
		r.must(r.Resume(r.ctx, g, "ops"))
		r.same("after it", []string{id, later}, ids(r.claim(want("q"))))
	}},
	{"an endpoint", func(r *rig) {
		behind, free := newJob("q"), newJob("q")
		behind.Endpoint, behind.Priority = "e", 50
		b, f := r.put(behind), r.put(free)
		g := lane.Gate{Kind: lane.EndpointGate, Name: "e"}
		r.must(r.Pause(r.ctx, g, "ops"))
		r.same("claimed", []string{f}, ids(r.claim(want("q"))))
		// A queue of the same name is another gate.
		r.put(newJob("e"))
		r.take("e")
		r.must(r.Resume(r.ctx, g, "ops"))
		r.same("after it", []string{b}, ids(r.claim(want("q"))))
	}},
	{"both gates must be open", func(r *rig) {
		n := newJob("q")
		n.Endpoint = "e"
		id := r.put(n)
		queue, endpoint := lane.Gate{Kind: lane.QueueGate, Name: "q"}, lane.Gate{Kind: lane.EndpointGate, Name: "e"}
		r.must(r.Pause(r.ctx, queue, ""))
		r.must(r.Pause(r.ctx, endpoint, ""))
		r.must(r.Resume(r.ctx, queue, "ops"))
		if got := r.claim(want("q")); len(got) != 0 {
			r.Error("claimed through one of two gates")
		}
		r.must(r.Resume(r.ctx, endpoint, "ops"))
		r.same("open", []string{id}, ids(r.claim(want("q"))))
	}},
	{"who and since when, over a restart", func(r *rig) {
		a, b := lane.Gate{Kind: lane.QueueGate, Name: "q"}, lane.Gate{Kind: lane.EndpointGate, Name: "q"}
		r.must(r.Pause(r.ctx, a, "ops"))
		r.h.Clock.Pass(time.Minute)
		r.must(r.Pause(r.ctx, b, ""))
		r.must(r.Pause(r.ctx, a, "somebody else"))
		want2 := []store.Pause{{Gate: a, By: "ops", Since: Start}, {Gate: b, Since: Start.Add(time.Minute)}}
		check := func(when string, want []store.Pause) {
			got, err := r.Paused(r.ctx)
			r.must(err)
			r.same(when, want, got)
		}
		check("paused", want2)
		r.put(newJob("q"))
		r.restart(time.Hour)
		check("after a restart", want2)
		if got := r.claim(want("q")); len(got) != 0 {
			r.Error("a restart opened a gate")
		}
		r.must(r.Resume(r.ctx, a, "ops"))
		r.must(r.Resume(r.ctx, a, "ops"))
		r.must(r.Resume(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "never paused"}, "ops"))
		check("after a resume", want2[1:])
		r.take("q")
		r.restart(0)
		check("after another restart", want2[1:])
	}},
	{"an open circuit, under a wall clock that is set", func(r *rig) {
		r.quick(1)
		r.open(1)
		r.put(behind("q", "u"))
		// The store's time is drawn to the wall clock by a tenth of what passes.
		const early, late = 54 * time.Second, 13 * time.Second
		r.h.Clock.Jump(time.Hour)
		r.pass(early)
		r.no("with a clock that was set forward", want("q"))
		r.pass(late)
		r.say(report(store.Fail, r.take("q")))
		r.h.Clock.Jump(-3 * time.Hour)
		r.pass(early)
		r.no("with a clock that was set back", want("q"))
		r.restart(0)
		r.quick(1)
		r.no("with a clock that was set back, after a restart", want("q"))
		r.pass(late)
		r.say(report(store.Complete, r.take("q")))
		if c := r.circuit(); c.State != circuit.Closed || c.Generation != 5 {
			r.Errorf("%+v", c)
		}
	}},
	{"concurrency of an endpoint and of a queue", func(r *rig) {
		r.limits(map[lane.Gate]store.Limits{endpointE: {Concurrency: 2}, {Kind: lane.QueueGate, Name: "q"}: {Concurrency: 3}})
		for range 5 {
			r.put(behind("q", "t"))
			r.put(newJob("q"))
		}
		got := r.claim(want("q"))
		of := 0
		for _, c := range got {
			if c.Job.Endpoint == "e" {
				of++
			}
		}
		if len(got) != 3 || of > 2 {
			r.Fatalf("%d claimed, %d of the endpoint", len(got), of)
		}
		ch := r.waiting(r.ctx, patient("q"))
		r.say(report(store.Complete, got[0]))
		if next := r.served(ch); len(next) != 1 {
			r.Errorf("%d claimed for one that ended", len(next))
		}
		r.no("full again", want("q"))
		r.restart(0)
		r.limits(map[lane.Gate]store.Limits{{Kind: lane.QueueGate, Name: "q"}: {Concurrency: 4}})
		if next := r.claim(want("q")); len(next) != 1 {
			r.Errorf("%d claimed after a restart with one place more", len(next))
		}
	}},
	{"nobody overtakes who has a place at an endpoint, whatever waits behind who is due", func(r *rig) {
		r.limits(map[lane.Gate]store.Limits{endpointE: {Concurrency: 4}})
		var due []string
		for _, task := range []string{"t", "u", "v"} {
			due = append(due, r.put(behind("q", task)))
			later := behind("q", task)
			later.Delay = time.Hour
			r.put(later)
		}
		low := newJob("q")
		low.Priority = -5
		due = append(due, r.put(low))
		r.same("claimed, in this order", due, ids(r.claim(want("q"))))
	}},
	{"the rate of an endpoint", func(r *rig) {
		rate := map[lane.Gate]store.Limits{endpointE: {Rate: &limit.Rate{PerSecond: 2, Burst: 3}}}
		r.limits(rate)
		for range 10 {
			r.put(behind("q", "t"))
		}
		if got := r.claim(want("q")); len(got) != 3 {
			r.Fatalf("%d of a burst of 3", len(got))
		}
		r.no("with no token", want("q"))
		r.restart(0)
		r.limits(rate)
		r.no("with no token after a restart", want("q"))
		r.h.Clock.Pass(time.Second)
		if got := r.claim(want("q")); len(got) != 2 {
			r.Errorf("%d after a second at 2 a second", len(got))
		}
	}},
	{"since when nobody passes", func(r *rig) {
		k := lane.Key{Queue: "q", Task: "t", Version: newJob("q").Version, Endpoint: "e"}
		stands := func(after string, barrier store.Barrier, since, until time.Duration) {
			r.Helper()
			all, err := r.GateStates(r.ctx, k)
			r.must(err)
			if len(all) != 1 || all[0].Barrier != barrier || !all[0].Since.Equal(Start.Add(since)) || until != 0 && !all[0].Until.Equal(Start.Add(until)) {
				r.Errorf("after %s: %+v", after, all)
			}
		}
		r.limits(map[lane.Gate]store.Limits{endpointE: {Concurrency: 2}})
		first := r.begin(behind("q", "t"))
		r.h.Clock.Pass(time.Second)
		second := r.begin(behind("q", "t"))
		r.h.Clock.Pass(time.Second)
		stands("the second of two", store.BarrierConcurrency, time.Second, 0)
		r.say(report(store.Complete, first))
		r.h.Clock.Pass(time.Second)
		third := r.begin(behind("q", "t"))
		stands("a place that was free for a second", store.BarrierConcurrency, 3*time.Second, 0)

		r.limits(map[lane.Gate]store.Limits{endpointE: {Rate: &limit.Rate{PerSecond: 0.1, Burst: 1}}})
		r.begin(behind("q", "t"))
		r.h.Clock.Pass(12 * time.Second)
		r.begin(behind("q", "t"))
		stands("a token that came and went", store.BarrierRate, 15*time.Second, 25*time.Second)

		r.limits(nil)
		r.h.Clock.Pass(time.Second)
		r.say(failure(second, job.Failure{RetryAfter: new(10 * time.Second)}))
		r.h.Clock.Pass(time.Second)
		r.say(failure(third, job.Failure{RetryAfter: new(30 * time.Second)}))
		stands("a hold that was made longer", store.BarrierHold, 16*time.Second, 47*time.Second)
		r.restart(0)
		all, err := r.GateStates(r.ctx, k)
		r.must(err)
		if len(all) != 1 || all[0].Barrier != store.BarrierHold || !all[0].Since.IsZero() {
			r.Errorf("over a restart nobody knows since when: %+v", all)
		}
	}},
}
