package faulty

import (
	"context"
	"net/http"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

// endpoint is the endpoint that faulty plays by itself: it takes batches, and is
// always well, since its faults are those of attempts.
type endpoint struct {
	*destination
	batcher
}

// Check implements connector.HealthChecker.
func (endpoint) Check(ctx context.Context) error { return ctx.Err() }

func newEndpoint(s *Settings) (endpoint, error) {
	d, err := newDestination(nil, s)
	return endpoint{d, batcher{d, nil}}, err
}

// batcher sends batches, each as one attempt with one fault.
type batcher struct {
	to   *destination
	next connector.Batcher // nil: this is the endpoint itself
}

// SendBatch implements connector.Batcher.
func (b batcher) SendBatch(ctx context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	var answer connector.BatchAnswer
	met, err := b.to.attempt(ctx, batch, func() (err error) {
		if b.next == nil {
			answer.Answer = connector.Answer{Status: http.StatusOK, Header: http.Header{}}
			return nil
		}
		answer, err = b.next.SendBatch(ctx, batch)
		return err
	})
	if met != None {
		return connector.BatchAnswer{Answer: b.to.answer(met)}, err
	}
	return answer, err
}

// wrapped returns d with what else the destination behind it can do.
func (d *destination) wrapped(next connector.Destination) connector.Destination {
	checker, checks := next.(connector.HealthChecker)
	batches, isBatcher := next.(connector.Batcher)
	switch {
	case checks && isBatcher:
		return struct {
			*destination
			connector.HealthChecker
			batcher
		}{d, checker, batcher{d, batches}}
	case checks:
		return struct {
			*destination
			connector.HealthChecker
		}{d, checker}
	case isBatcher:
		return struct {
			*destination
			batcher
		}{d, batcher{d, batches}}
	}
	return d
}
