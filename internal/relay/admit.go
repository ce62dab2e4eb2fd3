package relay

import (
	"context"
	"fmt"
	"time"
)

// admit takes a place in the lane of every required leg, all or none: none is
// held while another is waited for.
func (p *plan) admit(ctx context.Context, push Push, id string) (settled, bool) {
	p.share()
	full := p.enterAll(-1)
	for full >= 0 {
		l := &p.legs[full]
		to := l.target.To
		if push == Refuse {
			return refused(id, to.RetryAfter(time.Now()),
				fmt.Errorf("the lane of %s is full (max_pending)", to.Name())), false
		}
		place, err := to.EnterManyWait(ctx, l.share)
		if err != nil {
			return refused(id, retryWhenFull, fmt.Errorf("the lane of %s is full (max_pending)", to.Name())), false
		}
		l.place = place
		full = p.enterAll(full)
	}
	p.handOut()
	return settled{}, true
}

// share makes the first required leg to each lane take the places of all of
// them at once. One by one, two legs would wait for each other for ever in a
// lane of one place.
func (p *plan) share() {
	for i := range p.legs {
		if p.legs[i].target.Required != Required {
			continue
		}
		p.legs[i].share = 0
		p.legs[p.firstTo(i)].share++
	}
}

// firstTo returns the first required leg to the destination of the i-th leg.
func (p *plan) firstTo(i int) int {
	for j := range i {
		if l := &p.legs[j]; l.target.Required == Required && l.target.To == p.legs[i].target.To {
			return j
		}
	}
	return i
}

// enterAll takes the places of all required legs but the one that has its
// places already, and returns -1, or gives all back and returns the leg whose
// lane is full.
func (p *plan) enterAll(has int) (full int) {
	for i := range p.legs {
		l := &p.legs[i]
		if i == has || l.share == 0 {
			continue
		}
		place, ok := l.target.To.EnterMany(l.share)
		if !ok {
			p.leaveAll()
			return i
		}
		l.place = place
	}
	return -1
}

// handOut gives every required leg its own place.
func (p *plan) handOut() {
	for i := range p.legs {
		if first := p.firstTo(i); first != i && p.legs[i].target.Required == Required {
			p.legs[i].place = p.legs[first].place.Split()
		}
	}
}

func (p *plan) leaveAll() {
	for i := range p.legs {
		p.legs[i].place.Leave()
	}
}
