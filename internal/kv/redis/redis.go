// Package redis is a kv.Store on a Redis server, or one that speaks its
// protocol and runs Lua scripts: alone or a cluster, from Redis 5 on.
//
// Each operation is one script on keys of one cluster slot, and goes by the
// server's clock. The server must not evict keys that have yet to expire: a lost
// mark is a duplicate that passes.
package redis

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/pawlhq/pawl/internal/kv"
)

// maxCalls bounds the operations under way, answered or not. It is below the
// library's own queue of 1,024 a connection, which doesn't look at contexts
// when it is full; and a connection with that many behind it is not held up by
// their number.
const maxCalls = 512

// Store is a kv.Store. Safe for concurrent use.
type Store struct {
	option   rueidis.ClientOption
	prefix   string
	password string
	calls    chan struct{}   // holds one for each call under way
	over     context.Context // ends with Close

	mu      sync.Mutex
	closed  context.CancelFunc // nil once it was called
	client  rueidis.Client     // nil before the first connection
	joining *join              // the first connection, being made
	running sync.WaitGroup     // calls and joins
}

// join is an attempt at the first connection.
type join struct {
	done chan struct{}
	err  error // set before done is closed
}

// New returns a store, or says what is wrong with the options. It connects with
// the first operation, so that a relay starts where its server is away.
func New(o Options) (*Store, error) {
	option, err := o.client()
	if err != nil {
		return nil, err
	}
	s := &Store{option: option, prefix: o.Prefix, password: option.Password, calls: make(chan struct{}, maxCalls)}
	if s.prefix == "" {
		s.prefix = defaultPrefix
	}
	s.over, s.closed = context.WithCancel(context.Background())
	dial := option.DialCtxFn
	s.option.DialCtxFn = func(ctx context.Context, addr string, d *net.Dialer, c *tls.Config) (net.Conn, error) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.over, cancel)()
		return dial(ctx, addr, d, c)
	}
	return s, nil
}

// Mark is kv.Marks.
func (s *Store) Mark(ctx context.Context, key, owner string, lease time.Duration) (kv.State, error) {
	if err := kv.CheckMark(key, owner, lease); err != nil {
		return kv.State{}, err
	}
	n, err := s.script(ctx, kv.OpMark, markScript, 3, []string{s.markKey(key)}, owner, millis(lease))
	if err != nil {
		return kv.State{}, err
	}
	if n[0] < int64(kv.Mine) || n[0] > int64(kv.Done) {
		return kv.State{}, s.unavailable(kv.OpMark, fmt.Errorf("an answer of no meaning: %d", n[0]))
	}
	// The server's clock may have been set back.
	return kv.State{Found: kv.Found(n[0]), Left: span(n[1]), Age: span(n[2])}, nil
}

// Keep is kv.Marks.
func (s *Store) Keep(ctx context.Context, key, owner string, lease time.Duration) error {
	if err := kv.CheckMark(key, owner, lease); err != nil {
		return err
	}
	return held(s.script(ctx, kv.OpKeep, keepScript, 1, []string{s.markKey(key)}, owner, millis(lease)))
}

// Settle is kv.Marks.
func (s *Store) Settle(ctx context.Context, key, owner string, ttl time.Duration) error {
	if err := kv.CheckMark(key, owner, ttl); err != nil {
		return err
	}
	return held(s.script(ctx, kv.OpSettle, settleScript, 1, []string{s.markKey(key)}, owner, millis(ttl)))
}

// Forget is kv.Marks.
func (s *Store) Forget(ctx context.Context, key, owner string) error {
	if err := kv.CheckOwner(key, owner); err != nil {
		return err
	}
	return held(s.script(ctx, kv.OpForget, forgetScript, 1, []string{s.markKey(key)}, owner))
}

// Add is kv.Counters.
func (s *Store) Add(ctx context.Context, series string, slots []kv.Slot, ttl time.Duration) ([]kv.Slot, error) {
	if err := kv.CheckAdd(series, slots, ttl); err != nil {
		return nil, err
	}
	want := 0
	for _, slot := range slots {
		want += len(slot.Counts)
	}
	n, err := s.script(ctx, kv.OpAdd, addScript, want, s.slotKeys(series, slots), addArgs(slots, millis(ttl))...)
	if err != nil {
		return nil, err
	}
	totals := make([]kv.Slot, len(slots))
	for i, slot := range slots {
		c := len(slot.Counts)
		totals[i], n = kv.Slot{Number: slot.Number, Counts: n[:c:c]}, n[c:]
	}
	return totals, nil
}

// Ping is kv.Store.
func (s *Store) Ping(ctx context.Context) error {
	_, err := s.call(ctx, kv.OpPing, func(c rueidis.Client) ([]int64, error) {
		return nil, c.Do(context.Background(), c.B().Ping().Build()).Error()
	})
	return err
}

// Close is kv.Store. What is under way has a second to end.
func (s *Store) Close() error {
	s.mu.Lock()
	client, closed := s.client, s.closed
	s.client, s.closed = nil, nil
	s.mu.Unlock()
	if closed != nil {
		closed()
	}
	if client != nil {
		client.Close()
	}
	s.running.Wait()
	return nil
}

// script runs a script whose answer is so many numbers.
func (s *Store) script(ctx context.Context, op kv.Op, script *rueidis.Lua, want int, keys []string, args ...string) ([]int64, error) {
	return s.call(ctx, op, func(c rueidis.Client) ([]int64, error) {
		n, err := script.Exec(context.Background(), c, keys, args).AsIntSlice()
		if err == nil && len(n) != want {
			err = fmt.Errorf("an answer of %d numbers, not %d", len(n), want)
		}
		return n, err
	})
}

// answer is what a call ended with.
type answer struct {
	n   []int64
	err error
}

// call runs f with the client, and waits for it no longer than the context
// lasts. f itself goes on until it is answered or the connection is given up,
// and holds its place until then, so a server that is silent has no more than
// maxCalls behind it.
func (s *Store) call(ctx context.Context, op kv.Op, f func(rueidis.Client) ([]int64, error)) ([]int64, error) {
	if err := ctx.Err(); err != nil {
		return nil, &kv.Unavailable{Op: op, Outcome: kv.NotDone, Cause: err}
	}
	select {
	case s.calls <- struct{}{}:
	case <-ctx.Done():
		return nil, &kv.Unavailable{Op: op, Outcome: kv.NotDone, Cause: ctx.Err()}
	}
	client, err := s.connected(ctx)
	if err != nil {
		<-s.calls
		u := s.unavailable(op, err)
		if u.Outcome == kv.Unknown {
			u.Outcome = kv.NotDone // nothing was sent
		}
		return nil, u
	}
	answered := make(chan answer, 1)
	go func() {
		defer s.running.Done()
		n, err := f(client)
		<-s.calls
		answered <- answer{n, err}
	}()
	select {
	case a := <-answered:
		if a.err != nil {
			return nil, s.unavailable(op, a.err)
		}
		return a.n, nil
	case <-ctx.Done():
		return nil, &kv.Unavailable{Op: op, Outcome: kv.Unknown, Cause: ctx.Err()}
	}
}

// connected returns the client and counts the caller as running. Where there is
// none yet, one connection is made for all who wait.
func (s *Store) connected(ctx context.Context) (rueidis.Client, error) {
	for {
		s.mu.Lock()
		if s.closed == nil {
			s.mu.Unlock()
			return nil, kv.ErrClosed
		}
		if client := s.client; client != nil {
			s.running.Add(1)
			s.mu.Unlock()
			return client, nil
		}
		j := s.joining
		if j == nil {
			j = &join{done: make(chan struct{})}
			s.joining = j
			s.running.Go(func() { s.join(j) })
		}
		s.mu.Unlock()
		select {
		case <-j.done:
			if j.err != nil {
				return nil, j.err
			}
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// join makes the first connection; from then on the client makes its own.
func (s *Store) join(j *join) {
	client, err := rueidis.NewClient(s.option)
	s.mu.Lock()
	s.joining = nil
	stale := s.closed == nil
	if err == nil && !stale {
		s.client = client
	}
	s.mu.Unlock()
	if stale {
		if err == nil {
			client.Close()
		}
		err = kv.ErrClosed
	}
	j.err = err
	close(j.done)
}

// unavailable says what is known of a failed call.
func (s *Store) unavailable(op kv.Op, err error) *kv.Unavailable {
	u := &kv.Unavailable{Op: op, Outcome: outcome(err), Cause: err}
	switch {
	case errors.Is(err, rueidis.ErrClosing):
		u.Cause = kv.ErrClosed
	// A server that does not know a command answers with its arguments.
	case s.password != "" && strings.Contains(err.Error(), s.password):
		u.Cause = errors.New(strings.ReplaceAll(err.Error(), s.password, "***"))
	}
	return u
}

// passing begin the answers of a server that did nothing and may do it later.
var passing = []string{"LOADING", "BUSY", "CLUSTERDOWN", "TRYAGAIN", "MASTERDOWN", "READONLY", "OOM", "MISCONF", "NOREPLICAS", "max number of clients"}

// outcome tells from an error whether anything was done.
func outcome(err error) kv.Outcome {
	if answered, ok := errors.AsType[*rueidis.RedisError](err); ok {
		for _, front := range passing {
			if strings.HasPrefix(answered.Error(), front) {
				return kv.NotDone
			}
		}
		return kv.Refused
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return kv.NotDone
	}
	return kv.Unknown
}

// held turns the answer 0 into ErrLost.
func held(n []int64, err error) error {
	if err == nil && n[0] == 0 {
		return kv.ErrLost
	}
	return err
}

func millis(d time.Duration) string { return strconv.FormatInt(kv.Millis(d), 10) }

// span is never negative.
func span(ms int64) time.Duration { return time.Duration(max(ms, 0)) * time.Millisecond }
