package sim

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/memory"
)

// StoreMood is how the store that the relays share treats them.
type StoreMood uint8

// The moods of a store.
const (
	There   StoreMood = iota
	Refused           // nobody listens
	Mute              // no answer, and half of what was asked is done
	Emptied           // nobody listens, and all is forgotten
	storeMoods
)

func (m StoreMood) String() string {
	return [...]string{"there", "refused", "mute", "emptied"}[m]
}

// StoreSpell is how the store behaves from a moment on.
type StoreSpell struct {
	From time.Duration
	Mood StoreMood
}

// ReplicasPlan is what is so of a plan with two relays that share a store.
type ReplicasPlan struct {
	Store []StoreSpell
}

// drawReplicas has some plans run two relays with one store, with levers for
// either, and gives groups other weights and strategies with each reload. It has
// numbers of its own, as drawLimits has.
func (p *Plan) drawReplicas() {
	r := rand.New(rand.NewPCG(p.Seed, 0xe7037ed1a0b428db))
	for i := range p.Destinations {
		if g := p.Destinations[i].Group; g != nil {
			g.drawTurns(r)
		}
	}
	if !chance(r, 0.5) {
		return
	}
	p.Replicas = &ReplicasPlan{Store: drawStore(r)}
	p.Dedupe = chance(r, 0.8)
	for i := range p.Levers {
		p.Levers[i].Replica = r.IntN(2)
	}
	for i := range p.Destinations {
		d := &p.Destinations[i]
		if chance(r, 0.6) && d.Budget == nil {
			d.Budget = drawBudget(r)
		}
		if d.Budget != nil && chance(r, 0.7) {
			d.SharedBudget = true
			d.Budget.Window = between(r, time.Second, 4*time.Second) // shorter than most spells
		}
	}
}

// drawTurns gives a group what reloads change. Some groups are calm, so that
// shares can be told, and in some that hedge every member is slow now and then.
func (g *GroupPlan) drawTurns(r *rand.Rand) {
	if chance(r, 0.6) {
		for range 2 + r.IntN(2) {
			t := Turn{Strategy: strategies[r.IntN(len(strategies))]}
			for range g.Members {
				t.Weights = append(t.Weights, 1+r.IntN(4))
			}
			g.Turns = append(g.Turns, t)
		}
	}
	mood := Well
	switch {
	case chance(r, 0.2):
	case g.Hedge != nil && chance(r, 0.4):
		mood = Straggling
	default:
		return
	}
	for i := range g.Members {
		g.Members[i].Spells, g.Members[i].Checks = []Spell{{0, mood}, {length, Well}}, Always
	}
}

func drawStore(r *rand.Rand) (all []StoreSpell) {
	all = append(all, StoreSpell{0, There})
	for at := between(r, 0, length/2); at < length; at += between(r, time.Second, length/2) {
		mood := There
		if all[len(all)-1].Mood == There && chance(r, 0.7) {
			mood = 1 + StoreMood(r.IntN(int(storeMoods)-1))
		}
		all = append(all, StoreSpell{at, mood})
	}
	return append(all, StoreSpell{length, There})
}

// Turn is what the reloads change of a group.
type Turn struct {
	Strategy balance.Strategy
	Weights  []int
}

// turn is what holds after a number of reloads.
func (g *GroupPlan) turn(reloads int) Turn {
	if len(g.Turns) > 0 && reloads > 0 {
		return g.Turns[(reloads-1)%len(g.Turns)]
	}
	t := Turn{Strategy: g.Strategy}
	for _, m := range g.Members {
		t.Weights = append(t.Weights, m.Weight)
	}
	return t
}

// storeTook is how long the store takes to answer.
const storeTook = time.Millisecond

// store is what the relays share.
type store struct {
	began  time.Time
	spells []StoreSpell

	mu      sync.Mutex
	inner   *memory.Store
	spell   int // which one was asked last
	chances *rand.Rand
}

func newStore(p Plan, began time.Time) *store {
	return &store{
		began: began, spells: p.Replicas.Store, inner: memory.New(memory.Options{}),
		chances: rand.New(rand.NewPCG(p.Seed, 4)),
	}
}

// troubled reports whether the store was not there, or had not been for long
// enough to be asked again, at some time between the two.
func (s *store) troubled(from, to time.Time) bool {
	// A relay leaves a store that failed alone for a second, and what it asked
	// before that may take half of one.
	const recovery = 2 * time.Second
	for i, sp := range s.spells {
		if sp.Mood != There && s.began.Add(sp.From).Before(to) && s.began.Add(s.spells[i+1].From+recovery).After(from) {
			return true
		}
	}
	return false
}

// gone reports whether the store was not there in all the time between the two.
func (s *store) gone(from, to time.Time) bool {
	for i, sp := range s.spells {
		if sp.Mood != There && !s.began.Add(sp.From).After(from) && !s.began.Add(s.spells[i+1].From).Before(to) {
			return true
		}
	}
	return false
}

// now is the mood, and the store as it is: emptied where that is the mood.
func (s *store) now() (mood StoreMood, inner *memory.Store, done bool) {
	at := time.Since(s.began)
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.spell+1 < len(s.spells) && s.spells[s.spell+1].From <= at {
		if s.spell++; s.spells[s.spell].Mood == Emptied {
			s.inner = memory.New(memory.Options{})
		}
	}
	return s.spells[s.spell].Mood, s.inner, chance(s.chances, 0.5)
}

var (
	errStoreRefuses = errors.New("sim: the store refuses connections")
	errStoreMute    = errors.New("sim: the store has not answered")
)

// link is the store as one life sees it.
type link struct {
	of   *store
	dead *atomic.Bool
}

// do asks the store.
func (l link) do(ctx context.Context, op kv.Op, ask func(*memory.Store) error) error {
	if l.dead.Load() {
		return &kv.Unavailable{Op: op, Outcome: kv.NotDone, Cause: errNoPower}
	}
	timer := time.NewTimer(storeTook)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
		return &kv.Unavailable{Op: op, Outcome: kv.NotDone, Cause: ctx.Err()}
	}
	mood, inner, done := l.of.now()
	switch mood {
	case Refused, Emptied:
		return &kv.Unavailable{Op: op, Outcome: kv.NotDone, Cause: errStoreRefuses}
	case Mute:
		if done {
			_ = ask(inner)
		}
		<-ctx.Done()
		return &kv.Unavailable{Op: op, Outcome: kv.Unknown, Cause: errors.Join(errStoreMute, ctx.Err())}
	}
	return ask(inner)
}

// Mark is kv.Marks.
func (l link) Mark(ctx context.Context, key, owner string, lease time.Duration) (state kv.State, err error) {
	err = l.do(ctx, kv.OpMark, func(s *memory.Store) (err error) {
		state, err = s.Mark(context.WithoutCancel(ctx), key, owner, lease)
		return err
	})
	return state, err
}

// Keep is kv.Marks.
func (l link) Keep(ctx context.Context, key, owner string, lease time.Duration) error {
	return l.do(ctx, kv.OpKeep, func(s *memory.Store) error { return s.Keep(context.WithoutCancel(ctx), key, owner, lease) })
}

// Settle is kv.Marks.
func (l link) Settle(ctx context.Context, key, owner string, ttl time.Duration) error {
	return l.do(ctx, kv.OpSettle, func(s *memory.Store) error { return s.Settle(context.WithoutCancel(ctx), key, owner, ttl) })
}

// Forget is kv.Marks.
func (l link) Forget(ctx context.Context, key, owner string) error {
	return l.do(ctx, kv.OpForget, func(s *memory.Store) error { return s.Forget(context.WithoutCancel(ctx), key, owner) })
}

// Add is kv.Counters.
func (l link) Add(ctx context.Context, series string, slots []kv.Slot, ttl time.Duration) (totals []kv.Slot, err error) {
	err = l.do(ctx, kv.OpAdd, func(s *memory.Store) (err error) {
		totals, err = s.Add(context.WithoutCancel(ctx), series, slots, ttl)
		return err
	})
	return totals, err
}

// Ping is kv.Store.
func (l link) Ping(ctx context.Context) error {
	return l.do(ctx, kv.OpPing, func(*memory.Store) error { return nil })
}

// Close is kv.Store. The store outlives its links.
func (l link) Close() error { return nil }
