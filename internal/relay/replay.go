package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
)

// Replay takes a dead letter's message again: a delivery letter over its failed
// destination's whole path, or over that of to where it is set; the others over
// their route from the filter on. It waits for places, so that a replay never
// pushes live messages out, and starts deadline and ttl anew.
func (r *Relay) Replay(ctx context.Context, l *message.DeadLetter, to string) deadletter.ReplayOutcome {
	if !r.enter() {
		return abandoned(errStopping)
	}
	defer r.leave()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.work, cancel)()
	g := r.begin()
	defer r.end(g)
	p, err := g.replan(ctx, l, to)
	if err != nil {
		return abandoned(err)
	}
	if ctx.Err() != nil && len(p.letters) > 0 {
		return abandoned(errStopping) // the stop may be what failed
	}
	if s, ok := p.admit(ctx, Pause, l.Message.ID); !ok {
		return abandoned(s.Err)
	}
	now := time.Now()
	r.bestEffort(r.work, g, p.legs, now)
	return r.replayed(ctx, p, l.Source, now)
}

func abandoned(err error) deadletter.ReplayOutcome {
	return deadletter.ReplayOutcome{Verdict: deadletter.Abandoned, Err: err}
}

// replan says what a replay of the letter has to do.
func (g *Generation) replan(ctx context.Context, l *message.DeadLetter, to string) (plan, error) {
	if to == "" && l.Reason == message.ReasonDelivery {
		to = l.Destination
	}
	if to != "" {
		d, ok := g.set.Destination(to)
		if !ok {
			return plan{}, fmt.Errorf("no destination %q is configured; choose another with --to", to)
		}
		return plan{taken: true, legs: []leg{{route: l.Route, target: Target{To: d}, message: l.Message}}}, nil
	}
	var p plan
	found := l.Route == ""
	source := cmp.Or(l.Source, l.Message.Source)
	for _, r := range g.routes[source] {
		if l.Route == "" || r.Name == l.Route {
			found = true
			r.route(ctx, l.Message, &p)
		}
	}
	switch {
	case !found:
		return plan{}, fmt.Errorf("no route %q from the source %q is configured; choose a destination with --to", l.Route, source)
	case !p.taken && l.Route == "":
		return plan{}, errors.New("still no route takes it; choose a destination with --to")
	}
	return p, nil
}

// replayed runs the required legs and says how the replay ended. source is the
// letter's own.
func (r *Relay) replayed(ctx context.Context, p plan, source string, now time.Time) deadletter.ReplayOutcome {
	results := r.deliver(ctx, p.legs, journey{since: now})
	for i := range p.legs {
		if p.legs[i].target.Required != Required {
			continue
		}
		switch results[i].Status {
		case deliver.Cancelled:
			return abandoned(errStopping)
		case deliver.Failed:
			p.letters = append(p.letters, letterOf(&p.legs[i], &results[i]))
		case deliver.Delivered, deliver.Deferred: // the latter never comes: no bound on waits was given
		}
	}
	if len(p.letters) == 0 {
		return deadletter.ReplayOutcome{Verdict: deadletter.Delivered}
	}
	for _, l := range p.letters {
		l.Relay, l.Source, l.At = r.opts.Name, source, now
	}
	return deadletter.ReplayOutcome{Verdict: deadletter.FailedAgain, Letters: p.letters}
}
