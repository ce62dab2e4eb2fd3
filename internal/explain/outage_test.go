package explain

// Would catch: a number of an outage that is reckoned wrongly where the engine
// can't be asked in a test of its own: shares of a group, averages of a budget,
// openings of a breaker, bounds that need a traffic of many messages.

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/setting"
)

const pooled = `
sources: [ { name: web, type: http, listen: "127.0.0.1:8080" } ]
routes: [ { name: all, from: [web], to: [pool, first, turns] } ]
defaults: { timeout: 4s, retry: { attempts: 3, backoff: 1s, jitter: none } }
destinations:
  - name: pool
    type: group
    strategy: weighted
    workers: 7
    health_check: { path: /ready, interval: 10s, timeout: 2s, unhealthy_after: 4 }
    members:
      - { name: east, type: https, url: "https://east.example.com/in" }
      - { type: https, url: "https://west.example.com/in", weight: 4, timeout: 1s, circuit_breaker: { open_for: 2s } }
    idempotent: true
    hedge: { after: 300ms }
    deadline: 30s
    retry_budget: { ratio: 50%, min_per_second: 1, window: 20s }
    fallback: [spare]
  - { name: spare, type: https, url: "https://spare.example.com", retry: { attempts: 2 }, when_open: fail }
  - name: first
    type: group
    strategy: failover
    members: [ { type: https, url: "https://a.example.com" }, { type: https, url: "https://b.example.com", circuit_breaker: false } ]
  - name: turns
    type: group
    strategy: round_robin
    health_check: { path: / }
    members: [ { type: https, url: "https://c.example.com" }, { type: https, url: "https://d.example.com" }, { type: https, url: "https://e.example.com" } ]
`

func explained(t *testing.T, text, name string) Explanation {
	t.Helper()
	e, err := Destination(load(t, text), name, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func seconds(n float64) setting.Duration { return setting.Duration(n * float64(time.Second)) }

func TestGroup(t *testing.T) {
	e := explained(t, pooled, "pool")
	east, west := e.Group.Members[0], e.Group.Members[1]
	if east.Share != 0.2 || west.Share != 0.8 || east.Workers != 4 || west.Name != "pool/2" || west.Timeout != seconds(1) || west.Where != "https://west.example.com" {
		t.Errorf("%+v", e.Group.Members)
	}
	if diff := cmp.Diff([]setting.Duration{seconds(2)}, west.Breaker.OpenFor); diff != "" { // which is not doubled
		t.Error(diff)
	}
	if diff := cmp.Diff([]setting.Duration{seconds(5), seconds(10), seconds(20), seconds(40), seconds(60)}, east.Breaker.OpenFor); diff != "" {
		t.Error(diff)
	}
	// Four intervals, and the last check's timeout.
	if h := e.Group.Health; h.NoticedAfter != seconds(42) || h.Path != "/ready" {
		t.Errorf("%+v", h)
	}
	if diff := cmp.Diff(&Hedge{After: "300ms", Max: 1, Sends: 2}, e.Hedge); diff != "" {
		t.Error(diff)
	}
	// Three rounds, a timeout of 4 s and one of 1 s in each, 1 and 2 s between.
	if e.Attempts[2].Slowest != seconds(13) || e.Attempts[2].Sends != 2 || e.GivenUpAfter != (Window{seconds(3), seconds(18)}) {
		t.Errorf("%+v, given up after %+v", e.Attempts, e.GivenUpAfter)
	}
	// 30 s, 4 s and a hedge 300 ms later, and the spare's 4 s.
	if e.Longest == nil || e.Longest.Time != seconds(38.3) {
		t.Errorf("%+v", e.Longest)
	}
	want := &Amplification{
		Factors: []Factor{{"pool", 3, 2}, {"spare", 2, 1}}, Sends: 8, Sum: "3 × 2 + 2 = 8",
		Average: 2*1.5 + 2,
	}
	if diff := cmp.Diff(want, e.Amplification); diff != "" {
		t.Error(diff)
	}
	// The spare: two tries, 1 s between, after the pool's 3 to 18 s; with the
	// budget spent the pool is left after the first round.
	if p := e.Patience; p.Tries != (Window{seconds(4), seconds(27)}) || p.Spent == nil || *p.Spent != seconds(1) || *p.Open != (OpenPatience{Latest: p.Open.Latest}) || *p.Open.Latest != 0 {
		t.Errorf("%+v, open %+v", p, p.Open)
	}
	if e.AtOpen != HopsAtOpen || e.Breaker != nil {
		t.Errorf("at open: %s, breaker %+v", e.AtOpen, e.Breaker)
	}
}

func TestSharesByStrategy(t *testing.T) {
	first, turns := explained(t, pooled, "first"), explained(t, pooled, "turns")
	if m := first.Group.Members; m[0].Share != 1 || m[1].Share != 0 {
		t.Errorf("failover: %+v", m)
	}
	if m := turns.Group.Members; m[0].Share != 1.0/3 || m[2].Share != 1.0/3 {
		t.Errorf("round_robin: %+v", m)
	}
	// A member without a breaker is always there to be tried.
	if first.AtOpen != "" || first.Patience.Open != nil || turns.AtOpen != WaitsAtOpen || turns.Patience.Open.Places != 512 {
		t.Errorf("at open: %q and %q", first.AtOpen, turns.AtOpen)
	}
	if turns.Longest != nil {
		t.Errorf("a bound without a deadline: %+v", turns.Longest)
	}
}

func TestOpenings(t *testing.T) {
	s := breaker.Defaults()
	other := s
	other.OpenFor, other.MaxOpenFor = 7*time.Second, 7*time.Second
	if diff := cmp.Diff([]setting.Duration{seconds(5), seconds(7), seconds(14), seconds(15)}, openings([]breaker.Settings{s, other}, 4)); diff != "" {
		t.Error(diff)
	}
	if got := openings([]breaker.Settings{s}, 0); len(got) != 0 {
		t.Errorf("no rounds: %v", got)
	}
}

// A ttl ends the chain as a deadline ends the retrying; a batch's wait is part of
// an attempt.
func TestEnds(t *testing.T) {
	const text = `
sources: [ { name: web, type: http, listen: "127.0.0.1:8080" } ]
routes: [ { name: all, from: [web], to: [old, both, batched, late, exact] } ]
defaults: { timeout: 1s, retry: { attempts: 5, backoff: 1s, jitter: none } }
destinations:
  - { name: old, type: https, url: "https://a.example.com", ttl: 3s }
  - { name: both, type: https, url: "https://b.example.com", ttl: 40s, deadline: 10s }
  - { name: batched, type: https, url: "https://c.example.com", batch: { max_wait: 2s }, deadline: 10s }
  - { name: late, type: https, url: "https://d.example.com", rate_limit: { per_second: 0.25 }, deadline: 3s }
  - { name: exact, type: https, url: "https://e.example.com", rate_limit: { per_second: 0.5 }, ttl: 2s }
`
	e := explained(t, text, "old") // 0, 1 and 3 s: the third is too old
	if e.Reason != "permanent" || e.Tag != "expired" || len(e.Attempts) != 2 || e.Unmade != 3 || e.Longest.Time != seconds(4) {
		t.Errorf("%+v, open %+v", e.Course, e.Longest)
	}
	e = explained(t, text, "both")
	if e.Reason != "deadline" || e.Tag != "" || e.Longest.Time != seconds(11) || e.Unmade != 1 {
		t.Errorf("%+v, open %+v", e.Course, e.Longest)
	}
	e = explained(t, text, "batched") // 0, 1, 3 and 7 s; or 3 s each, and 1, 2 and 4 s between
	if e.Longest.Time != seconds(13) || e.Attempts[2].Slowest != seconds(9) || e.Attempts[2].MayBePast || !e.Attempts[3].MayBePast {
		t.Errorf("%+v, open %+v", e.Course, e.Longest)
	}
	// The token comes after 4 s, which is seen once the backoff of 1 s is over.
	e = explained(t, text, "late")
	if e.Reason != "deadline" || len(e.Attempts) != 1 || e.GivenUpAfter != (Window{seconds(1), seconds(2)}) {
		t.Errorf("%+v", e.Course)
	}
	// A message as old as its ttl is not sent.
	e = explained(t, text, "exact")
	if e.Reason != "permanent" || e.Tag != "expired" || len(e.Attempts) != 1 {
		t.Errorf("%+v", e.Course)
	}
}
