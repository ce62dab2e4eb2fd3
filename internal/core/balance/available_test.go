// These tests catch a group that sends to a member it should leave alone, that
// waits or gives up while somebody could be tried, shares of traffic that are not
// those of the weights, a member that is tried twice in a round while another is
// not tried at all, a dead or fast-failing member that least latency keeps
// going to, a member that never gets back, and a percentile that is off.
package balance_test

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/balance"
)

var start = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

const sec = time.Second

// every three members can be in, all of them.
func everyThree(f func(members []balance.Obstacle)) {
	const all = 1 << 6
	for i := range all * all * all {
		f([]balance.Obstacle{balance.Obstacle(i % all), balance.Obstacle(i / all % all), balance.Obstacle(i / all / all)})
	}
}

// The rules in words of sets, for every state that three members can be in.
func TestTheRules(t *testing.T) {
	is := func(what balance.Obstacle) func(balance.Obstacle) bool {
		return func(o balance.Obstacle) bool { return o&what != 0 }
	}
	not := func(f func(balance.Obstacle) bool) func(balance.Obstacle) bool {
		return func(o balance.Obstacle) bool { return !f(o) }
	}
	filter := func(from []balance.Obstacle, f func(balance.Obstacle) bool) (to []balance.Obstacle) {
		for _, o := range from {
			if f(o) {
				to = append(to, o)
			}
		}
		return to
	}
	seen := map[balance.Answer]int{}
	p := balance.New(balance.Failover, []balance.Member{{Name: "a"}, {Name: "b"}, {Name: "c"}}, start)
	everyThree(func(members []balance.Obstacle) {
		left := filter(members, not(is(balance.Out)))
		bars := balance.Shut | balance.Unhealthy | balance.Held
		available := filter(left, not(is(bars)))
		if len(available) == 0 {
			bars = balance.Shut | balance.Held
			available = filter(left, not(is(bars)))
		}
		if got := balance.Bars(members); got != bars {
			t.Fatalf("%v: barred by %v, want %v", members, got, bars)
		}
		untried := filter(available, not(is(balance.Tried)))
		onHold := filter(left, func(o balance.Obstacle) bool { return o&(bars|balance.Tried) == balance.Held })
		var want balance.Answer
		switch {
		case len(filter(untried, not(is(balance.Full)))) > 0:
			want = balance.Goes
		case len(left) > 0 && len(filter(left, is(balance.Shut))) == len(left):
			want = balance.AllShut
		case len(untried) > 0:
			want = balance.Waits
		case len(filter(left, is(balance.Tried))) == 0 && len(onHold) > 0:
			want = balance.Waits
		default:
			want = balance.RoundOver
		}
		seen[want]++
		at, got := p.Look(start, members)
		if got != want {
			t.Fatalf("%v: %v, want %v", members, got, want)
		}
		first := slices.IndexFunc(members, not(is(bars|balance.Tried|balance.Full|balance.Out)))
		if want == balance.Goes && at != first || want != balance.Goes && at != -1 {
			t.Fatalf("%v: member %d", members, at)
		}
	})
	if len(seen) != 4 {
		t.Errorf("not every answer was given: %v", seen)
	}
}

// The same in the words of the page, for those who read examples.
func TestTheRulesByExample(t *testing.T) {
	const (
		fine, shut, ill, held = balance.Obstacle(0), balance.Shut, balance.Unhealthy, balance.Held
		full, tried, out      = balance.Full, balance.Tried, balance.Out
	)
	for _, c := range []struct {
		name string
		a, b balance.Obstacle
		want balance.Answer
		at   int
	}{
		{"both fine", fine, fine, balance.Goes, 0},
		{"one ill", ill, fine, balance.Goes, 1},
		{"both ill: health is ignored", ill, ill, balance.Goes, 0},
		{"ill or shut: health is ignored", ill, shut, balance.Goes, 0},
		{"ill or held: health is ignored", ill, held, balance.Goes, 0},
		{"an ill one is no second try while the other is fine", tried, ill, balance.RoundOver, -1},
		{"but it is one where the other is out", out, ill, balance.Goes, 1},
		{"both shut", shut, shut, balance.AllShut, -1},
		{"both shut, one after it was tried", shut | tried, shut, balance.AllShut, -1},
		{"shut, and the other is out", out, shut, balance.AllShut, -1},
		{"shut, and the other was tried", tried, shut, balance.RoundOver, -1},
		{"both held", held, held, balance.Waits, -1},
		{"held, and the other was tried: backoff first", tried, held, balance.RoundOver, -1},
		{"held by the answer to this try", held | tried, held, balance.RoundOver, -1},
		{"at its share, and the other was tried: worth waiting for", tried, full, balance.Waits, -1},
		{"at its share, and the other is ill", full, ill, balance.Waits, -1},
		{"both out", out, out, balance.RoundOver, -1},
	} {
		p := balance.New(balance.Failover, []balance.Member{{Name: "a"}, {Name: "b"}}, start)
		if at, got := p.Pick(start, []balance.Obstacle{c.a, c.b}); got != c.want || at != c.at {
			t.Errorf("%s: %v, member %d; want %v, %d", c.name, got, at, c.want, c.at)
		}
	}
	if _, got := balance.New(balance.Failover, nil, start).Pick(start, nil); got != balance.RoundOver {
		t.Errorf("an empty group: %v", got)
	}
}

// Whichever the strategy: a round goes to every available member once before it
// goes anywhere twice, and to nobody else.
func TestARoundTriesEveryAvailableMemberOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := strategies().Draw(t, "strategy")
		members := groups().Draw(t, "members")
		p, now := balance.New(s, members, start), start
		for range rapid.IntRange(1, 5).Draw(t, "rounds") {
			obstacles := make([]balance.Obstacle, len(members))
			for i := range obstacles {
				obstacles[i] = rapid.SampledFrom([]balance.Obstacle{0, 0, 0, balance.Shut, balance.Unhealthy, balance.Held, balance.Out}).Draw(t, "obstacle")
			}
			bars := balance.Bars(obstacles) | balance.Out
			var want, got []int
			for i, o := range obstacles {
				if o&bars == 0 {
					want = append(want, i)
				}
			}
			for {
				at, a := p.Pick(now, obstacles)
				if a != balance.Goes {
					break
				}
				got = append(got, at)
				obstacles[at] |= balance.Tried
				now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * sec)
				if rapid.Bool().Draw(t, "answers") {
					p.Observe(now, members[at].Name, time.Duration(rapid.IntRange(0, 1000).Draw(t, "ms"))*time.Millisecond)
				}
			}
			if slices.Sort(got); !slices.Equal(got, want) {
				t.Fatalf("went to %v, available were %v", got, want)
			}
		}
	})
}

// Members of a group can't have more than all of its workers beyond rounding up,
// and one can't have more than its part.
func TestShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers, members := rapid.IntRange(1, 10_000).Draw(t, "workers"), rapid.IntRange(1, 100).Draw(t, "members")
		share := balance.Share(workers, members)
		if share*members < workers || (share-1)*members >= workers {
			t.Fatalf("share %d", share)
		}
	})
	for _, c := range [][3]int{{64, 3, 22}, {64, 2, 32}, {1, 5, 1}, {0, 5, 1}, {5, 0, 5}, {-3, -3, 1}} {
		if got := balance.Share(c[0], c[1]); got != c[2] {
			t.Errorf("%d workers over %d members: %d, want %d", c[0], c[1], got, c[2])
		}
	}
}

func TestWords(t *testing.T) {
	for o, want := range map[balance.Obstacle]string{
		0: "none", balance.Shut | balance.Held: "shut+held",
		balance.Unhealthy | balance.Full | balance.Tried | balance.Out: "unhealthy+full+tried+out",
	} {
		if got := o.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for a, want := range map[balance.Answer]string{0: "none", balance.Goes: "goes", balance.Waits: "waits", balance.RoundOver: "round_over", balance.AllShut: "all_shut"} {
		if got := a.String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for _, s := range []balance.Strategy{balance.Failover, balance.RoundRobin, balance.Weighted, balance.LeastLatency} {
		if !s.Valid() {
			t.Errorf("%s is not valid", s)
		}
	}
	if balance.Strategy("").Valid() || balance.Strategy("random").Valid() {
		t.Error("anything is valid")
	}
}
