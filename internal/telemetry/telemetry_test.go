// These tests catch: a metric renamed, mislabelled or counted by the wrong
// event; a series that is missing before its first event or left over after a
// reload; a label value from outside of the configuration; a scrape broken by
// a name that the engines give twice; an allocation on the path of a message.
package telemetry

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

var update = flag.Bool("update", false, "write the golden files anew")

func shop() Topology {
	return Topology{
		Sources: []string{"web"},
		Destinations: []Destination{
			{Name: "ledger", Endpoints: []string{"ledger"}},
			{Name: "disk", Endpoints: []string{"disk"}},
		},
		Routes: []Route{{Name: "orders", Fallbacks: []string{"static"}}},
		Stores: []string{"shared"},
	}
}

// story is one event of each kind that moves a metric, some twice.
func story() []event.Event {
	attempt := event.Event{Kind: event.AttemptEnded, Destination: "ledger", Endpoint: "ledger"}
	ok, retry, cancelled := attempt, attempt, attempt
	ok.Outcome, ok.Took = message.OutcomeOK, 3*time.Millisecond
	ok.Waited, ok.Limited = 3*time.Second, 2*time.Second
	retry.Outcome, retry.Took = message.OutcomeRetry, 5*time.Second
	cancelled.Outcome, cancelled.Took = message.OutcomeCancelled, time.Hour
	return []event.Event{
		retry, retry, ok, cancelled,
		{Kind: event.ConnectionRetried, Destination: "ledger", Endpoint: "ledger"},
		{Kind: event.Hopped, Destination: "ledger", To: "disk", Hop: message.HopExhausted},
		{Kind: event.Hopped, Destination: "disk", To: "", Hop: message.HopPermanent},
		{Kind: event.BestEffortDropped, Destination: "disk"},
		{Kind: event.Lettered, Reason: message.ReasonSchema},
		{Kind: event.LetterFailed, Reason: message.ReasonDelivery},
		{Kind: event.Settled, Source: "web", Settlement: event.SettledDelivered},
		{Kind: event.Settled, Source: "web", Settlement: event.SettledRefused},
		{Kind: event.SourceDown, Source: "web", Error: "no"},
		{Kind: event.LeaseLost, Source: "web"},
		{Kind: event.Deferred, Destination: "ledger"},
		{Kind: event.RouterFellBack, Route: "orders", To: "static"},
		{Kind: event.Reloaded, Number: 2, Error: "bad"},
		{Kind: event.BreakerMoved, Destination: "ledger", Endpoint: "ledger", Breaker: event.BreakerOpen},
		{Kind: event.Raced, Destination: "ledger", Race: event.RaceHedge, Number: 1},
		{Kind: event.BatchSent, Destination: "disk", Endpoint: "disk", Number: 7},
		{Kind: event.NoKey, Source: "web"},
		{Kind: event.StoreFailed, Name: "shared", Detail: "mark", Error: "refused"},
		{Kind: event.StoreSkipped, Name: "shared", Detail: "settle"},
		{Kind: event.Alerted, Name: "circuit_open", Destination: "disk", Alert: event.AlertFailed, Number: 1},
		{Kind: event.HealthMoved, Destination: "ledger", Endpoint: "ledger", Health: event.Unhealthy},
	}
}

func state(now time.Time) State {
	return State{
		Generation: 3,
		Sources:    []SourceState{{"web", 2}, {"web", 1}},
		Lanes: []LaneState{
			{Destination: "ledger", Pending: 5, Places: 512, Working: 1, Workers: 64, RetriesLeft: new(7)},
			{Destination: "ledger", Pending: 2, Places: 0, Working: 1, Workers: 0, RetriesLeft: new(3)},
			{Destination: "disk", Places: 512, Workers: 64},
		},
		Endpoints: []EndpointState{
			{Destination: "ledger", Name: "ledger", Breaker: event.BreakerOpen, HeldUntil: now.Add(90 * time.Second)},
			{Destination: "ledger", Name: "ledger", Health: event.Unhealthy},
			{Destination: "ledger", Name: "ledger", Health: event.Healthy},
			{Destination: "disk", Name: "disk", HeldUntil: now.Add(-time.Second), Health: event.Healthy},
		},
		DeadLetters: LetterState{Open: 4, Oldest: now.Add(-time.Hour)},
	}
}

// scrape returns pawl's own lines of the exposition but for the build's.
func scrape(t *testing.T, tel *Telemetry) string {
	t.Helper()
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	if w.Code != http.StatusOK {
		t.Fatalf("scrape answered %d: %s", w.Code, w.Body)
	}
	var b strings.Builder
	for line := range strings.Lines(w.Body.String()) {
		if strings.Contains(line, "pawl_") && !strings.Contains(line, "pawl_build_info") {
			b.WriteString(line)
		}
	}
	return b.String()
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); -update writes it anew:\n%s", path, diff)
	}
}

func TestExposition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tel := New(Options{Snapshot: func() State { return state(time.Now()) }})
		tel.SetTopology(shop())
		for _, e := range story() {
			tel.Observe(e)
		}
		golden(t, "metrics.golden", scrape(t, tel))
	})
}

func TestMetricsPassTheLinter(t *testing.T) {
	tel := New(Options{Version: "1.0", Snapshot: func() State { return state(time.Now()) }, StateFolder: t.TempDir(), StoreFolder: t.TempDir()})
	tel.SetTopology(shop())
	for _, e := range story() {
		tel.Observe(e)
	}
	problems, err := testutil.GatherAndLint(tel.Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestReloadDeletesWhatIsGone(t *testing.T) {
	tel := New(Options{})
	tel.SetTopology(shop())
	for _, e := range story() {
		tel.Observe(e)
	}
	tel.SetTopology(Topology{Destinations: []Destination{{Name: "ledger", Endpoints: []string{"ledger"}}}})
	for _, e := range story() {
		tel.Observe(e) // late events of messages that began before
	}
	got := scrape(t, tel)
	for _, gone := range []string{`"web"`, `"disk"`, `"orders"`, `"shared"`} {
		if strings.Contains(got, gone) {
			t.Errorf("%s is still in the exposition:\n%s", gone, got)
		}
	}
	for _, want := range []string{
		`pawl_delivery_attempts_total{destination="ledger",endpoint="ledger",outcome="retry"} 4`,
		// Two settled, one each of dropped, hopped, source down, lease, router,
		// batch, key, store.
		`pawl_events_unlabelled_total 11`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %s in:\n%s", want, got)
		}
	}
	tel.SetTopology(shop())
	if want := `pawl_source_up{source="web"} 1`; !strings.Contains(scrape(t, tel), want) {
		t.Errorf("a source that came back is not %s", want)
	}
}

// TestLabelsAreOfTheTopology feeds events with any names and looks for one
// that became a label.
func TestLabelsAreOfTheTopology(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		tel := New(Options{})
		tel.SetTopology(shop())
		name := rapid.SampledFrom([]string{"web", "ledger", "disk", "orders", "static", "stranger", "", "\xff"})
		for range rapid.IntRange(1, 30).Draw(rt, "events") {
			tel.Observe(event.Event{
				Kind:        event.Kind(rapid.IntRange(0, int(event.Alerted)+1).Draw(rt, "kind")),
				Source:      name.Draw(rt, "source"),
				Route:       name.Draw(rt, "route"),
				Destination: name.Draw(rt, "destination"),
				Endpoint:    name.Draw(rt, "endpoint"),
				To:          name.Draw(rt, "to"),
				Outcome:     message.Outcome(name.Draw(rt, "outcome")),
				Hop:         message.HopReason(rapid.SampledFrom([]string{"stranger", "full"}).Draw(rt, "hop")),
				Reason:      message.Reason(name.Draw(rt, "reason")),
				Settlement:  event.Settlement(name.Draw(rt, "settlement")),
				Name:        name.Draw(rt, "name"),
				Detail:      name.Draw(rt, "detail"),
				Race:        event.Race(rapid.SampledFrom([]string{"stranger", "hedge"}).Draw(rt, "race")),
				Alert:       event.Alert(rapid.SampledFrom([]string{"stranger", "sent"}).Draw(rt, "alert")),
			})
		}
		if got := scrape(t, tel); strings.Contains(got, "stranger") || strings.Contains(got, "\xff") {
			rt.Fatalf("a name from outside became a label:\n%s", got)
		}
	})
}

// TestReloadBesideEvents looks for a series that a late event makes again
// after a reload deleted it.
func TestReloadBesideEvents(t *testing.T) {
	tel := New(Options{})
	for range 50 {
		tel.SetTopology(shop())
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for range 20 {
					for _, e := range story() {
						tel.Observe(e)
					}
				}
			})
		}
		tel.SetTopology(Topology{})
		wg.Wait()
		if n := testutil.CollectAndCount(tel.metrics.fallbacks); n != 0 {
			t.Fatalf("a late hop left %d series", n)
		}
		if n := testutil.CollectAndCount(tel.metrics.hedges) + testutil.CollectAndCount(tel.metrics.batches); n != 0 {
			t.Fatalf("a late race or batch left %d series", n)
		}
	}
	if got := scrape(t, tel); strings.Contains(got, "ledger") {
		t.Errorf("a late event made a series again:\n%s", got)
	}
}

func TestBuildInfoAndDisk(t *testing.T) {
	var problems []error
	tel := New(Options{Version: "1.2", Revision: "abc", StateFolder: t.TempDir(), StoreFolder: t.TempDir()})
	w := httptest.NewRecorder()
	tel.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for _, want := range []string{`revision="abc",version="1.2"} 1`, "\npawl_state_free_bytes ", "\npawl_state_size_bytes ", "\npawl_store_disk_free_bytes ", "\npawl_store_disk_size_bytes "} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("missing %q in:\n%s", want, w.Body)
		}
	}

	gone := New(Options{
		StateFolder: filepath.Join(t.TempDir(), "gone"),
		Problem:     func(err error) { problems = append(problems, err) },
	})
	if got := scrape(t, gone); !strings.Contains(got, "pawl_dead_letters_open 0") {
		t.Errorf("one broken metric took the others with it:\n%s", got)
	}
	if strings.Contains(scrape(t, gone), "pawl_store_disk") {
		t.Error("the disk of a store that is not there is shown")
	}
	if len(problems) == 0 || !strings.Contains(problems[0].Error(), "free space of the state folder, in ") {
		t.Errorf("problems = %v, want one that names the state folder", problems)
	}
}

func TestDeliveredMessageAllocatesNothing(t *testing.T) {
	tel := New(Options{})
	tel.SetTopology(shop())
	if n := testing.AllocsPerRun(100, func() { observeDelivered(tel) }); n != 0 {
		t.Errorf("observing one delivered message made %v allocations", n)
	}
}

func observeDelivered(tel *Telemetry) {
	tel.Observe(event.Event{Kind: event.AttemptEnded, Destination: "ledger", Endpoint: "ledger", Outcome: message.OutcomeOK, Took: time.Millisecond})
	tel.Observe(event.Event{Kind: event.Delivered, Destination: "ledger", Endpoint: "ledger"})
	tel.Observe(event.Event{Kind: event.Settled, Source: "web", Settlement: event.SettledDelivered})
}

func BenchmarkObserveDelivered(b *testing.B) {
	tel := New(Options{})
	tel.SetTopology(shop())
	b.ReportAllocs()
	for b.Loop() {
		observeDelivered(tel)
	}
}
