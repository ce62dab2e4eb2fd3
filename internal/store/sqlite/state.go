package sqlite

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// state is what the writer keeps in memory of the file: enough to plan a claim
// and to take in a report without a read. It changes in one step with the file;
// see tx. Times are Unix milliseconds, 0 is never.
type state struct {
	board    *lane.Board
	lanes    []*laneRow     // by id; the first is nil
	due      heap[*laneRow] // whose heads come later, by them
	running  map[int64]*lease
	ends     heap[*lease]
	claims   map[claimKey][]*lease
	lengths  map[int64]int // how many leases have this length
	paused   map[lane.Gate]store.Pause
	policies *policies
	parked   parked
	recent   recent

	// wakeAll says that every lane may have something for a claim that waits: what
	// came due in a transaction that failed is not known any more.
	wakeAll stale

	// turn counts transactions, to mark what one has touched.
	turn    int64
	commits int64
	seq     int64 // the highest given out
	attempt int64 // the highest n given out
	clock   int64 // what the file says when it is opened
	silence
}

type (
	policyID int64
	stale    bool
)

// laneRow is a lane: its row, its counts, and when its first job is due.
type laneRow struct {
	id     lane.ID
	key    lane.Key
	stored bool // the row is in the file
	tally  tally
	head   int64 // means nothing where none is ready
	turn   int64 // the transaction that touched it last
	waits  int   // its place in state.due
}

type tally struct{ ready, running, succeeded, failed, cancelled int64 }

// lease is a running job.
type lease struct {
	seq                           int64
	lane                          *laneRow
	runAt                         int64
	attempt                       int
	counts                        job.Counts // before this attempt ends
	policy                        policyID
	timeout                       int64
	bytes                         int64
	worker, claim                 string
	claimedAt, startedAt, heardAt int64
	length, until, deadline       int64
	log                           logSize
	place                         int // in state.ends
}

// logSize is how much an attempt has logged.
type logSize struct {
	read  known // what the file has of it was counted
	bytes int
	lines int
	cut   cut
}

type (
	known bool
	cut   bool
)

func (l *lease) end() int64 { return min(l.until, l.deadline) }

type claimKey struct{ worker, claim string }

func newState() *state {
	return &state{
		board: lane.NewBoard(),
		lanes: []*laneRow{nil},
		due: heap[*laneRow]{
			key:   func(l *laneRow) int64 { return l.head },
			place: func(l *laneRow) *int { return &l.waits },
		},
		running: map[int64]*lease{},
		ends: heap[*lease]{
			key:   (*lease).end,
			place: func(l *lease) *int { return &l.place },
		},
		claims:   map[claimKey][]*lease{},
		lengths:  map[int64]int{},
		paused:   map[lane.Gate]store.Pause{},
		policies: newPolicies(),
		parked:   newParked(),
	}
}

// silence is what the rules of job.Gap and job.Brake need. It begins anew with
// each process.
type silence struct {
	tick, heard, graced int64
	opened              int // leases that were lengthened because the store was opened
}

// nextDue is when the first job comes due in a lane where none is.
func (s *state) nextDue() (at int64, ok bool) {
	l, ok := s.due.first()
	if !ok {
		return 0, false
	}
	return l.head, true
}

// setReady says what stands ready in a lane.
func (s *state) setReady(l *laneRow, n, head, now int64) {
	l.tally.ready, l.head = n, head
	s.board.SetReady(l.id, n, at(head))
	if n > 0 && head > now {
		s.due.put(l)
	} else {
		s.due.remove(l)
	}
}

// open reports whether a job of the lane can be claimed now.
func (s *state) open(l *laneRow, now int64) bool {
	if l.tally.ready == 0 || l.head > now {
		return false
	}
	if _, shut := s.paused[lane.Gate{Kind: lane.QueueGate, Name: l.key.Queue}]; shut {
		return false
	}
	if l.key.Endpoint == "" {
		return true
	}
	_, shut := s.paused[lane.Gate{Kind: lane.EndpointGate, Name: l.key.Endpoint}]
	return !shut
}

func (s *state) add(l *lease) {
	s.running[l.seq] = l
	s.ends.put(l)
	s.lengths[l.length]++
	if l.claim != "" {
		k := claimKey{l.worker, l.claim}
		s.claims[k] = append(s.claims[k], l)
	}
}

func (s *state) remove(l *lease) {
	delete(s.running, l.seq)
	s.ends.remove(l)
	if s.lengths[l.length]--; s.lengths[l.length] == 0 {
		delete(s.lengths, l.length)
	}
	if l.claim == "" {
		return
	}
	k := claimKey{l.worker, l.claim}
	of := s.claims[k]
	for i, other := range of {
		if other == l {
			of[i] = of[len(of)-1]
			of[len(of)-1] = nil
			of = of[:len(of)-1]
			break
		}
	}
	if len(of) == 0 {
		delete(s.claims, k)
	} else {
		s.claims[k] = of
	}
}

// adopt takes over what is in memory alone from the state before: the claims that
// wait, and heartbeats.
func (s *state) adopt(old *state) {
	s.parked, s.wakeAll = old.parked, true
	s.turn, s.silence = old.turn, old.silence
	// What a lost commit may have given out is not given out again.
	s.seq, s.attempt = max(s.seq, old.seq), max(s.attempt, old.attempt)
	for seq, l := range s.running {
		if was := old.running[seq]; was != nil && was.attempt == l.attempt {
			l.until, l.deadline = max(l.until, was.until), max(l.deadline, was.deadline)
			l.heardAt = max(l.heardAt, was.heardAt)
			s.ends.put(l)
		}
	}
}

// laneBefore is a lane as it was before a transaction.
type laneBefore struct {
	lane   *laneRow
	tally  tally
	head   int64
	stored bool
}

func (b *laneBefore) undo(s *state, now int64) {
	b.lane.tally, b.lane.stored, b.lane.turn = b.tally, b.stored, 0
	s.setReady(b.lane, b.tally.ready, b.head, now)
}

// leaseBefore is a change of a lease.
type leaseBefore struct {
	lease *lease
	what  leaseChange
	was   lease // for leaseMoved
}

type leaseChange int

const (
	leaseAdded leaseChange = iota
	leaseRemoved
	leaseMoved // its values changed
)

func (b *leaseBefore) undo(s *state) {
	switch b.what {
	case leaseAdded:
		s.remove(b.lease)
	case leaseRemoved:
		s.add(b.lease)
	case leaseMoved:
		place := b.lease.place
		*b.lease = b.was
		b.lease.place = place
		if place != 0 {
			s.ends.put(b.lease)
		}
	}
}

type pauseBefore struct {
	gate  lane.Gate
	pause store.Pause
	shut  shut
}

type shut bool

func (b *pauseBefore) undo(s *state) {
	if b.shut {
		s.paused[b.gate] = b.pause
		s.board.Shut(b.gate, time.Time{})
		return
	}
	delete(s.paused, b.gate)
	s.board.Open(b.gate)
}

// at is the time of Unix milliseconds; zero for 0.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// millis is at's inverse.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
