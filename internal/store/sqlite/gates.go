package sqlite

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlPause  = "INSERT INTO pause(kind, name, who, since) VALUES (?, ?, ?, ?)"
	sqlResume = "DELETE FROM pause WHERE kind=? AND name=?"
)

// maxPauses bounds the gates that are shut by hand: more than a person shuts, and
// the names of endpoints are not known beforehand.
const maxPauses = 10_000

// Pause shuts a gate.
func (s *Store) Pause(ctx context.Context, g lane.Gate, by string) error {
	return s.writer.submit(ctx, 0, func(t *tx) error {
		if _, shut := t.w.state.paused[g]; shut {
			return nil
		}
		if len(t.w.state.paused) >= maxPauses {
			return fmt.Errorf("%w: %d pauses; resume some", store.ErrTooMany, maxPauses)
		}
		p := store.Pause{Gate: g, By: by, Since: at(t.now)}
		if _, err := t.exec(sqlPause, string(g.Kind), g.Name, by, t.now); err != nil {
			return err
		}
		t.pauses = append(t.pauses, pauseBefore{gate: g})
		t.w.state.paused[g] = p
		t.gateEvent(pausedEvent(g, store.QueuePaused, store.EndpointPaused), g, eventData{By: by})
		t.regate(t.w.state.gate(g))
		return nil
	})
}

// pausedEvent is the one of the gate's kind.
func pausedEvent(g lane.Gate, queue, endpoint store.EventType) store.EventType {
	if g.Kind == lane.QueueGate {
		return queue
	}
	return endpoint
}

// Resume opens a gate.
func (s *Store) Resume(ctx context.Context, g lane.Gate, by string) error {
	return s.writer.submit(ctx, 0, func(t *tx) error {
		state := t.w.state
		p, shut := state.paused[g]
		if !shut {
			return nil
		}
		if _, err := t.exec(sqlResume, string(g.Kind), g.Name); err != nil {
			return err
		}
		t.pauses = append(t.pauses, pauseBefore{gate: g, pause: p, shut: true})
		delete(state.paused, g)
		t.gateEvent(pausedEvent(g, store.QueueResumed, store.EndpointResumed), g, eventData{By: by})
		at := state.gate(g)
		t.regate(at)
		state.dropGate(at)
		return nil
	})
}

// Paused lists the gates that are shut by hand, the oldest first.
func (s *Store) Paused(ctx context.Context) ([]store.Pause, error) {
	var all []store.Pause
	err := s.writer.submit(ctx, 0, func(t *tx) error {
		all = make([]store.Pause, 0, len(t.w.state.paused))
		for _, p := range t.w.state.paused {
			all = append(all, p)
		}
		return nil
	})
	slices.SortFunc(all, func(a, b store.Pause) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.Gate.Kind, b.Gate.Kind), cmp.Compare(a.Gate.Name, b.Gate.Name))
	})
	return all, err
}
