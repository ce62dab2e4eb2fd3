package balance_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/balance"
)

const ms = time.Millisecond

func strategies() *rapid.Generator[balance.Strategy] {
	return rapid.SampledFrom([]balance.Strategy{balance.Failover, balance.RoundRobin, balance.Weighted, balance.LeastLatency})
}

// groups draws up to eight members with weights.
func groups() *rapid.Generator[[]balance.Member] {
	return rapid.Custom(func(t *rapid.T) []balance.Member {
		members := make([]balance.Member, rapid.IntRange(1, 8).Draw(t, "members"))
		for i := range members {
			members[i] = balance.Member{Name: string(rune('a' + i)), Weight: rapid.OneOf(rapid.IntRange(1, 5), rapid.IntRange(1, balance.MaxWeight)).Draw(t, "weight")}
		}
		return members
	})
}

// group is a picker and what stands before its members.
type group struct {
	*balance.Picker
	names     string
	obstacles []balance.Obstacle
	now       time.Time
}

// newGroup has members a, b, c, …, with the weights if there are any.
func newGroup(s balance.Strategy, n int, weights ...int) *group {
	members := make([]balance.Member, n)
	for i := range members {
		members[i].Name = string(rune('a' + i))
		if weights != nil {
			members[i].Weight = weights[i]
		}
	}
	return &group{balance.New(s, members, start), "abcdefghijklmnopqrstuvwxyz"[:n], make([]balance.Obstacle, n), start}
}

// pick returns the name of the next; an answer where nobody is.
func (g *group) pick() string {
	at, a := g.Pick(g.now, g.obstacles)
	if a != balance.Goes {
		return a.String()
	}
	return g.names[at : at+1]
}

func (g *group) picks(n int) string {
	var b strings.Builder
	for range n {
		b.WriteString(g.pick())
	}
	return b.String()
}

func (g *group) want(t *testing.T, picks string) {
	t.Helper()
	if got := g.picks(len(picks)); got != picks {
		t.Errorf("picked %s, want %s", got, picks)
	}
}

func (g *group) set(name byte, o balance.Obstacle) { g.obstacles[strings.IndexByte(g.names, name)] = o }

func TestFailover(t *testing.T) {
	g := newGroup(balance.Failover, 3)
	g.want(t, "aaa")
	g.set('a', balance.Shut)
	g.want(t, "bb")
	g.set('b', balance.Full)
	g.want(t, "cc")
	g.set('a', 0)
	g.want(t, "aa")
}

func TestRoundRobin(t *testing.T) {
	g := newGroup(balance.RoundRobin, 3)
	g.want(t, "abcabca")
	g.set('b', balance.Held)
	g.want(t, "cacaca")
	g.set('b', 0) // one turn, and nothing to catch up
	g.want(t, "bcabca")
	g.set('a', balance.Tried) // its message goes on to the next, whose turn that was
	g.want(t, "b")
	g.set('a', 0)
	g.want(t, "cabcab")
}

func TestWeightedByHand(t *testing.T) {
	g := newGroup(balance.Weighted, 3, 5, 1, 1)
	g.want(t, "aabacaa"+"aabacaa")
	g.set('a', balance.Shut)
	g.want(t, "bcbcbc")
	g.set('a', 0)
	g.want(t, "aabacaa")
	g = newGroup(balance.Weighted, 2) // without weights they are equal
	g.want(t, "ababab")
}

// Each cycle (as many picks as the weights' sum) has exactly the weights, and on
// the way nobody is a whole pick ahead of its share, or two behind.
func TestWeightedShares(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := groups().Draw(t, "members")
		p, sum := balance.New(balance.Weighted, members, start), 0
		for _, m := range members {
			sum += m.Weight
		}
		obstacles, picked := make([]balance.Obstacle, len(members)), make([]int, len(members))
		for n := 1; n <= 2*sum; n++ {
			at, _ := p.Pick(start, obstacles)
			picked[at]++
			for i, m := range members {
				ahead := float64(picked[i]) - float64(n*m.Weight)/float64(sum)
				if ahead >= 1 || ahead <= -2 || n%sum == 0 && ahead != 0 {
					t.Fatalf("after %d of %d, %s has %d of weight %d", n, sum, m.Name, picked[i], m.Weight)
				}
			}
		}
	})
}

// Members that come and go distort nothing for long: whatever was before, from
// now on each gets its share, but for two picks.
func TestWeightedSharesAfterAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		members := groups().Draw(t, "members")
		p, sum := balance.New(balance.Weighted, members, start), 0
		obstacles := make([]balance.Obstacle, len(members))
		for range rapid.IntRange(0, 100).Draw(t, "before") {
			for i := range obstacles {
				obstacles[i] = rapid.SampledFrom([]balance.Obstacle{0, balance.Shut, balance.Full, balance.Tried}).Draw(t, "obstacle")
			}
			p.Pick(start, obstacles)
		}
		clear(obstacles)
		for _, m := range members {
			sum += m.Weight
		}
		picked := make([]int, len(members))
		for n := 1; n <= sum; n++ {
			at, _ := p.Pick(start, obstacles)
			picked[at]++
			for i, m := range members {
				if ahead := float64(picked[i]) - float64(n*m.Weight)/float64(sum); math.Abs(ahead) > 3 {
					t.Fatalf("after %d of %d, %s has %d of weight %d", n, sum, m.Name, picked[i], m.Weight)
				}
			}
		}
	})
}

// Looking changes nothing and says what picking does.
func TestLookIsThePickToCome(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, members := strategies().Draw(t, "strategy"), groups().Draw(t, "members")
		looked, blind, now := balance.New(s, members, start), balance.New(s, members, start), start
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(rapid.SampledFrom([]time.Duration{0, ms, sec, balance.Memory, -sec}).Draw(t, "wait"))
			obstacles := make([]balance.Obstacle, len(members))
			for i := range obstacles {
				obstacles[i] = rapid.SampledFrom([]balance.Obstacle{0, 0, balance.Shut, balance.Tried, balance.Held, balance.Full}).Draw(t, "obstacle")
			}
			at, a := looked.Look(now, obstacles)
			looked.Look(now, obstacles)
			at2, a2 := looked.Pick(now, obstacles)
			at3, a3 := blind.Pick(now, obstacles)
			if at != at2 || at != at3 || a != a2 || a != a3 {
				t.Fatalf("look %d %v, pick after it %d %v, pick without it %d %v", at, a, at2, a2, at3, a3)
			}
			if at >= 0 && rapid.Bool().Draw(t, "answers") {
				d := time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms")) * ms
				looked.Observe(now, members[at].Name, d)
				blind.Observe(now, members[at].Name, d)
			}
		}
	})
}

// answers picks n times, a send every step; each answers after what latency says
// of its member, and tells the picker so at once.
func (g *group) answers(n int, step time.Duration, latency map[string]time.Duration) map[string]int {
	got := map[string]int{}
	for range n {
		name := g.pick()
		got[name]++
		if d, ok := latency[name]; ok {
			g.Observe(g.now, name, d)
		}
		g.now = g.now.Add(step)
	}
	return got
}

func TestLeastLatency(t *testing.T) {
	g := newGroup(balance.LeastLatency, 3)
	speed := map[string]time.Duration{"a": 20 * ms, "b": 10 * ms, "c": 30 * ms}
	g.want(t, "a") // never tried is lowest; one send each
	g.want(t, "b")
	g.want(t, "c")
	for _, name := range []string{"a", "b", "c"} {
		g.Observe(g.now, name, speed[name])
	}
	g.want(t, "bbbb")
	g.set('b', balance.Full)
	g.want(t, "aa")
	g.set('b', 0)
	// b turns slow: within half a half-life the average is past a's.
	speed["b"] = 100 * ms
	got := g.answers(500, 10*ms, speed)
	if got["a"] < 300 || got["c"] > 0 {
		t.Errorf("after b turned slow, 5 s went %v", got)
	}
	// A minute later it is tried again, once; it is fast again and gets it all.
	speed["b"] = 10 * ms
	got = g.answers(6500, 10*ms, speed)
	if got["b"] < 400 || got["c"] != 1 {
		t.Errorf("after b was fast again, 65 s went %v", got)
	}
	g.want(t, "bb")
}

// A member that hangs from the start: the hedge overtakes the first send to it,
// that is its sample, and the traffic goes elsewhere.
func TestDeadFromBootLeavesTheRotation(t *testing.T) {
	g := newGroup(balance.LeastLatency, 2)
	dead := 0
	for range 60_000 { // ten minutes at 100 a second
		name := g.pick()
		if name == "a" {
			dead++
			g.Observe(g.now.Add(800*ms), "a", 800*ms)
		} else {
			g.Observe(g.now, "b", 20*ms)
		}
		g.now = g.now.Add(10 * ms)
	}
	// One at first, and one a minute to see whether it is back.
	if dead < 9 || dead > 11 {
		t.Errorf("%d of 60000 went to the dead member", dead)
	}
}

// Before the first answer of a member only one send is at stake, and one that
// fails fast, so that there is no sample, is not the fastest.
func TestOneSendFindsOut(t *testing.T) {
	for _, first := range []string{"a", "b"} {
		g := newGroup(balance.LeastLatency, 2)
		got := g.answers(6000, 10*ms, map[string]time.Duration{first: 5 * sec}) // the other never brings one
		for name, n := range got {
			if name != first && n != 1 {
				t.Errorf("%d sends found out about %s", n, name)
			}
		}
		if got[first] < 5000 {
			t.Errorf("%s answers, slowly, and got %d", first, got[first])
		}
		g.now = g.now.Add(sec)
		if got := g.picks(2); strings.Count(got, first) != 1 {
			t.Errorf("a minute later %s", got)
		}
	}
	// Nobody answers: all are gone to in turn.
	g := newGroup(balance.LeastLatency, 3)
	g.want(t, "abcabcabc")
}

// The average weighs every sample by its age, at any rate of samples.
func TestLatencyIsWeighedByTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g, wantSum, wantWeight := newGroup(balance.LeastLatency, 1), 0.0, 0.0
		for range rapid.IntRange(1, 50).Draw(t, "samples") {
			passed := time.Duration(rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, int64(balance.Memory)-1)).Draw(t, "passed"))
			g.now = g.now.Add(passed)
			aged := math.Pow(0.5, passed.Seconds()/balance.HalfLife.Seconds())
			d := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "sample"))
			wantSum, wantWeight = wantSum*aged+float64(d), wantWeight*aged+1
			g.Observe(g.now, "a", d)
			got, ok := g.Latency(g.now, "a")
			if want := wantSum / wantWeight; !ok || math.Abs(float64(got)-want) > 1+want*1e-9 {
				t.Fatalf("%v, want %v", got, time.Duration(want))
			}
		}
		if _, ok := g.Latency(g.now.Add(balance.Memory), "a"); ok {
			t.Fatal("known for ever")
		}
		g.now = g.now.Add(balance.Memory)
		g.Observe(g.now, "a", sec)
		if got, _ := g.Latency(g.now, "a"); got != sec {
			t.Fatalf("what was forgotten still counts: %v", got)
		}
	})
}

func TestConfigureKeepsWhatIsKnown(t *testing.T) {
	g := newGroup(balance.LeastLatency, 2)
	g.want(t, "ab")
	g.Observe(g.now, "a", 20*ms)
	g.Observe(g.now, "b", 10*ms)
	members := []balance.Member{{Name: "b"}, {Name: "new"}, {Name: "a"}}
	g.names, g.obstacles = "bna", make([]balance.Obstacle, 3)
	g.Configure(g.now, balance.LeastLatency, members)
	g.want(t, "nbb")
	g.Observe(g.now, "gone", 0) // passed over
	if got, ok := g.Latency(g.now, "a"); got != 20*ms || !ok {
		t.Errorf("a's latency is %v, %v", got, ok)
	}
	if got, ok := g.Latency(g.now, "new"); ok {
		t.Errorf("the new one's latency is %v", got)
	}
	// The turns live on too, and over the strategies.
	g.Configure(g.now, balance.RoundRobin, members)
	g.want(t, "anbanb")
}

// Sends of another strategy were not there to find out.
func TestLeastLatencyAfterFailover(t *testing.T) {
	g := newGroup(balance.Failover, 2)
	g.want(t, "aa")
	g.Configure(g.now, balance.LeastLatency, []balance.Member{{Name: "a"}, {Name: "b"}})
	g.want(t, "b")
	g.Observe(g.now, "b", ms)
	g.want(t, "abb")
}

func TestConfigureKeepsTheCycle(t *testing.T) {
	members := []balance.Member{{Name: "a", Weight: 5}, {Name: "b", Weight: 1}, {Name: "c", Weight: 1}}
	g := newGroup(balance.Weighted, 3, 5, 1, 1)
	g.want(t, "aab")
	g.Configure(g.now, balance.Weighted, members) // a reload that changes nothing
	g.want(t, "acaa"+"aab")
	members[0].Weight = 1 // a has nothing to wait for under the new weights
	g.Configure(g.now, balance.Weighted, members)
	g.want(t, "abcabc")
}

func TestPickerStrangeInput(t *testing.T) {
	g := newGroup(balance.Weighted, 2, -5, 1<<40)
	if got := strings.Count(g.picks(1001), "a"); got != 1 {
		t.Errorf("the least weight was picked %d times in %d", got, 1001)
	}
	g = newGroup("", 2)
	g.want(t, "aa")
	g = newGroup(balance.LeastLatency, 1)
	g.Observe(g.now, "a", -sec)
	if got, ok := g.Latency(g.now, "a"); got != 0 || !ok {
		t.Errorf("a negative sample: %v, %v", got, ok)
	}
	defer func() {
		if recover() == nil {
			t.Error("no panic at obstacles of another group")
		}
	}()
	g.Pick(g.now, make([]balance.Obstacle, 2))
}

func TestPickerAllocatesNothing(t *testing.T) {
	for _, s := range []balance.Strategy{balance.Failover, balance.RoundRobin, balance.Weighted, balance.LeastLatency} {
		g := newGroup(s, 5)
		if n := testing.AllocsPerRun(100, func() {
			at, _ := g.Pick(g.now, g.obstacles)
			g.Observe(g.now, g.names[at:at+1], ms)
		}); n != 0 {
			t.Errorf("%s: %v allocations", s, n)
		}
	}
}

func BenchmarkPick(b *testing.B) {
	for _, n := range []int{2, 16} {
		for _, s := range []balance.Strategy{balance.RoundRobin, balance.Weighted, balance.LeastLatency} {
			b.Run(fmt.Sprint(s, n), func(b *testing.B) {
				g := newGroup(s, n)
				for b.Loop() {
					g.Pick(g.now, g.obstacles)
				}
			})
		}
	}
}
