package http

import (
	"context"
	"io"
	nethttp "net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// answered is a ResponseWriter that throws the answer away.
type answered struct{ header nethttp.Header }

func (a *answered) Header() nethttp.Header      { return a.header }
func (a *answered) Write(b []byte) (int, error) { return len(b), nil }
func (a *answered) WriteHeader(int)             { clear(a.header) }

type acked struct{}

func (acked) Handle(_ context.Context, d connector.Delivery) connector.Settlement {
	return connector.Settlement{Status: event.SettledDelivered, ID: d.Message.ID}
}

// BenchmarkSource is one request of 1 KiB through the source, without the
// server under it.
func BenchmarkSource(b *testing.B) {
	s := &Source{
		methods: []string{"POST"}, verifier: noAuth{}, ids: newIDRule(&SourceSettings{}), ackTimeout: 1 << 40,
		maxBody: 1 << 20, bodies: newBudget(readBudget), answer: newReply(nil, nethttp.StatusOK), emit: event.Discard,
		begun: make(chan struct{}), closed: make(chan struct{}), handler: acked{},
	}
	close(s.begun)
	body := strings.NewReader(strings.Repeat("x", 1024))
	r, err := nethttp.NewRequest("POST", "http://a.test/events", nil)
	if err != nil {
		b.Fatal(err)
	}
	r.ContentLength, r.RemoteAddr = 1024, "10.0.0.9:1234"
	for _, name := range []string{"User-Agent", "Accept", "Accept-Encoding", "X-Request-Id", "Content-Type"} {
		r.Header.Set(name, "application/json")
	}
	w := &answered{header: nethttp.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		_, _ = body.Seek(0, io.SeekStart)
		r.Body = io.NopCloser(body)
		s.ServeHTTP(w, r)
	}
}

// BenchmarkFields is what a destination adds to a request of its own.
func BenchmarkFields(b *testing.B) {
	s := newDestinationSettings(true)
	s.URL = "https://a.test/hook"
	d, err := OpenDestination(s, connector.Env{})
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	m := &message.Message{ID: "order-1", ContentType: "application/json", Body: []byte("{}"), Headers: map[string][]string{"x-a": {"1"}}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.fields(b.Context(), m, m.Time); err != nil {
			b.Fatal(err)
		}
	}
}
