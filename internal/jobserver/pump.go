package jobserver

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
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
	if !begun { // the configuration's, at its first start
		return s.begin(ctx, p.sub.name)
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
	body, err := EventJSON(e)
	if err != nil {
		return nil, err
	}
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

// eventJSON is the form of an event on the wire.
type eventJSON struct {
	ID           string          `json:"id"`
	Type         store.EventType `json:"type"`
	At           string          `json:"at"`
	Job          string          `json:"job,omitzero"`
	Queue        string          `json:"queue,omitzero"`
	Task         string          `json:"task,omitzero"`
	Version      string          `json:"version,omitzero"`
	Endpoint     string          `json:"endpoint,omitzero"`
	Replay       string          `json:"replay,omitzero"`
	Subscription string          `json:"subscription,omitzero"`
	Data         jsontext.Value  `json:"data"`
}

// EventJSON is an event as subscriptions get it and /v3/events writes it.
func EventJSON(e store.Event) ([]byte, error) {
	w := eventJSON{
		ID: strconv.FormatInt(e.ID, 10), Type: e.Type, At: e.At.UTC().Format("2006-01-02T15:04:05.000Z"), Job: e.Job, Queue: e.Queue,
		Task: e.Task, Version: e.Version, Endpoint: e.Endpoint, Data: e.Data,
	}
	if len(w.Data) == 0 {
		w.Data = jsontext.Value("{}")
	}
	switch e.Type {
	case store.ReplayMoved:
		w.Replay = e.Subject
	case store.SubscriptionGone:
		w.Subscription = e.Subject
	default:
	}
	return json.Marshal(w)
}

// work claims deliveries and makes them, deliverAtOnce at a time, until ctx ends or
// the store fails.
func (p *pump) work(ctx context.Context) error {
	var all sync.WaitGroup
	defer all.Wait()
	free := make(chan struct{}, deliverAtOnce)
	for range deliverAtOnce {
		free <- struct{}{}
	}
	failed := make(chan error, 1)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-failed:
			return err
		case <-free:
		}
		n := 1
		for len(free) > 0 { // this loop alone takes of it
			<-free
			n++
		}
		got, err := p.claim(ctx, n)
		for range n - len(got) {
			free <- struct{}{}
		}
		if err != nil {
			return err
		}
		for i := range got {
			all.Go(func() {
				defer func() { free <- struct{}{} }()
				if err := p.one(ctx, &got[i]); err != nil {
					select {
					case failed <- err:
					default:
					}
				}
			})
		}
	}
}

// claim takes up to n deliveries.
func (p *pump) claim(ctx context.Context, n int) ([]store.Claimed, error) {
	worker := relayWorker("events:" + p.sub.name)
	got, err := p.server.store.Claim(ctx, store.Want{
		Caller: worker, Worker: worker, Queues: []store.QueueLease{{Queue: p.sub.queue(), Lease: DefaultLease}},
		Max: n, MaxBytes: MaxAnswer, Wait: MaxClaimWait,
	})
	return got.Jobs, err
}

// one makes one delivery and reports it. Its lease is kept alive meanwhile.
func (p *pump) one(ctx context.Context, c *store.Claimed) error {
	d := Delivery{Subscription: p.sub.name, URL: p.sub.URL, Secret: p.sub.Secret, Attempt: c.Job.Attempt}
	if p.sub.URL == "" {
		d.To = c.Job.Task
	}
	r := store.Report{Lease: c.Lease}
	m, err := messageOf(c.Job)
	switch {
	case err != nil:
		r.Type, r.Failure.Permanent, r.Error = store.Fail, true, &job.Error{Type: "unreadable", Message: err.Error()}
	case d.To != "" && !slices.Contains(p.sub.To, d.To):
		r.Type, r.Failure.Permanent = store.Fail, true
		r.Error = &job.Error{Type: "no_destination", Message: fmt.Sprintf("the subscription does not send to %q any more", d.To)}
	default:
		d.Message = m
		v := p.deliver(ctx, c, d)
		sayVerdict(&r, v)
		if v.How == Gone {
			if err := p.server.gone(context.WithoutCancel(ctx), p.sub.name, v.Error); err != nil {
				return err
			}
		}
	}
	// What is known is written down also where the process ends.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), restAfterError)
	defer stop()
	_, err = p.server.reportOwn(end, r)
	return err
}

// deliver makes a delivery while its lease is kept alive, within its timeout.
func (p *pump) deliver(ctx context.Context, c *store.Claimed, d Delivery) Verdict {
	defer p.server.keepAlive(ctx, c)()
	ctx, stop := context.WithTimeout(ctx, DefaultTimeout-restAfterError)
	defer stop()
	return p.server.deliver.DeliverEvent(ctx, d)
}

// reportOwn reports on a lease of the server's own workers.
func (s *Server) reportOwn(ctx context.Context, r store.Report) (store.AnswerStatus, error) {
	switch r.Type {
	case store.Complete:
		s.totals.delivered.Add(1)
	case store.Fail:
		s.totals.undelivered.Add(1)
	default:
	}
	return messages{s}.report(ctx, r)
}

// keepAlive lengthens a lease at a third of its length, until it is told to stop.
func (s *Server) keepAlive(ctx context.Context, c *store.Claimed) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		every := time.NewTicker(c.LeaseFor / 3)
		defer every.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-every.C:
				// One that fails is made good by the next.
				_, _ = s.store.Report(ctx, []store.Report{{Type: store.Heartbeat, Lease: c.Lease}})
			}
		}
	}()
	return func() { cancel(); <-ended }
}

// sayVerdict turns a verdict into the report of its job.
func sayVerdict(r *store.Report, v Verdict) {
	kind := "delivery"
	switch v.How {
	case Delivered:
		r.Type = store.Complete
		return
	case NotNow:
		r.Type, r.After = store.Release, max(v.After, time.Second)
		return
	case Never:
		kind, r.Failure.Permanent = "permanent", true
	case Gone:
		kind, r.Failure.Permanent = "gone", true
	case TryAgain:
	}
	r.Type, r.Error = store.Fail, &job.Error{Type: kind, Message: v.Error}
	if v.After > 0 {
		r.Failure.RetryAfter = &v.After
	}
}

// gone disables a subscription whose other side wants nothing any more. What it
// still has to deliver stays where it is.
func (s *Server) gone(ctx context.Context, name, why string) error {
	why = strings.TrimSpace("the other side answered that it is gone. " + why)
	s.changing.Lock()
	defer s.changing.Unlock()
	d, there := s.defined.subs[name]
	if !there || d.value.Disabled != "" {
		return nil // the configuration's own is what a person reads there
	}
	d.value.Disabled = why
	next, err := keep(ctx, s.store, store.SubscriptionDefinition, name, d.UpdatedBy, d.value)
	if err != nil {
		return err
	}
	s.defined.subs = with(s.defined.subs, name, next)
	if err := s.store.TellGone(ctx, name, why); err != nil {
		return err
	}
	s.log.Error("a subscription was disabled: its other side is gone", "subscription", name, "why", why)
	return s.changed(ctx)
}
