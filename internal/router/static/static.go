// Package static is the router that always chooses the same destinations: the
// plain to: of a route, and the last resort of a chain.
package static

import (
	"context"
	"errors"
	"slices"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/router"
)

// Type is the router's word in the configuration.
const Type = "static"

// Router always chooses the same. Safe for concurrent use.
type Router struct{ to []string }

// New returns a router to the named destinations; at least one is needed.
func New(to []string) (*Router, error) {
	if len(to) == 0 {
		return nil, errors.New("static: to is empty; name at least one destination")
	}
	return &Router{to: slices.Clone(to)}, nil
}

// Type returns "static".
func (r *Router) Type() string { return Type }

// Route chooses the destinations. It never fails.
func (r *Router) Route(context.Context, *message.Message) (router.Decision, error) {
	return router.Decision{Targets: r.to, By: Type, Reason: "always"}, nil
}
