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
		switch at := s.nextLook(); {
		case at.IsZero():
			timer.Stop()
		case at.Before(notBefore):
			timer.Reset(time.Until(notBefore))
		default:
			timer.Reset(time.Until(at))
		}
		select {
		case <-over:
			return
		case <-s.sooner:
		case <-timer.C:
			if s.look(time.Now()) == leaseDue {
				notBefore = s.extend()
			}
		}
	}
}

// due is when the lease of a hand is to be lengthened.
func (it *hand) due() time.Time { return it.since.Add(it.leaseFor / leasePart) }

// nextLook is when the leases are to be looked at; zero is not before more come.
func (s *Source) nextLook() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lookAt
}

// expect sees to it that the leases are looked at once this hand is due. The
// caller holds mu. It is called for each job, so it walks nothing: as jobs go,
// lookAt stays as early as it was, and one look in a third of a lease finds that
// nothing is due yet.
func (s *Source) expect(it *hand) {
	if due := it.due(); s.lookAt.IsZero() || due.Before(s.lookAt) {
		s.lookAt = due
		signal(s.sooner)
	}
}

// lookout is what a look at the leases finds.
type lookout string

const (
	leaseDue   lookout = "due"
	noneDueYet lookout = "none due"
)

// look walks all leases and says whether one is to be lengthened.
func (s *Source) look(now time.Time) lookout {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.findNext()
	if s.lookAt.IsZero() || now.Before(s.lookAt) {
		return noneDueYet
	}
	return leaseDue
}

// findNext sets lookAt by what is in hand. The caller holds mu.
func (s *Source) findNext() {
	s.lookAt = time.Time{}
	for _, it := range s.hands {
		if it.lost {
			continue
		}
		if due := it.due(); s.lookAt.IsZero() || due.Before(s.lookAt) {
			s.lookAt = due
		}
	}
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
	s.findNext()
	return time.Time{}
}
