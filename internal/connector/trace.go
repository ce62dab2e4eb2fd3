package connector

import "context"

// TraceContext is the W3C trace context of one attempt, as header values.
type TraceContext struct {
	Parent string // traceparent; "" when the attempt is not traced
	State  string // tracestate; often empty
}

type traceKey struct{}

// WithTrace returns a ctx that carries tc to a destination's Send. The
// delivery engine sets it, and only where tracing is on.
func WithTrace(ctx context.Context, tc TraceContext) context.Context {
	return context.WithValue(ctx, traceKey{}, tc)
}

// TraceOf returns what WithTrace put into ctx, or the zero value. A
// destination whose protocol has a place for trace context sends it there.
func TraceOf(ctx context.Context) TraceContext {
	tc, _ := ctx.Value(traceKey{}).(TraceContext)
	return tc
}
