package deliver

import (
	"context"
	"sync"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/semaphore"
)

// lane is what a destination owns beyond one configuration: its places, the
// gate of its endpoint, and its open connector.
type lane struct {
	name   string
	places *semaphore.Semaphore
	post   *post

	mu   sync.Mutex
	line *line
}

// line is an open connector with a count of the sends that use it, so that a
// reload can put a new one in its place and close the old one after its last
// send.
type line struct {
	dest    connector.Destination
	uses    int
	retired bool
}

// borrow returns the newest connector; giveBack must be called with it.
func (l *lane) borrow() *line {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.line.uses++
	return l.line
}

func (l *lane) giveBack(n *line) error {
	l.mu.Lock()
	n.uses--
	over := n.retired && n.uses == 0
	l.mu.Unlock()
	if over {
		return n.dest.Close()
	}
	return nil
}

// replace puts dest in the place of the connector that stands, which is closed
// once its last send has ended. Handing in the same one again changes nothing.
func (l *lane) replace(dest connector.Destination) error {
	l.mu.Lock()
	old := l.line
	if old != nil && old.dest == dest {
		l.mu.Unlock()
		return nil
	}
	l.line = &line{dest: dest}
	over := old.retire()
	l.mu.Unlock()
	if over {
		return old.dest.Close()
	}
	return nil
}

// retire says that no further send will use the line, and whether it is to be
// closed now: it is there and nobody uses it. The caller holds the lane's lock.
func (n *line) retire() (over bool) {
	if n == nil || n.retired {
		return false
	}
	n.retired = true
	return n.uses == 0
}

// Place is a message's place in a lane, or several of them for the several
// deliveries of one message there. The zero value holds none.
type Place struct {
	lane *lane
	n    int64
}

// Leave gives the places back. Leaving twice does nothing.
func (p *Place) Leave() {
	if p.lane != nil {
		p.lane.places.Release(p.n)
		*p = Place{}
	}
}

// Split takes one of several places out as a Place of its own.
func (p *Place) Split() Place {
	if p.n < 2 {
		panic("deliver: Split of a single place")
	}
	p.n--
	return Place{p.lane, 1}
}

// Enter takes a place if there is one now and nobody waits for it.
func (d *Destination) Enter() (Place, bool) { return d.EnterMany(1) }

// EnterMany takes n places if they are there now and nobody waits for them.
// More than the lane has are given once it is empty.
func (d *Destination) EnterMany(n int) (Place, bool) {
	if !d.lane.places.TryAcquire(int64(n)) {
		return Place{}, false
	}
	return Place{d.lane, int64(n)}, true
}

// EnterWait takes a place, waiting behind those who came before until ctx ends.
func (d *Destination) EnterWait(ctx context.Context) (Place, error) {
	return d.EnterManyWait(ctx, 1)
}

// EnterBriefly takes a place, waiting for it no longer than an attempt may take:
// for a caller that has somewhere else to go.
func (d *Destination) EnterBriefly(ctx context.Context) (Place, error) {
	ctx, cancel := context.WithTimeout(ctx, d.spec.Timeout)
	defer cancel()
	return d.EnterManyWait(ctx, 1)
}

// EnterManyWait takes n places as EnterMany does, waiting behind those who came
// before until ctx ends.
func (d *Destination) EnterManyWait(ctx context.Context, n int) (Place, error) {
	if err := d.lane.places.Acquire(ctx, int64(n)); err != nil {
		return Place{}, err
	}
	return Place{d.lane, int64(n)}, nil
}

// retire closes the connector once its last send has ended.
func (l *lane) retire() error {
	l.mu.Lock()
	old := l.line
	over := old.retire()
	l.mu.Unlock()
	if over {
		return old.dest.Close()
	}
	return nil
}
