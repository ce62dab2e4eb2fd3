package sqlite

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
)

// SetLimits puts the numbers of all gates in force.
func (s *Store) SetLimits(ctx context.Context, limits map[lane.Gate]store.Limits) error {
	return s.writer.submit(ctx, 0, func(t *tx) error {
		state := t.w.state
		for name, l := range limits {
			t.setLimits(state.gate(name), l)
		}
		for name, g := range state.gates {
			if _, said := limits[name]; !said && g.limits != (store.Limits{}) {
				t.setLimits(g, store.Limits{})
				state.dropGate(g)
			}
		}
		return nil
	})
}

// setLimits changes the numbers of a gate, which are in memory alone.
func (t *tx) setLimits(g *gate, l store.Limits) {
	t.touchGate(g)
	now := at(t.now)
	had := g.limits.Rate
	g.limits = l
	switch {
	case l.Rate == nil:
	case had == nil:
		g.bucket = *limit.Since(*l.Rate, at(g.fullAt), now)
		g.fullAt = 0
	default:
		g.bucket.Configure(now, *l.Rate)
	}
	if l.Rate == nil && had != nil {
		g.fullAt = ceilMillis(g.bucket.FullAt(now))
	}
	t.regate(g)
}

// Circuit returns how the circuit of an endpoint stands.
func (s *Store) Circuit(ctx context.Context, endpoint string) (store.CircuitState, error) {
	c := store.CircuitState{Endpoint: endpoint, Circuit: circuit.Circuit{State: circuit.Closed}}
	err := s.writer.submit(ctx, 0, func(t *tx) error {
		if g := t.w.state.gates[lane.Gate{Kind: lane.EndpointGate, Name: endpoint}]; g != nil {
			c.Circuit = g.circuit
		}
		return nil
	})
	return c, err
}

// Circuits returns every circuit that something happened to, by name.
func (s *Store) Circuits(ctx context.Context) (all []store.CircuitState, err error) {
	err = s.writer.submit(ctx, 0, func(t *tx) error {
		all = nil
		for name, g := range t.w.state.gates {
			if name.Kind == lane.EndpointGate && !g.circuit.Plain(at(t.now)) && len(all) < circuit.MaxKept {
				all = append(all, store.CircuitState{Endpoint: name.Name, Circuit: g.circuit})
			}
		}
		return nil
	})
	slices.SortFunc(all, func(a, b store.CircuitState) int { return strings.Compare(a.Endpoint, b.Endpoint) })
	return all, err
}

// ResetCircuit closes a circuit and ends its hold.
func (s *Store) ResetCircuit(ctx context.Context, endpoint, by string) (store.CircuitState, error) {
	c := store.CircuitState{Endpoint: endpoint, Circuit: circuit.Circuit{State: circuit.Closed}}
	err := s.writer.submit(ctx, 0, func(t *tx) error {
		g := t.w.state.gates[lane.Gate{Kind: lane.EndpointGate, Name: endpoint}]
		if g == nil {
			return nil
		}
		t.touchGate(g)
		t.circuitMoved(g, g.circuit.Reset(at(t.now)), by)
		t.regate(g)
		c.Circuit = g.circuit
		return nil
	})
	return c, err
}

// GateStates returns what stands before the jobs of a lane now.
func (s *Store) GateStates(ctx context.Context, k lane.Key) (all []store.GateState, err error) {
	names := []lane.Gate{{Kind: lane.QueueGate, Name: k.Queue}}
	if k.Endpoint != "" {
		names = append(names, lane.Gate{Kind: lane.EndpointGate, Name: k.Endpoint})
	}
	err = s.writer.submit(ctx, 0, func(t *tx) error {
		all = nil
		for _, name := range names {
			if p, shut := t.w.state.paused[name]; shut {
				all = append(all, store.GateState{Gate: name, Barrier: store.BarrierPause, Since: p.Since, By: p.By})
			}
			passes := k.Synthetic && name.Kind == lane.EndpointGate // all but the pause
			if g := t.w.state.gates[name]; g != nil && !passes {
				all = append(all, g.barriers(at(t.now))...)
			}
		}
		return nil
	})
	return all, err
}

// barriers are what of the gate's own lets nobody through now.
func (g *gate) barriers(now time.Time) (all []store.GateState) {
	add := func(b store.GateState) {
		b.Gate = g.name
		all = append(all, b)
	}
	switch look := g.circuit.Look(now, g.settings()); look.Answer {
	case circuit.Held:
		add(store.GateState{Barrier: store.BarrierHold, Since: at(g.heldAt), Until: look.Until})
	case circuit.Cooling:
		add(store.GateState{Barrier: store.BarrierCircuit, Since: g.circuit.OpenedAt, Until: look.Until})
	case circuit.Probing:
		add(store.GateState{Barrier: store.BarrierProbe, Since: g.circuit.ProbeAt, Until: look.Until})
	case circuit.OneProbe: // whoever comes first; a job that still waits has no worker
		add(store.GateState{Barrier: store.BarrierProbe, Since: g.circuit.RetryAt})
	case circuit.Passes:
	}
	if g.limits.Rate != nil {
		b := g.bucket
		if token := b.Look(now); token.After(now) {
			add(store.GateState{Barrier: store.BarrierRate, Since: at(g.shutAt), Until: token})
		}
	}
	if g.free() == 0 {
		add(store.GateState{Barrier: store.BarrierConcurrency, Since: at(g.shutAt), Running: g.running, Limit: g.limits.Concurrency})
	}
	return all
}
