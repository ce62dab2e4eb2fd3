package connector

import (
	"context"
	"testing"
)

func TestTraceTravelsInContext(t *testing.T) {
	if got := TraceOf(t.Context()); got != (TraceContext{}) {
		t.Errorf("a bare context carries %+v", got)
	}
	want := TraceContext{Parent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", State: "v=1"}
	ctx, cancel := context.WithCancel(WithTrace(t.Context(), want))
	defer cancel()
	if got := TraceOf(ctx); got != want {
		t.Errorf("TraceOf = %+v, want %+v", got, want)
	}
}
