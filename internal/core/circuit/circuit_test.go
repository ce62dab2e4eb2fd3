package circuit_test

// These tests catch two probes at once, a circuit that nothing gets out of, a
// report of an older generation that moves something, a job that passes an open
// circuit or a hold, and a count that is off.

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
)

var start = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

const unit = 30 * time.Second

// The circuit is explored exhaustively: three workers that claim and report as
// they like, and time. Beside it stands what the test knows itself.
const workers = 3

type step uint8

const (
	claims step = iota * workers
	well
	sick
	nothing
	holds
	tick // half a minute passes
	_    = iota
)

const (
	leap        = tick + 1 // four minutes pass
	resets      = tick + 2
	steps  step = tick + 3
)

func (s step) String() string {
	names := [...]string{"claims", "well", "sick", "ends with nothing", "is asked to wait"}
	switch {
	case s < tick:
		return fmt.Sprintf("%c %s", 'a'+s%workers, names[s/workers])
	case s == tick:
		return "30s"
	case s == leap:
		return "4m"
	}
	return "reset"
}

type attempt struct {
	open  bool
	at    time.Time
	probe bool
	// era is the count of changes of state, as the test counts, when it began.
	era    int
	ticket circuit.Ticket
}

// world is a circuit and what the test knows: in the plainest way.
type world struct {
	c        circuit.Circuit
	s        circuit.Settings
	now      time.Time
	attempts [workers]attempt
	// What the test reckons.
	state         circuit.State
	era, failures int
	retryAt, held time.Time
}

func newWorld(s circuit.Settings) *world {
	return &world{c: circuit.Circuit{State: circuit.Closed}, s: s, now: start, state: circuit.Closed}
}

func (w *world) possible(s step) bool {
	switch {
	case s < well:
		return !w.attempts[s%workers].open
	case s < tick:
		return w.attempts[s%workers].open
	}
	return true
}

// probes are the present round's, and the newest of them.
func (w *world) probes() (n int, newest time.Time) {
	for _, a := range w.attempts {
		if a.open && a.probe && a.era == w.era {
			n++
			if a.at.After(newest) {
				newest = a.at
			}
		}
	}
	return n, newest
}

func (w *world) moved(to circuit.State) { w.state, w.era = to, w.era+1 }

func (w *world) take(s step) error {
	i := s % workers
	switch {
	case s < well:
		return w.claim(int(i))
	case s < sick:
		return w.end(int(i), circuit.Well, 0)
	case s < nothing:
		return w.end(int(i), circuit.Sick, 0)
	case s < holds:
		return w.end(int(i), circuit.Nothing, 0)
	case s < tick:
		return w.end(int(i), circuit.Nothing, unit)
	case s == tick:
		w.now = w.now.Add(unit)
	case s == leap:
		w.now = w.now.Add(8 * unit)
	case s == resets:
		was := w.state
		w.c.Reset(w.now)
		if was != circuit.Closed {
			w.moved(circuit.Closed)
		}
		w.failures, w.held, w.retryAt = 0, time.Time{}, time.Time{}
	}
	return w.check()
}

func (w *world) claim(i int) error {
	n, newest := w.probes()
	alone := max(w.s.Cooldown, time.Minute)
	want := circuit.Passes
	switch {
	case w.now.Before(w.held):
		want = circuit.Held
	case w.state == circuit.Closed:
	case w.state == circuit.Open && w.now.Before(w.retryAt):
		want = circuit.Cooling
	case w.state == circuit.HalfOpen && n > 0 && w.now.Sub(newest) < alone:
		want = circuit.Probing
	default:
		want = circuit.OneProbe
	}
	before := w.c
	look := w.c.Look(w.now, w.s)
	switch {
	case w.c != before:
		return fmt.Errorf("a look changed %+v to %+v", before, w.c)
	case look.Answer != want:
		return fmt.Errorf("%c is told %d, want %d", 'a'+i, look.Answer, want)
	case want > circuit.OneProbe:
		if !look.Until.After(w.now) {
			return fmt.Errorf("%c is to wait until %v, which is past", 'a'+i, look.Until)
		}
		return w.check()
	}
	ticket, moves := w.c.Take(w.now, w.s)
	if opened := len(moves) > 0; opened != (w.state == circuit.Open) {
		return fmt.Errorf("%c took a probe at an %s circuit, moves %v", 'a'+i, w.state, moves)
	}
	if w.state == circuit.Open {
		w.moved(circuit.HalfOpen)
	}
	if ticket.Probe != (want == circuit.OneProbe) {
		return fmt.Errorf("%c is a probe: %v", 'a'+i, ticket.Probe)
	}
	w.attempts[i] = attempt{open: true, at: w.now, probe: ticket.Probe, era: w.era, ticket: ticket}
	return w.check()
}

func (w *world) end(i int, o circuit.Outcome, hold time.Duration) error {
	a := w.attempts[i]
	w.attempts[i] = attempt{}
	before := w.c
	w.c.Hold(w.now, a.ticket, hold)
	w.c.End(w.now, w.s, a.ticket, o, fmt.Sprintf("task-%d@1", i))
	if a.era != w.era {
		if w.c != before {
			return fmt.Errorf("%c began before the last change of state and changed %+v to %+v", 'a'+i, before, w.c)
		}
		return w.check()
	}
	if until := w.now.Add(hold); hold > 0 && until.After(w.held) {
		w.held = until
	}
	switch {
	case w.state == circuit.Closed && o == circuit.Well:
		w.failures = 0
	case w.state == circuit.Closed && o == circuit.Sick:
		if w.failures++; w.failures >= w.s.Failures {
			w.moved(circuit.Open)
			w.retryAt = w.now.Add(w.s.Cooldown)
		}
	case w.state == circuit.HalfOpen && o == circuit.Well:
		w.moved(circuit.Closed)
		w.failures, w.held, w.retryAt = 0, time.Time{}, time.Time{}
	case w.state == circuit.HalfOpen && o == circuit.Sick:
		w.moved(circuit.Open)
		w.retryAt = w.now.Add(w.s.Cooldown)
	}
	return w.check()
}

func (w *world) check() error {
	n, _ := w.probes()
	switch {
	case w.c.State != w.state:
		return fmt.Errorf("it is %s, want %s", w.c.State, w.state)
	case w.c.Generation != int64(w.era):
		return fmt.Errorf("generation %d, want %d", w.c.Generation, w.era)
	case w.c.State == circuit.Closed && w.c.Failures != w.failures:
		return fmt.Errorf("%d failures, want %d", w.c.Failures, w.failures)
	case w.c.State == circuit.HalfOpen && n == 0 && !w.c.ProbeAt.IsZero():
		return fmt.Errorf("a probe of %v is out, want none", w.c.ProbeAt)
	case w.c.State != circuit.HalfOpen && !w.c.ProbeAt.IsZero():
		return fmt.Errorf("a probe is out while it is %s", w.c.State)
	case !w.c.HeldUntil.Equal(w.held):
		return fmt.Errorf("held until %v, want %v", w.c.HeldUntil, w.held)
	}
	return nil
}

// escapes lets time pass with whatever is out staying out, as after a worker that
// hangs: somebody must be let through, and a success must close the circuit.
func (w *world) escapes() error {
	w.now = w.now.Add(24 * time.Hour)
	free := -1
	for i := range w.attempts {
		if !w.attempts[i].open {
			free = i
		}
	}
	if free < 0 { // every worker hangs: its lease ends
		if err := w.end(0, circuit.Nothing, 0); err != nil {
			return err
		}
		free = 0
	}
	if err := w.claim(free); err != nil {
		return err
	}
	if !w.attempts[free].open {
		return fmt.Errorf("a trap: after a day nobody is let through: %+v", w.c)
	}
	if err := w.end(free, circuit.Well, 0); err != nil {
		return err
	}
	if w.c.State != circuit.Closed || w.c.Failures != 0 {
		return fmt.Errorf("a trap: after a success it is %+v", w.c)
	}
	return nil
}

func TestCircuitIsModelChecked(t *testing.T) {
	const depth = 9
	for name, s := range map[string]circuit.Settings{
		"one failure opens":           {Failures: 1, Cooldown: time.Minute},
		"two failures, long cooldown": {Failures: 2, Cooldown: 2 * time.Minute},
		"cooldown shorter than a probe's time": {
			Failures: 1, Cooldown: unit,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			layer, seen := []world{*newWorld(s)}, map[world]bool{}
			for range depth {
				var next []world
				for i := range layer {
					for st := range steps {
						w := layer[i]
						if !w.possible(st) {
							continue
						}
						if err := w.take(st); err != nil {
							t.Fatalf("after %+v: %v: %v", layer[i], st, err)
						}
						if seen[w] {
							continue
						}
						seen[w] = true
						next = append(next, w)
						if later := w; true {
							if err := later.escapes(); err != nil {
								t.Fatalf("after %+v: %v: %v", layer[i], st, err)
							}
						}
					}
				}
				layer = next
				if len(seen) > 300_000 {
					break
				}
			}
			if len(seen) < 1000 {
				t.Errorf("only %d states were seen", len(seen))
			}
		})
	}
}

// What people were told: a number that changes changes what every endpoint does.
func TestTheNumbers(t *testing.T) {
	if s := circuit.Defaults(); s.Failures != 5 || s.Cooldown != 60*time.Second {
		t.Errorf("the defaults are %+v", s)
	}
	if circuit.MaxFailures != 1000 || circuit.MinCooldown != time.Second || circuit.MaxCooldown != 24*time.Hour {
		t.Error("the bounds are others")
	}
	if circuit.MaxHold != time.Hour || circuit.MinProbe != time.Minute {
		t.Error("a hold, or a probe's own time, is another")
	}
}

// After a failed probe the next one comes from elsewhere, for a while.
func TestTheNextProbeComesFromAnotherTask(t *testing.T) {
	c, s := circuit.Circuit{State: circuit.Closed}, circuit.Settings{Failures: 1, Cooldown: time.Minute}
	first, _ := c.Take(start, s)
	c.End(start, s, first, circuit.Sick, "send@1")
	now := start.Add(time.Minute)
	if l := c.Look(now, s); l.Answer != circuit.OneProbe || l.Avoid != "" {
		t.Errorf("no probe has failed yet: %+v", l)
	}
	probe, _ := c.Take(now, s)
	c.End(now, s, probe, circuit.Sick, "send@1")
	now = now.Add(time.Minute)
	if l := c.Look(now, s); l.Avoid != "send@1" || !l.AvoidUntil.Equal(now.Add(circuit.ProbeChoice)) {
		t.Errorf("after a failed probe: %+v", l)
	}
	if l := c.Look(now.Add(circuit.ProbeChoice), s); l.Answer != circuit.OneProbe || l.Avoid != "" {
		t.Errorf("the other task may never come: %+v", l)
	}
	// Nobody had a choice while the endpoint was held.
	c.HeldUntil = now.Add(time.Hour)
	if l := c.Look(c.HeldUntil, s); l.Avoid != "send@1" || !l.AvoidUntil.Equal(c.HeldUntil.Add(circuit.ProbeChoice)) {
		t.Errorf("after a hold: %+v", l)
	}
}

func TestHoldIsBounded(t *testing.T) {
	c, s := circuit.Circuit{State: circuit.Closed}, circuit.Defaults()
	ticket, _ := c.Take(start, s)
	if !c.Hold(start, ticket, 30*24*time.Hour) || c.Hold(start, ticket, time.Minute) || c.Hold(start, ticket, 0) {
		t.Error("a longer hold counts, a shorter one does not")
	}
	if l := c.Look(start, s); l.Answer != circuit.Held || !l.Until.Equal(start.Add(circuit.MaxHold)) {
		t.Errorf("held: %+v", l)
	}
	if c.Plain(start) || !c.Plain(start.Add(circuit.MaxHold)) {
		t.Error("a hold is to be remembered as long as it goes on")
	}
	if c.End(start, s, ticket, circuit.Nothing, ""); c.Failures != 0 {
		t.Error("an answer that asks to wait is no failure")
	}
	if moves := c.Reset(start); moves != nil || c.Look(start, s).Answer != circuit.Passes {
		t.Errorf("a reset ends the hold and moves nothing: %v", moves)
	}
}
