package app

import (
	"context"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// Tracing plugs telemetry's spans into relay and deliver.
type Tracing struct{ tracer *telemetry.Tracer }

var _ deliver.Tracer = (*Tracing)(nil)

// Message begins the span of a message.
func (t *Tracing) Message(ctx context.Context, m *message.Message) (context.Context, func(event.Settlement, error)) {
	ctx, end := t.tracer.StartMessage(ctx, m)
	return ctx, func(s event.Settlement, err error) { end(telemetry.MessageEnd{Status: s, Err: err}) }
}

// Attempt begins the span of a send and hands its trace context to the
// connector.
func (t *Tracing) Attempt(ctx context.Context, a deliver.AttemptInfo) (context.Context, func(message.Outcome, *failure.Error)) {
	ctx, end := t.tracer.StartAttempt(ctx, telemetry.AttemptStart{
		Route: a.Route, Destination: a.Destination, Endpoint: a.Endpoint,
		MessageID: a.MessageID, Number: a.Number, Waited: a.Waited, Hedge: a.Hedge,
	})
	if parent, state := telemetry.Inject(ctx); parent != "" {
		ctx = connector.WithTrace(ctx, connector.TraceContext{Parent: parent, State: state})
	}
	return ctx, func(o message.Outcome, f *failure.Error) {
		e := telemetry.AttemptEnd{Outcome: o}
		if f != nil {
			e.Tags, e.Error = f.Tags, f.Error()
		}
		end(e)
	}
}

// Hop makes the span of a destination that was left.
func (t *Tracing) Hop(ctx context.Context, h deliver.HopInfo) {
	t.tracer.Hop(ctx, telemetry.HopInfo{
		Route: h.Route, Destination: h.Destination, To: h.To, MessageID: h.MessageID,
		Reason: h.Reason, Entered: h.Entered, Tags: h.Tags, Error: h.Error,
	})
}
