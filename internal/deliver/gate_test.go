package deliver

// Catches: a send that begins at an open breaker, a held or paused endpoint, or
// past its workers, its trials, its ramp or its rate limit; a token used by a send
// that did not begin; a retry beyond the budget; a place, worker or trial that is
// never given back; a state that nothing gets out of; a result from before a
// change of state that moves the breaker.
//
// The gate is explored exhaustively to a depth of 7 (8 in long proofs) with 3 callers, and at
// random over long histories. What it may do is said here a second time, in the
// plainest way, and compared after every step.

import (
	"os"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"

	"pgregory.net/rapid"
)

// variant is one small gate to explore.
type variant struct {
	name    string
	workers int
	breaker *breaker.Settings
	without []step // steps that are left out, to keep the space small
	ramping bool   // begin with the ramp on
	// rate is how fast a token comes, with a burst of two; zero for no limit.
	rate time.Duration
	// budget allows one retry for two first tries.
	budget bool
}

func variants() []variant {
	one := &breaker.Settings{FailureRatio: 0.5, MinRequests: 1, Window: time.Hour, OpenFor: 3 * time.Second, MaxOpenFor: 6 * time.Second, HalfOpenMax: 1}
	two := &breaker.Settings{FailureRatio: 0.75, MinRequests: 2, Window: time.Hour, OpenFor: 3 * time.Second, MaxOpenFor: 3 * time.Second, HalfOpenMax: 2}
	return []variant{
		{name: "breaker, one trial", workers: 3, breaker: one, without: []step{reloads, throttled}},
		{name: "breaker, two trials", workers: 3, breaker: two, without: []step{reloads, throttled, pauses}},
		{name: "breaker and hold", workers: 2, breaker: one, without: []step{reloads, pauses}},
		{name: "hold and ramp", workers: 3, without: []step{reloads, fails}},
		{name: "ramp already on", workers: 3, without: []step{reloads, fails, pauses}, ramping: true},
		{name: "one worker", workers: 1, breaker: one, without: []step{reloads}},
		{name: "rate limit and breaker", workers: 3, breaker: one, rate: 4 * time.Second, without: []step{reloads, pauses, throttled}},
		{name: "rate limit, hold and ramp", workers: 3, rate: 2 * time.Second, without: []step{reloads, fails, pauses}},
		{name: "retry budget", workers: 3, budget: true, rate: time.Second, without: []step{reloads, pauses, throttled, cancels, leap}},
		{name: "reloads", workers: 2, breaker: one, without: []step{throttled, pauses, leap}},
	}
}

func (v variant) leavesOut(s step) bool {
	for _, o := range v.without {
		if s == o || (o < tick && s < tick && s/callers == o/callers) {
			return true
		}
	}
	return false
}

// TestGateIsModelChecked explores every interleaving to a depth of 7, or 8, each
// state once.
func TestGateIsModelChecked(t *testing.T) {
	depth := 7
	if os.Getenv("PAWL_LONG") != "" {
		depth = 8
	}
	if testing.Short() { // under the race detector
		depth = 5
	}
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			layer, seen, taken := [][]step{nil}, map[key]bool{}, 0
			for range depth {
				var next [][]step
				for _, path := range layer {
					for s := range steps {
						if v.leavesOut(s) {
							continue
						}
						w := v.at(t, path)
						if !w.possible(s) {
							continue
						}
						taken++
						if err := w.take(s); err != nil {
							t.Fatalf("%v, then %v: %v", path, s, err)
						}
						k := w.key()
						if seen[k] {
							continue
						}
						seen[k] = true
						next = append(next, append(path[:len(path):len(path)], s))
						if err := w.escapes(); err != nil {
							t.Fatalf("%v, then %v: %v", path, s, err)
						}
					}
				}
				layer = next
			}
			t.Logf("%d states by %d steps", len(seen), taken)
			if len(seen) < 200 {
				t.Errorf("only %d states: the exploration is broken", len(seen))
			}
		})
	}
}

// at returns the world after the path.
func (v variant) at(t *testing.T, path []step) *world {
	w := newWorld(v)
	for _, s := range path {
		if err := w.take(s); err != nil {
			t.Fatalf("%v: %v", path, err)
		}
	}
	return w
}

// TestGateOverLongHistories takes hundreds of random steps in each variant,
// with nothing left out.
func TestGateOverLongHistories(t *testing.T) {
	for _, v := range variants() {
		t.Run(v.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				w := newWorld(v)
				for _, n := range rapid.SliceOfN(rapid.IntRange(0, int(steps)-1), 1, 400).Draw(t, "steps") {
					s := step(n)
					if !w.possible(s) || (v.breaker == nil && s == reloads) {
						continue
					}
					if err := w.take(s); err != nil {
						t.Fatalf("%v: %v", s, err)
					}
				}
				if w.gate.breaker == nil && v.breaker != nil {
					w.gate.breaker = breaker.New(w.settings, w.now)
					w.era++
				}
				if err := w.escapes(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}
