package metamorphic

import (
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// endpoints are all that jobs name.
var endpoints = []string{"e", "f"}

func (h *history) gate() {
	g := lane.Gate{Kind: lane.QueueGate, Name: pick(h, "a", "b")}
	paused, resumed, e := store.QueuePaused, store.QueueResumed, modelEvent{Event: store.Event{Queue: g.Name}}
	if h.chance(0.5) {
		g = lane.Gate{Kind: lane.EndpointGate, Name: pick(h, endpoints...)}
		paused, resumed, e = store.EndpointPaused, store.EndpointResumed, modelEvent{Event: store.Event{Endpoint: g.Name}}
	}
	_, shut := h.model.gates[g]
	e.By = pick(h, "ops", "dev")
	if h.chance(0.3) || shut && h.chance(0.8) {
		h.tell("resume %v", g)
		if shut {
			h.model.tell(resumed, nil, e)
		}
		delete(h.model.gates, g)
		h.must(h.store.Resume(h.ctx, g, e.By))
		return
	}
	h.tell("pause %v by %s", g, e.By)
	if !shut {
		h.model.gates[g] = store.Pause{Gate: g, By: e.By, Since: h.model.now}
		h.model.tell(paused, nil, e)
	}
	h.must(h.store.Pause(h.ctx, g, e.By))
}

// newLimits are numbers of gates that something comes of.
func (h *history) newLimits() map[lane.Gate]store.Limits {
	return map[lane.Gate]store.Limits{
		{Kind: lane.QueueGate, Name: "b"}: {Concurrency: pick(h, 0, 2, 6)},
		{Kind: lane.EndpointGate, Name: "e"}: {
			Circuit: &circuit.Settings{Failures: pick(h, 1, 3), Cooldown: pick(h, 5*time.Second, 20*time.Second)},
		},
		{Kind: lane.EndpointGate, Name: "f"}: {
			Concurrency: pick(h, 0, 1, 4), Circuit: &circuit.Settings{Failures: 2, Cooldown: pick(h, 20*time.Second, 90*time.Second)},
		},
	}
}

func (h *history) limit() {
	h.model.limits = h.newLimits()
	h.tell("other limits: %+v", h.model.limits)
	h.must(h.store.SetLimits(h.ctx, h.model.limits))
}

// of makes n jobs of an endpoint that are due at once, and returns what of the
// endpoint runs after a claim.
func (h *history) of(endpoint string, n int) []*modelJob {
	if !h.room(n) {
		return nil
	}
	jobs := make([]store.NewJob, n)
	for i := range jobs {
		jobs[i] = h.plainJob()
		jobs[i].Endpoint = endpoint
	}
	h.createAll(jobs)
	h.claimAll()
	return slices.DeleteFunc(h.model.running(), func(j *modelJob) bool { return j.Endpoint != endpoint })
}

// trouble lets whatever runs of an endpoint fail, or some of it.
func (h *history) trouble() {
	endpoint := pick(h, endpoints...)
	running := h.of(endpoint, 1+h.IntN(4))
	h.tell("trouble at %s: %d attempts", endpoint, len(running))
	h.sayOf(store.Fail, running[:len(running)-h.IntN(len(running)/2+1)])
}

// probe waits for the moment when an endpoint may be probed, lets a worker ask, and
// decides what becomes of the probe.
func (h *history) probe() {
	i := slices.IndexFunc(endpoints, func(e string) bool { return h.model.circuitOf(e).state != circuit.Closed })
	if i < 0 {
		return
	}
	endpoint := endpoints[i]
	c := h.model.circuitOf(endpoint)
	if c.retry.After(h.model.now) && h.chance(0.3) {
		h.until(c.retry.Add(-time.Second))
		h.of(endpoint, 1)
	}
	h.until(c.retry)
	h.until(c.held)
	out := slices.DeleteFunc(h.of(endpoint, 2), func(j *modelJob) bool { return !j.lease.probe })
	h.tell("%d probes of %s are out", len(out), endpoint)
	if len(out) == 0 {
		return
	}
	j := out[len(out)-1]
	switch h.IntN(8) {
	case 0:
		h.sayOf(store.Complete, out[:1])
	case 1, 2:
		h.sayOf(store.Fail, out[:1])
	case 3:
		h.sayOf(store.Release, out[:1])
	case 4:
		h.sayOf(store.Start, []*modelJob{j})
		h.seconds(31) // its worker falls silent
	case 5:
		h.cancelOne(j)
		h.sayOf(pick(h, store.Complete, store.Fail), []*modelJob{j})
	case 6: // it takes too long
		for range 4 {
			h.seconds(20)
			if j.lease != nil && j.Status == job.Running {
				h.sayOf(store.Heartbeat, []*modelJob{j})
			}
		}
		h.of(endpoint, 1)
	default: // whatever comes
	}
}

func (h *history) resetCircuit() {
	endpoint := pick(h, endpoints...)
	h.tell("reset %s", endpoint)
	if h.model.circuitOf(endpoint).state != circuit.Closed {
		h.happened["resets"]++
	}
	h.model.reset(endpoint, "ops")
	got, err := h.store.ResetCircuit(h.ctx, endpoint, "ops")
	h.must(err)
	h.sameCircuit(endpoint, got)
}

// sameCircuit compares a circuit. A hold that is over is none, and may be forgotten.
func (h *history) sameCircuit(endpoint string, got store.CircuitState) {
	h.Helper()
	want := h.model.circuitOf(endpoint).stored(endpoint)
	for _, c := range []*store.CircuitState{&want, &got} {
		if !c.HeldUntil.After(h.model.now) {
			c.HeldUntil = time.Time{}
		}
	}
	h.same("the circuit of "+endpoint, want, got)
}
