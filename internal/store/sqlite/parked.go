package sqlite

import "github.com/pawlhq/pawl/internal/core/lane"

// parked are the claims that wait, by what they want, so that a new job finds
// those that take it and passes no others.
type parked struct {
	all     map[*claim]struct{}
	byID    map[claimKey]*claim
	lines   map[parkedKey][]*claim // in the order they came
	tickets int64
}

// parkedKey is what claims wait for: a task in a queue, or ("") any.
type parkedKey struct{ queue, task string }

// maxParkedKeys is how many lines one claim stands in at most. One that names
// more waits for any task of its queues and is looked at more often.
const maxParkedKeys = 64

func newParked() parked {
	return parked{all: map[*claim]struct{}{}, byID: map[claimKey]*claim{}, lines: map[parkedKey][]*claim{}}
}

// add lets a claim wait.
func (p *parked) add(c *claim) {
	p.tickets++
	c.ticket = p.tickets
	p.all[c] = struct{}{}
	if c.want.ClaimID != "" {
		p.byID[claimKey{c.want.Worker, c.want.ClaimID}] = c
	}
	c.keys = c.keys[:0]
	for _, q := range c.plan.Queues {
		if len(c.plan.Tasks) == 0 || len(c.plan.Queues)*len(c.plan.Tasks) > maxParkedKeys {
			c.keys = append(c.keys, parkedKey{q, ""})
			continue
		}
		for _, t := range c.plan.Tasks {
			c.keys = append(c.keys, parkedKey{q, t.Name})
		}
	}
	for _, k := range c.keys {
		if line := p.lines[k]; len(line) == 0 || line[len(line)-1] != c { // two versions of a task are one line
			p.lines[k] = append(line, c)
		}
	}
}

// remove takes a claim out; one that does not wait is passed over.
func (p *parked) remove(c *claim) {
	if c.ticket == 0 {
		return
	}
	c.ticket = 0
	delete(p.all, c)
	if k := (claimKey{c.want.Worker, c.want.ClaimID}); p.byID[k] == c {
		delete(p.byID, k)
	}
	for _, k := range c.keys {
		line := p.lines[k]
		for i, other := range line {
			if other == c {
				line = append(line[:i], line[i+1:]...)
				break
			}
		}
		if len(line) == 0 {
			delete(p.lines, k)
		} else {
			p.lines[k] = line
		}
	}
}

// end ends the wait of a claim with nothing, or an error; one that does not wait
// is passed over.
func (p *parked) end(c *claim, now int64, err error) {
	if c.ticket != 0 {
		p.remove(c)
		c.now = now
		c.call.end(err)
	}
}

// takeAll takes every claim out, in no order.
func (p *parked) takeAll() []*claim {
	all := make([]*claim, 0, len(p.all))
	for c := range p.all {
		all = append(all, c)
	}
	for _, c := range all {
		p.remove(c)
	}
	return all
}

// first is the claim that waits longest for a job of the lane and got nothing in
// this transaction, behind a ticket; nil for none.
func (p *parked) first(k lane.Key, behind int64) *claim {
	var best *claim
	for _, at := range [...]parkedKey{{k.Queue, k.Task}, {k.Queue, ""}} {
		for _, c := range p.lines[at] {
			if best != nil && c.ticket > best.ticket {
				break
			}
			if c.ticket > behind && len(c.got) == 0 && c.ctx.Err() == nil && c.plan.Wants(k) {
				best = c
				break
			}
		}
	}
	return best
}

// serveParked serves the claims that wait for what came to stand ready in this
// transaction, or came due before it.
func (t *tx) serveParked() {
	defer t.catch()
	s := t.w.state
	t.now = t.w.clock.now()
	for {
		l, ok := s.due.first()
		if !ok || l.head > t.now {
			break
		}
		s.due.remove(l)
		t.hot = append(t.hot, l)
	}
	if len(s.parked.all) == 0 {
		s.wakeAll = false
		return
	}
	hot := t.hot
	if s.wakeAll {
		hot = s.lanes[1:]
	}
	for i := 0; i < len(hot) && t.failed == nil; i++ {
		for l, behind := hot[i], int64(0); s.open(l, t.now); {
			c := s.parked.first(l.key, behind)
			if c == nil {
				break
			}
			behind = c.ticket
			if t.serve(c) != nil {
				t.served = append(t.served, c) // so that it can be told
				return
			}
			if len(c.got) > 0 {
				t.served = append(t.served, c)
			}
		}
	}
	s.wakeAll = false
}
