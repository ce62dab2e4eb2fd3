package deliver

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/semaphore"
)

// lane is what a destination owns beyond one configuration: its places, the
// gates of its endpoints with their open connectors, and what it does in the
// background.
type lane struct {
	name    string
	places  *semaphore.Semaphore
	post    *post
	chores  chores
	batches batcher
	spec    atomic.Pointer[Spec] // the newest; never nil once installed
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
	ctx, cancel := context.WithTimeout(ctx, d.timeout)
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

// apply puts a spec in force.
func (l *lane) apply(spec *Spec, endpoints []Endpoint) {
	l.places.Resize(int64(spec.MaxPending))
	var closes []*line
	l.post.change(func(g *group, now time.Time) {
		closes = g.configure(now, spec, endpoints)
		l.post.queue.mark(g)
	})
	for _, n := range closes {
		l.post.close(n)
	}
	l.spec.Store(spec)
	l.tend(spec)
}

// retire ends what the lane does in the background and closes its connectors,
// each once its last send has ended.
func (l *lane) retire() {
	l.chores.end()
	var closes []*line
	l.post.change(func(g *group, _ time.Time) {
		for _, m := range g.members {
			if m.line.retire() {
				closes = append(closes, m.line)
			}
		}
	})
	for _, n := range closes {
		l.post.close(n)
	}
}
