package breaker

import "time"

// maxMoves bounds the moves kept for a caller that never takes them. A breaker
// moves a few times a minute at most.
const maxMoves = 64

// Breaker guards one endpoint. It is not safe for concurrent use: the caller
// locks, and sends what TakeMoves returns after unlocking.
type Breaker struct {
	settings   Settings
	state      State
	forced     Forced
	now        time.Time // the latest time it was told
	generation uint64    // grows with each change of state
	openUntil  time.Time
	openFor    time.Duration // how long the next opening lasts
	wellAt     time.Time     // of the last proof of health; zero is none
	window     window        // of all outcomes
	run        window        // of the failures since the last success
	queue      queue
	trials     int
	passes     int
	moves      []Move
}

// New returns a closed breaker that begins at now. The settings should have
// passed Check; numbers below 1 are taken as 1.
func New(s Settings, now time.Time) *Breaker {
	b := &Breaker{now: now}
	b.apply(s)
	b.openFor = b.settings.OpenFor
	b.resetWindows(now)
	return b
}

// apply stores settings that can do no harm.
func (b *Breaker) apply(s Settings) {
	s.MinRequests = max(s.MinRequests, 1)
	s.HalfOpenMax = max(s.HalfOpenMax, 1)
	s.OpenFor = max(s.OpenFor, 1)
	s.MaxOpenFor = max(s.MaxOpenFor, s.OpenFor)
	b.settings = s
}

// Look says whether an attempt may go, without taking a place.
func (b *Breaker) Look(now time.Time) Look {
	b.Advance(now)
	switch b.state {
	case Open:
		if b.forced == ForceOpen {
			return Look{Answer: Wait}
		}
		return Look{Wait, b.openUntil}
	case HalfOpen:
		if b.trials >= b.settings.HalfOpenMax {
			return Look{Answer: Wait}
		}
	case Closed:
	}
	return Look{Answer: Pass}
}

// Begin takes a place for an attempt that begins now, and fills p. False means
// that none is to be had and p is as before; true must be followed by End. The
// attempt is slow once it is unanswered for slowAfter (half its timeout, at
// least 1ns). mark is what the message's last End on this breaker returned. A
// permit that is still held is a programming error and panics. It allocates
// nothing.
func (b *Breaker) Begin(now time.Time, slowAfter time.Duration, mark Mark, p *Permit) bool {
	if p.of != nil {
		panic("breaker: Begin with a permit that is held")
	}
	if b.Look(now).Answer == Wait {
		return false
	}
	p.of, p.generation = b, b.generation
	p.was, p.slow = mark, Mark{}
	if b.forced == ForceClosed {
		return true // nothing is counted, so nothing comes due
	}
	if b.state == HalfOpen {
		b.trials++
	}
	p.due = b.now.Add(max(slowAfter, 1))
	b.queue.push(p)
	return true
}

// End gives the place back and counts the outcome. It returns the mark for the
// message's next Begin on this breaker. Ending a permit that is not held does
// nothing; one of another breaker is a programming error and panics. It
// allocates nothing unless the state changes.
func (b *Breaker) End(now time.Time, p *Permit, o Outcome) Mark {
	if p.of == nil {
		return p.was
	}
	if p.of != b {
		panic("breaker: End with a permit of another breaker")
	}
	b.Advance(now)
	p.of = nil
	if p.queued {
		b.queue.remove(p)
	}
	if p.generation != b.generation || b.forced == ForceClosed {
		return p.was
	}
	switch b.state {
	case Closed:
		p.was = b.endCounted(p, o)
	case HalfOpen:
		b.endTrial(o)
	case Open: // nothing begins while open, so the generation differs
	}
	return p.was
}

// endCounted ends an attempt that began in the present closed state.
func (b *Breaker) endCounted(p *Permit, o Outcome) Mark {
	slow := p.slow != Mark{}
	if slow && o == Unanswered {
		return p.slow
	}
	if slow {
		b.window.takeBack(p.slow.all, p.was.all)
		b.run.takeBack(p.slow.run, p.was.run)
	}
	switch b.judge(o) {
	case healthNothing:
		return p.was
	case healthBad:
		return b.record(1, p.was)
	case healthGood, healthFair:
		return b.record(0, p.was)
	}
	return p.was
}

// endTrial ends a trial of the present round.
func (b *Breaker) endTrial(o Outcome) {
	b.trials--
	switch b.judge(o) {
	case healthBad:
		b.reopen(b.now)
	case healthGood, healthFair:
		b.passes++
		if b.passes >= b.settings.HalfOpenMax {
			b.openFor = b.settings.OpenFor
			b.enter(Closed, b.now)
		}
	case healthNothing:
	}
}

// health is what an outcome comes to, with what is known of the endpoint.
type health uint8

const (
	healthNothing health = iota
	healthBad
	healthFair // counts as well, but proves nothing
	healthGood
)

// judge says what an outcome comes to now, and remembers a proof of health.
func (b *Breaker) judge(o Outcome) health {
	switch o {
	case Success, Alive:
		b.wellAt = b.now
		return healthGood
	case Suspect, SuspectTLS:
		switch {
		case !b.wellAt.IsZero() && b.now.Sub(b.wellAt) <= b.settings.Window:
			return healthBad
		case o == Suspect:
			return healthFair
		}
		return healthNothing
	case Neutral, Unanswered:
		return healthNothing
	case Sick:
	}
	return healthBad
}

// record counts an outcome in the window and opens the breaker if that is
// enough.
func (b *Breaker) record(failures int, was Mark) Mark {
	mark := Mark{all: b.window.count(failures, was.all)}
	if failures > 0 {
		mark.run = b.run.count(failures, was.run)
	} else if b.run.total != (counts{}) {
		b.run.restart()
	}
	t := b.window.total
	if b.run.total.messages >= b.settings.MinRequests {
		b.open(b.now)
	} else if t.failures > 0 && t.messages >= b.settings.MinRequests &&
		float64(t.failures) >= b.settings.FailureRatio*float64(t.outcomes) {
		b.open(b.now)
	}
	return mark
}

// Advance does what has come due by now: slow attempts count as failures, and
// an open time that is over makes the breaker half-open. Every other method
// does it too; a caller needs it only when nothing else happens.
func (b *Breaker) Advance(now time.Time) {
	for {
		at, ok := b.due()
		if !ok || at.After(now) {
			break
		}
		b.tell(at)
		if b.state == Open {
			b.enter(HalfOpen, b.now)
			continue
		}
		p := b.queue.head
		b.queue.remove(p)
		if b.state == HalfOpen {
			b.reopen(b.now)
			continue
		}
		p.slow = b.record(1, p.was)
	}
	b.tell(now)
}

// due returns when something happens by itself next.
func (b *Breaker) due() (time.Time, bool) {
	switch {
	case b.state == Open:
		return b.openUntil, b.forced == ForceAuto
	case b.queue.head != nil:
		return b.queue.head.due, true
	}
	return time.Time{}, false
}

// resetWindows forgets every outcome.
func (b *Breaker) resetWindows(now time.Time) {
	b.window.reset(now, b.settings.Window)
	b.run.reset(now, b.settings.Window)
}

// tell moves the breaker's time forward.
func (b *Breaker) tell(now time.Time) {
	if now.After(b.now) {
		b.now = now
	}
	b.window.slide(b.now)
	b.run.slide(b.now)
}

// Next returns the next moment after now at which the breaker's answer may
// change by itself, without another Begin, End or Force; false when there is
// none.
func (b *Breaker) Next(now time.Time) (time.Time, bool) {
	b.Advance(now)
	return b.due()
}

// open leaves Closed or HalfOpen for Open.
func (b *Breaker) open(at time.Time) {
	b.openUntil = at.Add(b.openFor)
	b.enter(Open, at)
}

// reopen opens after a failed round of trials, for twice as long as last time.
func (b *Breaker) reopen(at time.Time) {
	if b.openFor > b.settings.MaxOpenFor/2 {
		b.openFor = b.settings.MaxOpenFor
	} else {
		b.openFor *= 2
	}
	b.open(at)
}

// enter changes the state, and with it the generation: nothing that began
// before counts any more.
func (b *Breaker) enter(to State, at time.Time) {
	if to != b.state {
		m := Move{From: b.state, To: to, At: at}
		if b.state == Closed {
			m.Failures, m.Outcomes = b.window.total.failures, b.window.total.outcomes
		}
		if len(b.moves) == maxMoves {
			b.moves = append(b.moves[:0], b.moves[1:]...)
		}
		b.moves = append(b.moves, m)
	}
	b.state = to
	b.generation++
	b.queue.clear()
	b.trials, b.passes = 0, 0
	b.resetWindows(at)
}

// TakeMoves returns the changes of state since the last call, oldest first, at
// most the latest 64. nil when there were none.
func (b *Breaker) TakeMoves() []Move {
	if len(b.moves) == 0 {
		return nil
	}
	m := b.moves
	b.moves = nil
	return m
}
