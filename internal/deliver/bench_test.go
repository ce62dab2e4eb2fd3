package deliver

// Would show: a hot path that got slower or allocates more.

import (
	"context"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// nowhere takes everything at once.
type nowhere struct{}

func (nowhere) Send(context.Context, *message.Message) (connector.Answer, error) {
	return connector.Answer{}, nil
}

func (nowhere) Close() error { return nil }

func benchmark(b *testing.B, s Spec) {
	b.ReportAllocs()
	f := NewFleet(Options{})
	defer f.Close()
	set, err := f.Configure([]Spec{s})
	if err != nil {
		b.Fatal(err)
	}
	d, _ := set.Destination(s.Name)
	m := &message.Message{ID: "m", Source: "web", Time: time.Now()}
	for b.Loop() {
		place, _ := d.Enter()
		if res := d.Deliver(b.Context(), Request{Message: m, Route: "orders", Place: place}); res.Status != Delivered {
			b.Fatal(res)
		}
	}
}

func BenchmarkPlain(b *testing.B) {
	settings := breaker.Defaults()
	benchmark(b, Spec{
		Name: "a", Endpoint: Endpoint{Connector: nowhere{}, Timeout: time.Second, Breaker: &settings}, Retry: retry.Resolve(),
		Workers: 64, MaxPending: 512,
	})
}
