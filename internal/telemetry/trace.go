package telemetry

// How the hooks are plugged in, seen from the wiring:
//
//	t, err := NewTracer(o)              // nil where tracing is off
//	ctx, end := t.StartMessage(ctx, m)  // relay: around one message
//	end(MessageEnd{…})
//	ctx, end := t.StartAttempt(ctx, a)  // deliver: around one Send
//	end(AttemptEnd{…})
//	t.Hop(ctx, h)                       // deliver: a destination was left
//	parent, state := Inject(ctx)        // the headers of the attempt in ctx
//
// and of a job, whose trace context the store keeps:
//
//	kept, end := t.StartJob(j)          // jobserver: around one create
//	end(JobEnd{…})
//	given := t.WorkerTrace(kept, id, n) // jobserver: what the worker goes on from
//	t.JobAttempt(a)                     // the store: an attempt has ended
//
// Engines know none of this: they have hooks of their own that are nil when
// tracing is off, so that an untraced message costs a comparison.

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// TraceOptions are what NewTracer needs.
type TraceOptions struct {
	// Relay and Version name this process in the traces.
	Relay, Version string
	// Endpoint is the URL that spans are posted to. One without a path is a
	// collector's address, whose path for traces is /v1/traces (the OTLP
	// specification); any other path is taken as it is.
	Endpoint string
	// Headers go with each post, credentials say.
	Headers map[string]string
	// SampleRatio is the share of messages that are traced, from 0 to 1, of
	// those that come without a trace context; one that has it is traced if
	// its sender traces it.
	SampleRatio float64
	// Redact returns its argument with every secret in it replaced; nil means
	// there are no secrets.
	Redact func(string) string
	// Problem takes what could not be exported; nil drops it. Spans that could
	// not be exported are lost: they hold no message back.
	Problem func(error)
}

// Check returns what is wrong with the options, or nil.
func (o TraceOptions) Check() error {
	u, err := url.Parse(o.Endpoint)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		// Neither the text nor the parser's error: a URL may hold a password.
		return errors.New("traces: the endpoint is not an http or https URL; write one like http://localhost:4318")
	}
	if !(o.SampleRatio >= 0 && o.SampleRatio <= 1) {
		return fmt.Errorf("traces: the sample ratio %v is not between 0 and 1", o.SampleRatio)
	}
	return nil
}

// Tracer makes spans. A nil *Tracer is tracing switched off: its methods do
// nothing and allocate nothing. Safe for concurrent use.
type Tracer struct {
	spans  trace.Tracer
	redact func(string) string
	close  func(context.Context) error
}

// w3c reads and writes traceparent and tracestate. Baggage is not forwarded:
// it is the sender's and may be anything.
var w3c propagation.TraceContext

// MessageEnd is how a message ended.
type MessageEnd struct {
	Status event.Settlement
	Err    error
}

// AttemptStart is what is known before a send.
type AttemptStart struct {
	Route, Destination, Endpoint string
	MessageID                    string
	Number                       int           // the first is 1
	Waited                       time.Duration // before the send
	Hedge                        bool
}

// AttemptEnd is how a send ended. Tags and Error are empty when it went well.
type AttemptEnd struct {
	Outcome message.Outcome
	Tags    failure.Tags
	Error   string
}

// HopInfo is a destination that was left.
type HopInfo struct {
	Route, Destination, To string // To "" is the dead letters
	MessageID              string
	Reason                 message.HopReason
	Entered                time.Time // when its lane took the message
	Tags                   failure.Tags
	Error                  string
}

// StartMessage begins the span of m, below the trace context in m's headers
// where there is one, and returns a ctx that carries it. Call the function
// once, when m is settled.
func (t *Tracer) StartMessage(ctx context.Context, m *message.Message) (context.Context, func(MessageEnd)) {
	if t == nil {
		return ctx, noMessageEnd
	}
	ctx = w3c.Extract(ctx, headers(m.Headers))
	ctx, span := t.spans.Start(ctx, "message "+m.Source,
		trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithTimestamp(m.Time),
		trace.WithAttributes(
			attribute.String("messaging.message.id", t.text(m.ID)),
			attribute.String("pawl.source", m.Source),
			attribute.Int("messaging.message.body.size", len(m.Body)),
		))
	return ctx, func(end MessageEnd) {
		span.SetAttributes(attribute.String("pawl.outcome", string(end.Status)))
		switch end.Status {
		case event.SettledNacked, event.SettledDeadLettered:
			span.SetStatus(codes.Error, t.text(errorText(end.Err, string(end.Status))))
		case event.SettledDelivered, event.SettledFiltered, event.SettledUnrouted, event.SettledRefused,
			event.SettledJoined, event.SettledConflict, event.SettledInvalid, event.SettledStored, event.SettledDeferred:
			// The relay did what it should; the attribute tells the rest.
		}
		span.End()
	}
}

// StartAttempt begins the span of one send below ctx's and returns a ctx that
// carries it, for Inject and for the send. Call the function once, when the
// send is over.
func (t *Tracer) StartAttempt(ctx context.Context, a AttemptStart) (context.Context, func(AttemptEnd)) {
	if t == nil {
		return ctx, noAttemptEnd
	}
	ctx, span := t.spans.Start(ctx, "attempt "+a.Destination,
		trace.WithSpanKind(trace.SpanKindProducer),
		trace.WithAttributes(
			attribute.String("messaging.message.id", t.text(a.MessageID)),
			attribute.String("pawl.route", a.Route),
			attribute.String("pawl.destination", a.Destination),
			attribute.String("pawl.endpoint", a.Endpoint),
			attribute.Int("pawl.attempt", a.Number),
			attribute.Float64("pawl.waited_seconds", a.Waited.Seconds()),
			attribute.Bool("pawl.hedge", a.Hedge),
		))
	return ctx, func(end AttemptEnd) {
		span.SetAttributes(attribute.String("pawl.outcome", string(end.Outcome)))
		if end.Outcome != message.OutcomeOK {
			t.fail(span, end.Tags, end.Error)
		}
		span.End()
	}
}

// Hop makes the span of a destination's whole try, which ended with its being
// left: from h.Entered until now.
func (t *Tracer) Hop(ctx context.Context, h HopInfo) {
	if t == nil {
		return
	}
	_, span := t.spans.Start(ctx, "hop "+h.Destination,
		trace.WithTimestamp(h.Entered),
		trace.WithAttributes(
			attribute.String("messaging.message.id", t.text(h.MessageID)),
			attribute.String("pawl.route", h.Route),
			attribute.String("pawl.destination", h.Destination),
			attribute.String("pawl.to", h.To),
			attribute.String("pawl.hop", string(h.Reason)),
		))
	t.fail(span, h.Tags, h.Error)
	span.End()
}

// Close exports what is left until ctx ends and stops.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	if err := t.close(ctx); err != nil {
		return fmt.Errorf("traces: the last spans were not exported: %w", err)
	}
	return nil
}

// Inject returns the W3C trace context of ctx's span as header values, both
// "" where ctx has no span.
func Inject(ctx context.Context) (traceparent, tracestate string) {
	out := propagation.MapCarrier{}
	w3c.Inject(ctx, out)
	return out["traceparent"], out["tracestate"]
}

// headers reads trace context out of a message's headers, whose keys are in
// lower case. A header that is given twice counts as none, as the standard
// has it for traceparent; tracestate may be split and is joined.
type headers map[string][]string

// Get returns the value of key.
func (h headers) Get(key string) string {
	switch values := h[key]; {
	case len(values) == 1:
		return values[0]
	case len(values) > 1 && key == "tracestate":
		joined := values[0]
		for _, v := range values[1:] {
			joined += "," + v
		}
		return joined
	}
	return ""
}

// Set is part of the carrier's contract; a message is not written to.
func (h headers) Set(string, string) {}

// Keys is part of the carrier's contract, and not used for trace context.
func (h headers) Keys() []string { return nil }

func noMessageEnd(MessageEnd) {}

func noAttemptEnd(AttemptEnd) {}

// text makes v fit for a span: no secret, no control characters, and valid
// UTF-8, without which the exporter would lose the whole batch.
func (t *Tracer) text(v string) string { return printable(t.redact(v)) }

func (t *Tracer) fail(span trace.Span, tags failure.Tags, text string) {
	words := make([]string, len(tags))
	for i, tag := range tags {
		words[i] = string(tag)
	}
	span.SetAttributes(attribute.StringSlice("pawl.tags", words))
	span.SetStatus(codes.Error, t.text(text))
}

func errorText(err error, otherwise string) string {
	if err == nil {
		return otherwise
	}
	return err.Error()
}
