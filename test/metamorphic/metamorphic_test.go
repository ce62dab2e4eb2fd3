package metamorphic

// Catches: an answer that is not true; a job, an attempt, a count, a gate, a circuit,
// a replay or an event that differs from what the rules say after any order of
// operations, restarts and kills; a key, a claim or a report whose repeat does
// something else than the first; a place, or a unique key, that is kept too long or
// not long enough. A failure prints its seed, how to replay it, and its story.

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

	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

// length is how many steps a history has: enough for a job to be lost six times.
const length = 150

// histories is how many a normal run makes.
const histories = 50

// seeds says which seeds to run: SEED one alone, PAWL_HISTORIES how many, else
// from 1 to histories, or a fifth of them with -short.
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
	if testing.Short() { // under the race detector, which takes five times as long
		return 1, histories / 5
	}
	return 1, histories
}

// least is what must happen in so many histories, about a third of what does.
var least = map[string]int{
	"brakes":                   4,
	"cancels":                  95,
	"cancels of a running job": 57,
	"checks through a circuit that is not closed": 7,
	"circuits opened":                 56,
	"claimed":                         1405,
	"claims again":                    10,
	"claims again of a cancelled job": 2,
	"conflicts":                       32,
	"dead letters retried":            29,
	"deletes of a cancelled job with a worker": 1,
	"events handed over":                       175,
	"events of deliveries of events":           86,
	"events read after a start":                30,
	"found by key":                             63,
	"found in the batch":                       10,
	"gaps":                                     46,
	"hand-overs refused":                       9,
	"holds":                                    3,
	"kills":                                    16,
	"lapses of a cancelled job":                23,
	"lost":                                     124,
	"probes beside one that takes too long":    8,
	"probes taken":                             72,
	"probes that failed":                       23,
	"probes that were cancelled":               7,
	"probes that were lost":                    8,
	"probes that were released":                7,
	"probes that were unreceived":              10,
	"probes that were well":                    3,
	"removed":                                  271,
	"replayed: cancel":                         21,
	"replayed: delete":                         8,
	"replayed: retry":                          219,
	"replays done":                             34,
	"replays from in_review to cancelled":      2,
	"replays from in_review to running":        6,
	"replays from paused to cancelled":         1,
	"replays from paused to running":           10,
	"replays from running to cancelled":        1,
	"replays from running to paused":           21,
	"replays from stopped to running":          2,
	"replays paused half way":                  5,
	"replays that stopped by themselves":       4,
	"reports":                                  1011,
	"reports again":                            45,
	"reports again of what was brought back":   4,
	"reports of a cancelled job":               23,
	"resets":                                   12,
	"restarts":                                 17,
	"retries that clash":                       4,
	"stale failures at an open circuit":        67,
	"stale reports":                            626,
	"starts with a cancelled job of the relay": 2,
	"starts with a circuit that is not closed": 29,
	"starts with a replay half way":            4,
	"timed out":                                125,
	"uncertain ones left out":                  6,
	"uncertain ones refused":                   3,
	"uncertain ones that were named":           1,
	"unique clashes":                           26,
	"unique keys freed":                        47,
	"unreceived":                               214,
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
	for _, what := range slices.Sorted(maps.Keys(least)) {
		if n >= histories && all[what] < least[what] {
			t.Errorf("only %d of at least %d %s: the histories have become too tame to find anything", all[what], least[what], what)
		}
	}
}

// simulate runs one seed.
func simulate(t *testing.T, seed uint64) happened {
	clock := storetest.NewClock()
	path := filepath.Join(t.TempDir(), "pawl.db")
	h := &history{
		T: t, Rand: rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15)), ctx: t.Context(), clock: clock,
		model: newModel(), happened: happened{}, keep: store.Retention{Finished: time.Minute, DeadLetters: 3 * time.Minute, Events: 5 * time.Minute},
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
	h.files = func() store.Store {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path, Wall: clock.Wall, Mono: clock.Mono, Rand: storetest.Half})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	h.model.met, h.model.limits = h.happened, h.newLimits()
	defer func() {
		if t.Failed() {
			t.Errorf("seed %d; replay it with: SEED=%d go test -count=1 -v ./test/metamorphic", seed, seed)
			t.Logf("the story:\n%s", strings.Join(h.story, "\n"))
		}
	}()
	h.run(length)
	return h.happened
}
