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
	lanes    []*laneRow // by id; nil where there is none
	unused   []lane.ID  // places of lanes that are gone
	running  map[int64]*lease
	ends     heap[*lease]
	claims   map[claimKey][]*lease
	lengths  map[int64]int       // how many leases have this length
	gates    map[lane.Gate]*gate // of queues and endpoints
	paused   map[lane.Gate]store.Pause
	policies *policies
	parked   parked
	recent   recent

	// hot are the lanes that may have something for a claim that waits, each once;
	// they outlive a transaction that has no time for all of them. wakeAll says that
	// every lane may: what a transaction that failed knew is not known any more.
	hot     []*laneRow
	wakeAll bool

	// wanted are the types of event that are written though they are not seldom.
	wanted map[store.EventType]bool
	// brought says that some job may have been brought back by a replay.
	brought bool
	// unique says that some job may have a unique key.
	unique bool

	// turn counts transactions, to mark what one has touched.
	turn    int64
	commits int64
	seq     int64 // the highest given out
	attempt int64 // the highest n given out
	event   int64 // the highest id given out
	clock   int64 // what the file says when it is opened
	silence
}

type policyID int64

// laneRow is a lane: its row, its counts, and when its first job is due.
type laneRow struct {
	id     lane.ID
	key    lane.Key
	stored bool // the row is in the file
	tally  tally
	head   int64 // means nothing where none is ready
	turn   int64 // the transaction that touched it last
	hot    bool  // it is in state.hot
	// queue and endpoint are its gates; endpoint is nil where it has none.
	queue, endpoint *gate
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
	timeout, limit                int64 // the job's own, and this attempt's
	bytes                         int64
	made                          int64 // when its job was, where that was known without a read; else 0
	worker, caller, claim         string
	claimedAt, startedAt, heardAt int64
	length, until, deadline       int64
	// generation and probe are what it keeps of its endpoint's circuit.
	generation int64
	probe      bool
	// cancelledAt is when its job was cancelled, by canceller; 0 where it was not.
	cancelledAt int64
	canceller   string
	log         logSize
	repeated    bool // a claim of the same id was answered with it
	place       int  // in state.ends
}

// logSize is how much an attempt has logged.
type logSize struct {
	read  bool // what the file has of it was counted
	bytes int
	lines int
	cut   bool
}

func (l *lease) end() int64 { return min(l.until, l.deadline) }

// endsBefore is the order in which a sweep ends leases: of those that end together
// the older job's first, so that the same happenings always lead to the same events.
func (l *lease) endsBefore(other *lease) bool {
	if a, b := l.end(), other.end(); a != b {
		return a < b
	}
	return l.seq < other.seq
}

// claimKey is what makes two claims the same.
type claimKey struct{ caller, worker, claim string }

func (l *lease) claimKey() claimKey { return claimKey{l.caller, l.worker, l.claim} }

func newState() *state {
	return &state{
		board:   lane.NewBoard(),
		lanes:   []*laneRow{nil},
		running: map[int64]*lease{},
		ends: heap[*lease]{
			less:  (*lease).endsBefore,
			place: func(l *lease) *int { return &l.place },
		},
		claims:   map[claimKey][]*lease{},
		lengths:  map[int64]int{},
		gates:    map[lane.Gate]*gate{},
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

// setReady says what stands ready in a lane.
func (s *state) setReady(l *laneRow, n, head int64) {
	l.tally.ready, l.head = n, head
	s.board.SetReady(l.id, n, at(head))
}

// newLane makes a lane whose row is to be written.
func (s *state) newLane(k lane.Key) *laneRow {
	l := &laneRow{id: lane.ID(len(s.lanes)), key: k}
	if n := len(s.unused); n > 0 {
		l.id, s.unused = s.unused[n-1], s.unused[:n-1]
		s.lanes[l.id] = l
	} else {
		s.lanes = append(s.lanes, l)
	}
	s.board.Add(l.id, k)
	s.attach(l)
	return l
}

// forget drops a lane that has no row.
func (s *state) forget(l *laneRow) {
	s.board.Remove(l.id)
	s.detach(l)
	s.lanes[l.id] = nil
	s.unused = append(s.unused, l.id)
}

// heat says that a lane may have something for a claim that waits. Where none
// waits, nobody asks.
func (s *state) heat(l *laneRow) {
	if !l.hot && len(s.parked.all) > 0 {
		l.hot = true
		s.hot = append(s.hot, l)
	}
}

func (s *state) add(l *lease) {
	l.lane.counts(1)
	s.running[l.seq] = l
	s.ends.put(l)
	s.lengths[l.length]++
	if l.claim != "" {
		k := l.claimKey()
		s.claims[k] = append(s.claims[k], l)
	}
}

func (s *state) remove(l *lease) {
	l.lane.counts(-1)
	delete(s.running, l.seq)
	s.ends.remove(l)
	if s.lengths[l.length]--; s.lengths[l.length] == 0 {
		delete(s.lengths, l.length)
	}
	if l.claim == "" {
		return
	}
	k := l.claimKey()
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
	for name, was := range old.gates {
		if was.limits != (store.Limits{}) {
			g := s.gate(name)
			g.limits, g.bucket = was.limits, was.bucket
		}
	}
	// What a lost commit may have given out is not given out again.
	s.seq, s.attempt, s.event = max(s.seq, old.seq), max(s.attempt, old.attempt), max(s.event, old.event)
	s.wanted = old.wanted
	for seq, l := range s.running {
		if was := old.running[seq]; was != nil && was.attempt == l.attempt {
			l.until, l.deadline = max(l.until, was.until), max(l.deadline, was.deadline)
			l.heardAt, l.repeated = max(l.heardAt, was.heardAt), was.repeated
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

func (b *laneBefore) undo(s *state) {
	b.lane.tally, b.lane.stored, b.lane.turn = b.tally, b.stored, 0
	s.setReady(b.lane, b.tally.ready, b.head)
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
	shut  bool
}

func (b *pauseBefore) undo(s *state) {
	delete(s.paused, b.gate)
	if b.shut {
		s.paused[b.gate] = b.pause
	}
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
