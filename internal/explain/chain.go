package explain

import (
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/chain"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/setting"
)

// Step is one destination of a chain, and what a message that finds it away goes
// through there.
type Step struct {
	Destination string `json:"destination"`
	Type        string `json:"type"`
	// Where is the place that it leads to, where its kind knows one.
	Where string `json:"where,omitzero"`
	// FallbackOf names the destination whose fallback it is; "" for the first.
	FallbackOf string `json:"fallback_of,omitzero"`
	// Entered and Left are counted from the moment in which the first one's lane
	// took the message.
	Entered Window `json:"entered"`
	Left    Window `json:"left"`
	Course
}

// walk is a message's way through a chain whose destinations are all away, with
// every breaker closed.
type walk struct {
	steps []Step
	stays []*stay
	at    []*config.Destination
	// ends are when the retrying at each is over; nil for never.
	ends []*Window
	// over bounds the time of the dead letter.
	over Window
}

// links returns the chain that begins at a destination.
func links(c *config.Config, name string) ([]chain.Link, error) {
	return chain.Flatten(name, func(name string) []string {
		if d, ok := c.Destination(name); ok {
			return d.Fallback
		}
		return nil
	})
}

// walkOf takes a message through the chain, deadlines as in deliver: each begins
// where its destination is entered, and a fallback's own can only shorten the
// one of the destination that it stands in for. Attempts at the first end with f,
// those at the others with a failure that is worth a retry.
func walkOf(c *config.Config, chain []chain.Link, f *failure.Error) *walk {
	w := &walk{}
	entered := Window{}
	for i, l := range chain {
		d, _ := c.Destination(l.Name)
		step := Step{Destination: l.Name, Type: d.Type, Where: where(c, d.Settings), Entered: entered}
		var end *Window
		if l.Parent >= 0 {
			step.FallbackOf = chain[l.Parent].Name
			end = w.ends[l.Parent]
			f = away()
		}
		if own := setting.Duration(d.Delivery.Deadline); own > 0 {
			end = sooner(end, Window{entered.Earliest + own, entered.Latest + own})
		}
		w.ends = append(w.ends, end)
		var until limits
		if end != nil { // the most that is left; past it there is one attempt
			until.deadline = left(end.Earliest, entered.Earliest)
		}
		if age := ttl(w.at, d); age > 0 {
			until.ttl = left(age, entered.Earliest)
			end = sooner(end, Window{age, age})
		}
		s := stayAt(d, f, until)
		step.Course, step.Left = s.Course, s.left(entered, end)
		step.GivenUpAfter = s.left(Window{}, relative(until))
		w.steps, w.stays, w.at = append(w.steps, step), append(w.stays, s), append(w.at, d)
		if entered = step.Left; i == len(chain)-1 {
			w.over = entered
		}
	}
	return w
}

// left is the time until the end, below 0 where it is over.
func left(end, now setting.Duration) setting.Duration {
	if end <= now {
		return -1
	}
	return end - now
}

// away is the failure of an endpoint that is not there.
func away() *failure.Error { return &failure.Error{Class: failure.Transient, Tags: failure.Tags{}} }

// relative are the limits as a window of the stay's own time.
func relative(l limits) *Window {
	if first := max(l.first(), 0); l != (limits{}) {
		return &Window{first, first}
	}
	return nil
}

// sooner returns the end that comes first; a may be nil.
func sooner(a *Window, b Window) *Window {
	if a != nil {
		b = Window{min(a.Earliest, b.Earliest), min(a.Latest, b.Latest)}
	}
	return &b
}

// head returns the first destination of the chain, which d is where none came
// before.
func head(before []*config.Destination, d *config.Destination) *config.Destination {
	if len(before) > 0 {
		return before[0]
	}
	return d
}

// ttl is the age past which a message that was new at the beginning of the chain
// is not sent to d any more: its own and the first one's. 0 is none.
func ttl(before []*config.Destination, d *config.Destination) setting.Duration {
	own, first := setting.Duration(d.Delivery.TTL), setting.Duration(head(before, d).Delivery.TTL)
	if own == 0 || first > 0 && first < own {
		return first
	}
	return own
}

// where is the place that settings lead to, without secrets; "" where their kind
// knows none.
func where(c *config.Config, s connector.Settings) string {
	if l, ok := s.(connector.Located); ok {
		return c.Secrets.Redact(l.Where())
	}
	return ""
}
