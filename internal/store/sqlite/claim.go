package sqlite

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	// LIMIT +? and not LIMIT ?, lane=+? and not lane=?: the library prepares this
	// statement anew for values of a bare one.
	sqlHeads = `SELECT run_at, seq, attempt, charged, lost, lost_row, unreceived, policy, timeout_ms, bytes
		FROM ready WHERE lane=+? ORDER BY run_at, seq LIMIT +?`
	sqlTake = `INSERT INTO running(seq, lane, run_at, attempt, charged, lost, lost_row, unreceived, policy, timeout_ms, bytes,
		worker, caller, claim, claimed_at, lease_ms, lease_until, generation, probe, limit_ms, deadline)
		SELECT seq, lane, run_at, attempt+1, charged, lost, lost_row, unreceived, policy, timeout_ms, bytes, ?, ?, ?, ?, ?, ?, ?, ?,
		coalesce(?, timeout_ms), ?+coalesce(?, timeout_ms)
		FROM ready WHERE lane=? AND (run_at, seq)<=(?, ?)`
	sqlTaken = "DELETE FROM ready WHERE lane=? AND (run_at, seq)<=(?, ?)"
)

// maxHeads is how many rows one take reads at most: as many jobs as a claim of
// the API may have.
const maxHeads = 1000

// Claim takes due jobs under leases.
func (s *Store) Claim(ctx context.Context, w store.Want) (store.Claim, error) {
	c := newClaim(ctx, w)
	if err := s.writer.enqueue(ctx, c.call); err != nil {
		return store.Claim{}, err
	}
	if err := s.awaitClaim(ctx, c); err != nil {
		return store.Claim{}, err
	}
	if len(c.got) == 0 {
		return store.Claim{Now: at(c.now)}, nil
	}
	if w.Room != nil {
		bytes := 0
		for i := range c.got {
			bytes += int(c.got[i].bytes)
		}
		if err := w.Room(ctx, len(c.got), bytes); err != nil {
			return store.Claim{}, s.giveBack(ctx, c, err, noteNoRoom)
		}
	}
	jobs, err := s.claimed(ctx, c)
	if err != nil {
		return store.Claim{}, s.giveBack(ctx, c, err, noteUnread)
	}
	return store.Claim{Now: at(c.now), Jobs: jobs}, nil
}

// awaitClaim waits until the claim got something, or waited long enough.
func (s *Store) awaitClaim(ctx context.Context, c *claim) error {
	if c.want.Wait <= 0 {
		return s.writer.await(ctx, c.call)
	}
	timer := time.NewTimer(c.want.Wait)
	defer timer.Stop()
	select {
	case <-c.call.done:
		return c.call.err
	case <-timer.C:
	case <-ctx.Done():
	case <-s.writer.ended:
	}
	if c.call.leave() { // the writer did not even get to it
		select {
		case <-s.writer.ended:
			return store.ErrClosed
		default:
		}
		c.now = s.writer.clock.now()
		return ctx.Err()
	}
	// It waits in the writer, or is being served. A closing writer ends it too.
	unpark := newCall(0, func(t *tx) error { t.w.state.parked.end(c, t.now, ctx.Err()); return nil })
	if err := s.writer.enqueue(context.WithoutCancel(ctx), unpark); err == nil {
		select {
		case <-unpark.done:
		case <-s.writer.ended:
		}
	}
	<-c.call.done
	return c.call.err
}

// claim is a Claim on its way through the writer.
type claim struct {
	ctx   context.Context // of the caller: a claim for one who is gone takes nothing
	want  store.Want
	plan  lane.Want
	lease map[string]int64 // by queue
	// limit is the timeout of each attempt; 0 leaves the job's own.
	limit int64
	call  *call

	// What it got, and when.
	now   int64
	got   []granted
	bytes int64
	// shared says that another claim with its id got the same leases.
	shared bool

	keys   []parkedKey // where it waits
	ticket int64       // its place among those that wait; 0 where it does not
}

// id is what makes two claims the same.
func (c *claim) id() claimKey { return claimKey{c.want.Caller, c.want.Worker, c.want.ClaimID} }

// granted is a lease as it was when its claim was committed.
type granted struct {
	lease
	lane   lane.Key
	policy *job.Snapshot
	made   createdJob // with no job: what it carries is to be read
	lent   *lease
}

func newClaim(ctx context.Context, w store.Want) *claim {
	c := &claim{ctx: ctx, want: w, lease: make(map[string]int64, len(w.Queues))}
	for _, q := range w.Queues {
		if _, twice := c.lease[q.Queue]; !twice {
			c.plan.Queues = append(c.plan.Queues, q.Queue)
		}
		c.lease[q.Queue] = max(q.Lease.Milliseconds(), 1)
	}
	c.plan.Tasks = w.Tasks
	if w.Timeout > 0 {
		c.limit = max(w.Timeout.Milliseconds(), 1)
	}
	c.call = newCall(0, c.run)
	return c
}

// reset forgets what a transaction gave that was rolled back.
func (c *claim) reset() { c.got, c.bytes, c.shared = c.got[:0], 0, false }

func (c *claim) run(t *tx) error {
	c.reset()
	if err := c.ctx.Err(); err != nil {
		return err
	}
	s := t.w.state
	if c.want.ClaimID != "" {
		if again, err := c.repeat(t); again || err != nil {
			return err
		}
		// An older one that still waits under this id has lost its caller, or
		// has one who asks twice: only the newest is served.
		if old := s.parked.byID[c.id()]; old != nil {
			s.parked.end(old, t.now, nil)
		}
	}
	if err := t.serve(c); err != nil || len(c.got) > 0 {
		return err
	}
	c.now = t.now
	if c.want.Wait > 0 {
		if err := s.parked.room(c); err != nil {
			return err
		}
		s.parked.add(c)
		t.parkings = append(t.parkings, c)
		c.call.wait = true
	}
	return nil
}

// repeat gives the leases of the claim's id that still hold, and that it may have:
// one who names another queue now gets nothing of the one before. A job that was
// cancelled meanwhile is nobody's to begin.
func (c *claim) repeat(t *tx) (again bool, err error) {
	for _, l := range t.w.state.claims[c.id()] {
		if l.end() <= t.now || l.cancelledAt != 0 || !c.plan.Wants(l.lane.key) {
			continue // of those that are over the sweep makes an end
		}
		l.repeated = true
		if err := t.grant(c, l); err != nil {
			return false, err
		}
	}
	if len(c.got) == 0 {
		return false, nil
	}
	slices.SortFunc(c.got, func(a, b granted) int { return cmp.Compare(a.seq, b.seq) })
	// The first one may still be in this transaction: its leases stay, though
	// its caller may be gone.
	for _, other := range t.claims {
		if other.id() == c.id() {
			other.shared = true
		}
	}
	c.now, c.shared = t.now, true
	t.claims = append(t.claims, c)
	return true, nil
}

// serve gives a claim what it can have now.
func (t *tx) serve(c *claim) error {
	s := t.w.state
	for len(c.got) < c.want.Max && c.bytes < int64(c.want.MaxBytes) || len(c.got) == 0 {
		c.plan.Max = c.want.Max - len(c.got)
		takes := s.board.Plan(at(t.now), c.plan)
		before := len(c.got)
		for _, k := range takes {
			full, err := t.take(c, s.lanes[k.Lane], k.N)
			if err != nil {
				return err
			}
			if full {
				break
			}
		}
		if len(c.got) == before {
			break
		}
	}
	if len(c.got) > 0 {
		c.now = t.now
		t.claims = append(t.claims, c)
	}
	return nil
}

// take gives a claim up to n due jobs from the head of a lane. full says that the
// next one passes its bytes.
func (t *tx) take(c *claim, l *laneRow, n int) (full bool, err error) {
	s := t.w.state
	t.touch(l)
	n = min(n, maxHeads)
	length := c.lease[l.key.Queue]
	var leases []*lease
	head, more := int64(0), false
	err = t.each(sqlHeads, func(r *row) error {
		runAt, bytes := r.int(0), r.int(9)
		over := len(c.got)+len(leases) > 0 && c.bytes+bytes > int64(c.want.MaxBytes)
		if runAt > t.now || len(leases) == n || over {
			head, more, full = runAt, true, over && runAt <= t.now
			return errEnough
		}
		c.bytes += bytes
		limit := cmp.Or(c.limit, r.int(8))
		leases = append(leases, &lease{
			seq: r.int(1), lane: l, runAt: runAt, attempt: int(r.int(2)) + 1,
			counts: scanCounts(r, 3), policy: policyID(r.int(7)), timeout: r.int(8), limit: limit, bytes: bytes,
			worker: c.want.Worker, caller: c.want.Caller, claim: c.want.ClaimID, claimedAt: t.now,
			length: length, until: t.now + length, deadline: t.now + limit,
		})
		return nil
	}, int64(l.id), n+1)
	if err != nil {
		return false, err
	}
	if len(leases) == 0 {
		if !more {
			return full, t.diverge("lane %d has %d ready jobs by its count and none by its rows", l.id, l.tally.ready)
		}
		s.setReady(l, l.tally.ready, head)
		return full, nil
	}
	last := leases[len(leases)-1]
	ticket := t.admit(l, len(leases))
	var limit any
	if c.limit > 0 {
		limit = c.limit
	}
	made, err := t.exec(sqlTake, c.want.Worker, c.want.Caller, c.want.ClaimID, t.now, length, t.now+length,
		ticket.Generation, flag(ticket.Probe), limit, t.now, limit, int64(l.id), last.runAt, last.seq)
	if err != nil {
		return false, err
	}
	gone, err := t.exec(sqlTaken, int64(l.id), last.runAt, last.seq)
	if err != nil {
		return false, err
	}
	if made != int64(len(leases)) || gone != made {
		return false, t.diverge("%d jobs of lane %d were taken, %d made running, %d no longer ready", len(leases), l.id, made, gone)
	}
	l.tally.running += made
	s.setReady(l, l.tally.ready-made, head)
	if (l.tally.ready > 0) != more {
		return false, t.diverge("lane %d has %d ready jobs by its count, the next at %d", l.id, l.tally.ready, head)
	}
	for _, lent := range leases {
		t.leases = append(t.leases, leaseBefore{lease: lent, what: leaseAdded})
		lent.generation, lent.probe = ticket.Generation, ticket.Probe
		s.add(lent)
		if err := t.grant(c, lent); err != nil {
			return false, err
		}
	}
	t.regates(l)
	return full, nil
}

// grant notes a lease as the claim's.
func (t *tx) grant(c *claim, l *lease) error {
	policy, err := t.policy(l.policy)
	if err != nil {
		return err
	}
	g := granted{lane: l.lane.key, policy: policy, lent: l}
	if i := l.seq - t.first; i >= 0 && i < int64(len(t.created)) {
		g.made = t.created[i]
	} else if l.attempt == 1 {
		g.made, _ = t.w.state.recent.take(l.seq)
	}
	l.made = g.made.at
	g.lease = *l
	c.got = append(c.got, g)
	return nil
}

// letGo gives back what claims got whose callers have gone meanwhile.
func (t *tx) letGo() {
	for _, c := range t.claims {
		if c.shared || len(c.got) == 0 {
			continue
		}
		err := c.ctx.Err()
		if err == nil || t.moved(c) {
			continue
		}
		for _, g := range c.got {
			if t.untake(g.lent) != nil {
				return // it is in t.failed
			}
		}
		c.reset()
		c.call.err = err // others may wait for it: its lanes are hot
	}
}

// moved reports whether something happened to a job that the claim got in the same
// transaction: it was cancelled, or, where the machine stood still, its lease was
// swept. Then it stays as it is, and the leases lapse by themselves.
func (t *tx) moved(c *claim) bool {
	return slices.ContainsFunc(c.got, func(g granted) bool {
		return g.lent.cancelledAt != 0 || t.w.state.running[g.seq] != g.lent
	})
}

// untake makes a claim of one job undone in the transaction that made it: it
// stands where it stood, and the attempt never was. After a commit somebody may
// have the token, which the next attempt of the same number would have too.
func (t *tx) untake(l *lease) error {
	s := t.w.state
	n, err := t.exec(sqlEnded, l.seq, l.attempt)
	if err != nil {
		return err
	}
	if n != 1 {
		return t.diverge("the running row of job %d, attempt %d, is gone", l.seq, l.attempt)
	}
	t.touch(l.lane)
	t.leases = append(t.leases, leaseBefore{lease: l, what: leaseRemoved})
	s.remove(l)
	l.lane.tally.running--
	t.unadmit(l)
	t.regates(l.lane)
	return t.ready(l.lane, l.runAt, l.seq, l.attempt-1, l.counts, int64(l.policy), l.timeout, l.bytes)
}
