package metamorphic

import (
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// open opens the store on what is there, and says to it what it doesn't keep.
func (h *history) open() {
	h.Helper()
	h.store = h.files()
	h.must(h.store.SetLimits(h.ctx, h.model.limits))
	h.must(h.store.WantEvents(h.ctx, sorted(h.model.wanted)))
	h.opened = true
}

func (h *history) restart() {
	away := pick(h, 0, time.Second, 10*time.Minute)
	kill := h.chance(0.5)
	if running := h.model.running(); len(running) > 0 && h.chance(0.6) {
		h.cancelOne(pick(h, running...))
	}
	if kill {
		h.leave() // what stands in the files at this moment is all that is left
	}
	h.must(h.store.Close())
	h.clock.Pass(away)
	h.open()
	if kill {
		// The file knows the time of its last commit, not of the last look.
		h.model.now = h.store.Now()
		h.tell("killed, and started after %v", away)
		h.happened["kills"]++
	} else {
		h.time()
		h.tell("a restart after %v", away)
		h.happened["restarts"]++
	}
	for _, r := range h.model.replays {
		if r.State == store.ReplayRunning && r.Done > 0 {
			h.happened["starts with a replay half way"]++
		}
	}
	for _, name := range endpoints {
		if h.model.circuitOf(name).opened != (time.Time{}) {
			h.happened["starts with a circuit that is not closed"]++
		}
	}
	h.model.reopen()
}

func (h *history) retain() {
	n := h.model.retain(h.keep)
	h.tell("retention of %d", n)
	for more := store.More(true); more; {
		var err error
		more, err = h.store.Retain(h.ctx, h.keep)
		h.must(err)
	}
	h.happened["removed"] += n
}
