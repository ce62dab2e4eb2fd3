package breaker

import "time"

// slots is how many parts the window has. Twenty make forgetting smooth (a
// twentieth at a time) and a window small enough to keep one per endpoint.
const slots = 20

// Mark is where the latest outcome of a message on one breaker is counted. A
// message carries it from one End to its next Begin on the same breaker. The
// zero value is a message without an outcome.
type Mark struct {
	all stamp // in the window of all outcomes
	run stamp // in that of the failures since the last success
}

// stamp is a place in a window.
type stamp struct {
	epoch uint64 // of the window; 0 is none
	slot  int64
}

// window counts outcomes over a sliding stretch of time.
type window struct {
	epoch  uint64 // grows when it is emptied, so that old marks are known as such
	origin time.Time
	width  time.Duration
	slot   int64 // the slot of the present
	ring   [slots]counts
	total  counts
}

type counts struct{ failures, outcomes, messages int }

// reset empties the window and starts its slots at now.
func (w *window) reset(now time.Time, length time.Duration) {
	*w = window{epoch: w.epoch + 1, origin: now, width: max(length/slots, 1)}
}

// restart empties the window and leaves its slots where they are.
func (w *window) restart() {
	*w = window{epoch: w.epoch + 1, origin: w.origin, width: w.width, slot: w.slot}
}

// slide moves the present to now and forgets the slots that fell out.
func (w *window) slide(now time.Time) {
	to := int64(now.Sub(w.origin) / w.width)
	if to <= w.slot {
		return
	}
	if to-w.slot >= slots {
		w.ring, w.total, w.slot = [slots]counts{}, counts{}, to
		return
	}
	for w.slot < to {
		w.slot++
		gone := &w.ring[w.slot%slots]
		w.total.failures -= gone.failures
		w.total.outcomes -= gone.outcomes
		w.total.messages -= gone.messages
		*gone = counts{}
	}
}

// holds reports whether the stamp's slot is still in the window.
func (w *window) holds(m stamp) bool {
	return m.epoch == w.epoch && m.slot > w.slot-slots
}

// present is the stamp of an outcome that is counted now.
func (w *window) present() stamp { return stamp{w.epoch, w.slot} }

// count adds an outcome now, and moves the message from where it was counted.
func (w *window) count(failures int, was stamp) stamp {
	w.move(was, w.present())
	w.add(w.present(), failures, 1)
	return w.present()
}

// takeBack removes the failure that was counted at a stamp and puts its message
// back to where it was counted before.
func (w *window) takeBack(at, was stamp) {
	if w.holds(at) {
		w.add(at, -1, -1)
	}
	w.move(at, was)
}

// add changes the counts of the stamp's slot, which the window must hold.
func (w *window) add(at stamp, failures, outcomes int) {
	c := &w.ring[at.slot%slots]
	c.failures += failures
	c.outcomes += outcomes
	w.total.failures += failures
	w.total.outcomes += outcomes
}

// move counts a message in another slot. A stamp that the window does not hold
// is nowhere.
func (w *window) move(from, to stamp) {
	if w.holds(from) {
		w.ring[from.slot%slots].messages--
		w.total.messages--
	}
	if w.holds(to) {
		w.ring[to.slot%slots].messages++
		w.total.messages++
	}
}
