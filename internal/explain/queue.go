package explain

import (
	"slices"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

// Queue says which waits are not made here, for messages of a durable queue
// that this destination is the last of a chain for: they go back to the queue
// for that time, and the attempts then begin anew. One with several required
// destinations waits here for as long as it takes.
type Queue struct {
	// Sources are those whose messages come from a queue.
	Sources []string `json:"sources"`
	// MaxWait is the longest wait that is made here.
	MaxWait setting.Duration `json:"max_wait"`
	// Attempt is the first one of the schedule whose wait may be longer; 0 where
	// none is, and only an open breaker or a hold sends a message back.
	Attempt int `json:"attempt,omitzero"`
}

// queueType is the type of the sources that take from a queue.
const queueType = "queue"

// fedByQueue says what a queue means to the waits of d.
func fedByQueue(c *config.Config, d *config.Destination, attempts []Attempt) (*Queue, error) {
	q := &Queue{MaxWait: setting.Duration(connector.MaxWait)}
	for i := range c.Routes {
		r := &c.Routes[i]
		ends, err := endsAt(c, r, d.Name)
		if err != nil {
			return nil, err
		}
		for _, from := range r.From {
			s, ok := c.Source(from)
			if ends && ok && (s.Type == queueType || s.Ack == config.AckStored) && !slices.Contains(q.Sources, from) {
				q.Sources = append(q.Sources, from)
			}
		}
	}
	if len(q.Sources) == 0 {
		return nil, nil
	}
	for _, a := range attempts {
		if a.Wait.Latest > q.MaxWait {
			q.Attempt = a.Number
			break
		}
	}
	return q, nil
}

// endsAt reports whether the chain of a required destination of the route ends
// at the name: it has nowhere else to go from there.
func endsAt(c *config.Config, r *config.Route, name string) (bool, error) {
	for _, t := range r.Targets() {
		chain, err := links(c, t.Destination)
		if err != nil {
			return false, err
		}
		if t.Need == config.Required && chain[len(chain)-1].Name == name {
			return true, nil
		}
	}
	return false, nil
}
