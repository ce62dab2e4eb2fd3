package jobqueue

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

// The bounds of a source.
const (
	// maxBatch is how many jobs one Take fetches: a commit of the store is worth
	// its fsync from a few dozen on.
	maxBatch = 64
	// maxInHand is how many jobs a source holds at once where its Env says
	// nothing: four times what a destination has workers by default, so that
	// none waits for the next Take.
	maxInHand = 256
	// maxBytes is how many bytes of bodies it holds before it takes no more; one
	// batch may come on top.
	maxBytes = 32 << 20
)

// When brakeAfter jobs in a row went back with nothing done for them, what they
// wait for is before all of them, most likely: the source then takes a batch each
// brakeFor only, until one has its end. Else an outage would take every job of a
// long queue out and put it back over and over, and each time is a record.
const (
	brakeAfter = maxBatch
	// brakeFor is how late the end of an outage is noticed because of it.
	brakeFor = 10 * time.Second
)

// hand is a job in hand. Its fields from lease on are guarded by the source's
// mutex.
type hand struct {
	message *message.Message
	job     string
	attempt int
	left    int // attempts of the job, this one included; 0 is not known

	lease    string
	leaseFor time.Duration
	since    time.Time // when the lease was last lengthened
	lost     bool      // the lease is
}

// room waits until some jobs may be taken and says how many; false: ctx ended.
func (s *Source) room(ctx context.Context) (int, bool) {
	for ctx.Err() == nil {
		s.mu.Lock()
		n, wait := min(s.most-len(s.hands), maxBatch), time.Until(s.brake)
		if s.bytes >= maxBytes {
			n = 0
		}
		goes := n > 0 && wait <= 0
		if goes && s.back >= brakeAfter {
			s.brake = time.Now().Add(brakeFor) // already: this batch says whether it stays
		}
		s.mu.Unlock()
		if goes {
			return n, true
		}
		var released <-chan time.Time
		if wait > 0 {
			released = time.After(wait)
		}
		select {
		case <-released:
		case <-s.freed:
		case <-ctx.Done():
		}
	}
	return 0, false
}

// note puts the brake on, or takes it off, by how a job ends.
func (s *Source) note(e connector.Ending) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.How != connector.Back {
		s.back, s.brake = 0, time.Time{}
		return
	}
	if s.back == brakeAfter {
		return
	}
	if s.back++; s.back == brakeAfter {
		s.brake = time.Now().Add(brakeFor)
	}
}

// begin takes a job in hand. One that is in hand already, since its lease was
// lost while it is under way, goes on under its new lease: nil.
func (s *Source) begin(t connector.Taken) *hand {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, there := s.hands[t.Job]
	if !there {
		it = &hand{message: s.own(t.Message), job: t.Job, attempt: t.Attempt, left: t.Left}
		s.hands[t.Job] = it
		s.bytes += int64(len(it.message.Body))
	}
	it.lease, it.leaseFor, it.since, it.lost = t.Lease, t.LeaseFor, time.Now(), false
	s.expect(it)
	if there {
		return nil
	}
	return it
}

// own gives a job that no relay made the source that it came by.
func (s *Source) own(m *message.Message) *message.Message {
	if m.Source != "" {
		return m
	}
	return m.With(func(m *message.Message) { m.Source = s.name })
}

// drop lets a job go.
func (s *Source) drop(it *hand) {
	s.mu.Lock()
	delete(s.hands, it.job)
	s.bytes -= int64(len(it.message.Body))
	s.mu.Unlock()
	signal(s.freed)
}
