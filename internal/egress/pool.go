package egress

import (
	"sync"
	"time"
)

// pool keeps idle connections. The one used last is used next, so that a
// falling load lets the others grow old together. Nothing but age, idleness
// and MaxIdle ever closes one: after a burst of n requests at once there are n
// connections for the next burst.
type pool struct {
	maxIdle int
	timeout time.Duration

	mu     sync.Mutex
	idle   map[endpoint][]*conn // the longest idle first
	closed bool
	// reaper runs while anything is idle; there is one for all connections.
	reaper *time.Timer
	armed  bool
}

func newPool(maxIdle int, timeout time.Duration) *pool {
	return &pool{maxIdle: maxIdle, timeout: timeout, idle: make(map[endpoint][]*conn)}
}

// take returns the idle connection used last that may still be used, or nil.
func (p *pool) take(to endpoint, now time.Time) (*conn, error) {
	for {
		c, err := p.pop(to)
		if c == nil || err != nil {
			return nil, err
		}
		if now.Before(c.dies) && now.Sub(c.since) < p.timeout && c.quiet() {
			return c, nil
		}
		c.retire()
	}
}

func (p *pool) pop(to endpoint) (*conn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed
	}
	idle := p.idle[to]
	if len(idle) == 0 {
		return nil, nil
	}
	last := len(idle) - 1
	c := idle[last]
	idle[last] = nil
	p.idle[to] = idle[:last]
	return c, nil
}

// put keeps c for later, or closes it.
func (p *pool) put(c *conn, now time.Time) {
	c.since = now
	if !p.keep(c, now) {
		c.retire()
	}
}

func (p *pool) keep(c *conn, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || !now.Before(c.dies) || len(p.idle[c.to]) >= p.maxIdle {
		return false
	}
	p.idle[c.to] = append(p.idle[c.to], c)
	switch {
	case p.reaper == nil:
		p.reaper = time.AfterFunc(p.timeout, p.reap)
	case !p.armed:
		p.reaper.Reset(p.timeout)
	}
	p.armed = true
	return true
}

// reap closes what has been idle for too long and comes back for the rest.
func (p *pool) reap() {
	for _, c := range p.expired(time.Now()) {
		c.retire()
	}
}

func (p *pool) expired(now time.Time) []*conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil
	}
	var expired []*conn
	next := p.timeout
	for to, idle := range p.idle {
		old := 0
		for old < len(idle) && now.Sub(idle[old].since) >= p.timeout {
			old++
		}
		expired = append(expired, idle[:old]...)
		left := copy(idle, idle[old:])
		clear(idle[left:])
		if left == 0 {
			delete(p.idle, to)
			continue
		}
		p.idle[to] = idle[:left]
		next = min(next, p.timeout-now.Sub(idle[0].since))
	}
	p.armed = len(p.idle) > 0
	if p.armed {
		// An eighth at least, so that connections which became idle one after
		// the other do not wake it each. take looks at the exact time.
		p.reaper.Reset(max(next, p.timeout/8))
	}
	return expired
}

func (p *pool) close() {
	p.mu.Lock()
	idle := p.idle
	p.idle, p.closed = nil, true
	if p.reaper != nil {
		p.reaper.Stop()
	}
	p.mu.Unlock()
	for _, conns := range idle {
		for _, c := range conns {
			c.retire()
		}
	}
}
