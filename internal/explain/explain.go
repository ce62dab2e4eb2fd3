// Package explain says what would happen to a message at a destination: the
// schedule of its attempts, which list decides about a failure, how long an
// outage is borne, what it costs, and the path to the dead letters. It asks the
// code that the engine asks (core/retry, core/backoff, core/breaker, core/limit,
// core/chain, core/balance), so that the policy on paper is the policy in force.
package explain

import (
	"fmt"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// Explanation is what would happen at one destination.
type Explanation struct {
	Destination string `json:"destination"`
	Type        string `json:"type"`
	// Where is the place that it leads to, where its kind knows one.
	Where string `json:"where,omitzero"`
	// Failure is what was asked about, and what decides; nil where nothing was.
	Failure *Failure `json:"failure,omitzero"`
	// Group is nil where the destination has no members.
	Group *Group `json:"group,omitzero"`
	// Course is what a message goes through here.
	Course
	// Path is where the message goes from here: the fallbacks in order, and
	// "dead letters".
	Path []string `json:"path"`
	// Chain is what it goes through at each destination of the path where all are
	// away, this one the first; nil where it is delivered.
	Chain []Step `json:"chain,omitzero"`
	// Patience is how long it takes until the first dead letter; Amplification
	// how many sends a message can become; Longest how long it can be open. All
	// are about endpoints that are away, whatever Failure is.
	Patience      *Patience      `json:"patience,omitzero"`
	Amplification *Amplification `json:"amplification,omitzero"`
	// Longest is nil where nothing bounds it.
	Longest *Longest `json:"longest,omitzero"`
	// Breaker is the destination's own; nil without one, and for a group, whose
	// members have theirs. AtOpen says what a message does when all are open; ""
	// where that never is.
	Breaker *Breaker `json:"breaker,omitzero"`
	AtOpen  AtOpen   `json:"at_open,omitzero"`
	// These are nil where there is none.
	Budget    *Budget    `json:"retry_budget,omitzero"`
	RateLimit *RateLimit `json:"rate_limit,omitzero"`
	Hedge     *Hedge     `json:"hedge,omitzero"`
	Batch     *Batch     `json:"batch,omitzero"`
	// Queue is what becomes of long waits where a queue feeds the destination;
	// nil where none does.
	Queue *Queue `json:"queue,omitzero"`
	// Settings are the numbers that decide, and the level each comes from.
	Settings []Setting `json:"settings"`
}

// missing says that no destination has the name.
func missing(c *config.Config, name string) error {
	for i := range c.Destinations {
		g := c.Destinations[i].Group
		if g == nil {
			continue
		}
		for j := range g.Members {
			if g.Members[j].Name == name {
				return fmt.Errorf("%q is a member of a group: name the group %s", name, c.Destinations[i].Name)
			}
		}
	}
	return fmt.Errorf("no destination %q is configured", name)
}

// Destination explains the destination with the name. f is the failure that
// every attempt there is to end with; nil is a transient one without a
// Retry-After. Attempts at its fallbacks end with that.
func Destination(c *config.Config, name string, f *failure.Error) (Explanation, error) {
	d, ok := c.Destination(name)
	if !ok {
		return Explanation{}, missing(c, name)
	}
	chain, err := links(c, name)
	if err != nil {
		return Explanation{}, err
	}
	v := &d.Delivery
	e := Explanation{
		Destination: name, Type: d.Type, Where: where(c, d.Settings), Group: groupOf(c, d),
		Budget: budgetOf(v), RateLimit: rateLimitOf(v), Hedge: hedgeOf(v), Batch: batchOf(v), Settings: settings(d),
	}
	gone := walkOf(c, chain, away())
	e.Patience, e.Amplification, e.Longest = patienceOf(gone), amplificationOf(gone), longestOf(gone)
	if d.Group == nil {
		e.Breaker = breakerOf(v.Breaker)
	}
	e.AtOpen = atOpen(d, gone)
	asked := gone
	if f != nil {
		e.Failure = judge(d, f)
		asked = walkOf(c, chain, f)
	}
	e.Course = asked.steps[0].Course
	if e.Failure == nil || !e.Failure.Delivered {
		e.Chain, e.Path = asked.steps, pathOf(c, asked.steps)
	}
	e.Queue, err = fedByQueue(c, d, e.Attempts)
	return e, err
}

// pathOf lists where a message goes when the first destination is left: the
// others as the engine takes them, then the dead letters.
func pathOf(c *config.Config, steps []Step) []string {
	var list []string
	for _, s := range steps[1:] {
		list = append(list, s.Destination)
	}
	place := c.DeadLetter.Path
	switch c.DeadLetter.Type {
	case config.DeadLetterFile:
	case config.DeadLetterStore:
		place = "the job store"
	case config.DeadLetterDestination:
		place = c.DeadLetter.Destination
	}
	return append(list, "dead letters ("+place+")")
}
