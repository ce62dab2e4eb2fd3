package breaker_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/breaker"
)

// model is a breaker as one would explain it: it remembers every outcome since
// its last change of state and lives through time millisecond by millisecond.
type model struct {
	s         breaker.Settings
	now       int // milliseconds
	state     breaker.State
	forced    breaker.Forced
	era       int // grows with each change of state
	eraBegan  int
	openUntil int
	openFor   int
	wellAt    int // -1 is never
	passes    int
	outcomes  []outcome
	attempts  map[int]*attempt // in flight, by message
	order     []int            // messages in flight, the first to begin first
	moves     []breaker.Move
}

type outcome struct {
	at, message int
	bad         bool
	slow        *attempt // the attempt that is counted as slow, or nil
}

type attempt struct {
	era, due int
	slow     bool
	forced   bool // began while held closed
}

func newModel(s breaker.Settings) *model {
	return &model{s: s, openFor: int(s.OpenFor / ms), wellAt: -1, attempts: map[int]*attempt{}}
}

func (m *model) moment(at int) time.Time { return start.Add(time.Duration(at) * ms) }

func (m *model) enter(to breaker.State) {
	if to != m.state {
		mv := breaker.Move{From: m.state, To: to, At: m.moment(m.now)}
		if m.state == breaker.Closed {
			mv.Failures, mv.Outcomes, _ = m.counts()
		}
		m.moves = append(m.moves, mv)
	}
	m.state, m.era, m.eraBegan, m.passes, m.outcomes = to, m.era+1, m.now, 0, nil
}

func (m *model) open() {
	m.openUntil = m.now + m.openFor
	m.enter(breaker.Open)
}

func (m *model) reopen() {
	m.openFor = min(2*m.openFor, int(m.s.MaxOpenFor/ms))
	m.open()
}

// counts looks at each outcome that is within the last twenty slots.
func (m *model) counts() (failures, outcomes, messages int) {
	slot := func(at int) int { return (at - m.eraBegan) / (int(m.s.Window/ms) / 20) }
	seen := map[int]bool{}
	for _, o := range m.outcomes {
		if slot(m.now)-slot(o.at) >= 20 {
			continue
		}
		outcomes++
		seen[o.message] = true
		if o.bad {
			failures++
		}
	}
	return failures, outcomes, len(seen)
}

// run counts the messages within the last twenty slots that failed since the
// last outcome that was no failure.
func (m *model) run() int {
	slot := func(at int) int { return (at - m.eraBegan) / (int(m.s.Window/ms) / 20) }
	seen := map[int]bool{}
	for _, o := range slices.Backward(m.outcomes) {
		if !o.bad {
			break
		}
		if slot(m.now)-slot(o.at) < 20 {
			seen[o.message] = true
		}
	}
	return len(seen)
}

func (m *model) trials() (n int) {
	for _, a := range m.attempts {
		if m.state == breaker.HalfOpen && a.era == m.era {
			n++
		}
	}
	return n
}

func (m *model) record(o outcome) {
	m.outcomes = append(m.outcomes, o)
	f, n, messages := m.counts()
	if m.run() >= m.s.MinRequests || f > 0 && messages >= m.s.MinRequests && float64(f) >= m.s.FailureRatio*float64(n) {
		m.open()
	}
}

func (m *model) tick() {
	m.now++
	if m.state == breaker.Open && m.forced == breaker.ForceAuto && m.now >= m.openUntil {
		m.enter(breaker.HalfOpen)
	}
	for _, message := range m.order {
		a := m.attempts[message]
		if a.era != m.era || a.slow || a.forced || m.now < a.due {
			continue
		}
		a.slow = true
		if m.state == breaker.HalfOpen {
			m.reopen()
			continue
		}
		m.record(outcome{m.now, message, true, a})
	}
}

func (m *model) lets() bool {
	switch m.state {
	case breaker.Open:
		return false
	case breaker.HalfOpen:
		return m.trials() < m.s.HalfOpenMax
	default:
		return true
	}
}

func (m *model) begin(message, slowAfter int) bool {
	if !m.lets() {
		return false
	}
	m.attempts[message] = &attempt{era: m.era, due: m.now + slowAfter, forced: m.forced == breaker.ForceClosed}
	m.order = append(m.order, message)
	return true
}

func (m *model) end(message int, o breaker.Outcome) {
	a := m.attempts[message]
	delete(m.attempts, message)
	for i, x := range m.order {
		if x == message {
			m.order = append(m.order[:i:i], m.order[i+1:]...)
			break
		}
	}
	if a.era != m.era || a.forced {
		return
	}
	if m.state == breaker.Closed && a.slow && o != breaker.Unanswered {
		var kept []outcome
		for _, x := range m.outcomes {
			if x.slow != a {
				kept = append(kept, x)
			}
		}
		m.outcomes = kept
	}
	bad, counts := false, true
	switch o {
	case breaker.Success, breaker.Alive:
		m.wellAt = m.now
	case breaker.Sick:
		bad = true
	case breaker.Suspect, breaker.SuspectTLS:
		bad = m.wellAt >= 0 && m.now-m.wellAt <= int(m.s.Window/ms)
		counts = bad || o == breaker.Suspect
	default:
		counts = false
	}
	switch {
	case !counts:
	case m.state == breaker.Closed:
		m.record(outcome{m.now, message, bad, nil})
	case bad:
		m.reopen()
	default:
		if m.passes++; m.passes >= m.s.HalfOpenMax {
			m.openFor = int(m.s.OpenFor / ms)
			m.enter(breaker.Closed)
		}
	}
}

func (m *model) force(f breaker.Forced) {
	if f == m.forced {
		return
	}
	was := m.forced
	m.forced, m.openFor = f, int(m.s.OpenFor/ms)
	switch {
	case f == breaker.ForceOpen:
		m.enter(breaker.Open)
	case f == breaker.ForceAuto && was == breaker.ForceOpen:
		m.enter(breaker.HalfOpen)
	default:
		m.enter(breaker.Closed)
	}
}

func (m *model) tryNow() {
	if m.state == breaker.Open && m.forced == breaker.ForceAuto {
		m.enter(breaker.HalfOpen)
	}
}

func (m *model) snapshot() breaker.Snapshot {
	s := breaker.Snapshot{State: m.state, Forced: m.forced, Trials: m.trials(), Passes: m.passes}
	if m.state == breaker.Closed {
		s.Failures, s.Outcomes, s.Messages = m.counts()
	}
	if m.state == breaker.Open && m.forced == breaker.ForceAuto {
		s.OpenUntil = m.moment(m.openUntil)
	}
	return s
}

// TestAgainstTheModel drives both through the same history. The breaker is told
// the time only when something is asked of it, the model all the time.
func TestAgainstTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := breaker.Settings{
			FailureRatio: rapid.SampledFrom([]float64{0.2, 0.5, 1}).Draw(t, "ratio"),
			MinRequests:  rapid.IntRange(1, 6).Draw(t, "min_requests"),
			Window:       200 * ms,
			OpenFor:      30 * ms,
			MaxOpenFor:   time.Duration(rapid.IntRange(30, 130).Draw(t, "max_open_for")) * ms,
			HalfOpenMax:  rapid.IntRange(1, 3).Draw(t, "half_open_max"),
		}
		const messages = 8
		var (
			m       = newModel(s)
			b       = breaker.New(s, start)
			permits [messages]breaker.Permit
			marks   [messages]breaker.Mark
			got     []breaker.Move
			story   []string
		)
		say := func(format string, args ...any) {
			story = append(story, fmt.Sprintf("%4d ", m.now)+fmt.Sprintf(format, args...))
		}
		now := func() time.Time { return m.moment(m.now) }
		outcomes := []breaker.Outcome{breaker.Success, breaker.Sick, breaker.Sick, breaker.Alive, breaker.Suspect,
			breaker.SuspectTLS, breaker.Neutral, breaker.Unanswered}
		for range rapid.IntRange(1, 150).Draw(t, "steps") {
			switch what := rapid.IntRange(0, 99).Draw(t, "what"); {
			case what < 25:
				d := rapid.OneOf(rapid.IntRange(1, 15), rapid.IntRange(1, 250)).Draw(t, "ms")
				say("wait %dms", d)
				for range d {
					m.tick()
				}
			case what < 27:
				f := rapid.SampledFrom([]breaker.Forced{breaker.ForceAuto, breaker.ForceAuto, breaker.ForceOpen, breaker.ForceClosed}).Draw(t, "lever")
				say("force %v", f)
				m.force(f)
				b.Force(now(), f)
			case what < 30:
				say("try now")
				m.tryNow()
				b.TryNow(now())
			default:
				i := rapid.IntRange(0, messages-1).Draw(t, "message")
				if m.attempts[i] != nil {
					o := rapid.SampledFrom(outcomes).Draw(t, "outcome")
					say("end %d %v", i, o)
					m.end(i, o)
					marks[i] = b.End(now(), &permits[i], o)
					break
				}
				after := rapid.IntRange(1, 60).Draw(t, "slow_after")
				say("begin %d, slow after %dms", i, after)
				want := m.begin(i, after)
				if ok := b.Begin(now(), time.Duration(after)*ms, marks[i], &permits[i]); ok != want {
					t.Fatalf("begin said %v, want %v\n%s", ok, want, story)
				}
			}
			if rapid.Bool().Draw(t, "look") {
				if diff := cmp.Diff(m.snapshot(), b.Snapshot(now())); diff != "" {
					t.Fatalf("at %dms (-want +got)\n%s\n%q", m.now, diff, story)
				}
				if s := b.State(now()); s != m.state {
					t.Fatalf("state %v, want %v\n%q", s, m.state, story)
				}
				if pass := b.Look(now()).Answer == breaker.Pass; pass != m.lets() {
					t.Fatalf("look says pass %v\n%q", pass, story)
				}
			}
			got = append(got, b.TakeMoves()...)
		}
		b.Advance(now())
		got = append(got, b.TakeMoves()...)
		if diff := cmp.Diff(m.moves, got); diff != "" {
			t.Fatalf("moves (-want +got)\n%s\n%q", diff, story)
		}
	})
}
