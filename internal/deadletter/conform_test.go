package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	jobstore "github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// home is where a store of one kind lives: open opens it, and again after it was
// closed.
type home struct {
	open func(t *testing.T) deadletter.Store
}

// homes are the kinds of store, on the real disk.
var homes = map[string]func(t *testing.T) home{
	"files": func(t *testing.T) home {
		dir := t.TempDir()
		return home{func(t *testing.T) deadletter.Store {
			s, err := deadletter.Open(dir, deadletter.Options{})
			if err != nil {
				t.Fatal(err)
			}
			return s
		}}
	},
	"records": func(t *testing.T) home {
		path := filepath.Join(t.TempDir(), "pawl.db")
		return home{func(t *testing.T) deadletter.Store {
			db, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if err != nil {
				t.Fatal(err)
			}
			return owner{deadletter.NewRecords(db, deadletter.RecordOptions{}), db}
		}}
	},
}

// owner closes the database with the store.
type owner struct {
	*deadletter.Records
	db *sqlite.Store
}

func (o owner) Close() error { return errors.Join(o.Records.Close(), o.db.Close()) }

// TestConformance: the kinds of store are alike in all that people do with them.
func TestConformance(t *testing.T) {
	for kind, at := range homes {
		t.Run(kind, func(t *testing.T) {
			for name, check := range map[string]func(*conformer){
				"StoresUnchanged": (*conformer).storesUnchanged, "Once": (*conformer).once, "Refuses": (*conformer).refuses,
				"Filters": (*conformer).filters, "OneMoment": (*conformer).oneMoment, "Get": (*conformer).get, "Many": (*conformer).many,
				"Marks": (*conformer).marks, "Replay": (*conformer).replay, "FailsAgain": (*conformer).failsAgain,
				"ReplaysAtOnce": (*conformer).replaysAtOnce, "Purge": (*conformer).purge, "PurgeLeavesInHand": (*conformer).purgeLeavesInHand,
				"ListEnds": (*conformer).listEnds, "Closed": (*conformer).closed,
			} {
				t.Run(name, func(t *testing.T) {
					c := &conformer{T: t, home: at(t)}
					c.s = c.open(t)
					t.Cleanup(func() { _ = c.s.Close() })
					check(c)
				})
			}
		})
	}
}

type conformer struct {
	*testing.T
	home
	s deadletter.Store
}

// restart closes the store and opens it anew.
func (c *conformer) restart() {
	c.Helper()
	if err := c.s.Close(); err != nil {
		c.Fatal(err)
	}
	c.s = c.open(c.T)
}

// states are the states of all letters, in order.
func (c *conformer) states() (all []string) {
	c.Helper()
	if err := c.s.List(c.Context(), deadletter.Filter{State: deadletter.AllStates}, func(e deadletter.Entry) error {
		all = append(all, e.Message.ID+" "+e.State.String())
		return nil
	}); err != nil {
		c.Fatal(err)
	}
	return all
}

func (c *conformer) is(want ...string) {
	c.Helper()
	if diff := cmp.Diff(want, c.states(), cmpopts.EquateEmpty()); diff != "" {
		c.Errorf("(-want +got)\n%s", diff)
	}
}

func (c *conformer) stats(open int, oldest time.Time) {
	c.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for { // counts may be a second old
		got := c.s.Stats()
		if got.Open == open && got.Oldest.Equal(oldest) && got.Damaged == 0 {
			return
		}
		if time.Now().After(deadline) {
			c.Fatalf("the counts are %+v, want %d open, the oldest of %v", got, open, oldest)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func (c *conformer) storesUnchanged() {
	l := letter(3, func(l *message.DeadLetter) {
		l.Message.Body = []byte{0, 0xff, '\n'}
		l.At = l.At.Add(123456789)
		l.Hops = []message.Hop{{Destination: "ledger", Reason: message.HopExhausted, At: l.At, Error: "HTTP 503"}}
		l.Source = "buffer"
	})
	store(c, c.s, l)
	for range 2 {
		got, err := c.s.Get(c.Context(), l.Letter)
		if err != nil || len(got) != 1 || got[0].State != deadletter.StateOpen {
			c.Fatalf("%+v, %v", got, err)
		}
		if diff := cmp.Diff(l, got[0].DeadLetter, cmpopts.IgnoreUnexported(message.Message{}), cmpopts.EquateEmpty()); diff != "" {
			c.Errorf("(-want +got)\n%s", diff)
		}
		if err := c.s.Writable(); err != nil && !errors.Is(err, deadletter.ErrLowSpace) {
			c.Error(err)
		}
		c.restart()
	}
	c.stats(1, l.At.Truncate(time.Millisecond))
}

func (c *conformer) once() {
	l := letter(1)
	store(c, c.s, l, l)
	c.is("m1 open")
	c.restart()
	c.is("m1 open")
}

func (c *conformer) refuses() {
	for what, change := range map[string]func(*message.DeadLetter){
		"no letter's id":   func(l *message.DeadLetter) { l.Letter = "" },
		"unknown reason":   func(l *message.DeadLetter) { l.Reason = "boredom" },
		"no message's id":  func(l *message.DeadLetter) { l.Message.ID = "" },
		"text that is not": func(l *message.DeadLetter) { l.Message.Key = "\xff" },
	} {
		if err := c.s.Append(c.Context(), letter(1, change)); err == nil {
			c.Errorf("%s: stored", what)
		}
	}
	c.is()
}

func (c *conformer) filters() {
	all := []*message.DeadLetter{
		letter(1), letter(2, func(l *message.DeadLetter) { l.Destination = "mail" }),
		letter(3, func(l *message.DeadLetter) { l.Reason, l.Destination = message.ReasonSchema, "" }),
		letter(4), letter(5, func(l *message.DeadLetter) { l.Message.ID = "m1" }),
	}
	store(c, c.s, all...)
	if err := c.s.MarkReplayed(c.Context(), all[3].Letter, deadletter.Delivered); err != nil {
		c.Fatal(err)
	}
	for _, f := range []struct {
		filter deadletter.Filter
		ids    []string
	}{
		{deadletter.Filter{}, []string{"m1", "m2", "m3", "m1"}},
		{deadletter.Filter{State: deadletter.AllStates}, []string{"m1", "m2", "m3", "m4", "m1"}},
		{deadletter.Filter{Destination: "ledger"}, []string{"m1", "m1"}},
		{deadletter.Filter{Destination: "nobody"}, nil},
		{deadletter.Filter{Reason: message.ReasonSchema}, []string{"m3"}},
		{deadletter.Filter{Since: all[2].At}, []string{"m3", "m1"}},
		{deadletter.Filter{IDs: []string{"m1", all[1].Letter, "none"}}, []string{"m1", "m2", "m1"}},
		{deadletter.Filter{IDs: []string{"m1"}, Since: all[1].At}, []string{"m1"}},
	} {
		want(c, c.s, f.filter, f.ids...)
	}
	for _, bad := range []deadletter.Filter{{Reason: "boredom"}, {IDs: make([]string, deadletter.MaxIDs+1)}} {
		if _, err := c.s.Count(c.Context(), bad); err == nil {
			c.Errorf("%.40v was counted", bad)
		}
	}
	c.stats(4, all[0].At)
}

// oneMoment: a list that runs while letters come is not about them, so that a
// replay whose letters fail again comes to an end.
func (c *conformer) oneMoment() {
	store(c, c.s, letter(1), letter(2))
	seen := 0
	if err := c.s.List(c.Context(), deadletter.Filter{}, func(deadletter.Entry) error {
		seen++
		return c.s.Append(c.Context(), letter(10+seen))
	}); err != nil || seen != 2 {
		c.Errorf("%d letters, %v; want the 2 of the beginning", seen, err)
	}
}

func (c *conformer) get() {
	store(c, c.s, letter(1), letter(1), letter(2))
	if got, err := c.s.Get(c.Context(), "m1"); err != nil || len(got) != 2 {
		c.Errorf("%d letters of a message, %v", len(got), err)
	}
	if _, err := c.s.Get(c.Context(), "m3"); !errors.Is(err, deadletter.ErrNotFound) {
		c.Errorf("an unknown one: %v", err)
	}
}

// many: more letters than a page.
func (c *conformer) many() {
	const n = 1200
	var wg sync.WaitGroup
	for w := range 8 {
		wg.Go(func() {
			for i := w; i < n; i += 8 {
				if err := c.s.Append(c.Context(), letter(i)); err != nil {
					c.Error(err)
				}
			}
		})
	}
	wg.Wait()
	got := list(c, c.s, deadletter.Filter{})
	slices.Sort(got)
	if got = slices.Compact(got); len(got) != n {
		c.Errorf("%d letters are listed, want %d", len(got), n)
	}
	if purged, err := c.s.Purge(c.Context(), day0.Add(10_000*time.Hour)); err != nil || purged != n {
		c.Errorf("purged %d, %v", purged, err)
	}
	if m, err := c.s.Count(c.Context(), deadletter.Filter{}); m != 0 || err != nil {
		c.Errorf("%d are open after all were purged, %v", m, err)
	}
}

func (c *conformer) marks() {
	a, b := letter(1), letter(2)
	store(c, c.s, a, b)
	if err := c.s.MarkReplayed(c.Context(), "nobody", deadletter.Delivered); !errors.Is(err, deadletter.ErrNotFound) {
		c.Errorf("an unknown letter: %v", err)
	}
	if err := c.s.MarkReplayed(c.Context(), a.Letter, deadletter.Abandoned); err == nil {
		c.Error("an abandoned replay left a mark")
	}
	for range 2 {
		if err := c.s.MarkReplayed(c.Context(), a.Letter, deadletter.FailedAgain); err != nil {
			c.Error(err)
		}
		c.restart()
		c.is("m1 replayed", "m2 open")
	}
}

// replay: what was delivered is marked, what was not stays, and the next replay
// goes on there.
func (c *conformer) replay() {
	for n := range 20 {
		store(c, c.s, letter(n))
	}
	even := func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
		var n int
		_, _ = fmt.Sscanf(l.Message.ID, "m%d", &n)
		if n%2 == 1 {
			return deadletter.ReplayOutcome{Verdict: deadletter.Abandoned, Err: errors.New("stopping")}
		}
		return deadletter.ReplayOutcome{Verdict: deadletter.Delivered}
	}
	sum, err := c.s.Replay(c.Context(), deadletter.ReplayOptions{Deliver: even, DryRun: true})
	if err != nil || sum.Total != 20 || sum.Left != 20 {
		c.Errorf("a dry run: %+v, %v", sum, err)
	}
	sum, err = c.s.Replay(c.Context(), deadletter.ReplayOptions{Deliver: even})
	if err != nil || sum.Delivered != 10 || sum.Left != 10 || sum.Err == nil {
		c.Errorf("%+v, %v", sum, err)
	}
	c.restart()
	sum, err = c.s.Replay(c.Context(), deadletter.ReplayOptions{Deliver: delivered})
	if err != nil || sum.Total != 10 || sum.Delivered != 10 {
		c.Errorf("the second: %+v, %v", sum, err)
	}
	c.stats(0, time.Time{})
}

// failsAgain: the new letter is stored before the old one is marked, and carries
// its history.
func (c *conformer) failsAgain() {
	old := letter(1)
	store(c, c.s, old)
	dies := func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
		again := &message.DeadLetter{Message: l.Message, Death: message.Death{Relay: "shop", At: l.At.Add(time.Hour), Reason: message.ReasonDelivery}}
		return deadletter.ReplayOutcome{Verdict: deadletter.FailedAgain, Letters: []*message.DeadLetter{again}}
	}
	full := errors.New("full")
	sum, err := c.s.Replay(c.Context(), deadletter.ReplayOptions{Deliver: dies, Write: func(context.Context, *message.DeadLetter) error {
		c.is("m1 open")
		return full
	}})
	if err != nil || sum.Left != 1 || !errors.Is(sum.Err, full) {
		c.Errorf("with nowhere to go: %+v, %v", sum, err)
	}
	c.is("m1 open")
	if sum, err = c.s.Replay(c.Context(), deadletter.ReplayOptions{Deliver: dies}); err != nil || sum.FailedAgain != 1 {
		c.Errorf("%+v, %v", sum, err)
	}
	c.is("m1 replayed", "m1 open")
	got, err := c.s.Get(c.Context(), "m1")
	if err != nil || len(got) != 2 || len(got[1].Replays) != 1 || got[1].Replays[0].Letter != old.Letter {
		c.Errorf("%+v, %v", got, err)
	}
}

// replaysAtOnce: no letter is in two replays.
func (c *conformer) replaysAtOnce() {
	const n = 100
	for i := range n {
		store(c, c.s, letter(i))
	}
	var mu sync.Mutex
	seen := map[string]int{}
	deliver := func(_ context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
		mu.Lock()
		defer mu.Unlock()
		seen[l.Message.ID]++
		return deadletter.ReplayOutcome{Verdict: deadletter.Delivered}
	}
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := c.s.Replay(c.Context(), deadletter.ReplayOptions{Deliver: deliver}); err != nil {
				c.Error(err)
			}
		})
	}
	wg.Wait()
	for id, times := range seen {
		if times != 1 {
			c.Errorf("%s was replayed %d times", id, times)
		}
	}
	if len(seen) != n {
		c.Errorf("%d of %d were replayed", len(seen), n)
	}
}

func (c *conformer) purge() {
	store(c, c.s, letter(1), letter(2), letter(3))
	if err := c.s.MarkReplayed(c.Context(), c.first(), deadletter.Delivered); err != nil {
		c.Fatal(err)
	}
	n, err := c.s.Purge(c.Context(), letter(3).At)
	if err != nil || n != 1 {
		c.Errorf("%d open ones were purged, %v; want m2", n, err)
	}
	want(c, c.s, deadletter.Filter{}, "m3")
	c.restart()
	want(c, c.s, deadletter.Filter{}, "m3")
	if n, err := c.s.Purge(c.Context(), letter(3).At); n != 0 || err != nil {
		c.Errorf("again: %d, %v", n, err)
	}
}

// first is the id of the first letter.
func (c *conformer) first() (id string) {
	stop := errors.New("stop")
	if err := c.s.List(c.Context(), deadletter.Filter{}, func(e deadletter.Entry) error { id = e.Letter; return stop }); !errors.Is(err, stop) {
		c.Errorf("an error of fn ended the list with %v", err)
	}
	return id
}

// purgeLeavesInHand: what is being replayed is not purged.
func (c *conformer) purgeLeavesInHand() {
	store(c, c.s, letter(1), letter(2))
	sum, err := c.s.Replay(c.Context(), deadletter.ReplayOptions{
		Filter: deadletter.Filter{IDs: []string{"m1"}},
		Deliver: func(ctx context.Context, _ *message.DeadLetter) deadletter.ReplayOutcome {
			n, err := c.s.Purge(ctx, day0.Add(10_000*time.Hour))
			if err != nil || n != 1 {
				c.Errorf("purged %d, %v; want m2 alone", n, err)
			}
			return deadletter.ReplayOutcome{Verdict: deadletter.Abandoned, Err: errors.New("left")}
		},
	})
	if err != nil || sum.Left != 1 {
		c.Errorf("%+v, %v", sum, err)
	}
	want(c, c.s, deadletter.Filter{}, "m1")
}

func (c *conformer) listEnds() {
	store(c, c.s, letter(1), letter(2))
	ctx, cancel := context.WithCancel(c.Context())
	err := c.s.List(ctx, deadletter.Filter{}, func(deadletter.Entry) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		c.Errorf("a list whose ctx ended: %v", err)
	}
}

func (c *conformer) closed() {
	for range 2 {
		if err := c.s.Close(); err != nil {
			c.Error(err)
		}
	}
	if err := c.s.Append(c.Context(), letter(1)); err == nil {
		c.Error("a closed store took a letter")
	}
}

// A record that is no letter hides nothing behind it, is counted once, and stays.
func TestDamagedRecord(t *testing.T) {
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	r := deadletter.NewRecords(db, deadletter.RecordOptions{})
	if err := db.AddLetter(t.Context(), jobstore.Letter{ID: "bad", MessageID: "m0", At: day0, Body: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	store(t, r, letter(1))
	for range 2 {
		var ids []string
		err := r.List(t.Context(), deadletter.Filter{}, func(e deadletter.Entry) error { ids = append(ids, e.Message.ID); return nil })
		if !errors.Is(err, deadletter.ErrDamaged) || !slices.Equal(ids, []string{"m1"}) {
			t.Errorf("listed %v, %v", ids, err)
		}
	}
	if got := r.Stats(); got.Damaged != 1 || got.Open != 2 {
		t.Errorf("%+v", got)
	}
}
