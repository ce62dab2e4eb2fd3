package connectortest

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
)

// HealthHarness is what the suite needs to know of a kind that can be asked how
// it is: what Open makes is then a connector.HealthChecker. A check is no request
// and takes no step of the script from one: the far side answers it with the
// step that it is at.
type HealthHarness struct {
	// Unwell are steps of the far side that make a check fail, Hang apart.
	Unwell []Step
	// Hangs says that a check hangs where the far side does.
	Hangs Ability
}

// runHealth runs the checks of a HealthChecker.
func (h DestinationHarness) runHealth(t *testing.T) {
	h.run(t, "Health/Well", (*destinationCheck).healthWell)
	h.run(t, "Health/EndedContext", (*destinationCheck).healthEndedContext)
	for _, step := range h.Health.Unwell {
		h.run(t, "Health/Unwell/"+step.Fail, func(c *destinationCheck) { c.healthUnwell(step) })
	}
	if h.Health.Hangs == Yes {
		h.run(t, "Health/Timeout", (*destinationCheck).healthTimeout)
	}
}

func (c *destinationCheck) check(ctx context.Context) error {
	c.Helper()
	checker, ok := c.dest.(connector.HealthChecker)
	if !ok {
		c.Fatal("the destination is no connector.HealthChecker")
	}
	err := checker.Check(ctx)
	if err != nil {
		c.noSecrets(err)
	}
	return err
}

func (c *destinationCheck) healthWell() {
	c.open()
	for range 2 {
		ctx, cancel := context.WithTimeout(c.Context(), patience)
		if err := c.check(ctx); err != nil {
			c.Errorf("a far side that is well: %v", err)
		}
		cancel()
	}
	c.requests(0) // a check is no message
	if err := c.send(newMessage("m1", []byte("x"))); err != nil {
		c.Errorf("a message after a check: %v", err)
	}
	c.requests(1)
}

func (c *destinationCheck) healthUnwell(step Step) {
	c.open(step)
	ctx, cancel := context.WithTimeout(c.Context(), patience)
	defer cancel()
	if c.check(ctx) == nil {
		c.Error("the check passes")
	}
	c.requests(0)
}

func (c *destinationCheck) healthEndedContext() {
	c.open()
	ctx, cancel := context.WithCancel(c.Context())
	cancel()
	within(c.T, "Check", func() { _ = c.check(ctx) })
}

func (c *destinationCheck) healthTimeout() {
	c.open(Step{Do: Hang})
	ctx, cancel := context.WithTimeout(c.Context(), 100*time.Millisecond)
	defer cancel()
	within(c.T, "Check past its timeout", func() {
		if c.check(ctx) == nil {
			c.Error("a far side that never answered passes")
		}
	})
}
