package relay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
)

// Route decides which destinations a message goes to, and as what.
type Route struct {
	Name string
	// Filter says whether the route takes the message; nil takes every one.
	Filter func(context.Context, *message.Message) (bool, error)
	// Transform makes the message that is sent; nil leaves it as it is.
	Transform func(context.Context, *message.Message) (*message.Message, error)
	// Validate refuses bodies; nil takes every one.
	Validate func(context.Context, *message.Message) error
	// Choose names the destinations. An error or an empty choice means that no
	// router of the chain decided.
	Choose func(context.Context, *message.Message) ([]Target, error)
}

// Target is a destination that a route chose.
type Target struct {
	To       *deliver.Destination
	Required Requirement
}

// Requirement says what a destination's failure means for the message.
type Requirement uint8

// The requirements.
const (
	// Required: the source's ack waits for it, and its failure is a dead letter.
	Required Requirement = iota
	// BestEffort: its failure is counted and logged.
	BestEffort
)

// leg is one delivery of a message.
type leg struct {
	route   string
	target  Target
	message *message.Message
	// share is how many places the leg takes at admission: those of all
	// required legs to its lane for the first of them, none for the others.
	share int
	place deliver.Place
}

// plan is what routing made of a message.
type plan struct {
	taken   bool // a route's filter let it through, or failed
	legs    []leg
	letters []*message.DeadLetter
}

// route puts the message through one route and adds what came of it.
func (r *Route) route(ctx context.Context, m *message.Message, p *plan) {
	defer func() {
		if v := recover(); v != nil {
			p.fail(r, m, message.ReasonTransform, fmt.Errorf("a step panicked: %v", v))
		}
	}()
	if r.Filter != nil {
		takes, err := r.Filter(ctx, m)
		if err != nil {
			p.fail(r, m, message.ReasonTransform, fmt.Errorf("filter: %w", err))
			return
		}
		if !takes {
			return
		}
	}
	p.taken = true
	out := m
	if r.Transform != nil {
		var err error
		if out, err = r.Transform(ctx, m); err != nil {
			p.fail(r, m, message.ReasonTransform, err)
			return
		}
	}
	if r.Validate != nil {
		if err := r.Validate(ctx, out); err != nil {
			p.fail(r, m, message.ReasonSchema, err)
			return
		}
	}
	targets, err := r.Choose(ctx, out)
	if err == nil && len(targets) == 0 {
		err = errors.New("no router chose a destination")
	}
	if err != nil {
		p.fail(r, m, message.ReasonNoRoute, err)
		return
	}
	p.send(r, out, targets)
}

// send adds a leg for each target; a destination that was chosen twice gets
// one, required where either is.
func (p *plan) send(r *Route, m *message.Message, targets []Target) {
	begin := len(p.legs)
	for _, t := range targets {
		same := func(l leg) bool { return l.target.To == t.To }
		if i := slices.IndexFunc(p.legs[begin:], same); i < 0 {
			p.legs = append(p.legs, leg{route: r.Name, target: t, message: m})
		} else if t.Required == Required {
			p.legs[begin+i].target.Required = Required
		}
	}
}

// fail adds a letter that keeps the message as it was received.
func (p *plan) fail(r *Route, m *message.Message, reason message.Reason, err error) {
	p.taken = true
	p.letters = append(p.letters, &message.DeadLetter{
		Message: m,
		Death:   message.Death{Reason: reason, Route: r.Name, Error: failure.Clip(err.Error())},
	})
}

// plan puts the message through every route of the source that it comes in by,
// which need not be its own: a queue's messages keep theirs.
func (g *Generation) plan(ctx context.Context, source string, m *message.Message) plan {
	var p plan
	for _, r := range g.routes[source] {
		r.route(ctx, m, &p)
	}
	return p
}

// maxWait is how long a wait in memory may be. A message with more than one
// required leg waits for as long as it takes: sent back to its queue it would be
// delivered again to those that have it.
func (p *plan) maxWait(asked time.Duration) time.Duration {
	required := 0
	for i := range p.legs {
		if p.legs[i].target.Required == Required {
			required++
		}
	}
	if required != 1 {
		return 0
	}
	return asked
}
