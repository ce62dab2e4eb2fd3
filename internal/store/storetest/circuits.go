package storetest

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

var endpointE = lane.Gate{Kind: lane.EndpointGate, Name: "e"}

// behind is a job of task t of the endpoint e.
func behind(queue, task string) store.NewJob {
	j := newJob(queue)
	j.Endpoint, j.Task = "e", task
	return j
}

func (r *rig) limits(of map[lane.Gate]store.Limits) { r.must(r.SetLimits(r.ctx, of)) }

// quick makes the circuit of e open after n failures, for a minute.
func (r *rig) quick(n int) {
	r.limits(map[lane.Gate]store.Limits{endpointE: {Circuit: &circuit.Settings{Failures: n, Cooldown: time.Minute}}})
}

func (r *rig) circuit() store.CircuitState {
	r.Helper()
	c, err := r.Circuit(r.ctx, "e")
	r.must(err)
	return c
}

// open lets the circuit of e open by n failures of as many jobs.
func (r *rig) open(n int) {
	r.Helper()
	for range n {
		r.say(report(store.Fail, r.begin(behind("q", "t"))))
	}
	if c := r.circuit(); c.State != circuit.Open {
		r.Fatalf("after %d failures it is %+v", n, c)
	}
}

// patient is a want that waits.
func patient(queue string) store.Want {
	w := want(queue)
	w.Wait = time.Minute
	return w
}

// no fails the test where a claim gets something.
func (r *rig) no(when string, w store.Want) {
	r.Helper()
	if got := r.claim(w); len(got) != 0 {
		r.Fatalf("%s: %d jobs claimed", when, len(got))
	}
}

var circuitTests = []test{
	{"failures in a row open it, and one job finds out", func(r *rig) {
		r.quick(2)
		late := r.begin(behind("q", "t"))
		r.open(2)
		for range 3 {
			r.put(behind("q", "u"))
		}
		if a := r.say(report(store.Complete, late)); a.Status != store.ReportTaken || r.circuit().State != circuit.Open {
			r.Errorf("a late success: %+v, %+v", a, r.circuit())
		}
		r.pass(59 * time.Second)
		r.no("while it cools down", want("q"))
		r.h.Clock.Pass(time.Second)
		probe := r.claim(want("q"))
		if len(probe) != 1 || r.circuit().State != circuit.HalfOpen {
			r.Fatalf("%d probes, %+v", len(probe), r.circuit())
		}
		r.no("while the probe is out", want("q"))
		r.say(report(store.Complete, probe[0]))
		if c := r.circuit(); c.State != circuit.Closed || c.Failures != 0 {
			r.Errorf("after a probe that was well: %+v", c)
		}
		if got := r.claim(want("q")); len(got) < 3 {
			r.Errorf("%d claimed of a closed circuit", len(got))
		}
	}},
	{"a success between, and what is the job's own fault, count as well", func(r *rig) {
		r.quick(2)
		for range 3 {
			r.say(report(store.Fail, r.begin(behind("q", "t"))))
			r.say(failure(r.begin(behind("q", "t2")), job.Failure{Permanent: true, Endpoint: job.EndpointOK}))
		}
		if c := r.circuit(); c.State != circuit.Closed || c.Failures != 0 {
			r.Errorf("%+v", c)
		}
	}},
	{"a batch of bad jobs leaves it closed", func(r *rig) {
		for range 100 {
			r.put(behind("q", "t"))
		}
		var reports []store.Report
		for _, c := range r.claim(want("q")) {
			reports = append(reports, failure(c, job.Failure{Permanent: true, Endpoint: job.EndpointOK}))
		}
		r.sayAll(reports...)
		if c := r.circuit(); len(reports) != 100 || c.State != circuit.Closed || c.Failures != 0 {
			r.Errorf("after %d: %+v", len(reports), c)
		}
	}},
	{"a probe that fails, from another task next", func(r *rig) {
		r.quick(1)
		r.open(1)
		r.put(behind("q", "t"))
		r.h.Clock.Pass(time.Minute)
		probe := r.take("q")
		r.put(behind("q", "u"))
		r.say(report(store.Fail, probe))
		if c := r.circuit(); c.State != circuit.Open || !c.RetryAt.Equal(Start.Add(2*time.Minute)) {
			r.Fatalf("after a failed probe: %+v", c)
		}
		r.h.Clock.Pass(time.Minute)
		r.put(behind("q", "t"))
		sad := want("q")
		sad.Tasks = []lane.Task{{Name: "t"}}
		r.no("the task of the failed probe at once", sad)
		if next := r.take("q"); next.Job.Task != "u" {
			r.Errorf("the next probe is of %s", next.Job.Task)
		}
	}},
	{"a probe whose worker is lost, or that is handed back, concludes nothing", func(r *rig) {
		r.quick(1)
		r.open(1)
		r.h.Clock.Pass(time.Minute)
		r.put(behind("q", "u"))
		probe := r.take("q")
		r.say(report(store.Start, probe))
		r.pass(leaseFor + time.Second) // the grace of a store that was just opened is over
		r.pass(leaseFor + time.Second)
		if c := r.circuit(); c.State != circuit.HalfOpen || !c.ProbeAt.IsZero() {
			r.Fatalf("after a lost probe: %+v", c)
		}
		again := r.take("q")
		r.say(report(store.Release, again))
		if r.take("q"); r.circuit().State != circuit.HalfOpen {
			r.Errorf("after one that was handed back: %+v", r.circuit())
		}
	}},
	{"a probe that takes too long is not the only one", func(r *rig) {
		r.quick(1)
		r.open(1)
		r.h.Clock.Pass(time.Minute)
		long := behind("q", "u")
		long.Timeout = time.Hour
		r.put(long)
		w := want("q")
		w.Queues[0].Lease = time.Hour
		first := r.claim(w)
		r.put(long)
		r.h.Clock.Pass(59 * time.Second)
		r.no("a second probe", w)
		r.h.Clock.Pass(time.Second)
		second := r.claim(w)
		if len(first) != 1 || len(second) != 1 {
			r.Fatalf("%d and %d probes", len(first), len(second))
		}
		r.say(report(store.Complete, second[0]))
		r.say(report(store.Fail, first[0]))
		if c := r.circuit(); c.State != circuit.Closed || c.Failures != 0 {
			r.Errorf("the second decided, the first changed it: %+v", c)
		}
	}},
	{"a retry_after holds the endpoint, at most an hour", func(r *rig) {
		r.quick(1)
		r.put(behind("q", "t"))
		r.say(failure(r.take("q"), job.Failure{RetryAfter: new(10 * time.Minute)}))
		if c := r.circuit(); c.State != circuit.Closed || c.Failures != 0 || !c.HeldUntil.Equal(Start.Add(10*time.Minute)) {
			r.Fatalf("%+v", c)
		}
		id := r.put(behind("q", "u"))
		r.pass(10*time.Minute - time.Second)
		r.no("held", want("q"))
		r.h.Clock.Pass(time.Second)
		if got := ids(r.claim(want("q"))); !equal(got, []string{id}) && len(got) != 2 {
			r.Errorf("after the hold: %v", got)
		}
		r.say(failure(r.begin(behind("q2", "t")), job.Failure{RetryAfter: new(24 * time.Hour)}))
		if c := r.circuit(); !c.HeldUntil.Equal(Start.Add(70 * time.Minute)) {
			r.Errorf("held until %v", c.HeldUntil)
		}
	}},
	{"it outlives a restart, its probe too", func(r *rig) {
		r.quick(1)
		r.open(1)
		r.restart(10 * time.Second)
		r.quick(1)
		r.put(behind("q", "u"))
		r.no("after a restart", want("q"))
		r.h.Clock.Pass(time.Minute)
		probe := r.take("q")
		r.restart(time.Second)
		r.quick(1)
		r.put(behind("q", "v"))
		r.no("a second probe after a restart", want("q"))
		r.say(report(store.Complete, probe))
		if c := r.circuit(); c.State != circuit.Closed {
			r.Errorf("%+v", c)
		}
	}},
	{"a person closes it", func(r *rig) {
		r.quick(1)
		r.open(1)
		c, err := r.ResetCircuit(r.ctx, "e", "ops")
		r.must(err)
		if c.State != circuit.Closed || c.Generation == 0 {
			r.Errorf("%+v", c)
		}
		r.put(behind("q", "u"))
		if len(r.claim(want("q"))) == 0 {
			r.Error("nothing is claimed after a reset")
		}
	}},
	{"checks pass an open circuit and move nothing", func(r *rig) {
		r.quick(1)
		r.open(1)
		check := behind("q", "ping")
		check.Kind = job.Synthetic
		id := r.put(check)
		before := r.circuit()
		got := r.take("q")
		if got.Job.ID != id || got.Job.Kind != job.Synthetic {
			r.Fatalf("claimed %+v", got.Job)
		}
		r.say(report(store.Fail, got))
		r.same("the circuit after a failed check", before, r.circuit())
		if j := r.job(id); j.Status != job.Failed || j.Reason != "" {
			r.Errorf("a failed check is %s, %q", j.Status, j.Reason)
		}
		if dead := r.all(store.Filter{Reason: job.ReasonExhausted, Limit: 10}); len(dead) != 0 {
			r.Error("a failed check is a dead letter")
		}
		r.must(r.Pause(r.ctx, endpointE, "ops"))
		r.put(check)
		r.no("a check of a paused endpoint", want("q"))
	}},
	{"failed checks are listed as failed, and are no dead letters", func(r *rig) {
		check := behind("q", "ping")
		check.Kind = job.Synthetic
		failed := r.begin(check)
		r.say(report(store.Fail, failed))
		dead := r.begin(newJob("q"))
		r.say(failure(dead, job.Failure{Permanent: true}))
		well := r.begin(check)
		r.say(report(store.Complete, well))
		list := func(f store.Filter) (all []string) {
			for _, j := range r.all(f) {
				all = append(all, j.ID)
			}
			return all
		}
		r.same("failed", []string{dead.Job.ID, failed.Job.ID}, list(store.Filter{Status: job.Failed}))
		r.same("failed, a page at a time", []string{dead.Job.ID, failed.Job.ID}, list(store.Filter{Status: job.Failed, Limit: 1}))
		r.same("failed of the task", []string{failed.Job.ID}, list(store.Filter{Status: job.Failed, Task: "ping"}))
		r.same("dead letters", []string{dead.Job.ID}, list(store.Filter{Reason: job.ReasonNonRetryable}))
		p, err := r.Preview(r.ctx, store.ActionRetry, store.Selection{}, store.AcceptUncertain)
		r.must(err)
		if p.Jobs != 1 {
			r.Errorf("a replay would retry %d, want the dead letter", p.Jobs)
		}
	}},
	{"a pause stops the checks of an endpoint that is full, and checks take no place", func(r *rig) {
		r.limits(map[lane.Gate]store.Limits{endpointE: {Concurrency: 1}})
		check := behind("q", "ping")
		check.Kind = job.Synthetic
		r.put(check)
		r.put(behind("q", "t"))
		if got := r.claim(want("q")); len(got) != 2 {
			r.Fatalf("%d claimed of a check and a job with one place", len(got))
		}
		r.put(check)
		r.put(behind("q", "t"))
		r.must(r.Pause(r.ctx, endpointE, "ops"))
		r.no("a check of an endpoint that was full and is paused", want("q"))
		r.must(r.Resume(r.ctx, endpointE, "ops"))
		if got := r.take("q"); got.Job.Kind != job.Synthetic {
			r.Errorf("after the pause: %+v", got.Job)
		}
	}},
	{"a claim that waits is served when the gate opens", func(r *rig) {
		r.quick(1)
		r.open(1)
		for range 5 {
			r.put(behind("q", "u"))
		}
		r.h.Clock.Pass(time.Minute - time.Millisecond)
		chs := []<-chan parked{r.waiting(r.ctx, patient("q")), r.waiting(r.ctx, patient("q"))}
		r.h.Clock.Pass(time.Millisecond)
		var probe []store.Claimed
		select {
		case p := <-chs[0]:
			r.must(p.err)
			probe = p.claim.Jobs
			chs = chs[1:]
		case p := <-chs[1]:
			r.must(p.err)
			probe = p.claim.Jobs
			chs = chs[:1]
		case <-time.After(20 * time.Second):
			r.Fatal("nobody was served")
		}
		if len(probe) != 1 {
			r.Fatalf("%d probes", len(probe))
		}
		r.say(report(store.Complete, probe[0]))
		if got := r.served(chs[0]); len(got) != 5 {
			r.Errorf("%d jobs after the circuit closed", len(got))
		}
	}},
	{"why a job waits", func(r *rig) {
		r.quick(1)
		r.open(1)
		k := lane.Key{Queue: "q", Task: "t", Version: "1", Endpoint: "e"}
		r.must(r.Pause(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		got, err := r.GateStates(r.ctx, k)
		r.must(err)
		r.same("gates", []store.GateState{
			{Gate: lane.Gate{Kind: lane.QueueGate, Name: "q"}, Barrier: store.BarrierPause, Since: Start, By: "ops"},
			{Gate: endpointE, Barrier: store.BarrierCircuit, Since: Start, Until: Start.Add(time.Minute)},
		}, got)
		all, err := r.Circuits(context.WithoutCancel(r.ctx))
		r.must(err)
		if len(all) != 1 || all[0].Endpoint != "e" {
			r.Errorf("circuits: %+v", all)
		}
	}},
	{"what is deleted right after its end is told of by its id", func(r *rig) {
		c := r.begin(behind("q", "t"))
		_, err := r.Cancel(r.ctx, c.Job.ID, "ops")
		r.must(err)
		r.say(report(store.Complete, c))
		r.must(r.Delete(r.ctx, c.Job.ID, "ops"))
		for _, e := range r.read(store.EventFilter{}, 0).Events {
			if e.Job != c.Job.ID {
				r.Errorf("%+v", e)
			}
		}
	}},
	{"timeouts count, at the sweep", func(r *rig) {
		r.quick(1)
		j := behind("q", "t")
		j.Timeout = 10 * time.Second
		r.begin(j)
		r.pass(12 * time.Second)
		r.pass(leaseFor) // the grace of a store that was just opened
		if c := r.circuit(); c.State != circuit.Open {
			r.Errorf("after a timeout: %+v", c)
		}
	}},
}
