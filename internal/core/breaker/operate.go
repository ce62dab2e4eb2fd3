package breaker

import "time"

// Force moves the operator's lever. Back to ForceAuto, a breaker that was held
// open becomes half-open, so that trials show what is true, and one that was
// held closed stays closed with an empty window. Forcing what is forced already
// does nothing.
func (b *Breaker) Force(now time.Time, f Forced) {
	b.Advance(now)
	if f == b.forced {
		return
	}
	was := b.forced
	b.forced = f
	b.openFor = b.settings.OpenFor
	b.openUntil = time.Time{}
	switch {
	case f == ForceOpen:
		b.enter(Open, b.now)
	case f == ForceAuto && was == ForceOpen:
		b.enter(HalfOpen, b.now)
	default:
		b.enter(Closed, b.now)
	}
}

// TryNow makes an open breaker half-open before its time: something else, such as
// a health check, says that the endpoint is well again. Trials then show whether
// that is true, and a failed one opens it for as long as it would have anyway. A
// breaker that is not open, or that a lever holds open, stays as it is.
func (b *Breaker) TryNow(now time.Time) {
	b.Advance(now)
	if b.state == Open && b.forced == ForceAuto {
		b.enter(HalfOpen, b.now)
	}
}

// State returns where the breaker stands now.
func (b *Breaker) State(now time.Time) State {
	b.Advance(now)
	return b.state
}

// Configure changes the settings, over a reload say. The state, the counts and
// the attempts in flight live on, but for the counts where the window changes
// its length: the slots would not fit. An open time that is longer than the
// new MaxOpenFor, from now, is cut to it.
func (b *Breaker) Configure(now time.Time, s Settings) {
	b.Advance(now)
	length := b.settings.Window
	opened := b.openFor != b.settings.OpenFor // doubled
	b.apply(s)
	if opened {
		b.openFor = min(max(b.openFor, b.settings.OpenFor), b.settings.MaxOpenFor)
	} else {
		b.openFor = b.settings.OpenFor
	}
	if latest := b.now.Add(b.settings.MaxOpenFor); b.state == Open && b.openUntil.After(latest) {
		b.openUntil = latest
	}
	if b.settings.Window != length {
		b.resetWindows(b.now)
	}
}

// Snapshot returns what there is to see now.
func (b *Breaker) Snapshot(now time.Time) Snapshot {
	b.Advance(now)
	s := Snapshot{State: b.state, Forced: b.forced, Trials: b.trials, Passes: b.passes}
	switch {
	case b.state == Closed:
		t := b.window.total
		s.Failures, s.Outcomes, s.Messages = t.failures, t.outcomes, t.messages
	case b.state == Open && b.forced == ForceAuto:
		s.OpenUntil = b.openUntil
	}
	return s
}
