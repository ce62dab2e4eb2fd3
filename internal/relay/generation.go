package relay

import (
	"errors"
	"fmt"

	"github.com/pawlhq/pawl/internal/deliver"
)

// Config is what one configuration says to the relay.
type Config struct {
	// Routes are tried for a message in order, by the name of its source.
	Routes map[string][]*Route
	// Destinations are those that the routes' targets are of.
	Destinations *deliver.Set
	Sources      []SourceSpec
	// Release is called once when another configuration is in force and the last
	// message of this one has ended; nil is not. It must not block.
	Release func()
}

// Generation is one configuration at work. Messages keep the one they began
// with.
type Generation struct {
	number  int
	routes  map[string][]*Route
	set     *deliver.Set
	release func()
	open    int // messages that use it; guarded by Relay.mu
}

// maxDraining bounds the older generations that still have messages: more
// would mean that reloads come faster than messages end.
const maxDraining = 4

// ErrDraining is what Swap returns while too many older generations have
// messages.
var ErrDraining = errors.New("too many older configurations still have messages in flight")

// MaySwap returns ErrDraining, with the numbers, where Swap would now.
func (r *Relay) MaySwap() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.draining) >= maxDraining {
		return fmt.Errorf("%w (%d); try again when some have ended", ErrDraining, maxDraining)
	}
	return nil
}

// Swap puts a configuration in force for all messages that come from now on and
// returns its number, counted from 1.
func (r *Relay) Swap(c Config) (int, error) {
	if err := r.MaySwap(); err != nil {
		return 0, err
	}
	r.mu.Lock()
	old := r.current
	g := &Generation{number: 1, routes: c.Routes, set: c.Destinations, release: c.Release}
	if old != nil {
		g.number = old.number + 1
		if old.open > 0 {
			r.draining[old] = struct{}{}
		}
	}
	r.current = g
	r.takeIn(c.Sources)
	over := old != nil && old.open == 0
	r.mu.Unlock()
	if over {
		r.retire(old)
	}
	return g.number, nil
}

// Drains says whether the configuration of the number, an older one, still has
// messages. One that has none gets none again.
func (r *Relay) Drains(number int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := range r.draining {
		if g.number == number {
			return true
		}
	}
	return false
}

// begin takes the current generation for one message; end gives it back.
func (r *Relay) begin() *Generation {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current.open++
	return r.current
}

func (r *Relay) end(g *Generation) {
	r.mu.Lock()
	g.open--
	over := g.open == 0 && g != r.current
	if over {
		delete(r.draining, g)
	}
	r.mu.Unlock()
	if over {
		r.retire(g)
	}
}

// retire gives back what a configuration had that is over.
func (r *Relay) retire(g *Generation) {
	r.opts.Fleet.Retire(g.set)
	if g.release != nil {
		g.release()
	}
}
