package metamorphic

// Catches: an answer that is not true, a job, an attempt, a count or a gate that
// differs from what the rules say after any order of operations, and a key, a
// claim or a report whose repeat does something else than the first. A failure
// prints its seed, how to replay it, and its story.

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

// steps is how long a history is: enough for a job to be lost six times.
const steps = 150

// seeds says which seeds to run: SEED one alone, PAWL_HISTORIES how many, 50
// otherwise.
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
	if n, ok := number("SEED"); ok {
		return n, n
	}
	if n, ok := number("PAWL_HISTORIES"); ok {
		return 1, n
	}
	return 1, 50
}

func TestHistories(t *testing.T) {
	from, to := seeds(t)
	var mu sync.Mutex
	all := happened{}
	t.Run("seed", func(t *testing.T) {
		for seed := from; seed <= to; seed++ {
			t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
				t.Parallel()
				met := simulate(t, seed)
				mu.Lock()
				defer mu.Unlock()
				for what, n := range met {
					all[what] += n
				}
			})
		}
	})
	n := int(to-from) + 1
	for _, what := range slices.Sorted(maps.Keys(all)) {
		t.Logf("%6d %s", all[what], what)
	}
	for _, what := range []string{
		"brakes", "claimed", "claims again", "conflicts", "found by key", "found in the batch", "gaps", "kills", "lost", "removed", "reports", "reports again",
		"restarts", "stale reports", "timed out", "unreceived",
	} {
		if n >= 50 && all[what] < n/5 {
			t.Errorf("only %d %s: the histories have become too tame to find anything", all[what], what)
		}
	}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) happened {
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "pawl.db")
	h := &history{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), ctx: t.Context(), clock: clock,
		model: newModel(), happened: happened{}, keep: store.Retention{Finished: time.Minute, DeadLetters: 3 * time.Minute},
	}
	h.leave = func() {
		folder := t.TempDir()
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(path + suffix)
			if err == nil {
				err = os.WriteFile(filepath.Join(folder, "pawl.db"+suffix), b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		path = filepath.Join(folder, "pawl.db")
	}
	h.open = func() store.Store {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Wall: clock.Wall, Mono: clock.Mono, Rand: storetest.Half})
		if err != nil {
			t.Fatal(err)
		}
		// The model has no circuits: none ever opens here.
		limits := map[lane.Gate]store.Limits{}
		for _, name := range []string{"e", "f"} {
			limits[lane.Gate{Kind: lane.EndpointGate, Name: name}] = store.Limits{
				Circuit: &circuit.Settings{Failures: circuit.MaxFailures, Cooldown: circuit.MinCooldown},
			}
		}
		if err := s.SetLimits(t.Context(), limits); err != nil {
			t.Fatal(err)
		}
		return s
	}
	defer func() {
		if t.Failed() {
			t.Errorf("seed %d; replay it with: SEED=%d go test -count=1 -v ./test/metamorphic", seed, seed)
			t.Logf("the story:\n%s", strings.Join(h.story, "\n"))
		}
	}()
	h.run(steps)
	return h.happened
}
