package deliver

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// setHealth takes what the checks of a member say, why being set where it is
// unhealthy, and tells of it where that is news. A member that a reload took away
// is passed over. From a recovery on traffic comes back by the ramp, and an open
// breaker gives trials at once.
func (p *post) setHealth(name string, h event.Health, why error) {
	p.setHealthIn(context.Background(), name, h, why)
}

// setHealthIn is setHealth as long as ctx has not ended: of checks that a reload
// took away nothing is taken.
func (p *post) setHealthIn(ctx context.Context, name string, h event.Health, why error) {
	news := false
	now := time.Now()
	p.change(func(g *group, _ time.Time) {
		if m, ok := g.named(name); ok && ctx.Err() == nil {
			news = m.gate.setHealth(now, h)
		}
	})
	if !news {
		return
	}
	e := event.Event{Kind: event.HealthMoved, At: now, Destination: p.destination, Endpoint: name, Health: h}
	if h == event.Unhealthy && why != nil {
		e.Error = failure.Clip(why.Error())
	}
	p.events(e)
}

// borrow returns the newest connector of a member, for something else than an
// attempt: giveBack must be called with it. False where there is no such member.
func (p *post) borrow(name string) (*line, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.group.named(name)
	if !ok || m.line == nil {
		return nil, false
	}
	m.line.use()
	return m.line, true
}

// giveBack ends a use of a connector, which is closed where that was the last of
// one that was replaced.
func (p *post) giveBack(n *line) {
	p.mu.Lock()
	over := n.giveBack()
	p.mu.Unlock()
	if over {
		p.close(n)
	}
}

// leftAlone reports whether a member asked to be left alone, or is paused.
func (p *post) leftAlone(name string) bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	m, ok := p.group.named(name)
	return ok && (m.gate.paused || now.Before(m.gate.heldUntil))
}
