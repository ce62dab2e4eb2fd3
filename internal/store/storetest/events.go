package storetest

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// read returns the events behind an id.
func (r *rig) read(f store.EventFilter, after int64) store.EventsRead {
	r.Helper()
	e, err := r.Events(r.ctx, f, after, store.EventsPage)
	r.must(err)
	return e
}

func types(e store.EventsRead) (all []store.EventType) {
	for _, e := range e.Events {
		all = append(all, e.Type)
	}
	return all
}

var eventTests = []test{
	{"of a job's life, where they are wanted", func(r *rig) {
		c := r.begin(newJob("q"))
		r.say(report(store.Complete, c))
		if got := r.read(store.EventFilter{}, 0); len(got.Events) != 0 || got.Next != 0 {
			r.Errorf("written though nobody wanted them: %+v", got)
		}
		r.must(r.WantEvents(r.ctx, []store.EventType{store.JobCreated, store.JobRetried, store.JobSucceeded}))
		j := newJob("q")
		j.Policy.MaxAttempts = 2
		c = r.begin(j)
		r.say(report(store.Release, c))
		r.say(report(store.Fail, r.take("q")))
		r.h.Clock.Pass(time.Hour)
		r.say(report(store.Fail, r.take("q")))
		_, err := r.Retry(r.ctx, c.Job.ID, "ops", store.RefuseUncertain)
		r.must(err)
		r.say(report(store.Complete, r.take("q")))
		r.cancel(r.put(newJob("q")))
		got := r.read(store.EventFilter{}, 0)
		r.same("events", []store.EventType{
			store.JobCreated, store.JobRetried, store.JobFailed, store.JobRetried, store.JobSucceeded, store.JobCreated, store.JobCancelled,
		}, types(got))
		for i, e := range got.Events[:5] {
			if e.ID != int64(i+1) || e.Job != c.Job.ID || e.Queue != "q" || e.Task != "t" || e.Version != "1" {
				r.Errorf("event %d: %+v", i, e)
			}
		}
		if failed := got.Events[2]; !failed.At.Equal(Start.Add(time.Hour)) ||
			string(failed.Data) != `{"attempt":3,"outcome":"failed","reason":"exhausted","error":{"type":"HttpError","message":"503"}}` {
			r.Errorf("%v: %s", failed.At, failed.Data)
		}
		r.same("of one type", []store.EventType{store.JobFailed}, types(r.read(store.EventFilter{Types: []store.EventType{store.JobFailed}}, 0)))
		none := r.read(store.EventFilter{Queues: []string{"other"}}, 0)
		if len(none.Events) != 0 || none.Next != 7 {
			r.Errorf("of another queue: %+v", none)
		}
	}},
	{"of gates and circuits, always", func(r *rig) {
		r.quick(1)
		r.open(1)
		r.must(r.Pause(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		r.must(r.Pause(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		r.must(r.Resume(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		r.must(r.Pause(r.ctx, endpointE, "ops"))
		r.must(r.Resume(r.ctx, endpointE, "ops"))
		_, err := r.ResetCircuit(r.ctx, "e", "ops")
		r.must(err)
		r.say(failure(r.begin(behind("q2", "t")), job.Failure{RetryAfter: new(time.Minute)}))
		got := r.read(store.EventFilter{}, 0)
		r.same("events", []store.EventType{
			store.CircuitOpened, store.QueuePaused, store.QueueResumed, store.EndpointPaused, store.EndpointResumed, store.CircuitClosed, store.EndpointHeld,
		}, types(got))
		if e := got.Events[0]; e.Endpoint != "e" || e.Job != "" || string(e.Data) != `{"generation":1,"retry_at":"2026-12-01T09:01:00.000Z"}` {
			r.Errorf("%+v %s", e, e.Data)
		}
		if c := r.circuit(); c.State != circuit.Closed {
			r.Errorf("%+v", c)
		}
	}},
	{"not of what the deliveries of events do", func(r *rig) {
		r.must(r.WantEvents(r.ctx, store.EventTypes()))
		for _, queue := range []string{store.EventQueue + "s", job.RelayPrefix + "web"} {
			r.say(failure(r.begin(newJob(queue)), job.Failure{Permanent: true}))
		}
		got := r.read(store.EventFilter{}, 0)
		if len(got.Events) != 1 || got.Events[0].Type != store.JobFailed || got.Events[0].Queue != job.RelayPrefix+"web" {
			r.Errorf("%+v", got.Events)
		}
	}},
	{"in order over a restart, and read once", func(r *rig) {
		const reader = "subscription one"
		g := lane.Gate{Kind: lane.QueueGate, Name: "q"}
		r.must(r.Pause(r.ctx, g, "ops"))
		handed := keyed(store.EventQueue+"one", "one/1", 1)
		handed.Tags = []string{"a"}
		r.must(r.HandOver(r.ctx, reader, 0, 1, []store.NewJob{handed}))
		if got := r.all(store.Filter{Queue: store.EventQueue + "one", Limit: 10}); len(got) != 1 || len(got[0].Tags) != 1 {
			r.Errorf("what was handed over is %+v", got)
		}
		r.refused("twice", r.HandOver(r.ctx, reader, 0, 1, []store.NewJob{newJob("x")}), store.ErrStatus)
		r.restart(time.Second)
		r.must(r.Resume(r.ctx, g, "ops"))
		if last, err := r.LastEvent(r.ctx); err != nil || last != 2 {
			r.Errorf("the last event is %d, %v", last, err)
		}
		if at, err := r.Cursor(r.ctx, reader); err != nil || at != 1 {
			r.Errorf("the reader stands at %d, %v", at, err)
		}
		if got := r.claim(want(store.EventQueue+"one", "x")); len(got) != 1 {
			r.Errorf("%d jobs were handed over", len(got))
		}
		r.must(r.DropCursor(r.ctx, reader))
		if at, err := r.Cursor(r.ctx, reader); err != nil || at != 0 {
			r.Errorf("after it was forgotten: %d, %v", at, err)
		}
	}},
	{"a reader ahead of them all is told, and begins anew", func(r *rig) { // a backup was put back
		r.must(r.Pause(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		if got := r.read(store.EventFilter{}, 700); len(got.Events) != 1 || got.Events[0].ID != 1 || got.Next != 1 || !got.Gone {
			r.Errorf("%+v", got)
		}
		if got := r.read(store.EventFilter{Queues: []string{"other"}}, 700); len(got.Events) != 0 || got.Next != 1 || !got.Gone {
			r.Errorf("filtered: %+v", got)
		}
	}},
	{"a reader behind the last one rests, whatever was removed", func(r *rig) {
		r.must(r.Pause(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		r.must(r.Resume(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		r.h.Clock.Pass(time.Hour)
		for more := store.More(true); more; {
			var err error
			more, err = r.Retain(r.ctx, store.Retention{Events: time.Minute})
			r.must(err)
		}
		got := r.read(store.EventFilter{}, 1)
		if len(got.Events) != 0 || got.Next != 2 || !got.Gone {
			r.Errorf("behind what is gone: %+v", got)
		}
		if end := r.read(store.EventFilter{}, 2); end.Gone || end.Next != 2 {
			r.Errorf("at the end: %+v", end)
		}
		r.restart(time.Second)
		ctx, cancel := context.WithTimeout(r.ctx, 10*time.Millisecond)
		defer cancel()
		r.refused("waiting for another", r.AwaitEvents(ctx, 2), context.DeadlineExceeded)
	}},
	{"waiting for one", func(r *rig) {
		came := make(chan error, 1)
		go func() { came <- r.AwaitEvents(r.ctx, 0) }()
		select {
		case err := <-came:
			r.Fatalf("nothing came, and yet: %v", err)
		case <-time.After(10 * time.Millisecond):
		}
		r.must(r.Pause(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "q"}, "ops"))
		r.must(<-came)
		r.must(r.AwaitEvents(r.ctx, 0))
		gone, cancel := context.WithCancel(r.ctx)
		cancel()
		r.refused("one that gave up", r.AwaitEvents(gone, 1), context.Canceled)
	}},
}
