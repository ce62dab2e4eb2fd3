package relay

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
)

// settle takes the message through its routes. The routes' own work ends with
// the relay, never with the source's ctx: once begun a message is settled.
func (in *intake) settle(ctx context.Context, d connector.Delivery, spec SourceSpec) settled {
	r := in.relay
	if r.opts.Trace == nil {
		return in.settleTraced(ctx, r.work, d, spec)
	}
	work, end := r.opts.Trace(r.work, d.Message)
	s := in.settleTraced(ctx, work, d, spec)
	end(s.Status, s.Err)
	return s
}

// settleTraced is settle with the context of its deliveries.
func (in *intake) settleTraced(ctx, work context.Context, d connector.Delivery, spec SourceSpec) settled {
	r := in.relay
	g := r.begin()
	defer r.end(g)
	p := g.plan(work, in.name, d.Message)
	if !p.taken {
		if spec.Unrouted == AckUnrouted {
			in.warnUnrouted(d.Message.ID)
			return ended(event.SettledUnrouted, d.Message.ID)
		}
		p.letters = append(p.letters, &message.DeadLetter{
			Message: d.Message, Death: message.Death{Reason: message.ReasonNoRoute, Error: "no route takes it"},
		})
	}
	if r.work.Err() != nil && len(p.letters) > 0 && nackable(d) {
		return nacked(d.Message.ID, retryWhenStopped, errStopping) // the stop may be what failed
	}
	if s, ok := p.admit(ctx, spec.Push, d.Message.ID); !ok {
		if nackable(d) {
			return s
		}
		// Routing took so long that the sender was told it goes on: so it waits.
		if _, ok := p.admit(work, Pause, d.Message.ID); !ok {
			return in.conclude(d, &p, p.cancelled())
		}
	}
	maxWait := p.maxWait(d.MaxWait)
	if maxWait == 0 {
		r.bestEffort(work, g, p.legs, time.Time{})
	}
	results := r.deliver(work, p.legs, journey{maxWait: maxWait})
	if maxWait > 0 && concluded(results) {
		r.bestEffort(work, g, p.legs, time.Time{}) // once, and not at each pass
	}
	return in.conclude(d, &p, results)
}

// concluded reports whether every required leg has its end: none is to be made
// again.
func concluded(results []deliver.Result) bool {
	for i := range results {
		if s := results[i].Status; s == deliver.Deferred || s == deliver.Cancelled {
			return false
		}
	}
	return true
}

// warnUnrouted logs the first message that no route takes, and then one a
// minute at most.
func (in *intake) warnUnrouted(id string) {
	now := time.Now()
	in.mu.Lock()
	warn := now.Sub(in.warned) >= time.Minute
	if warn {
		in.warned = now
	}
	in.mu.Unlock()
	if warn {
		in.relay.opts.Log.Warn("no route takes the message; it is acked and gone (unrouted: dead_letter keeps such)",
			"source", in.name, "id", id)
	}
}

// bestEffort starts the legs that nobody waits for. A full lane drops them.
// since is as in journey.
func (r *Relay) bestEffort(ctx context.Context, g *Generation, legs []leg, since time.Time) {
	for _, l := range legs {
		if l.target.Required == Required {
			continue
		}
		place, ok := l.target.To.Enter()
		if !ok {
			r.dropped(l, "its lane is full (max_pending)")
			continue
		}
		l.place = place
		r.again(g)
		r.background.Go(func() {
			defer r.end(g)
			if res := l.deliver(ctx, journey{since: since}); res.Status != deliver.Delivered {
				_, why := res.Last()
				r.dropped(l, why)
			}
		})
	}
}

// again takes a generation that is held already once more.
func (r *Relay) again(g *Generation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	g.open++
}

func (r *Relay) dropped(l leg, why string) {
	r.opts.Events(event.Event{
		Kind: event.BestEffortDropped, At: time.Now(), Route: l.route, Destination: l.target.To.Name(),
		MessageID: l.message.ID, Error: why,
	})
}

// journey is what the legs of a message have in common.
type journey struct {
	// since is where their age begins for a ttl; zero is the message's own time.
	since time.Time
	// maxWait is as in deliver.Request.
	maxWait time.Duration
}

func (l *leg) deliver(ctx context.Context, j journey) deliver.Result {
	need := deliver.Required
	if l.target.Required != Required {
		need = deliver.BestEffort
	}
	return l.target.To.Deliver(ctx, deliver.Request{
		Message: l.message, Route: l.route, Place: l.place, Need: need, Since: j.since, MaxWait: j.maxWait,
	})
}

// deliver runs the required legs side by side, the first on this goroutine, and
// returns their results by leg.
func (r *Relay) deliver(ctx context.Context, legs []leg, j journey) []deliver.Result {
	results := make([]deliver.Result, len(legs))
	first := -1
	var others sync.WaitGroup
	for i := range legs {
		if legs[i].target.Required != Required {
			continue
		}
		if first < 0 {
			first = i
			continue
		}
		others.Go(func() { results[i] = legs[i].deliver(ctx, j) })
	}
	if first >= 0 {
		results[first] = legs[first].deliver(ctx, j)
	}
	others.Wait()
	return results
}

// cancelled returns the results of legs that a stop kept from their lanes.
func (p *plan) cancelled() []deliver.Result {
	results := make([]deliver.Result, len(p.legs))
	for i := range results {
		results[i] = deliver.Result{Status: deliver.Cancelled, Hops: []message.Hop{{
			Destination: p.legs[i].target.To.Name(), Reason: message.HopCancelled, At: time.Now(), Error: errStopping.Error(),
		}}}
	}
	return results
}

// conclude makes letters of what failed and says how the message ended.
func (in *intake) conclude(d connector.Delivery, p *plan, results []deliver.Result) settled {
	s := ended(event.SettledDelivered, d.Message.ID)
	cut := false
	for i := range p.legs {
		l, res := &p.legs[i], &results[i]
		if l.target.Required != Required {
			continue
		}
		s.note(l)
		s.attempts += res.Attempts
		switch res.Status {
		case deliver.Delivered:
		case deliver.Failed:
			p.letters = append(p.letters, letterOf(l, res))
		case deliver.Cancelled:
			cut = true
			p.letters = append(p.letters, letterOf(l, res))
		case deliver.Deferred: // the only one: what else there is to tell comes with its end
			return s.deferred(res)
		}
	}
	if len(p.letters) == 0 {
		return s
	}
	if cut && nackable(d) {
		s.Status, s.counted = event.SettledNacked, event.SettledNacked
		s.RetryAfter, s.Err = retryWhenStopped, errStopping
		return s
	}
	for _, l := range p.letters {
		l.Source = in.other(l.Message)
	}
	if err := in.relay.write(d, p.letters); err != nil {
		s.Status, s.counted = event.SettledNacked, event.SettledNacked
		s.RetryAfter, s.Err = retryWhenNacked, err
		return s
	}
	s.Status, s.counted = event.SettledDeadLettered, event.SettledDeadLettered
	return s
}

// other returns the source's name where a message names another as its own.
func (in *intake) other(m *message.Message) string {
	if m.Source == in.name {
		return ""
	}
	return in.name
}

// deferred makes it the settlement of a message that goes back to its queue.
func (s settled) deferred(res *deliver.Result) settled {
	s.Status, s.counted = event.SettledDeferred, event.SettledDeferred
	s.RetryAfter, s.Attempts = res.After, res.Attempts
	_, why := res.Last()
	s.Err = errors.New(why)
	return s
}

func nackable(d connector.Delivery) bool { return d.Nackable == nil || d.Nackable() }

// note adds the leg's names to what the access log shows.
func (s *settled) note(l *leg) {
	if s.destination == "" {
		s.route, s.destination = l.route, l.target.To.Name()
		return
	}
	if !strings.Contains(","+s.route+",", ","+l.route+",") {
		s.route += "," + l.route
	}
	s.destination += "," + l.target.To.Name()
}

// letterOf makes the letter of a leg that failed: the message as its route made
// it.
func letterOf(l *leg, res *deliver.Result) *message.DeadLetter {
	tags, text := res.Last()
	return &message.DeadLetter{
		Message: l.message,
		Death: message.Death{
			Reason: message.ReasonDelivery, Destination: l.target.To.Name(), Route: l.route,
			Attempts: res.Attempts, Tags: tags, Error: text, Hops: res.Hops,
		},
	}
}

// write keeps the letters. While somebody waits for the answer, the first that
// can't be kept is an error: a nack. Where nobody does, it goes on trying until
// it works or pawl ends: the message holds its room meanwhile, which pushes
// back. What can't be kept in the end is named in the log.
func (r *Relay) write(d connector.Delivery, letters []*message.DeadLetter) error {
	var lost []error
	for _, l := range letters {
		l.Relay, l.At = r.opts.Name, time.Now()
		err := r.opts.Letters(r.last, l)
		if err != nil && nackable(d) {
			return err
		}
		if err != nil {
			err = r.writeAgain(l, err)
		}
		if err != nil {
			r.opts.Log.Error("a message is lost: its dead letter could not be kept before pawl stopped",
				"id", l.Message.ID, "source", l.Message.Source, "route", l.Route, "destination", l.Destination, "error", err)
			lost = append(lost, err)
		}
	}
	if len(lost) > 0 {
		return errors.Join(errStopping, errors.Join(lost...))
	}
	return nil
}

// writeAgain goes on trying to keep a letter that nobody is left to be told of,
// until it works or pawl ends. Once a stop gives up on the deliveries it tries
// at once and then more often: these are the last seconds.
func (r *Relay) writeAgain(l *message.DeadLetter, err error) error {
	for pause := time.Second; r.last.Err() == nil; pause = min(2*pause, maxLetterPause) {
		hurry := r.work.Done()
		if r.work.Err() != nil {
			pause, hurry = lastLetterPause, nil
		}
		r.opts.Log.Error("a dead letter can't be kept and nobody is left to tell; trying again",
			"id", l.Message.ID, "in", pause, "error", err)
		if !r.pauseFor(pause, hurry) {
			break
		}
		if err = r.opts.Letters(r.last, l); err == nil {
			return nil
		}
	}
	return err
}

const (
	// maxLetterPause bounds the wait between two tries to keep a letter: soon
	// enough after space was made on a full disk.
	maxLetterPause = 10 * time.Second
	// lastLetterPause is that wait within lastWords, which it must divide into
	// several tries.
	lastLetterPause = time.Second
)

// pauseFor waits for d, or until hurry; false when pawl ends.
func (r *Relay) pauseFor(d time.Duration, hurry <-chan struct{}) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-hurry:
		return true
	case <-r.last.Done():
		return false
	}
}
