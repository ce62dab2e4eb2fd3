package telemetry

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

const (
	sampledParent   = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	unsampledParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
)

// kept is an exporter that remembers spans over its shutdown.
type kept struct {
	mu    sync.Mutex
	spans tracetest.SpanStubs
}

func (k *kept) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.spans = append(k.spans, tracetest.SpanStubsFromReadOnlySpans(spans)...)
	return nil
}

func (k *kept) Shutdown(context.Context) error { return nil }

// deliverTraced takes a message through one failed attempt, a hop and a good
// attempt, and returns the headers that the two attempts sent.
func deliverTraced(t *testing.T, tr *Tracer, m *message.Message) (parents, states []string) {
	t.Helper()
	ctx, end := tr.StartMessage(t.Context(), m)
	send := func(destination string, result AttemptEnd) {
		attempt, endAttempt := tr.StartAttempt(ctx, AttemptStart{Route: "orders", Destination: destination, Endpoint: destination, MessageID: m.ID, Number: 1})
		p, s := Inject(attempt)
		parents, states = append(parents, p), append(states, s)
		endAttempt(result)
	}
	entered := time.Now().Add(-3 * time.Second)
	send("ledger", AttemptEnd{Outcome: message.OutcomePermanent, Tags: failure.Tags{"4xx", "400"}, Error: "HTTP 400 hunter2\n"})
	tr.Hop(ctx, HopInfo{Route: "orders", Destination: "ledger", To: "disk", MessageID: m.ID, Reason: message.HopPermanent, Entered: entered, Error: "HTTP 400"})
	send("disk", AttemptEnd{Outcome: message.OutcomeOK})
	end(MessageEnd{Status: event.SettledDelivered})
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	return parents, states
}

func traced(headers map[string][]string) *message.Message {
	return &message.Message{ID: "m-1\xff", Source: "web", Time: time.Now(), Headers: headers, Body: []byte("the body")}
}

func TestSpansOfAMessage(t *testing.T) {
	out := &kept{}
	tr := newTracer(TraceOptions{Relay: "shop", SampleRatio: 0, Redact: redact}, out)
	parents, states := deliverTraced(t, tr, traced(map[string][]string{
		"traceparent": {sampledParent}, "tracestate": {"a=1", "b=2"},
	}))
	if len(out.spans) != 4 {
		t.Fatalf("%d spans, want a message, two attempts and a hop", len(out.spans))
	}
	by := map[string]tracetest.SpanStub{}
	for _, s := range out.spans {
		by[s.Name] = s
		if got := s.SpanContext.TraceID().String(); got != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("span %q is in the trace %s, not in the sender's", s.Name, got)
		}
		for _, a := range s.Attributes {
			if v := a.Value.AsString(); strings.Contains(v, "body") || strings.Contains(v, "\xff") {
				t.Errorf("span %q: %s = %q", s.Name, a.Key, v)
			}
		}
	}
	root := by["message web"]
	if got := root.Parent.SpanID().String(); got != "b7ad6b7169203331" {
		t.Errorf("the message's parent is %s, not the sender's span", got)
	}
	for i, name := range []string{"attempt ledger", "attempt disk"} {
		s := by[name]
		if s.Parent.SpanID() != root.SpanContext.SpanID() {
			t.Errorf("%q is not below the message", name)
		}
		want := "00-0af7651916cd43dd8448eb211c80319c-" + s.SpanContext.SpanID().String() + "-01"
		if parents[i] != want || states[i] != "a=1,b=2" {
			t.Errorf("%q sent %q, %q, want %q, a=1,b=2", name, parents[i], states[i], want)
		}
	}
	failed := by["attempt ledger"].Status
	if failed.Code != codes.Error || failed.Description != "HTTP 400 [secret]" {
		t.Errorf("status of the failed attempt = %+v", failed)
	}
	if s := by["attempt disk"]; s.Status.Code == codes.Error {
		t.Errorf("status of the good attempt = %+v", s.Status)
	}
	if s := by["hop ledger"]; s.EndTime.Sub(s.StartTime) < 3*time.Second {
		t.Errorf("the hop lasted %v, want all of the time in the lane", s.EndTime.Sub(s.StartTime))
	}
}

func TestSampling(t *testing.T) {
	for name, tt := range map[string]struct {
		ratio  float64
		header []string
		want   int
	}{
		"nobody asks, ratio 0":       {0, nil, 0},
		"nobody asks, ratio 1":       {1, nil, 4},
		"the sender does not trace":  {1, []string{unsampledParent}, 0},
		"the sender traces":          {0, []string{sampledParent}, 4},
		"a broken header is no one":  {0, []string{"00-xyz"}, 0},
		"two headers are no header":  {0, []string{sampledParent, sampledParent}, 0},
		"a broken header, all taken": {1, []string{"\x00"}, 4},
	} {
		t.Run(name, func(t *testing.T) {
			out := &kept{}
			parents, _ := deliverTraced(t, newTracer(TraceOptions{SampleRatio: tt.ratio}, out), traced(map[string][]string{"traceparent": tt.header}))
			if len(out.spans) != tt.want {
				t.Errorf("%d spans, want %d", len(out.spans), tt.want)
			}
			if parents[0] == "" || parents[0] == parents[1] {
				t.Errorf("attempts sent %q, want two different contexts, traced or not", parents)
			}
		})
	}
}

func TestMessageEndThatIsAnError(t *testing.T) {
	out := &kept{}
	tr := newTracer(TraceOptions{SampleRatio: 1}, out)
	for _, end := range []MessageEnd{
		{Status: event.SettledNacked, Err: errors.New("no disk")}, {Status: event.SettledDeadLettered}, {Status: event.SettledFiltered},
	} {
		_, done := tr.StartMessage(t.Context(), traced(nil))
		done(end)
	}
	if err := tr.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range out.spans {
		got = append(got, s.Status.Code.String()+" "+s.Status.Description)
	}
	if want := "Error no disk|Error dead_lettered|Unset "; strings.Join(got, "|") != want {
		t.Errorf("statuses = %q, want %q", got, want)
	}
}

func TestTracingOffIsFree(t *testing.T) {
	var tr *Tracer
	m, ctx := traced(nil), t.Context()
	n := testing.AllocsPerRun(100, func() {
		c, end := tr.StartMessage(ctx, m)
		c, endAttempt := tr.StartAttempt(c, AttemptStart{})
		tr.Hop(c, HopInfo{})
		endAttempt(AttemptEnd{})
		end(MessageEnd{})
	})
	if n != 0 {
		t.Errorf("a message made %v allocations with tracing off", n)
	}
	if p, s := Inject(ctx); p != "" || s != "" {
		t.Errorf("Inject without a span = %q, %q", p, s)
	}
	if err := tr.Close(ctx); err != nil {
		t.Error(err)
	}
}

func TestExportOverHTTP(t *testing.T) {
	var got collector.ExportTraceServiceRequest
	var auth, path string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Error(err)
		}
		auth, path = r.Header.Get("Authorization"), r.URL.Path
	}))
	defer server.Close()
	tr, err := NewTracer(TraceOptions{
		Relay: "shop", Version: "1.2", Endpoint: server.URL + "/v1/traces", SampleRatio: 1,
		Headers: map[string]string{"Authorization": "Bearer x"},
		Problem: func(err error) { t.Error(err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	deliverTraced(t, tr, traced(nil))
	if auth != "Bearer x" || path != "/v1/traces" {
		t.Errorf("posted to %q with Authorization %q", path, auth)
	}
	if len(got.ResourceSpans) != 1 || len(got.ResourceSpans[0].ScopeSpans[0].Spans) != 4 {
		t.Fatalf("the collector got %v", &got)
	}
	if r := got.ResourceSpans[0].Resource.String(); !strings.Contains(r, "shop") || !strings.Contains(r, "1.2") {
		t.Errorf("resource = %s, want the relay's name and version", r)
	}
}

func TestExportFailureIsReported(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer server.Close()
	var problems []error
	tr, err := NewTracer(TraceOptions{
		Endpoint: server.URL, SampleRatio: 1, Problem: func(err error) { problems = append(problems, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	deliverTraced(t, tr, traced(nil))
	if len(problems) != 1 || !strings.Contains(problems[0].Error(), "4 spans were not exported") {
		t.Errorf("problems = %v", problems)
	}
}

func TestTraceOptionsCheck(t *testing.T) {
	for _, o := range []TraceOptions{
		{}, {Endpoint: "localhost:4318"}, {Endpoint: "ftp://x/y"}, {Endpoint: "http://"},
		{Endpoint: "http://u:hunter2@\x7f"},
		{Endpoint: "http://x", SampleRatio: 1.1}, {Endpoint: "http://x", SampleRatio: -1},
	} {
		tr, err := NewTracer(o)
		if err == nil || tr != nil {
			t.Errorf("NewTracer(%+v) took it", o)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows a password: %v", err)
		}
	}
}

// Would catch: spans posted to where no collector takes them.
func TestTracesGoToTheCollectorsPath(t *testing.T) {
	for path, want := range map[string]string{"": "/v1/traces", "/": "/v1/traces", "/v1/traces": "/v1/traces", "/of/mine": "/of/mine"} {
		var got []string
		server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = append(got, r.URL.Path) }))
		tr, err := NewTracer(TraceOptions{Endpoint: server.URL + path, SampleRatio: 1})
		if err != nil {
			t.Fatal(err)
		}
		deliverTraced(t, tr, traced(nil))
		server.Close()
		if len(got) != 1 || got[0] != want {
			t.Errorf("the endpoint with the path %q is posted to at %q, want %q", path, got, want)
		}
	}
}
