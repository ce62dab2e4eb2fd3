package sim

// Catches: a message that is acknowledged and then nowhere; a letter too many,
// too few or with a wrong story; a key that changes; more attempts or trials
// than the policy has; a send past an open breaker; a place, worker, goroutine
// or generation that is left; a stop, a reload, a full disk or a power cut that
// loses something. A failure prints its seed, how to replay it, and its story.

import (
	"os"
	"strconv"
	"testing"
	"testing/synctest"
)

// seeds says which seeds to run: PAWL_SIM_SEED one alone, PAWL_SIM_SEEDS how
// many, 100 otherwise.
func seeds(t *testing.T) (from, to uint64) {
	number := func(name string) (uint64, bool) {
		text := os.Getenv(name)
		if text == "" {
			return 0, false
		}
		n, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatalf("%s=%q is not a number", name, text)
		}
		return n, true
	}
	if n, ok := number("PAWL_SIM_SEED"); ok {
		return n, n
	}
	if n, ok := number("PAWL_SIM_SEEDS"); ok {
		return 1, n
	}
	return 1, 100
}

func TestSimulation(t *testing.T) {
	from, to := seeds(t)
	for seed := from; seed <= to; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			var r Report
			synctest.Test(t, func(*testing.T) { r = Run(Draw(seed)) })
			if len(r.Problems) > 0 {
				t.Errorf("seed %d; replay it with: make sim SEED=%d", seed, seed)
				for _, p := range r.Problems {
					t.Errorf("  %s", p)
				}
				t.Logf("the plan:\n%v\nthe story:\n%s", r.Plan, r.Story)
			}
			if from == to {
				t.Logf("%d messages, %d attempts, %d letters", r.Messages, r.Attempts, r.Letters)
			}
		})
	}
}
