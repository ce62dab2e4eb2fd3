package app

// These tests catch a store that is opened anew by a reload that changed nothing,
// so that what it held is gone; one that is closed under messages, or never; a
// store's trouble that nobody is told of; and keys that a reload forgets.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/kv"
)

func newStores(events event.Sink) *stores {
	return &stores{events: events, log: slog.New(slog.DiscardHandler)}
}

func with(list ...config.Store) *config.Config { return &config.Config{Stores: list} }

func memoryStore(name string, attempts int) config.Store {
	p := kv.DefaultPolicy()
	p.Attempts = attempts
	return config.Store{Name: name, Type: config.StoreMemory, Retry: p}
}

func take(t *testing.T, s *stores, c *config.Config, old *storeSet) *storeSet {
	t.Helper()
	set, err := s.take(c, old)
	must(t, err)
	return set
}

func TestStoresOutliveConfigurations(t *testing.T) {
	s := newStores(event.Discard)
	first := take(t, s, with(memoryStore("same", 1), memoryStore("changes", 1), memoryStore("goes", 1)), nil)
	moved := memoryStore("same", 1)
	moved.At.Line = 7
	second := take(t, s, with(moved, memoryStore("changes", 2)), first)
	if second.byName["same"] != first.byName["same"] {
		t.Error("a store that stayed as it was was opened anew")
	}
	if second.byName["changes"] == first.byName["changes"] {
		t.Error("a store that changed was not opened anew")
	}
	open := func(o *openStore) bool { return !errors.Is(o.Ping(t.Context()), kv.ErrClosed) }
	if !open(first.byName["changes"]) || !open(first.byName["goes"]) {
		t.Error("closed while its configuration has messages")
	}
	first.release()
	s.wait()
	if open(first.byName["changes"]) || open(first.byName["goes"]) || !open(second.byName["same"]) || !open(second.byName["changes"]) {
		t.Error("not those that nobody uses any more are closed")
	}
	if _, err := s.take(with(memoryStore("same", 1), config.Store{Name: "odd", Type: "odd"}), second); err == nil {
		t.Error("a store of an unknown type was opened")
	}
	s.wait()
	if !open(second.byName["same"]) {
		t.Error("a configuration that was refused closed a store")
	}
	second.release()
	s.wait()
	if open(second.byName["same"]) {
		t.Error("a store is open that nobody uses")
	}
}

func TestAStoresTroubleIsTold(t *testing.T) {
	var told []event.Event
	s := newStores(func(e event.Event) { told = append(told, e) })
	set := take(t, s, with(memoryStore("shared", 1)), nil)
	o := set.byName["shared"]
	if err := o.Keep(t.Context(), "k", "me", time.Second); !errors.Is(err, kv.ErrLost) {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := o.Mark(ended, "k", "me", time.Second)
	if err == nil || len(told) != 0 {
		t.Errorf("%v; told of what is no trouble of the store: %v", err, told)
	}
	must(t, o.Close())
	_, mark := o.Mark(t.Context(), "k", "me", time.Second)
	_, add := o.Add(t.Context(), "k", []kv.Slot{{Counts: []int64{1}}}, time.Second)
	calls := map[kv.Op]error{
		kv.OpMark: mark, kv.OpAdd: add,
		kv.OpKeep:   o.Keep(t.Context(), "k", "me", time.Second),
		kv.OpSettle: o.Settle(t.Context(), "k", "me", time.Second),
		kv.OpForget: o.Forget(t.Context(), "k", "me"),
	}
	for op, err := range calls {
		found := 0
		for _, e := range told {
			if e.Kind == event.StoreFailed && e.Name == "shared" && e.Detail == string(op) && e.Error == err.Error() && !e.At.IsZero() {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s: told %d times: %+v", op, found, told)
		}
	}
}

// A source's dedupe tells of what it does not ask its store.
func TestWhatAStoreIsNotAskedIsTold(t *testing.T) {
	var told []event.Event
	s := newStores(func(e event.Event) { told = append(told, e) })
	c := with(memoryStore("shared", 1))
	c.Relay, c.Sources = "shop", []config.Source{{Name: "web", Dedupe: &config.Dedupe{Key: ".id", TTL: time.Minute, Store: "shared"}}}
	e := &Engine{seen: map[string]seen{}, taking: take(t, s, c, nil)}
	d, err := e.dedupe(c, &c.Sources[0], map[string]seen{})
	must(t, err)
	must(t, e.taking.byName["shared"].Close())
	for _, key := range []string{"1", "2"} {
		claim, _ := d.Seen.Begin(t.Context(), key)
		defer claim.Forget(t.Context())
	}
	if last := told[len(told)-1]; len(told) != 2 || last.Kind != event.StoreSkipped || last.Name != "shared" || last.Detail != string(kv.OpMark) || last.At.IsZero() {
		t.Errorf("told %+v", told)
	}
}

func TestScopesOfDedupeAreApart(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range [][2]string{{"a", "b"}, {"a/b", "c"}, {"a", "b/c"}, {"a%2Fb", "c"}, {"b", "a"}} {
		seen[dedupeScope(p[0], p[1])] = true
	}
	if len(seen) != 5 {
		t.Errorf("two are written alike: %v", seen)
	}
}

// What was seen outlives a reload that changes neither time nor store, and not
// one that does.
func TestSeenKeysOutliveAReload(t *testing.T) {
	e := &Engine{seen: map[string]seen{}}
	s := newStores(event.Discard)
	build := func(c *config.Config, old *storeSet) *storeSet {
		t.Helper()
		e.taking = take(t, s, c, old)
		next := map[string]seen{}
		for i := range c.Sources {
			d, err := e.dedupe(c, &c.Sources[i], next)
			must(t, err)
			if (d == nil) != (c.Sources[i].Dedupe == nil) || d != nil && (d.Key == nil || d.Seen != next[c.Sources[i].Name].dedupe) {
				t.Errorf("the relay is told %+v", d)
			}
		}
		e.seen = next
		return e.taking
	}
	conf := func(d config.Dedupe, attempts int) *config.Config {
		c := with(memoryStore("shared", attempts))
		c.Relay, c.Sources = "shop", []config.Source{{Name: "web", Dedupe: &d}, {Name: "other"}}
		return c
	}
	d := config.Dedupe{Key: ".id", TTL: time.Minute, Store: "shared"}
	set := build(conf(d, 1), nil)
	first := e.seen["web"].dedupe
	d.Key = ".number"
	set = build(conf(d, 1), set)
	if e.seen["web"].dedupe != first {
		t.Error("forgotten with another key")
	}
	set = build(conf(d, 2), set)
	second := e.seen["web"].dedupe
	if second == first {
		t.Error("the store is another and what was seen is not")
	}
	d.TTL = time.Hour
	set = build(conf(d, 2), set)
	if e.seen["web"].dedupe == second {
		t.Error("the time is another and what was seen is not")
	}
	d.Store = "gone"
	e.taking = set
	if _, err := e.dedupe(conf(d, 2), &config.Source{Name: "web", Dedupe: &d}, map[string]seen{}); err == nil {
		t.Error("a store that is not there was taken")
	}
}

// TestStoreOperationsHaveOneName looks for each operation in the metrics, which
// must name them without knowing of stores.
func TestStoreOperationsHaveOneName(t *testing.T) {
	w := newWorld(t)
	w.write(w.conf("http://127.0.0.1:9", "") + "stores: [ { name: mine, type: memory } ]\n")
	r := w.start()
	defer r.end()
	res := httptest.NewRecorder()
	r.metrics.Handler().ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	ops := []kv.Op{kv.OpMark, kv.OpKeep, kv.OpSettle, kv.OpForget, kv.OpAdd, kv.OpPing}
	for _, op := range ops {
		if want := fmt.Sprintf("pawl_store_errors_total{op=%q,store=\"mine\"} 0", op); !strings.Contains(res.Body.String(), want) {
			t.Errorf("no metric %s", want)
		}
	}
	for _, op := range []kv.Op{kv.OpMark, kv.OpKeep, kv.OpSettle} {
		if want := fmt.Sprintf("pawl_store_skipped_total{op=%q,store=\"mine\"} 0", op); !strings.Contains(res.Body.String(), want) {
			t.Errorf("no metric %s", want)
		}
	}
	if n := strings.Count(res.Body.String(), "\npawl_store_errors_total{"); n != len(ops) {
		t.Errorf("%d operations have a metric, a store has %d", n, len(ops))
	}
}
