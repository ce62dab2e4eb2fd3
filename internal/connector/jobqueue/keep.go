package jobqueue

import (
	"context"
	"time"
)

const (
	// leasePart of a lease over, it is lengthened: most of it is left for when
	// that fails.
	leasePart = 3
	// retryPart of a lease is between two tries to lengthen it while the store
	// does not answer: eight more before it is lost.
	retryPart = 12
)

// keep lengthens the leases of the jobs in hand, all of them in one call, until
// over is closed.
func (s *Source) keep(over <-chan struct{}) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var notBefore time.Time // after a try that failed
	for {
		if at, ok := s.nextDue(); !ok {
			timer.Stop()
		} else if at.Before(notBefore) {
			timer.Reset(time.Until(notBefore))
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-over:
			return
		case <-s.taken:
		case <-timer.C:
			notBefore = s.extend()
		}
	}
}

// nextDue is when the first lease is to be lengthened; false with empty hands.
func (s *Source) nextDue() (at time.Time, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, it := range s.hands {
		if it.lost {
			continue
		}
		if due := it.since.Add(it.leaseFor / leasePart); !ok || due.Before(at) {
			at, ok = due, true
		}
	}
	return at, ok
}

// extend lengthens every lease and returns when it may be called again.
func (s *Source) extend() (notBefore time.Time) {
	began := time.Now()
	held := map[string]*hand{}
	var leases []string
	var shortest time.Duration
	s.mu.Lock()
	for _, it := range s.hands {
		if it.lost {
			continue
		}
		held[it.lease] = it
		leases = append(leases, it.lease)
		if shortest == 0 || it.leaseFor < shortest {
			shortest = it.leaseFor
		}
	}
	s.mu.Unlock()
	if len(leases) == 0 {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(s.life, shortest/leasePart)
	defer cancel()
	lost, err := s.queues.Extend(ctx, leases)
	if err != nil {
		s.log.Warn("leases can't be lengthened; trying again", "source", s.name, "leases", len(leases), "error", err)
		return began.Add(shortest / retryPart)
	}
	for _, lease := range lost {
		if it := held[lease]; it != nil {
			s.lose(it, lease)
			delete(held, lease)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for lease, it := range held {
		if it.lease == lease {
			it.since = began
		}
	}
	return time.Time{}
}
