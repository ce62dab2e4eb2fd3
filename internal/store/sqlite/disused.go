package sqlite

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// disused removes the policies that no job has any more. Most stores have some
// dozens and never get here; but jobs may bring their own, each another one.
//
// Nothing counts how many jobs have a policy, and no index finds them: both would
// cost every create. Instead, once in a while, all jobs are walked by readers, in
// steps, and the policies that none had are removed by the writer, which first
// looks at the jobs that came meanwhile. It is safe for concurrent use.
type disused struct {
	mu    sync.Mutex
	next  int64    // when a round may begin, by the store's clock
	rest  int64    // how long it was to wait for that
	after policyID // where the next round begins
	round *disusedRound
}

// The bounds of rounds and of their steps.
const (
	disusedFew    = 1000           // policies: fewer are left alone, they take less room than a payload
	disusedRest   = time.Hour      // between two rounds at least,
	disusedLonger = 24 * time.Hour // and at most: the rest doubles while a round finds little
	disusedMost   = 20_000         // policies of one round: one short read, about a MiB of memory
	disusedRows   = 5000           // jobs of one read
	disusedTail   = 500            // jobs that the writer looks at
	disusedStep   = 500            // policies that it removes
)

// disusedRound is one round on its way. Its policies are those that were there
// when it began and that no job has, as far as it has looked.
type disusedRound struct {
	policies map[policyID]struct{}
	size     int   // how many they were
	seq      int64 // the last job that was looked at
	removed  int
}

const (
	sqlPolicyCount = "SELECT count(*) FROM (SELECT 1 FROM policy LIMIT +?)"
	sqlPolicyList  = "SELECT policy FROM policy WHERE policy > ? ORDER BY policy LIMIT +?"
	sqlPolicyUse   = "SELECT seq, policy FROM job WHERE seq > ? ORDER BY seq LIMIT +?"
	sqlPolicyGone  = "DELETE FROM policy WHERE policy = ?"
)

// step does a part of a round, and begins one where it is time. It reports
// whether the round goes on. After an error the round is given up.
func (d *disused) step(ctx context.Context, s *Store) (store.More, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.round == nil {
		now := millis(s.Now())
		if now < d.next {
			return false, nil
		}
		if err := d.begin(ctx, s, now); err != nil || d.round == nil {
			return false, err
		}
	}
	more, err := d.round.step(ctx, s)
	if err != nil {
		d.round = nil
		return false, err
	}
	if !more {
		d.end(millis(s.Now()))
	}
	return more, nil
}

// begin begins a round where there are many policies.
func (d *disused) begin(ctx context.Context, s *Store, now int64) error {
	d.rest = max(d.rest, disusedRest.Milliseconds())
	d.next = now + d.rest // also where what follows fails
	r := &disusedRound{policies: make(map[policyID]struct{})}
	last := d.after
	err := s.readers.use(ctx, func(c *conn) error {
		count := int64(0)
		if _, err := c.one(sqlPolicyCount, func(r *row) error { count = r.int(0); return nil }, disusedFew); err != nil || count < disusedFew {
			return err
		}
		return c.each(sqlPolicyList, func(row *row) error {
			last = policyID(row.int(0))
			r.policies[last] = struct{}{}
			return nil
		}, int64(d.after), disusedMost)
	})
	if err != nil {
		return err
	}
	r.size = len(r.policies)
	if r.size < disusedMost {
		last = 0 // the next round begins anew
	}
	d.after = last
	if r.size > 0 {
		d.round = r
	}
	return nil
}

// end says when the next round may begin. One that found little made a walk over
// all jobs for it: the next one has time.
func (d *disused) end(now int64) {
	if d.round.removed < d.round.size/2 {
		d.rest = min(2*d.rest, disusedLonger.Milliseconds())
	} else {
		d.rest = disusedRest.Milliseconds()
	}
	d.next, d.round = now+d.rest, nil
}

func (r *disusedRound) step(ctx context.Context, s *Store) (store.More, error) {
	rows, began := 0, time.Now()
	err := s.readers.use(ctx, func(c *conn) error {
		return c.each(sqlPolicyUse, func(row *row) error {
			rows++
			r.seq = row.int(0)
			delete(r.policies, policyID(row.int(1)))
			if len(r.policies) == 0 || time.Since(began) > listTime {
				return errEnough
			}
			return nil
		}, r.seq, disusedRows)
	})
	switch {
	case err != nil:
		return false, err
	case len(r.policies) == 0:
		return false, nil
	case rows > disusedTail: // the writer can't look at so many
		return true, nil
	}
	x := removal{round: r}
	if err := s.writer.submit(ctx, 0, x.run); err != nil {
		return false, err
	}
	r.seq = x.seq
	for _, list := range [][]policyID{x.used, x.gone} {
		for _, p := range list {
			delete(r.policies, p)
		}
	}
	r.removed += len(x.gone)
	return len(r.policies) > 0, nil
}

// removal removes some policies of a round. What it finds out counts once it is
// committed: what it sees may be rolled back with its group.
type removal struct {
	round *disusedRound
	seq   int64
	used  []policyID // by jobs that came since
	gone  []policyID
}

func (x *removal) run(t *tx) error {
	x.seq, x.used, x.gone = x.round.seq, nil, nil
	used, rows := make(map[policyID]struct{}), 0
	if err := t.each(sqlPolicyUse, func(row *row) error {
		rows++
		p := policyID(row.int(1))
		x.seq, used[p] = row.int(0), struct{}{}
		x.used = append(x.used, p)
		return nil
	}, x.seq, disusedTail); err != nil || rows == disusedTail {
		return err
	}
	began := time.Now()
	for p := range x.round.policies {
		if _, is := used[p]; is {
			continue
		}
		if n := len(x.gone); n == disusedStep || n > 0 && time.Since(began) > maxGroupWork {
			break
		}
		if _, err := t.exec(sqlPolicyGone, int64(p)); err != nil {
			return err
		}
		t.w.state.policies.forget(p)
		x.gone = append(x.gone, p)
	}
	return nil
}
