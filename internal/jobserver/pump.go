package jobserver

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	// pumpStep is how many events a subscription looks at in one step: each becomes
	// a job in one transaction.
	pumpStep = 200
	// deliverAtOnce is how many deliveries of one subscription run at once.
	deliverAtOnce = 8
	// restAfterError is how long a subscription rests when the store fails it.
	restAfterError = 5 * time.Second
	// maxVia is how many places a message may have come through as an event.
	maxVia = 100
	// viaHeader names the places that a message came through as an event, so that
	// no event goes round in a circle.
	viaHeader = "pawl-event-via"
	// eventSource is the source of the messages that carry events. No source of a
	// configuration may be named so.
	eventSource = job.RelayPrefix + "events"
)

// eventKeys are the idempotency keys of deliveries.
const eventKeys keySpace = "e:"

// readerOf is the reader whose cursor is how far a subscription has come.
func readerOf(name string) string { return "subscription:" + name }

// cursor returns how far a subscription has come; begun is false for one that has
// not begun. The store's cursor is one more, so that 0 is not begun.
func (s *Server) cursor(ctx context.Context, name string) (after int64, begun bool, err error) {
	at, err := s.store.Cursor(ctx, readerOf(name))
	return at - 1, at > 0, err
}

// moveOn moves a subscription on, with the deliveries that it made.
func (s *Server) moveOn(ctx context.Context, name string, from, to int64, jobs []store.NewJob) error {
	return s.store.HandOver(ctx, readerOf(name), from+1, to+1, jobs)
}

// begin lets a subscription begin with the events that come from now on.
func (s *Server) begin(ctx context.Context, name string) error {
	last, err := s.store.LastEvent(ctx)
	if err != nil {
		return err
	}
	had, _, err := s.cursor(ctx, name)
	if err != nil || had == last {
		return err
	}
	return s.moveOn(ctx, name, had, last, nil)
}

// beginNew lets subscriptions begin that never did, the configuration's new ones.
// It is done when they come in force and not by their loops, which Run starts: a
// job that was made before is theirs too. s.changing is held.
func (s *Server) beginNew(ctx context.Context, now *settings) error {
	if s.deliver == nil {
		return nil // nobody would ever work them
	}
	for name := range now.subs {
		_, begun, err := s.cursor(ctx, name)
		if err == nil && !begun {
			err = s.begin(ctx, name)
		}
		if err != nil && !errors.Is(err, store.ErrStatus) {
			return err // of ErrStatus another node was quicker
		}
	}
	return nil
}

// runSubscriptions keeps a loop for every subscription that is in force, until ctx
// ends.
func (s *Server) runSubscriptions(ctx context.Context) {
	running := map[string]*pump{}
	var all sync.WaitGroup
	defer all.Wait()
	for {
		now := s.settings.Load()
		for name, p := range running {
			if sub := now.subs[name]; sub == nil || sub.Disabled != "" || !sub.same(p.sub) {
				p.stop()
				<-p.ended
				delete(running, name)
			}
		}
		for name, sub := range now.subs {
			if running[name] != nil || sub.Disabled != "" || s.deliver == nil {
				continue
			}
			inner, stop := context.WithCancel(ctx)
			p := &pump{server: s, sub: sub, stop: stop, ended: make(chan struct{})}
			running[name] = p
			all.Go(func() { defer close(p.ended); p.run(inner) })
		}
		select {
		case <-ctx.Done():
			return
		case <-s.pumps:
		}
	}
}

// same reports whether a loop may go on with another subscription of its name.
func (s *subscription) same(other *subscription) bool {
	return s.URL == other.URL && s.Secret == other.Secret && s.born() == other.born() &&
		slices.Equal(s.Events, other.Events) && slices.Equal(s.Queues, other.Queues) && slices.Equal(s.To, other.To)
}

// born tells one subscription from a later one of the same name.
func (s *subscription) born() string {
	return string(s.By) + "/" + s.UpdatedBy + "/" + s.UpdatedAt.String()
}

// pump makes deliveries of a subscription's events and works them.
type pump struct {
	server *Server
	sub    *subscription
	stop   context.CancelFunc
	ended  chan struct{}
}

func (p *pump) run(ctx context.Context) {
	var both sync.WaitGroup
	both.Go(func() { p.every(ctx, "making deliveries of events", p.pass) })
	both.Go(func() { p.every(ctx, "delivering events", p.work) })
	both.Wait()
}

// every does a step over and over until ctx ends or the store is closed.
func (p *pump) every(ctx context.Context, what string, step func(context.Context) error) {
	var t trouble
	for ctx.Err() == nil {
		err := step(ctx)
		if ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		t.log(p.server.log.With("subscription", p.sub.name), what, err)
		if err == nil {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(restAfterError):
		}
	}
}

// pass waits for events and makes deliveries of some of them.
func (p *pump) pass(ctx context.Context) error {
	s := p.server
	from, begun, err := s.cursor(ctx, p.sub.name)
	if err != nil {
		return err
	}
	if !begun { // apply lets it begin; where the store refused that, it is tried again
		return s.Refresh(ctx)
	}
	if err := s.store.AwaitEvents(ctx, from); err != nil {
		return err
	}
	read, err := s.store.Events(ctx, store.EventFilter{Types: p.sub.Events, Queues: p.sub.Queues}, from, pumpStep)
	if err != nil {
		return err
	}
	if read.Gone {
		s.log.Error("a subscription was away for so long that events were removed before it saw them", "subscription", p.sub.name, "after", from)
	}
	if read.Next == from {
		return nil
	}
	var jobs []store.NewJob
	for _, e := range read.Events {
		made, err := p.deliveries(ctx, e)
		if err != nil {
			return err
		}
		jobs = append(jobs, made...)
	}
	if err := s.moveOn(ctx, p.sub.name, from, read.Next, jobs); err != nil && !errors.Is(err, store.ErrStatus) {
		return err // of ErrStatus another node was quicker
	}
	return nil
}

// deliveries are the jobs that bring an event to the subscription's places, but
// to none that it came through.
func (p *pump) deliveries(ctx context.Context, e store.Event) ([]store.NewJob, error) {
	via, err := p.server.via(ctx, e)
	if err != nil {
		return nil, err
	}
	body := AppendEvent(nil, &e)
	q := p.server.settings.Load().events
	var jobs []store.NewJob
	for _, to := range p.sub.places() {
		place := p.sub.name + "/" + to
		if slices.Contains(via, place) || len(via) >= maxVia {
			continue
		}
		m := &message.Message{
			ID: "evt_" + strconv.FormatInt(e.ID, 10), Source: eventSource, Time: e.At, Key: e.Job, ContentType: "application/json", Body: body,
			Headers: map[string][]string{"pawl-event": {string(e.Type)}},
		}
		if to != webhook {
			m.Headers[viaHeader] = append(slices.Clone(via), place)
		}
		task := to
		if to == webhook {
			task = "webhook"
		}
		key := eventKeys.key(place + "/" + strconv.FormatInt(e.ID, 10))
		jobs = append(jobs, store.NewJob{
			Queue: p.sub.queue(), Task: task, Version: defaultVersion, Content: job.Content{Payload: body, Head: message.AppendHead(nil, m)},
			Policy: q.policy, Timeout: q.Timeout, Key: key, Hash: hashBody(body),
		})
	}
	return jobs, nil
}

// via returns the places that the job of an event came through as an event: it
// may be a message that a subscription sent into a queue.
func (s *Server) via(ctx context.Context, e store.Event) ([]string, error) {
	if e.Job == "" {
		return nil, nil
	}
	j, err := s.store.Job(ctx, e.Job)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil // it was deleted: nothing follows from it any more
	}
	if err != nil || j.Content.Head == nil {
		return nil, err
	}
	m, err := message.DecodeHead(j.Content.Head, j.Content.Payload)
	if err != nil {
		return nil, nil //nolint:nilerr // what can't be read is a dead letter of its own
	}
	if m.Source != eventSource {
		return nil, nil // anybody may send a header
	}
	return m.Headers[viaHeader], nil
}
