package sqlite

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlBegin    = "BEGIN IMMEDIATE"
	sqlCommit   = "COMMIT"
	sqlRollback = "ROLLBACK"
	sqlCount    = "UPDATE mark SET commits=commits+1 WHERE one=1"
	sqlCommits  = "SELECT commits FROM mark WHERE one=1"
	sqlMark     = "UPDATE mark SET commits=?, seq=?, attempt=?, event=?, clock=? WHERE one=1"
	sqlTally    = `INSERT INTO tally(lane, ready, running, succeeded, failed, cancelled) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT(lane) DO UPDATE SET ready=excluded.ready, running=excluded.running,
		succeeded=excluded.succeeded, failed=excluded.failed, cancelled=excluded.cancelled`
	sqlLaneGone  = "DELETE FROM lane WHERE lane=?"
	sqlTallyGone = "DELETE FROM tally WHERE lane=?"
)

// tx is the writer's transaction: that of a group, or of one operation alone. It
// begins in the database with the first statement that writes, so a group that
// only looks, or only hears heartbeats, costs no sync. Whatever it changes in
// memory it can put back.
type tx struct {
	w     *writer
	now   int64 // milliseconds, for the operation that runs
	open  bool
	end   txEnd
	first int64 // the first seq of this transaction
	bytes int   // of contents

	operations int   // that ran in it, and claims of before that it served
	tickets    int64 // of the claims that waited before it

	failed   error // of a statement, or a panic: it can't be committed
	diverged bool  // memory and file disagree: read anew

	lanes    []laneBefore  // what was touched, as it was
	leases   []leaseBefore // in the order of the changes
	pauses   []pauseBefore
	gates    []gateBefore
	events   []newEvent
	policies []policyID // made here
	created  []createdJob
	served   []*claim // parked claims that got something
	claims   []*claim // claims that got something
	finished []int64  // jobs
	ends     []store.Finished
	ended    []store.Ended
	parkings []*claim // that began to wait
	silence  silence  // as it was
}

// txEnd is how a transaction ended.
type txEnd int

const (
	endOpen      txEnd = iota
	endCommitted       // it is durable
	endRefused         // nothing of it was written
	endUnknown         // a crash could still make it real
	endParted          // it is durable, in a file that is not in its place
)

// begin makes the transaction ready for use again.
func (t *tx) begin() {
	s := t.w.state
	s.turn++
	*t = tx{
		w: t.w, now: t.w.clock.now(), first: s.seq + 1, silence: s.silence, tickets: s.parked.tickets,
		lanes: empty(t.lanes), leases: empty(t.leases), pauses: empty(t.pauses), gates: empty(t.gates), events: empty(t.events), policies: empty(t.policies),
		created: empty(t.created), served: empty(t.served), claims: empty(t.claims),
		parkings: empty(t.parkings), ended: empty(t.ended), ends: empty(t.ends), finished: nil,
	}
}

// empty makes a slice ready for use again; what it held is not held on to.
func empty[T any](s []T) []T {
	clear(s)
	return s[:0]
}

// run runs an operation. A panic in it is a defect that must not take the process
// along: the transaction is rolled back and the state read anew.
func (t *tx) run(c *call) {
	defer t.catch()
	t.now = t.w.clock.now()
	c.wait = false
	t.bytes += c.bytes
	t.operations++
	c.err = c.run(t)
}

func (t *tx) catch() {
	if r := recover(); r != nil {
		t.panicked(r)
	}
}

func (t *tx) panicked(r any) {
	t.w.log.Error("defect in a store operation; its transaction is rolled back", "panic", fmt.Sprint(r), "stack", string(debug.Stack()))
	_ = t.diverge("panic: %v", r) // it is kept
}

// diverge ends a transaction in which the file turned out to be otherwise than
// memory had it.
func (t *tx) diverge(format string, args ...any) error {
	t.diverged = true
	return t.fail(fmt.Errorf("internal: "+format, args...))
}

func (t *tx) fail(err error) error {
	if t.failed == nil {
		t.failed = err
	}
	return err
}

// write begins the transaction in the database.
func (t *tx) write() error {
	if t.failed != nil {
		return t.failed
	}
	if t.open {
		return nil
	}
	if _, err := t.w.conn.exec(sqlBegin); err != nil {
		if faultOf(err) == faultOfOperation {
			return t.diverge("no transaction can begin: %w", err)
		}
		return t.fail(err)
	}
	t.open = true
	return nil
}

// exec runs a statement that writes and returns how many rows it changed.
func (t *tx) exec(text string, args ...any) (int64, error) {
	if err := t.write(); err != nil {
		return 0, err
	}
	n, err := t.w.conn.exec(text, args...)
	if err != nil {
		return 0, t.fail(err)
	}
	return n, nil
}

// each hands the rows of a statement to take.
func (t *tx) each(text string, take func(*row) error, args ...any) error {
	if t.failed != nil {
		return t.failed
	}
	if err := t.w.conn.each(text, take, args...); err != nil {
		return t.fail(err)
	}
	return nil
}

// one is each for a statement of at most one row.
func (t *tx) one(text string, take func(*row) error, args ...any) (there bool, err error) {
	if t.failed != nil {
		return false, t.failed
	}
	there, err = t.w.conn.one(text, take, args...)
	if err != nil {
		return false, t.fail(err)
	}
	return there, nil
}

// commit ends the transaction and sets end.
func (t *tx) commit() {
	began := time.Now()
	if t.failed == nil {
		t.letGo()
		t.flush()
	}
	if t.failed != nil {
		t.rollback()
		t.end = endRefused
		if t.diverged {
			t.w.broken(t.failed)
		}
		return
	}
	if t.open {
		if _, err := t.w.conn.exec(sqlCommit); err != nil {
			t.settle(err)
			if t.end != endCommitted {
				return
			}
		}
		t.w.state.commits++
		took := time.Since(began)
		t.w.vitals.lastCommit.Store(int64(took))
		t.w.vitals.commitTimes.ObserveTime(took)
		t.w.vitals.commitSizes.Observe(int64(t.operations))
	}
	t.end = endCommitted
	t.forgetLanes()
	for i, made := range t.created {
		if seq := t.first + int64(i); t.w.state.running[seq] == nil {
			t.w.state.recent.keep(seq, made)
		}
	}
	for _, c := range t.claims {
		t.w.state.parked.remove(c)
	}
	t.confirm()
}

// confirm counts what was written, and looks whether the file that was written to is the store's still. Where
// it is not, memory stays as the file is, which may come back; but nobody is told
// that anything is kept.
func (t *tx) confirm() {
	if !t.open {
		return
	}
	t.w.store.space.wrote(t.bytes)
	if err := t.w.store.place.look(); err != nil {
		t.failed, t.end = err, endParted
	}
}

// flush writes what is written once a transaction.
func (t *tx) flush() {
	for _, b := range t.lanes {
		l := b.lane
		if l.tally == (tally{}) && l.stored {
			// Its last job is gone. Whoever creates another makes it anew.
			l.stored = false
			for _, text := range []string{sqlLaneGone, sqlTallyGone} {
				if _, err := t.exec(text, int64(l.id)); err != nil {
					return
				}
			}
			continue
		}
		if l.tally == b.tally {
			continue
		}
		n := l.tally
		if _, err := t.exec(sqlTally, int64(l.id), n.ready, n.running, n.succeeded, n.failed, n.cancelled); err != nil {
			return
		}
	}
	if t.flushGates() != nil || t.flushEvents() != nil {
		return
	}
	if t.open {
		s := t.w.state
		_, _ = t.exec(sqlMark, s.commits+1, s.seq, s.attempt, s.event, t.w.clock.told()) // kept in failed
	}
}

// settle finds out what became of a commit that was answered with an error.
func (t *tx) settle(why error) {
	c := t.w.conn
	_, _ = c.exec(sqlRollback) // where the commit has ended the transaction, there is none
	var commits int64
	_, err := c.one(sqlCommits, func(r *row) error { commits = r.int(0); return nil })
	if err == nil && commits == t.w.state.commits+1 {
		t.w.log.Warn("a commit was answered with an error but is there", "store", t.w.store.path, "error", why)
		t.end, t.open = endCommitted, true
		return
	}
	t.fail(why) //nolint:errcheck // it is kept
	t.open = false
	t.undo()
	if err == nil {
		// The frames of the commit may stand in the WAL. Those of another one
		// replace them, and then they are gone for good.
		for _, text := range []string{sqlBegin, sqlCount, sqlCommit} {
			if _, err = c.exec(text); err != nil {
				break
			}
		}
		if err == nil {
			t.w.state.commits = commits + 1
		}
	}
	if err != nil && !lacksCommitFrame(why) {
		t.end = endUnknown
		t.w.broken(why)
		return
	}
	if err != nil {
		_, _ = c.exec(sqlRollback)
	}
	t.end = endRefused
}

func (t *tx) rollback() {
	if t.open {
		// Some errors have ended the transaction already; then this one says so.
		_, _ = t.w.conn.exec(sqlRollback)
		t.open = false
	}
	t.undo()
}

// answer is what the callers of a transaction that failed are told.
func (t *tx) answer() error {
	if t.end == endUnknown || t.end == endParted {
		return fmt.Errorf("%w: %w", store.ErrUnknown, t.failed)
	}
	return storeError(t.failed)
}

// undo puts memory back to what it was before the transaction.
func (t *tx) undo() {
	s := t.w.state
	for i := len(t.leases) - 1; i >= 0; i-- {
		t.leases[i].undo(s)
	}
	for i := range t.lanes {
		t.lanes[i].undo(s)
	}
	for i := len(t.pauses) - 1; i >= 0; i-- {
		t.pauses[i].undo(s)
	}
	for _, b := range t.gates {
		b.gate.gateState, b.gate.stored, b.gate.turn = b.was, b.stored, 0
	}
	t.regateAll()
	t.forgetLanes()
	for _, p := range t.policies {
		s.policies.forget(p)
	}
	for _, c := range t.claims {
		c.reset()
	}
	for _, c := range t.served { // the last may have got some and is not among the claims yet
		c.reset()
	}
	for _, c := range t.parkings {
		s.parked.remove(c)
	}
	s.silence, s.wakeAll = t.silence, true
}

// forgetLanes drops the lanes that have no row, now that this is known for good:
// the last of its jobs is gone, or its creation was undone.
func (t *tx) forgetLanes() {
	for _, b := range t.lanes {
		if !b.lane.stored {
			t.w.state.forget(b.lane)
		}
	}
}

// touch keeps a lane as it was before the transaction's first change of it.
func (t *tx) touch(l *laneRow) {
	if l.turn != t.w.state.turn {
		l.turn = t.w.state.turn
		t.lanes = append(t.lanes, laneBefore{l, l.tally, l.head, l.stored})
	}
}
