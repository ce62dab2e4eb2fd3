package sim

// Catches: a message that is acknowledged and then nowhere; a letter too many, too
// few or with a wrong story; a key that changes; more attempts, trials, hedges or
// sends at once than the policy has; a send past an open breaker, to an endpoint
// that asked for a rest or to an unwell member, or faster than a rate limit; a retry
// or a hedge beyond the budget, its own or one that two relays count together; a
// message that was seen and goes through again, by this relay or by another that has
// the same store; a member with more or less than its share; a batch too large, a
// wait in a round, a backoff out of its jitter, a chain past its deadline; a place,
// worker, goroutine or generation that is left; a stop, a reload, a full disk, a
// store that goes away or a power cut that loses something. A failure prints its
// seed, how to replay it, and its story.

import (
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
)

// seeds says which seeds to run: PAWL_SIM_SEED one alone, PAWL_SIM_SEEDS how
// many, 200 otherwise.
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
	return 1, 200
}

func TestSimulation(t *testing.T) {
	from, to := seeds(t)
	var mu sync.Mutex
	var all Report
	t.Run("seed", func(t *testing.T) {
		for seed := from; seed <= to; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				r := simulate(t, seed)
				mu.Lock()
				defer mu.Unlock()
				all.Messages, all.Attempts = all.Messages+r.Messages, all.Attempts+r.Attempts
				all.Letters, all.Late = all.Letters+r.Letters, all.Late+r.Late
				all.Limited, all.Spent = all.Limited+r.Limited, all.Spent+r.Spent
				all.Hedges, all.Unwell, all.Filtered = all.Hedges+r.Hedges, all.Unwell+r.Unwell, all.Filtered+r.Filtered
				all.Together, all.Alone, all.Runs = all.Together+r.Together, all.Alone+r.Alone, all.Runs+r.Runs
			})
		}
	})
	n := int(to - from + 1)
	t.Logf("%d messages, %d attempts, %d letters, %d answers came late, %d attempts waited for a rate limit, %d were left for want of a retry budget",
		all.Messages, all.Attempts, all.Letters, all.Late, all.Limited, all.Spent)
	t.Logf("%d hedges, %d members became unwell, %d messages had been seen", all.Hedges, all.Unwell, all.Filtered)
	t.Logf("%d charges of others were counted, %d without the store; %d stretches said something of shares", all.Together, all.Alone, all.Runs)
	if n >= 50 && (all.Attempts < 100*n || all.Letters < 5*n || all.Late < n || all.Limited < n || all.Spent < n ||
		all.Hedges < n || all.Unwell < n || all.Filtered < n || all.Together < n/2 || all.Alone < n/8 || all.Runs < n/4) {
		t.Error("the simulation has become too tame to find anything")
	}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) (r Report) {
	synctest.Test(t, func(*testing.T) { r = Run(Draw(seed)) })
	if len(r.Problems) == 0 {
		return r
	}
	t.Errorf("seed %d; replay it with: make sim SEED=%d", seed, seed)
	for _, p := range r.Problems {
		t.Errorf("  %s", p)
	}
	t.Logf("the plan:\n%v\nthe story:\n%s", r.Plan, r.Story)
	return r
}
