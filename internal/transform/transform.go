// Package transform is the contract of the steps that a route or destination
// puts a message through before it is sent, and what those steps share: the
// body as a value, decoded once a message.
//
// A step that fails is the message's fault or the configuration's, never an
// endpoint's: a route makes a dead letter of reason transform of it, a
// destination a permanent failure.
package transform

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Transform is one step. Safe for concurrent use.
type Transform interface {
	// Apply returns the message as the step makes it: m itself where nothing
	// changes, else a copy. It never changes m or anything that m shares. An
	// error says what failed and holds no secret.
	Apply(ctx context.Context, m *message.Message) (*message.Message, error)
}

// Chain applies steps in order; the first error ends it and says which step,
// counted from 1. An empty chain changes nothing.
type Chain []Transform

// Apply puts m through every step.
func (c Chain) Apply(ctx context.Context, m *message.Message) (*message.Message, error) {
	for i, step := range c {
		next, err := step.Apply(ctx, m)
		if err != nil {
			return nil, fmt.Errorf("transform %d: %w", i+1, err)
		}
		m = next
	}
	return m, nil
}
