package deliver

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// tracer writes down what it is told.
type tracer struct {
	began time.Time
	lines []string
}

func (t *tracer) Attempt(ctx context.Context, a AttemptInfo) (context.Context, func(message.Outcome, *failure.Error)) {
	t.lines = append(t.lines, fmt.Sprintf("%s begins %d at %s after %v", a.MessageID, a.Number, a.Endpoint, a.Waited))
	ctx = connector.WithTrace(ctx, connector.TraceContext{Parent: fmt.Sprintf("%s-%d", a.Endpoint, a.Number)})
	return ctx, func(o message.Outcome, f *failure.Error) {
		t.lines = append(t.lines, fmt.Sprintf("%s ends %d at %s: %s %v", a.MessageID, a.Number, a.Endpoint, o, f != nil))
	}
}

func (t *tracer) Hop(_ context.Context, h HopInfo) {
	t.lines = append(t.lines, fmt.Sprintf("%s leaves %s for %q by %s, there since %v", h.MessageID, h.Destination, h.To, h.Reason, h.Entered.Sub(t.began)))
}

// follows sees the trace context that reaches a connector.
type follows struct {
	*endpoint
	parents []string
}

func (f *follows) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	f.parents = append(f.parents, connector.TraceOf(ctx).Parent)
	return f.endpoint.Send(ctx, m)
}

func TestTrace(t *testing.T) {
	inBubble(t, func(r *rig) {
		tr := &tracer{began: r.began}
		r.fleet.opts.Trace = tr
		a := &follows{endpoint: always(status(503).taking(ms))}
		r.configure(spec("a", a, attempts(2), fallback("b")), spec("b", always(panics), attempts(1), fallback("c")), spec("c", always(well)))
		r.deliver(r.Context(), "a")
		want := []string{
			"m1 begins 1 at a after 0s", "m1 ends 1 at a: retry true",
			"m1 begins 2 at a after 100ms", "m1 ends 2 at a: retry true",
			`m1 leaves a for "b" by exhausted, there since 0s`,
			"m1 begins 1 at b after 0s", "m1 ends 1 at b: retry true",
			`m1 leaves b for "c" by exhausted, there since 102ms`,
			"m1 begins 1 at c after 0s", "m1 ends 1 at c: ok false",
		}
		if diff := cmp.Diff(want, tr.lines); diff != "" {
			t.Errorf("traced (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a-1", "a-2"}, a.parents); diff != "" {
			t.Errorf("the connector's trace context (-want +got):\n%s", diff)
		}
	})
}
