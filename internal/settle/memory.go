// Package settle remembers messages, so that a repeat is not delivered again. A
// Memory knows how they ended: a repeat of one in flight joins it, and a repeat
// of one that ended is answered from memory. Dedupe knows the keys that a
// source's messages have in their contents, in this relay or in several that
// share a store.
package settle

import (
	"container/list"
	"context"
	"crypto/sha256"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
)

// Key names a message for joining: a repeat must have the same key, from the
// same authenticated caller, to the same source.
type Key struct{ Source, Caller, ID string }

// Outcome is what a repeat is answered with.
type Outcome struct {
	Status event.Settlement
	ID     string
}

// Found is what the memory knows of a message.
type Found uint8

// What Begin finds.
const (
	// First: nothing is known; the caller settles the message and must call
	// Keep or Forget on the ticket.
	First Found = iota + 1
	// InFlight: the same message is being settled; the caller must call Wait or
	// Leave on the ticket, once.
	InFlight
	// Crowded: it is being settled, and MaxWaiting repeats wait already.
	Crowded
	// Settled: it ended not long ago; the ticket has the outcome.
	Settled
	// Conflict: the key had another body.
	Conflict
)

// Options bound a Memory.
type Options struct {
	// Keep is how long an outcome is remembered after its end; 10 minutes
	// where it is zero.
	Keep time.Duration
	// Max bounds the remembered outcomes; the oldest go first. Those in flight
	// are not counted: the relay bounds them. Zero is 131,072, at about 250
	// bytes each some 32 MiB.
	Max int
}

// MaxWaiting bounds the repeats that wait for one message: each holds a
// connection and its own copy of the body, which no bound of the relay counts.
// A sender has one or two under way.
const MaxWaiting = 16

const (
	defaultKeep = 10 * time.Minute
	defaultMax  = 1 << 17
)

// Memory joins repeats. Safe for concurrent use.
type Memory struct {
	keep time.Duration
	max  int

	mu    sync.Mutex
	byKey map[Key]*Ticket
	ended list.List // of *Ticket, in the order of their ends
}

// NewMemory returns an empty memory.
func NewMemory(o Options) *Memory {
	if o.Keep <= 0 {
		o.Keep = defaultKeep
	}
	if o.Max <= 0 {
		o.Max = defaultMax
	}
	return &Memory{keep: o.Keep, max: o.Max, byKey: map[Key]*Ticket{}}
}

// Ticket is one message in the memory.
type Ticket struct {
	memory *Memory
	key    Key
	body   [sha256.Size]byte
	done   chan struct{} // closed at the end
	// waiting counts the repeats that wait; guarded by the memory's lock.
	waiting int
	// Set before done is closed:
	outcome   Outcome
	forgotten bool
	until     time.Time
	// among is its place in the memory's list of those that ended.
	among *list.Element
}

// Begin looks the message up. With First the caller owns the ticket.
func (m *Memory) Begin(key Key, body []byte) (*Ticket, Found) {
	sum := sha256.Sum256(body)
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.sweep(now)
	t, ok := m.byKey[key]
	if ok && t.over(now) {
		m.drop(t)
		ok = false
	}
	switch {
	case !ok:
		t = &Ticket{memory: m, key: key, body: sum, done: make(chan struct{})}
		m.byKey[key] = t
		return t, First
	case t.body != sum:
		return t, Conflict
	case t.until.IsZero() && t.waiting == MaxWaiting:
		return t, Crowded
	case t.until.IsZero():
		t.waiting++
		return t, InFlight
	}
	return t, Settled
}

// Wait blocks until the message in flight has ended and returns its outcome.
// false says that there is none to share: it was forgotten, so the repeat is a
// new try, or ctx ended first.
func (t *Ticket) Wait(ctx context.Context) (Outcome, bool) {
	defer t.Leave()
	select {
	case <-t.done:
		return t.outcome, !t.forgotten
	case <-ctx.Done():
		return Outcome{}, false
	}
}

// Leave gives back the place of a repeat that will not Wait.
func (t *Ticket) Leave() {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	t.waiting--
}

// stay takes a place of those that wait, for the ticket's owner, who has to wait
// for somebody else. false: all are taken.
func (t *Ticket) stay() bool {
	t.memory.mu.Lock()
	defer t.memory.mu.Unlock()
	if t.waiting == MaxWaiting {
		return false
	}
	t.waiting++
	return true
}

// Outcome returns the outcome of a ticket that was found Settled.
func (t *Ticket) Outcome() Outcome { return t.outcome }

// Keep ends the message and remembers its outcome.
func (t *Ticket) Keep(o Outcome) { t.keepFor(o, t.memory.keep) }

// keepFor is Keep with another time, above zero and not longer than the
// memory's.
func (t *Ticket) keepFor(o Outcome, d time.Duration) {
	m := t.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	t.outcome, t.until = o, now.Add(min(d, m.keep))
	close(t.done)
	t.among = m.ended.PushBack(t)
	m.sweep(now)
}

// Forget ends the message without an outcome: a repeat is a new try.
func (t *Ticket) Forget() {
	m := t.memory
	m.mu.Lock()
	defer m.mu.Unlock()
	t.forgotten = true
	close(t.done)
	delete(m.byKey, t.key)
}

// over reports whether the outcome is too old.
func (t *Ticket) over(now time.Time) bool { return !t.until.IsZero() && !now.Before(t.until) }

// drop takes an outcome out of the memory.
func (m *Memory) drop(t *Ticket) {
	m.ended.Remove(t.among)
	delete(m.byKey, t.key)
}

// sweep drops what is too old or too much. It looks at no more than it drops and
// one: an outcome that is kept for a shorter time than those before it goes with
// them, or when somebody asks for it.
func (m *Memory) sweep(now time.Time) {
	for e := m.ended.Front(); e != nil; e = m.ended.Front() {
		t := e.Value.(*Ticket)
		if m.ended.Len() <= m.max && !t.over(now) {
			return
		}
		m.drop(t)
	}
}

// Len returns how many outcomes are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended.Len()
}
