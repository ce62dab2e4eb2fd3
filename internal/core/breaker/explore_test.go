package breaker

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// The exploration walks every interleaving of three callers and the clock to
// depth 8, and looks at each state it reaches once.

const (
	exploreDepth   = 8
	exploreCallers = 3
	exploreSlow    = 150 * time.Millisecond
)

var exploreSettings = Settings{
	FailureRatio: 0.5, MinRequests: 2, Window: 2 * time.Second,
	OpenFor: 200 * time.Millisecond, MaxOpenFor: 400 * time.Millisecond, HalfOpenMax: 2,
}

// step is one thing that can happen.
type step struct {
	caller  int // whose; -1 is the clock, -2 somebody who says that the endpoint is well again
	outcome Outcome
	wait    time.Duration
}

// world is a breaker with its callers.
type world struct {
	t       *testing.T
	b       *Breaker
	now     time.Time
	permits [exploreCallers]Permit
	marks   [exploreCallers]Mark
	path    []step
}

func replay(t *testing.T, path []step) *world {
	now := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	w := &world{t: t, b: New(exploreSettings, now), now: now, path: path}
	for _, s := range path {
		w.do(s)
	}
	return w
}

func (w *world) do(s step) {
	switch {
	case s.caller == -2:
		w.b.TryNow(w.now)
	case s.caller < 0:
		w.now = w.now.Add(s.wait)
		w.b.Advance(w.now)
	case w.permits[s.caller].of == nil:
		w.b.Begin(w.now, exploreSlow, w.marks[s.caller], &w.permits[s.caller])
	default:
		w.end(s.caller, s.outcome)
	}
}

func (w *world) end(i int, o Outcome) {
	p := &w.permits[i]
	stale := p.generation != w.b.generation
	before := w.look()
	w.marks[i] = w.b.End(w.now, p, o)
	if stale && w.look() != before {
		w.fail("a result from before the last change of state moved it from\n%s\nto\n%s", before, w.look())
	}
	after := w.look()
	if w.b.End(w.now, p, Sick); w.look() != after {
		w.fail("a second End moved it")
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf("after %+v: %s", w.path, fmt.Sprintf(format, args...))
}

// steps lists what can happen next.
func (w *world) steps() []step {
	next := []step{{caller: -1, wait: 100 * time.Millisecond}, {caller: -1, wait: 400 * time.Millisecond}}
	if w.b.state == Open {
		next = append(next, step{caller: -2})
	}
	for i := range w.permits {
		if w.permits[i].of == nil {
			next = append(next, step{caller: i})
			continue
		}
		for _, o := range []Outcome{Success, Sick, Suspect, Neutral, Unanswered} {
			next = append(next, step{caller: i, outcome: o})
		}
	}
	return next
}

// look writes down all of the breaker that its future depends on, with times
// from now on, so that two moments that will behave the same look the same.
func (w *world) look() string {
	b := w.b
	var s strings.Builder
	since := func(t time.Time) time.Duration { return t.Sub(b.now) }
	fmt.Fprintf(&s, "%v %v %v/%v", b.state, b.openFor, b.trials, b.passes)
	if b.state == Open {
		fmt.Fprintf(&s, " until %v", since(b.openUntil))
	}
	if !b.wellAt.IsZero() {
		fmt.Fprintf(&s, " well %v", max(since(b.wellAt), -b.settings.Window-1))
	}
	fmt.Fprintf(&s, " %v %v", b.now.Sub(b.window.origin)%b.window.width, b.window.total)
	for _, w := range []*window{&b.window, &b.run} {
		fmt.Fprint(&s, " /")
		for i := range slots {
			if c := w.ring[(w.slot+int64(i))%slots]; c != (counts{}) {
				fmt.Fprintf(&s, " %d:%v", i, c)
			}
		}
	}
	return s.String()
}

// key is look with the callers, whose names do not matter.
func (w *world) key() string {
	place := func(of *window, s stamp) string {
		if !of.holds(s) {
			return "-"
		}
		return fmt.Sprint(of.slot - s.slot)
	}
	mark := func(m Mark) string { return place(&w.b.window, m.all) + "/" + place(&w.b.run, m.run) }
	callers := make([]string, 0, exploreCallers)
	for i := range w.permits {
		p := &w.permits[i]
		switch {
		case p.of == nil:
			callers = append(callers, "idle "+mark(w.marks[i]))
		case p.generation != w.b.generation:
			callers = append(callers, "stale")
		default:
			callers = append(callers, fmt.Sprintf("due %v %v %s %s", p.queued, p.due.Sub(w.b.now), mark(p.was), mark(p.slow)))
		}
	}
	slices.Sort(callers)
	return w.look() + " | " + strings.Join(callers, " | ")
}

// check holds the invariants of a single state.
func (w *world) check() {
	b := w.b
	trials, waiting := 0, 0
	for i := range w.permits {
		p := &w.permits[i]
		current := p.of != nil && p.generation == b.generation
		if current && b.state == HalfOpen {
			trials++
		}
		if p.queued {
			waiting++
		}
		if p.queued && !current {
			w.fail("caller %d waits in the queue of a state that is over", i)
		}
	}
	if b.trials != trials || trials > b.settings.HalfOpenMax {
		w.fail("%d places taken by %d trials, %d allowed", b.trials, trials, b.settings.HalfOpenMax)
	}
	var last *Permit
	for p := b.queue.head; p != nil; p = p.next {
		if p.prev != last || last != nil && last.due.After(p.due) || waiting == 0 {
			w.fail("the queue is broken")
		}
		last = p
		waiting--
	}
	if last != b.queue.tail || waiting != 0 {
		w.fail("the queue and the permits differ by %d", waiting)
	}
	for _, of := range []*window{&b.window, &b.run} {
		var sum counts
		for _, c := range of.ring {
			if c.failures < 0 || c.failures > c.outcomes || c.messages < 0 || c.messages > c.outcomes {
				w.fail("a slot holds %+v", c)
			}
			sum = counts{sum.failures + c.failures, sum.outcomes + c.outcomes, sum.messages + c.messages}
		}
		if sum != of.total {
			w.fail("the slots hold %+v, the total says %+v", sum, of.total)
		}
	}
	if b.run.total.failures != b.run.total.outcomes || b.state == Closed && b.run.total.messages >= b.settings.MinRequests {
		w.fail("closed with a run of %+v", b.run.total)
	}
}

// recover follows a path to closed with fresh callers, whether those at hand
// give up or never come back.
func (w *world) recover() {
	for range 20 {
		look := w.b.Look(w.now)
		switch {
		case w.b.state == Closed:
			return
		case look.Answer == Wait:
			at, ok := w.b.Next(w.now)
			if !ok {
				w.fail("trapped in %v: nothing passes and nothing comes due", w.b.state)
			}
			w.now = at
		default:
			var p Permit
			w.b.Begin(w.now, exploreSlow, Mark{}, &p)
			w.b.End(w.now, &p, Success)
		}
	}
	w.fail("no way to closed, left in %s", w.look())
}

// halfOpenWithAStraggler is a second place to begin, since the way there uses up
// most of the depth: half-open, with one attempt from before it opened.
var halfOpenWithAStraggler = []step{
	{caller: 0}, {caller: 1}, {caller: 2},
	{caller: 0, outcome: Success}, {caller: 1, outcome: Sick},
	{caller: -1, wait: 200 * time.Millisecond},
}

func TestEveryInterleaving(t *testing.T) {
	seen := map[string]bool{}
	frontier := [][]step{nil, halfOpenWithAStraggler}
	reached := map[State]int{}
	for depth := 0; depth <= exploreDepth; depth++ {
		var next [][]step
		for _, path := range frontier {
			w := replay(t, path)
			key := w.key()
			if seen[key] {
				continue
			}
			seen[key] = true
			reached[w.b.state]++
			w.check()
			steps := w.steps()

			hanging := replay(t, path)
			hanging.recover()
			for i := range w.permits {
				if w.permits[i].of != nil {
					w.end(i, Neutral)
				}
			}
			w.check()
			w.recover()

			for _, s := range steps {
				next = append(next, append(slices.Clone(path), s))
			}
		}
		frontier = next
	}
	t.Logf("%d states: %v", len(seen), reached)
	if reached[Closed] == 0 || reached[Open] == 0 || reached[HalfOpen] == 0 {
		t.Error("a state was never reached: the exploration is too small")
	}
}
