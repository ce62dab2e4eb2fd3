// Package router is the contract of what chooses the destinations of a
// message where a route does not name them, and the chain that asks one router
// after the other.
package router

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Router chooses destinations. Safe for concurrent use.
type Router interface {
	// Route returns the choice for m. An empty choice and an error both mean
	// that the router does not decide, and the next of its chain is asked; the
	// Reason of an empty choice, or the error, says why. An error holds no
	// secret. ctx bounds the call.
	Route(ctx context.Context, m *message.Message) (Decision, error)
	// Type is the router's word in the configuration: "rules".
	Type() string
}

// Decision is a choice of destinations.
type Decision struct {
	// Targets are the names of the destinations, without repeats, in the
	// order they were chosen. Empty is no decision.
	Targets []string
	// By is the type of the router that decided.
	By string
	// Reason says why, in a few words for people.
	Reason string
}

// ErrNoRoute is wrapped by the error of a chain in which no router decided.
var ErrNoRoute = errors.New("no router decided")

// Refusal is why one router of a chain did not decide.
type Refusal struct {
	Type   string
	Reason string
}

// NoRouteError tells of every router that was asked. It wraps ErrNoRoute.
type NoRouteError struct{ Refusals []Refusal }

// Error lists the routers in the order they were asked.
func (e *NoRouteError) Error() string {
	if len(e.Refusals) == 0 {
		return ErrNoRoute.Error()
	}
	var b strings.Builder
	b.WriteString(ErrNoRoute.Error())
	for i, r := range e.Refusals {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%s%s: %s", sep, r.Type, r.Reason)
	}
	return b.String()
}

// Unwrap returns ErrNoRoute.
func (e *NoRouteError) Unwrap() error { return ErrNoRoute }

// Chain asks routers in order until one decides.
type Chain struct {
	// Routers are asked in this order.
	Routers []Router
	// Handed is told of each router that did not decide, and of the one that
	// is asked next ("" for none). nil is fine.
	Handed func(m *message.Message, from, to, reason string)
}

// Route returns the first decision. When no router decides, the error is a
// *NoRouteError; when ctx ends it is that, and no further router is asked.
func (c Chain) Route(ctx context.Context, m *message.Message) (Decision, error) {
	var refused []Refusal
	for i, r := range c.Routers {
		if err := ctx.Err(); err != nil {
			return Decision{}, fmt.Errorf("router: %w", err)
		}
		d, err := r.Route(ctx, m)
		if err == nil && len(d.Targets) > 0 {
			if d.By == "" {
				d.By = r.Type()
			}
			d.Targets = distinct(d.Targets)
			return d, nil
		}
		reason := d.Reason
		switch {
		case err != nil:
			reason = err.Error()
		case reason == "":
			reason = "chose nothing"
		}
		refused = append(refused, Refusal{Type: r.Type(), Reason: reason})
		if c.Handed != nil {
			to := ""
			if i+1 < len(c.Routers) {
				to = c.Routers[i+1].Type()
			}
			c.Handed(m, r.Type(), to, reason)
		}
	}
	return Decision{}, &NoRouteError{Refusals: refused}
}

// distinct returns names without repeats, in order. The list itself is left
// alone: a router may share it between messages.
func distinct(names []string) []string {
	seen := make(map[string]bool, len(names))
	out := make([]string, 0, len(names))
	for _, n := range names {
		if !seen[n] {
			seen[n] = true
			out = append(out, n)
		}
	}
	return out
}
