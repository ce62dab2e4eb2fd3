package settle

import (
	"context"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/kv"
)

// DedupeOptions say for how long and with whom keys are remembered.
type DedupeOptions struct {
	// TTL is how long after its end a message's key makes repeats of those that
	// have it too; 10 minutes where it is zero, at most kv.MaxSpan.
	TTL time.Duration
	// Max bounds the keys that are remembered here, as Options.Max does.
	Max int
	// Store is what the relays share; nil is none. Its operations should end
	// soon, as kv.Retry sees to: messages wait for them.
	Store kv.Marks
	// Scope goes before every key in the store. Those that have the same one
	// drop each other's duplicates.
	Scope string
	// Lease is how long a mark in progress blocks the others where its relay
	// died, and is renewed at every third of it; 10 seconds where it is zero.
	Lease time.Duration
	// Skipped is told of each operation that was not asked of the store, because
	// it had failed a moment before; nil is nobody. It must not block.
	Skipped func(kv.Op)
}

const (
	// defaultLease is a few times what a relay may be held up for by a slow disk
	// or a busy machine, and short enough to wait for.
	defaultLease = 10 * time.Second
	// renewals is how many renewals of a lease may fail, and one, before it is
	// over.
	renewals = 3
	// storeRest is how long a store that failed is left alone: what it costs to
	// find out that it is away is paid by one message a second.
	storeRest = time.Second
	// firstPoll and lastPoll are how often a message asks whether the one that
	// another relay has has ended: the first time soon, as most take
	// milliseconds, and then half as often each time.
	firstPoll = 25 * time.Millisecond
	lastPoll  = time.Second
)

// Dedupe finds messages that repeat another by a key in their contents. A key
// counts once its message has ended well; while it is in flight the next one
// with its key waits. Safe for concurrent use.
//
// This relay's own memory stands in front. Behind it a store may hold the same
// for several relays: a key in progress is a leased mark there, and one that
// ended is a mark that is done. With the store away the own memory goes on
// alone, so nothing waits for the store for longer than one operation of it, and
// a duplicate that came in by another relay passes.
type Dedupe struct {
	local   *Memory
	ttl     time.Duration
	lease   time.Duration
	store   kv.Marks
	scope   string
	skipped func(kv.Op)
	// name and number make the names of the claims: the fences of their marks.
	name   string
	number atomic.Uint64

	mu sync.Mutex
	// away is when the store may be asked again; zero while it answers.
	away time.Time
}

// NewDedupe returns one that has seen nothing.
func NewDedupe(o DedupeOptions) *Dedupe {
	if o.TTL <= 0 {
		o.TTL = defaultKeep
	}
	if o.Lease <= 0 {
		o.Lease = defaultLease
	}
	if o.Skipped == nil {
		o.Skipped = func(kv.Op) {}
	}
	return &Dedupe{
		local: NewMemory(Options{Keep: o.TTL, Max: o.Max}), ttl: o.TTL, lease: o.Lease,
		store: o.Store, scope: o.Scope, name: rand.Text(), skipped: o.Skipped,
	}
}

// Len returns how many keys are remembered here.
func (d *Dedupe) Len() int { return d.local.Len() }

// Begin looks a key, not empty, up:
//
//   - First: the caller settles its message, and then calls Settle or Forget.
//   - InFlight: another message with the key is in flight, here or at another
//     relay. The caller calls Wait or Leave, once.
//   - Crowded: as many wait for it as may.
//   - Settled: the message is a repeat.
//
// With Crowded and Settled there is no claim. It blocks for one operation of the
// store at most. Where ctx ends before that, the store is taken as away.
func (d *Dedupe) Begin(ctx context.Context, key string) (*Claim, Found) {
	c := &Claim{of: d, key: kv.Short(key)}
	found := c.begin(ctx)
	if found == First || found == InFlight {
		return c, found
	}
	return nil, found
}

// mayAsk reports whether the store is to be asked: always while it answers, and
// once in a while where it does not.
func (d *Dedupe) mayAsk(op kv.Op) bool {
	may := d.rested(time.Now())
	if !may {
		d.skipped(op)
	}
	return may
}

func (d *Dedupe) rested(now time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.away.IsZero() {
		return true
	}
	if now.Before(d.away) {
		return false
	}
	d.away = now.Add(storeRest) // the others wait for what this one finds
	return true
}

// heard notes how an operation of the store ended. An end of ctx, which is the
// caller's own, says nothing of the store.
func (d *Dedupe) heard(ctx context.Context, err error) {
	if err != nil && ctx.Err() != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if goneAway(err) {
		d.away = time.Now().Add(storeRest)
	} else {
		d.away = time.Time{}
	}
}
