package sqlite

import (
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlLoadMark  = "SELECT commits, seq, attempt, event, clock FROM mark WHERE one=1"
	sqlLoadLanes = `SELECT l.lane, l.queue, l.task, l.version, l.endpoint, l.priority, l.kind,
		coalesce(t.ready, 0), coalesce(t.running, 0), coalesce(t.succeeded, 0), coalesce(t.failed, 0), coalesce(t.cancelled, 0),
		CASE WHEN t.ready > 0 THEN (SELECT r.run_at FROM ready r WHERE r.lane=l.lane ORDER BY r.run_at LIMIT 1) END
		FROM lane l LEFT JOIN tally t ON t.lane=l.lane ORDER BY l.lane`
	sqlLoadRunning = `SELECT seq, lane, run_at, attempt, charged, lost, lost_row, unreceived, policy, timeout_ms, bytes,
		worker, claim, claimed_at, started_at, heard_at, lease_ms, lease_until, deadline, log_cut, caller, limit_ms, generation, probe, cancelled, canceller FROM running`
	sqlLoadPauses = "SELECT kind, name, who, since FROM pause"
)

// loadState reads the state from the file: by the number of lanes and of running
// jobs, whatever waits.
func loadState(c *conn) (*state, error) {
	s := newState()
	there, err := c.one(sqlLoadMark, func(r *row) error {
		s.commits, s.seq, s.attempt, s.event, s.clock = r.int(0), r.int(1), r.int(2), r.int(3), r.int(4)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if !there {
		return nil, fmt.Errorf("%w: the row of its marks is missing; open a backup", ErrDamaged)
	}
	if err := s.loadLanes(c); err != nil {
		return nil, err
	}
	err = c.each(sqlLoadPauses, func(r *row) error {
		g := lane.Gate{Kind: lane.GateKind(r.text(0)), Name: r.text(1)}
		s.paused[g] = store.Pause{Gate: g, By: r.text(2), Since: at(r.int(3))}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if err := s.loadCircuits(c); err != nil {
		return nil, err
	}
	if _, err := c.one(sqlBroughtAny, func(r *row) error { s.brought = r.int(0) != 0; return nil }); err != nil {
		return nil, err
	}
	if _, err := c.one(sqlUniqueAny, func(r *row) error { s.unique = r.int(0) != 0; return nil }); err != nil {
		return nil, err
	}
	return s, s.loadRunning(c)
}

func (s *state) loadLanes(c *conn) error {
	return c.each(sqlLoadLanes, func(r *row) error {
		l := &laneRow{
			id:     lane.ID(r.int(0)),
			key:    laneKey(r, 1),
			stored: true,
			tally:  tally{r.int(7), r.int(8), r.int(9), r.int(10), r.int(11)},
		}
		for lane.ID(len(s.lanes)) < l.id { // a gap is a lane that is gone
			s.unused = append(s.unused, lane.ID(len(s.lanes)))
			s.lanes = append(s.lanes, nil)
		}
		if (l.tally.ready > 0) != r.set(12) {
			return fmt.Errorf("%w: lane %d counts %d ready jobs, which are not there; open a backup", ErrDamaged, l.id, l.tally.ready)
		}
		s.lanes = append(s.lanes, l)
		s.board.Add(l.id, l.key)
		s.attach(l)
		s.setReady(l, l.tally.ready, r.int(12))
		return nil
	})
}

// laneKey reads queue, task, version, endpoint, priority and kind from a column on.
func laneKey(r *row, from int) lane.Key {
	return lane.Key{
		Queue: r.text(from), Task: r.text(from + 1), Version: r.text(from + 2), Endpoint: r.text(from + 3),
		Priority: int(r.int(from + 4)), Synthetic: job.Kind(r.text(from+5)) == job.Synthetic,
	}
}

func (s *state) loadRunning(c *conn) error {
	return c.each(sqlLoadRunning, func(r *row) error {
		id := r.int(1)
		if id <= 0 || id >= int64(len(s.lanes)) || s.lanes[id] == nil {
			return fmt.Errorf("%w: job %d runs in lane %d, which is not there; open a backup", ErrDamaged, r.int(0), id)
		}
		s.add(&lease{
			seq: r.int(0), lane: s.lanes[id], runAt: r.int(2), attempt: int(r.int(3)), counts: scanCounts(r, 4),
			policy: policyID(r.int(8)), timeout: r.int(9), bytes: r.int(10), worker: r.text(11), claim: r.text(12),
			claimedAt: r.int(13), startedAt: r.int(14), heardAt: r.int(15), length: r.int(16), until: r.int(17), deadline: r.int(18),
			log: logSize{cut: r.int(19) != 0}, caller: r.text(20), limit: r.int(21),
			generation: r.int(22), probe: r.int(23) != 0, cancelledAt: r.int(24), canceller: r.text(25),
		})
		return nil
	})
}

// resume is the first operation on a store that was opened. The relay's leases are
// given back, for the lock says that there is no other process of it. Every other
// one lasts a full lease from now on: nobody could report while the store was
// closed, and what heartbeats said is not in the file. A server that starts again
// and again within a lease therefore finds no worker lost.
func resume(t *tx) error {
	s := t.w.state
	s.opened, s.tick, s.graced = 0, t.now, t.now
	for _, l := range s.byAge() {
		if !strings.HasPrefix(l.worker, store.RelayWorker) {
			t.grace(l)
			s.opened++
			continue
		}
		x := t.unlessCancelled(l, job.DecideRelease(t.runOf(l), 0, at(t.now)))
		if _, err := t.apply(l, x, ending{note: "its process ended"}); err != nil {
			return err
		}
	}
	return nil
}
