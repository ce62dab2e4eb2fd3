package storetest

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
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
}
