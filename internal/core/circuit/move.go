package circuit

import "time"

// Answer is what a circuit says to a claim.
type Answer uint8

// The answers.
const (
	// Passes: any number of jobs may be claimed.
	Passes Answer = iota + 1
	// OneProbe: one job may be, which finds out how the endpoint is.
	OneProbe
	// Held, Cooling and Probing let nobody through: the endpoint asked to be left
	// alone, the cooldown goes on, a probe is out.
	Held
	Cooling
	Probing
)

// ProbeChoice is how long after a cooldown the probe comes from another task than
// the one whose probe failed last, where one waits. After that it may be any: the
// workers of the other task may all be away.
const ProbeChoice = 5 * time.Second

// Look is what a circuit says to a claim, and how long it will.
type Look struct {
	Answer Answer
	// Until is when Held, Cooling and Probing are over at the latest; what a report
	// does may end them earlier.
	Until time.Time
	// Avoid is the task@version that the probe should not come from before
	// AvoidUntil, where another waits; "" for none.
	Avoid      string
	AvoidUntil time.Time
}

// Look says what a claim may have at now, and changes nothing.
func (c *Circuit) Look(now time.Time, s Settings) Look {
	if now.Before(c.HeldUntil) {
		return Look{Answer: Held, Until: c.HeldUntil}
	}
	switch c.State {
	case Open:
		if now.Before(c.RetryAt) {
			return Look{Answer: Cooling, Until: c.RetryAt}
		}
	case HalfOpen:
		if over := c.ProbeAt.Add(s.probeTime()); !c.ProbeAt.IsZero() && now.Before(over) {
			return Look{Answer: Probing, Until: over}
		}
	case Closed:
		return Look{Answer: Passes}
	}
	l := Look{Answer: OneProbe}
	// The choice counts from when a probe could be taken.
	if until := later(c.RetryAt, c.HeldUntil).Add(ProbeChoice); c.FailedTask != "" && now.Before(until) {
		l.Avoid, l.AvoidUntil = c.FailedTask, until
	}
	return l
}

// probeTime is how long a probe has for itself.
func (s Settings) probeTime() time.Duration { return max(s.Cooldown, MinProbe) }

// Ticket is what a claimed job keeps of its circuit.
type Ticket struct {
	Generation int64
	// Probe says that the job is a probe.
	Probe bool
	// At is when it was claimed.
	At time.Time
}

// Take claims a job, after Look has said Passes or OneProbe at the same moment.
func (c *Circuit) Take(now time.Time, s Settings) (Ticket, []Move) {
	if c.State == Closed {
		return Ticket{Generation: c.Generation, At: now}, nil
	}
	var moves []Move
	if c.State == Open {
		moves = c.move(now, HalfOpen)
	}
	c.ProbeAt = now
	return Ticket{Generation: c.Generation, Probe: true, At: now}, moves
}

// Outcome is what the end of an attempt says of its endpoint.
type Outcome uint8

// The outcomes.
const (
	// Nothing: cancelled, handed back, its worker lost, an answer that asks to
	// wait. A probe's place is free again.
	Nothing Outcome = iota
	// Well: it succeeded, or what was wrong was the job and not the endpoint.
	Well
	// Sick: a failure that counts.
	Sick
)

// Move is a change of state.
type Move struct {
	From, To   State
	At         time.Time
	Generation int64 // after it
}

// End takes in the end of an attempt. One that began in another generation moves
// nothing. task is its task@version.
func (c *Circuit) End(now time.Time, s Settings, t Ticket, o Outcome, task string) []Move {
	if t.Generation != c.Generation {
		return nil
	}
	switch c.State {
	case Closed:
		switch o {
		case Well:
			c.Failures = 0
		case Sick:
			if c.Failures++; c.Failures >= s.Failures {
				return c.open(now, s)
			}
		case Nothing:
		}
	case HalfOpen:
		if !t.Probe {
			return nil
		}
		switch o {
		case Well:
			return c.Reset(now)
		case Sick:
			c.FailedTask = task
			return c.open(now, s)
		case Nothing:
			if t.At.Equal(c.ProbeAt) { // an older one had its time already
				c.ProbeAt = time.Time{}
			}
		}
	case Open: // nothing begins while it is open
	}
	return nil
}

// Hold leaves the endpoint alone for d from now, at most MaxHold, because an
// attempt of the present generation heard it ask for that. It reports whether the
// hold got longer.
func (c *Circuit) Hold(now time.Time, t Ticket, d time.Duration) bool {
	until := now.Add(min(d, MaxHold))
	if t.Generation != c.Generation || d <= 0 || !until.After(c.HeldUntil) {
		return false
	}
	c.HeldUntil = until
	return true
}

// Reset closes the circuit and ends its hold: a probe was well, or a person says
// so. What is out moves nothing any more.
func (c *Circuit) Reset(now time.Time) []Move {
	was := c.State
	*c = Circuit{State: c.State, Generation: c.Generation}
	if was == Closed {
		return nil
	}
	return c.move(now, Closed)
}

func (c *Circuit) open(now time.Time, s Settings) []Move {
	c.OpenedAt, c.RetryAt = now, now.Add(s.Cooldown)
	c.ProbeAt = time.Time{}
	return c.move(now, Open)
}

func (c *Circuit) move(now time.Time, to State) []Move {
	m := Move{From: c.State, To: to, At: now, Generation: c.Generation + 1}
	c.State, c.Generation = to, m.Generation
	return []Move{m}
}

// Plain reports whether nothing is to be remembered of the circuit: closed, with
// nothing counted, no hold at now, and in its first generation.
func (c *Circuit) Plain(now time.Time) bool {
	return c.State == Closed && c.Failures == 0 && c.Generation == 0 && !now.Before(c.HeldUntil)
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
