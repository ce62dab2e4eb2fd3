package breaker

import "time"

// slots is how many parts the window has. Twenty make forgetting smooth (a
// twentieth at a time) and a window small enough to keep one per endpoint.
const slots = 20

// Mark is where the latest outcome of a message on one breaker is counted. A
// message carries it from one End to its next Begin on the same breaker. The
// zero value is a message without an outcome.
type Mark struct {
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

// holds reports whether the mark's slot is still in the window.
func (w *window) holds(m Mark) bool {
	return m.epoch == w.epoch && m.slot > w.slot-slots
}

// present is the mark of an outcome that is counted now.
func (w *window) present() Mark { return Mark{w.epoch, w.slot} }

// count adds an outcome now, and moves the message from where it was counted.
func (w *window) count(failures int, was Mark) Mark {
	w.move(was, w.present())
	w.add(w.present(), failures, 1)
	return w.present()
}

// takeBack removes the failure that was counted at a mark and puts its message
// back to where it was counted before.
func (w *window) takeBack(at, was Mark) {
	if w.holds(at) {
		w.add(at, -1, -1)
	}
	w.move(at, was)
}

// add changes the counts of the mark's slot, which the window must hold.
func (w *window) add(at Mark, failures, outcomes int) {
	c := &w.ring[at.slot%slots]
	c.failures += failures
	c.outcomes += outcomes
	w.total.failures += failures
	w.total.outcomes += outcomes
}

// move counts a message in another slot. A mark that the window does not hold
// is nowhere.
func (w *window) move(from, to Mark) {
	if w.holds(from) {
		w.ring[from.slot%slots].messages--
		w.total.messages--
	}
	if w.holds(to) {
		w.ring[to.slot%slots].messages++
		w.total.messages++
	}
}
