package connector

import (
	"context"
	"net/http"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Destination makes attempts. Safe for concurrent use.
type Destination interface {
	// Send makes exactly one attempt to deliver m and returns once its outcome
	// is known. It carries m.ID as the protocol's idempotency key. ctx ends at
	// the attempt's timeout or when pawl gives it up; Send must then return
	// promptly. A failure is a *failure.Error with every tag that fits (a
	// timeout of ctx carries failure.Timeout, any other end of ctx
	// failure.Cancelled with the verdict Neutral), and its text holds no secret.
	//
	// The Answer is what the endpoint said, where the protocol has answers; it
	// is valid beside an error too.
	Send(ctx context.Context, m *message.Message) (Answer, error)
	// Close gives everything back. Sends in flight may fail. Calling it again
	// does nothing.
	Close() error
}

// Answer is what an endpoint said to one attempt. The zero value is a protocol
// without answers. Body is kept only where Env.KeepAnswers asked for it.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// HealthChecker is a Destination that can be asked how it is without sending
// it a message.
type HealthChecker interface {
	// Check returns nil when the endpoint is well. ctx bounds it.
	Check(ctx context.Context) error
}

// Batcher is a Destination whose protocol has a form for several messages in
// one attempt.
type Batcher interface {
	// SendBatch makes exactly one attempt to deliver all of batch, as Send does
	// one message. batch has at least one, and one alone is in the same form; it
	// and its messages are not changed and not kept after the return. An error is
	// the outcome of all of them.
	SendBatch(ctx context.Context, batch []*message.Message) (BatchAnswer, error)
}

// BatchAnswer is what the endpoint said to a batch that it took.
type BatchAnswer struct {
	Answer
	// Each is what became of each message, in their order: nil, or a
	// *failure.Error. nil as a whole is a success of all.
	Each []error
}
