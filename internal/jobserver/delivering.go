package jobserver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

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
	case p.disabled(): // since it was claimed
		r.Type, r.After = store.Release, time.Second
	default:
		d.Message = m
		v := p.deliver(ctx, c, d)
		sayVerdict(&r, v)
		if v.How == Gone {
			disabled, err := p.server.gone(context.WithoutCancel(ctx), p.sub.name, v.Error)
			if err != nil {
				return err
			}
			if disabled { // it waits with what there still is to deliver
				r = store.Report{Type: store.Release, Lease: c.Lease, After: time.Second}
			}
		}
	}
	// What is known is written down also where the process ends.
	end, stop := context.WithTimeout(context.WithoutCancel(ctx), restAfterError)
	defer stop()
	_, err = p.server.reportOwn(end, r)
	return err
}

// disabled reports whether the subscription is by now.
func (p *pump) disabled() bool {
	sub := p.server.settings.Load().subs[p.sub.name]
	return sub != nil && sub.Disabled != ""
}

// deliver makes a delivery while its lease is kept alive, within its timeout.
func (p *pump) deliver(ctx context.Context, c *store.Claimed, d Delivery) Verdict {
	defer p.server.keepAlive(ctx, c)()
	ctx, stop := context.WithTimeout(ctx, DefaultTimeout-restAfterError)
	defer stop()
	return p.server.deliver.DeliverEvent(ctx, d)
}

// reportOwn reports on the delivery of an event. It counts as that, and as no attempt
// of a job: nobody made it, and a far side that is away must not look like workers
// that fail.
func (s *Server) reportOwn(ctx context.Context, r store.Report) (store.AnswerStatus, error) {
	switch r.Type {
	case store.Complete:
		s.totals.delivered.Add(1)
	case store.Fail:
		s.totals.undelivered.Add(1)
	default:
	}
	return s.reportOne(ctx, r)
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
// still has to deliver stays where it is, until ResumeSubscription or
// RemoveSubscription. The configuration's own is not disabled: what it says is what a
// person reads there.
func (s *Server) gone(ctx context.Context, name, why string) (disabled bool, err error) {
	why = strings.TrimSpace("the other side answered that it is gone. " + why)
	s.changing.Lock()
	defer s.changing.Unlock()
	d, there := s.defined.subs[name]
	if !there || d.value.Disabled != "" {
		return there, nil
	}
	d.value.Disabled = why
	next, err := keep(ctx, s.store, store.SubscriptionDefinition, name, d.UpdatedBy, d.value)
	if err != nil {
		return false, err
	}
	s.defined.subs = with(s.defined.subs, name, next)
	if err := s.store.TellGone(ctx, name, why); err != nil {
		return false, err
	}
	s.log.Error("a subscription was disabled: its other side is gone", "subscription", name, "why", why)
	return true, s.changed(ctx)
}
