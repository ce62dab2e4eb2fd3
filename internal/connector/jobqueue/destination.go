// Package jobqueue is the destination and the source of type queue: durable
// queues of the job server that runs in the same process.
//
// The destination makes a job of each message; an attempt succeeds once the job
// is durable. Its key is the destination's name and the message's id, so that a
// message that is sent again is the same job.
//
// The source works a queue's jobs as messages. What the handler settled is
// done; what it put off goes back with the time that it is to wait; what it
// could neither deliver nor keep goes back uncounted. It holds a lease for each
// job that is under way and lengthens all of them together.
package jobqueue

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

// kindName is the word of both kinds in the configuration.
const kindName = "queue"

// DestinationKind declares the destination of type queue.
func DestinationKind() connector.DestinationKind {
	return connector.DestinationKind{
		Type: kindName,
		Doc:  "Makes a job of each message in a durable queue; done once the job is on the disk.",
		New:  func() connector.Settings { return &DestinationSettings{} },
		Open: func(s connector.Settings, env connector.Env) (connector.Destination, error) {
			settings, ok := s.(*DestinationSettings)
			if !ok {
				return nil, fmt.Errorf("queue destination: settings of type %T", s)
			}
			if env.Queues == nil {
				return nil, errNoJobs
			}
			return &destination{settings: *settings, name: env.Name, queues: env.Queues}, nil
		},
	}
}

var (
	errNoJobs = errors.New("queue: the configuration has no jobs")
	errClosed = errors.New("the destination is closed")
)

type destination struct {
	settings DestinationSettings
	name     string
	queues   connector.Queues
	closed   atomic.Bool
}

// Send makes a job of the message.
func (d *destination) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	if d.closed.Load() {
		return connector.Answer{}, classify(errClosed)
	}
	_, err := d.queues.Put(ctx, connector.Put{
		Queue: d.settings.Queue, Task: d.settings.Task, Version: d.settings.Version, Priority: d.settings.Priority,
		Key: d.name + "/" + m.ID, Message: m,
	})
	if err != nil {
		return connector.Answer{}, classify(err)
	}
	return connector.Answer{}, nil
}

// Close stops further sends.
func (d *destination) Close() error {
	d.closed.Store(true)
	return nil
}

// classify makes the failure of a Put.
func classify(err error) *failure.Error {
	f := func(tag failure.Tag, class failure.Class, verdict failure.Verdict, text string) *failure.Error {
		return &failure.Error{Tags: failure.Tags{kindName, tag}, Class: class, Verdict: verdict, Message: text, Err: err}
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "the job was not on the disk in time", Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, store.ErrClosed), errors.Is(err, errClosed):
		return &failure.Error{
			Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral,
			Message: "given up before the job was on the disk", Err: err,
		}
	case errors.Is(err, connector.ErrKeyConflict):
		return f("queue:key_conflict", failure.Permanent, failure.Alive, "the queue has a job of this message's id with another content")
	case errors.Is(err, connector.ErrTooLarge):
		return f("queue:too_large", failure.Permanent, failure.Alive, err.Error())
	case errors.Is(err, connector.ErrNoQueue):
		return f("queue:no_queue", failure.Permanent, failure.Suspect, err.Error())
	case errors.Is(err, store.ErrFull):
		return f("queue:full", failure.Transient, failure.Sick, err.Error())
	case errors.Is(err, store.ErrUnavailable):
		return f("queue:unavailable", failure.Transient, failure.Sick, err.Error())
	case errors.Is(err, store.ErrUnknown):
		return f("queue:unknown", failure.Transient, failure.Sick, err.Error())
	}
	return f("queue:other", failure.Transient, failure.Sick, "making the job failed: "+err.Error())
}
