package metamorphic

import (
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// pass lets time pass: a moment, some seconds with a sweep in each, or a long
// time without.
func (h *history) pass() {
	switch h.IntN(5) {
	case 0, 1:
		h.clock.Pass(time.Duration(1+h.IntN(3000)) * time.Millisecond)
		h.time()
	case 2, 3:
		h.seconds(1 + h.IntN(35))
	default:
		h.clock.Pass(time.Duration(1+h.IntN(90)) * time.Second)
		h.time()
		h.tell("time has passed")
	}
}

// seconds lets some pass with a sweep in each.
func (h *history) seconds(n int) {
	for range n {
		h.clock.Pass(time.Second)
		h.time()
		h.sweep()
	}
}

// until lets time pass up to a moment, if that is not far off, with a sweep each
// second.
func (h *history) until(t time.Time) {
	if left := t.Sub(h.model.now); left > 0 && left < 10*time.Minute {
		h.seconds(int(left / time.Second))
		h.clock.Pass(left % time.Second)
		h.time()
	}
}

// outage lets every worker be heard of at one moment and none from then on.
func (h *history) outage() {
	h.create(12)
	h.claim()
	running := h.model.running()
	if len(running) == 0 {
		return
	}
	h.tell("an outage of %d leases", len(running))
	h.sayOf(store.Heartbeat, running)
	h.seconds(70)
}

func (h *history) sweep() {
	want := h.model.sweep()
	got, err := h.store.Sweep(h.ctx)
	h.must(err)
	if n := want.TimedOut + want.Lost + want.Unreceived + want.Graced; n > 0 {
		h.tell("sweep: %+v", want)
	}
	h.same("the sweep", want, got)
	h.happened["timed out"] += want.TimedOut
	h.happened["lost"] += want.Lost
	h.happened["unreceived"] += want.Unreceived
	h.happened["graced"] += want.Graced
}

func (h *history) jump() {
	d := time.Duration(h.IntN(7200)-3600) * time.Second
	h.clock.Jump(d)
	h.tell("the wall clock jumps by %v", d)
	h.time()
}
