package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/memory"
	"github.com/pawlhq/pawl/internal/kv/redis"
)

// stores opens the stores of configurations. One that two configurations have
// alike is opened once, and closed when the last message of the last of them has
// ended. Safe for concurrent use.
type stores struct {
	events event.Sink
	log    *slog.Logger

	mu      sync.Mutex
	closing sync.WaitGroup
}

// openStore is one store that is open.
type openStore struct {
	kv.Store
	events   event.Sink
	settings config.Store
	users    int // configurations; guarded by stores.mu
}

// storeSet is the stores of one configuration.
type storeSet struct {
	of     *stores
	byName map[string]*openStore
}

// take returns the stores of a configuration, those that old, which may be nil,
// has alike among them. None is dialed: a store connects with its first
// operation, so that pawl starts where one is away.
func (s *stores) take(c *config.Config, old *storeSet) (*storeSet, error) {
	set := &storeSet{of: s, byName: make(map[string]*openStore, len(c.Stores))}
	for _, spec := range c.Stores {
		o := old.alike(spec)
		if o == nil {
			store, err := openKV(spec)
			if err != nil {
				set.release()
				return nil, fmt.Errorf("store %s: %w", spec.Name, err)
			}
			o = &openStore{Store: telling{kv.Retry(store, spec.Retry), spec.Name, s.events}, events: s.events, settings: spec}
		}
		s.mu.Lock()
		o.users++
		s.mu.Unlock()
		set.byName[spec.Name] = o
	}
	return set, nil
}

// alike returns the store that was opened for the same settings, or nil.
func (set *storeSet) alike(spec config.Store) *openStore {
	if set == nil {
		return nil
	}
	o := set.byName[spec.Name]
	if o == nil {
		return nil
	}
	was := o.settings
	was.At, spec.At = config.Place{}, config.Place{}
	if !reflect.DeepEqual(was, spec) {
		return nil
	}
	return o
}

// release gives the stores back, in the background: closing one waits for its
// server.
func (set *storeSet) release() {
	s := set.of
	for _, o := range set.byName {
		s.mu.Lock()
		o.users--
		over := o.users == 0
		s.mu.Unlock()
		if !over {
			continue
		}
		s.closing.Go(func() {
			if err := o.Close(); err != nil {
				s.log.Warn("closing a store", "store", o.settings.Name, "error", err)
			}
		})
	}
}

// skipped tells of an operation that the store was not asked for.
func (o *openStore) skipped(op kv.Op) {
	o.events(event.Event{Kind: event.StoreSkipped, At: time.Now(), Name: o.settings.Name, Detail: string(op)})
}

// wait returns when every store that nobody uses is closed.
func (s *stores) wait() { s.closing.Wait() }

// redisSilence is how much longer than one try a server may leave a connection
// without an answer: what was tried has ended by then.
const redisSilence = time.Second

func openKV(s config.Store) (kv.Store, error) {
	switch s.Type {
	case config.StoreMemory:
		return memory.New(memory.Options{}), nil
	case config.StoreRedis:
		return openRedis(s)
	}
	return nil, fmt.Errorf("type %q is not known", s.Type)
}

func openRedis(s config.Store) (*redis.Store, error) {
	tls, err := s.TLS.Config()
	if err != nil {
		return nil, err
	}
	return redis.New(redis.Options{URL: s.URL, Prefix: s.Prefix, TLS: tls, Silence: s.Retry.Timeout + redisSilence})
}

// telling is a store that tells of the operations it failed after all retries.
type telling struct {
	kv.Store
	name   string
	events event.Sink
}

// told hands the error on, and tells of it where the store is to blame.
func (t telling) told(op kv.Op, err error) error {
	if errors.Is(err, kv.ErrUnavailable) && !errors.Is(err, context.Canceled) {
		t.events(event.Event{Kind: event.StoreFailed, At: time.Now(), Name: t.name, Detail: string(op), Error: err.Error()})
	}
	return err
}

// Mark is kv.Marks.
func (t telling) Mark(ctx context.Context, key, owner string, lease time.Duration) (kv.State, error) {
	state, err := t.Store.Mark(ctx, key, owner, lease)
	return state, t.told(kv.OpMark, err)
}

// Keep is kv.Marks.
func (t telling) Keep(ctx context.Context, key, owner string, lease time.Duration) error {
	return t.told(kv.OpKeep, t.Store.Keep(ctx, key, owner, lease))
}

// Settle is kv.Marks.
func (t telling) Settle(ctx context.Context, key, owner string, ttl time.Duration) error {
	return t.told(kv.OpSettle, t.Store.Settle(ctx, key, owner, ttl))
}

// Forget is kv.Marks.
func (t telling) Forget(ctx context.Context, key, owner string) error {
	return t.told(kv.OpForget, t.Store.Forget(ctx, key, owner))
}

// Add is kv.Counters.
func (t telling) Add(ctx context.Context, series string, slots []kv.Slot, ttl time.Duration) ([]kv.Slot, error) {
	totals, err := t.Store.Add(ctx, series, slots, ttl)
	return totals, t.told(kv.OpAdd, err)
}
