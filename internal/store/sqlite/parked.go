package sqlite

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// parked are the claims that wait, by what they want, so that a new job finds
// those that take it and passes no others.
type parked struct {
	all     map[*claim]struct{}
	byID    map[claimKey]*claim
	callers map[string]int         // how many are whose
	lines   map[parkedKey][]*claim // in the order they came
	tickets int64
}

// parkedKey is what claims wait for: a task in a queue, in one version or ("") in
// any; or ("") any task.
type parkedKey struct{ queue, task, version string }

const (
	// maxParkedKeys is how many lines one claim stands in at most. One that names
	// more waits for any task of its queues and is looked at more often.
	maxParkedKeys = 64
	// maxParked is how many claims wait at most: each is a connection of somebody
	// and some KiB. maxParkedOf is how many of them are one caller's, so that one
	// who opens thousands leaves room for the others.
	maxParked   = 10_000
	maxParkedOf = 1000
)

func newParked() parked {
	return parked{all: map[*claim]struct{}{}, byID: map[claimKey]*claim{}, callers: map[string]int{}, lines: map[parkedKey][]*claim{}}
}

// room is an error where as many claims wait as may. The relay's always may: they
// are as many as its sources.
func (p *parked) room(c *claim) error {
	switch {
	case strings.HasPrefix(c.want.Worker, store.RelayWorker):
		return nil
	case p.callers[c.want.Caller] >= maxParkedOf:
		return fmt.Errorf("%w: %d of this caller", store.ErrBusy, maxParkedOf)
	case len(p.all) >= maxParked:
		return fmt.Errorf("%w: %d in all", store.ErrBusy, maxParked)
	default:
		return nil
	}
}

// add lets a claim wait.
func (p *parked) add(c *claim) {
	p.tickets++
	c.ticket = p.tickets
	p.all[c] = struct{}{}
	p.callers[c.want.Caller]++
	if c.want.ClaimID != "" {
		p.byID[c.id()] = c
	}
	c.keys = c.keys[:0]
	for _, q := range c.plan.Queues {
		if len(c.plan.Tasks) == 0 || len(c.plan.Queues)*len(c.plan.Tasks) > maxParkedKeys {
			c.keys = append(c.keys, parkedKey{q, "", ""})
			continue
		}
		for _, t := range c.plan.Tasks {
			c.keys = append(c.keys, parkedKey{q, t.Name, t.Version})
		}
	}
	for _, k := range c.keys {
		if line := p.lines[k]; len(line) == 0 || line[len(line)-1] != c { // a task that is named twice is one line
			p.lines[k] = append(line, c)
		}
	}
}

// remove takes a claim out; one that does not wait is passed over.
func (p *parked) remove(c *claim) {
	if c.ticket == 0 {
		return
	}
	delete(p.all, c)
	if p.callers[c.want.Caller]--; p.callers[c.want.Caller] == 0 {
		delete(p.callers, c.want.Caller)
	}
	if k := c.id(); p.byID[k] == c {
		delete(p.byID, k)
	}
	for _, k := range c.keys {
		line := p.lines[k]
		switch i := after(line, c.ticket-1); {
		case i == len(line) || line[i] != c: // it was named twice
			continue
		case len(line) == 1:
			delete(p.lines, k)
		case i == 0: // the most: who came first is served first
			line[0] = nil
			p.lines[k] = line[1:]
		default:
			p.lines[k] = slices.Delete(line, i, i+1)
		}
	}
	c.ticket = 0
}

// after is the place of the first claim of a line behind a ticket.
func after(line []*claim, ticket int64) int {
	return sort.Search(len(line), func(i int) bool { return line[i].ticket > ticket })
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

// takeAll takes every claim out, in the order they came.
func (p *parked) takeAll() []*claim {
	all := slices.SortedFunc(maps.Keys(p.all), func(a, b *claim) int { return cmp.Compare(a.ticket, b.ticket) })
	for _, c := range all {
		c.ticket = 0
	}
	tickets := p.tickets
	*p = newParked()
	p.tickets = tickets
	return all
}

// first is the claim that waits longest for a job of the lane and got nothing in
// this transaction, behind a ticket; nil for none.
func (p *parked) first(k lane.Key, behind int64) *claim {
	var best *claim
	for _, at := range [...]parkedKey{{k.Queue, k.Task, k.Version}, {k.Queue, k.Task, ""}, {k.Queue, "", ""}} {
		line := p.lines[at]
		for _, c := range line[after(line, behind):] {
			if best != nil && c.ticket > best.ticket {
				break
			}
			if len(c.got) == 0 && c.ctx.Err() == nil && c.plan.Wants(k) {
				best = c
				break
			}
		}
	}
	return best
}

// serveParked serves the claims that wait for what came to stand ready in this
// transaction, or came due before it. It has the bounds of a group for itself;
// what it has no time for stays for the next group, which then comes at once.
func (t *tx) serveParked() {
	defer t.catchParked()
	s := t.w.state
	t.now = t.w.clock.now()
	t.heatOpened()
	began, i := time.Now(), 0
	defer func() { s.cool(i) }()
	for ; i < len(s.hot); i++ {
		l := s.hot[i]
		for behind := int64(0); s.board.IsOpen(l.id); {
			// One of them at least: the next group begins where this one ends.
			if len(t.served) >= maxGroup || (i > 0 || len(t.served) > 0) && time.Since(began) >= t.w.work {
				return
			}
			c := s.parked.first(l.key, behind)
			if c == nil {
				break
			}
			behind = c.ticket
			t.served = append(t.served, c) // so that it is told, whatever happens
			if t.serve(c) != nil {
				return
			}
			switch {
			case len(c.got) == 0:
				t.served = t.served[:len(t.served)-1]
			case c.ticket <= t.tickets: // one that began to wait here was counted when it ran
				t.operations++
			}
		}
		// Of the lanes that are alike to workers only the first was told where a
		// gate got room; now it is another's turn.
		if first, open := s.board.Beside(l.id); open && first != l.id && !s.board.IsOpen(l.id) {
			s.heat(s.lanes[first])
		}
	}
}

// heatOpened notes the lanes that may have something for who waits.
func (t *tx) heatOpened() {
	s := t.w.state
	opened := s.board.Opened(at(t.now))
	if len(s.parked.all) == 0 {
		s.cool(len(s.hot))
		s.wakeAll = false
		return
	}
	for _, id := range opened {
		if l := s.lanes[id]; l != nil {
			s.heat(l)
		}
	}
	if s.wakeAll {
		for _, l := range s.lanes[1:] {
			if l != nil && l.tally.ready > 0 {
				s.heat(l)
			}
		}
		s.wakeAll = false
	}
}

// cool takes the first of the hot lanes out.
func (s *state) cool(n int) {
	for _, l := range s.hot[:n] {
		l.hot = false
	}
	s.hot = slices.Delete(s.hot, 0, n)
}

// catchParked is catch for what serves claims that wait. A panic that is nobody's
// ends the wait of all of them: they ask again, and what they ask then has an end,
// where waiting on would meet the defect again and again.
func (t *tx) catchParked() {
	if r := recover(); r != nil {
		t.panicked(r)
		if len(t.served) == 0 {
			for c := range t.w.state.parked.all {
				t.served = append(t.served, c)
			}
		}
	}
}
