package deliver

// Catches: a send to a member that is open, held, paused, at its share, in flight
// or refused by it, or unhealthy while another is well; a hedge to a half-open
// one; more trials, workers or tries than there may be; a member that could be
// sent to and is not; a worker, trial or ramp place that is never given back, over
// reloads that take a member away with sends in flight.
//
// A group of two is explored exhaustively to a depth of 6 and at random over long
// histories. What it may do is said in group_world_test.go a second time, in the
// words of the reference, and compared after every step.

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/ramp"
)

func crowdBreaker() *breaker.Settings {
	return &breaker.Settings{FailureRatio: 0.5, MinRequests: 1, Window: time.Hour, OpenFor: 3 * time.Second, MaxOpenFor: 6 * time.Second, HalfOpenMax: 1}
}

// crowds leave some of the moves out, to keep the space small.
var crowds = map[string]struct {
	how     balance.Strategy
	without string
}{
	"failures and hedges": {balance.Failover, "uztlc1"},
	"in turn":             {balance.RoundRobin, "uztlc4r"},
	"health and holds":    {balance.Failover, "zlc1hr"},
	"pauses and refusals": {balance.Weighted, "ultc1f"},
	"reloads":             {balance.LeastLatency, "uzptc1r"},
}

func TestGroupIsModelChecked(t *testing.T) {
	depth := 6
	if testing.Short() { // under the race detector
		depth = 5
	}
	all := moves()
	for name, v := range crowds {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layer, seen, taken := [][]move{nil}, map[crowdKey]bool{}, 0
			at := func(path []move) *crowd {
				c := newCrowd(v.how, crowdBreaker())
				for _, m := range path {
					if err := c.take(m); err != nil {
						t.Fatalf("%v: %v", path, err)
					}
				}
				return c
			}
			for range depth {
				var next [][]move
				for _, path := range layer {
					for _, m := range all {
						if contains(v.without, m.what) {
							continue
						}
						c := at(path)
						if !c.possible(m) {
							continue
						}
						taken++
						if err := c.take(m); err != nil {
							t.Fatalf("%v, then %v: %v", path, m, err)
						}
						k := c.key()
						if seen[k] {
							continue
						}
						seen[k] = true
						next = append(next, append(path[:len(path):len(path)], m))
						if err := c.escapes(); err != nil {
							t.Fatalf("%v, then %v: %v", path, m, err)
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

func contains(letters string, b byte) bool {
	for i := range len(letters) {
		if letters[i] == b {
			return true
		}
	}
	return false
}

func TestGroupOverLongHistories(t *testing.T) {
	all := moves()
	for _, how := range []balance.Strategy{balance.Failover, balance.RoundRobin, balance.Weighted, balance.LeastLatency} {
		t.Run(string(how), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				s := crowdBreaker()
				s.HalfOpenMax = rapid.IntRange(1, 2).Draw(t, "trials")
				c := newCrowd(how, s)
				for _, n := range rapid.SliceOfN(rapid.IntRange(0, len(all)-1), 1, 300).Draw(t, "moves") {
					if m := all[n]; c.possible(m) {
						if err := c.take(m); err != nil {
							t.Fatalf("%v: %v", m, err)
						}
					}
				}
				if err := c.escapes(); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// crowdKey is what the future of a crowd hangs on.
type crowdKey struct {
	now          time.Duration
	lonely       bool
	sick, paused [crowdMembers]bool
	held         [crowdMembers]time.Time
	gates        [crowdMembers]gateKey
	busy         int
	flights      [crowdMessages][crowdMembers]flightKey
	rounds       [crowdMessages]int
	begun        [crowdMessages]bool
	tried, out   [crowdMessages][crowdMembers]bool
}

type gateKey struct {
	snap       breaker.Snapshot
	generation uint64
	ramp       ramp.Ramp
	holding    bool
	busy       int
}

type flightKey struct {
	flies, gone bool
	era, ramp   uint64
}

func (c *crowd) key() (k crowdKey) {
	k = crowdKey{now: c.now.Sub(dawn), lonely: c.lonely, sick: c.sick, paused: c.paused, held: c.held, busy: c.group.busy,
		rounds: c.rounds, tried: c.tried, out: c.out}
	for i, m := range c.group.members {
		k.gates[i] = gateKey{m.gate.breaker.Snapshot(c.now), generation(m.gate.breaker), m.gate.ramp, m.gate.holding, m.gate.busy}
	}
	for m := range c.flights {
		k.begun[m] = c.asks[m].begun
		for i, f := range c.flights[m] {
			if f.at != nil {
				k.flights[m][i] = flightKey{true, f.at != c.members[i], f.era, f.ramp}
			}
		}
	}
	return k
}
