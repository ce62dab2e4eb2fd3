package metamorphic

import (
	"context"
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

// reader is who reads events to the end.
const reader = "sub"

// want says which of the types that are many are written from now on.
func (h *history) want() {
	h.model.wanted = map[store.EventType]bool{}
	for _, t := range store.EventTypes() {
		if h.chance(0.6) {
			h.model.wanted[t] = true
		}
	}
	h.tell("events wanted: %v", sorted(h.model.wanted))
	h.must(h.store.WantEvents(h.ctx, sorted(h.model.wanted)))
}

// events reads events and holds them against the model's.
func (h *history) events(f store.EventFilter, after int64, limit int) ([]modelEvent, int64) {
	h.Helper()
	want, next, gone := h.model.read(f, after, limit)
	read, err := h.store.Events(h.ctx, f, after, limit)
	h.must(err)
	got, err := understand(read.Events)
	h.must(err)
	h.same(fmt.Sprintf("the events behind %d", after), want, got)
	h.same("the next of the events", []any{next, gone}, []any{read.Next, read.Gone})
	return want, next
}

// readOn reads some events and makes jobs of them, as a subscription does.
func (h *history) readOn() {
	f := store.EventFilter{}
	switch h.IntN(4) {
	case 0:
		f.Types = []store.EventType{store.JobFailed, store.CircuitOpened, store.JobSucceeded}
	case 1:
		f.Queues = []string{"a", "b"}
	}
	from := h.model.cursors[reader]
	events, next := h.events(f, from, 1+h.IntN(6))
	if len(events) > 0 && h.opened {
		h.opened = false
		h.happened["events read after a start"]++
	}
	var jobs []store.NewJob
	if h.room(len(events)) {
		for _, e := range events {
			jobs = append(jobs, store.NewJob{
				Queue: eventQueue, Task: "deliver", Version: "1", Key: fmt.Sprint(reader, "/", e.ID), Hash: [32]byte{9},
				Content: job.Content{Payload: []byte("{}")}, Policy: job.Resolve(), Timeout: 1e9,
			})
		}
	}
	h.tell("%s goes from %d to %d with %d events", reader, from, next, len(jobs))
	if h.chance(0.1) { // one who has not heard of the last time
		h.agree("handing over from where it does not stand", store.ErrStatus, h.store.HandOver(h.ctx, reader, from+1, next+1, jobs))
		h.happened["hand-overs refused"]++
	}
	h.must(h.store.HandOver(h.ctx, reader, from, next, jobs))
	h.model.cursors[reader] = next
	if len(jobs) == 0 {
		return
	}
	all, err := storetest.All(h.ctx, h.store, store.Filter{Queue: eventQueue})
	h.must(err)
	if len(all) < len(jobs) {
		h.Fatalf("%d jobs were handed over of %d", len(all), len(jobs))
	}
	for i, n := range jobs {
		id := all[len(jobs)-1-i].ID // a list begins with the newest
		if h.model.jobs[id] != nil {
			h.Fatalf("%s was handed over twice", id)
		}
		h.model.add(id, n)
	}
	h.happened["events handed over"] += len(jobs)
}

// checkEvents compares the events that have come since the step before.
func (h *history) checkEvents() {
	h.Helper()
	_, h.seen = h.events(store.EventFilter{}, h.seen, store.EventsPage)
}

// checkReader compares all events that are kept, where the reader stands, and
// whether more are to be waited for.
func (h *history) checkReader() {
	h.Helper()
	h.events(store.EventFilter{}, 0, store.EventsPage)
	last, err := h.store.LastEvent(h.ctx)
	h.must(err)
	at, err := h.store.Cursor(h.ctx, reader)
	h.must(err)
	h.same("the last event, and the reader's", []int64{h.model.event, h.model.cursors[reader]}, []int64{last, at})
	over, cancel := context.WithCancel(h.ctx)
	cancel()
	if err := h.store.AwaitEvents(over, last); !errors.Is(err, context.Canceled) {
		h.Fatalf("waiting for an event behind the last: %v", err)
	}
	if last > 0 {
		h.must(h.store.AwaitEvents(over, last-1))
	}
}
