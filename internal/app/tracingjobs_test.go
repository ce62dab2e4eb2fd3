package app

// Catches: a job whose attempts are no part of its producer's trace, over a
// restart too; a message that leaves its trace in a queue.

import (
	"encoding/hex"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	spans "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// received is a collector that keeps what it gets. It is closed before the test is
// over, so that no connection to it is left.
type received struct {
	*httptest.Server
	mu    sync.Mutex
	spans []*spans.Span
}

func newCollector(t *testing.T) *received {
	r := &received{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		var got collector.ExportTraceServiceRequest
		body, err := io.ReadAll(q.Body)
		if err == nil {
			err = proto.Unmarshal(body, &got)
		}
		if err != nil {
			t.Error(err)
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		for _, of := range got.ResourceSpans {
			for _, scope := range of.ScopeSpans {
				r.spans = append(r.spans, scope.Spans...)
			}
		}
	}))
	return r
}

// named returns the spans of a name, in the order of their ends.
func (r *received) named(name string) (all []*spans.Span) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range r.spans {
		if s.Name == name {
			all = append(all, s)
		}
	}
	return all
}

const (
	producerTrace = "0af7651916cd43dd8448eb211c80319c"
	producerSpan  = "b7ad6b7169203331"
)

// parentOf is the traceparent of a span.
func parentOf(s *spans.Span) string {
	return "00-" + hex.EncodeToString(s.TraceId) + "-" + hex.EncodeToString(s.SpanId) + "-01"
}

// call makes a call of the job API with a producer's trace context and decodes its
// answer.
func (w *world) call(method, path, body string, into any) {
	w.Helper()
	w.mu.Lock()
	address := w.real["127.0.0.1:2"]
	w.mu.Unlock()
	r, err := http.NewRequest(method, "http://"+address+path, strings.NewReader(body))
	must(w.T, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+w.key())
	r.Header.Set("Traceparent", "00-"+producerTrace+"-"+producerSpan+"-01")
	r.Header.Set("Tracestate", "shop=7")
	res, err := http.DefaultClient.Do(r)
	must(w.T, err)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	must(w.T, err)
	if err := json.Unmarshal(text, into); err != nil || res.StatusCode >= 300 {
		w.Fatalf("%s %s: %d %s %v", method, path, res.StatusCode, text, err)
	}
}

type traced struct {
	ID          string `json:"id"`
	Traceparent string `json:"traceparent"`
	Tracestate  string `json:"tracestate"`
}

type tracedClaim struct {
	Jobs []struct {
		traced
		Job   traced `json:"job"`
		Lease string `json:"lease"`
	} `json:"jobs"`
}

func TestTracesOfAJob(t *testing.T) {
	to, ep, w := newCollector(t), newEndpoint(t), newWorld(t)
	defer to.Close()
	w.write(w.conf(ep.URL, "") + fmt.Sprintf(`
jobs: { queues: { q: {} } }
telemetry: { traces: { endpoint: %q, sample_ratio: 0 } }
`, to.URL))
	a := w.start()
	var made traced
	w.call("POST", "/v3/jobs", `{"queue":"q","task":"send","payload":1}`, &made)
	var batch struct{}
	w.call("POST", "/v3/jobs/batch", `{"jobs":[{"queue":"q","task":"other","payload":1}]}`, &batch)
	claim := func() (c tracedClaim) {
		t.Helper()
		w.call("POST", "/v3/claims", `{"worker":"worker-1","queues":["q"],"tasks":["send"],"wait":"20s"}`, &c)
		if len(c.Jobs) != 1 || c.Jobs[0].Job != made || c.Jobs[0].Tracestate != "shop=7" {
			t.Fatalf("%+v, made was %+v", c, made)
		}
		return c
	}
	report := func(text string, args ...any) {
		t.Helper()
		var answer struct {
			Results []struct {
				Status string `json:"status"`
			} `json:"results"`
		}
		w.call("POST", "/v3/reports", `{"worker":"worker-1","reports":[`+fmt.Sprintf(text, args...)+`]}`, &answer)
		if len(answer.Results) != 1 || answer.Results[0].Status != "ok" {
			t.Fatalf("%s: %+v", text, answer)
		}
	}
	first := claim()
	report(`{"lease":%q,"type":"fail","error":{"type":"HttpError","message":"503"},"retry_in":"0s"}`, first.Jobs[0].Lease)
	second := claim()
	a.end()
	a = w.start() // the worker goes on meanwhile
	report(`{"lease":%q,"type":"complete","result":2}`, second.Jobs[0].Lease)
	a.end()

	creates, attempts := to.named("create send"), to.named("attempt send")
	if len(creates) != 1 || len(attempts) != 2 || len(to.named("create other")) != 1 {
		t.Fatalf("%d made and %d attempts are in the trace", len(creates), len(attempts))
	}
	if s := creates[0]; hex.EncodeToString(s.TraceId) != producerTrace || hex.EncodeToString(s.ParentSpanId) != producerSpan || parentOf(s) != made.Traceparent || s.TraceState != "shop=7" {
		t.Errorf("made: %v, the job has %+v", s, made)
	}
	for i, c := range []tracedClaim{first, second} {
		s := attempts[i]
		if parentOf(s) != c.Jobs[0].Traceparent || string(s.ParentSpanId) != string(creates[0].SpanId) || s.EndTimeUnixNano < s.StartTimeUnixNano {
			t.Errorf("attempt %d: %v, its worker got %s", i+1, s, c.Jobs[0].Traceparent)
		}
	}
	if failed, ok := attempts[0].Status, attempts[1].Status; failed.Code != spans.Status_STATUS_CODE_ERROR || failed.Message != "HttpError: 503" || ok.Code == spans.Status_STATUS_CODE_ERROR {
		t.Errorf("%v, then %v", failed, ok)
	}
}

// A message that goes through a queue stays in its sender's trace: what the queue's
// source makes of it is below the attempt that put it there.
func TestATraceGoesThroughAQueue(t *testing.T) {
	to, ep, w := newCollector(t), newEndpoint(t), newWorld(t)
	defer to.Close()
	w.write(fmt.Sprintf(`
state: %s/state
jobs: { queues: { buffer: {} } }
http: { listen: "127.0.0.1:2" }
telemetry: { traces: { endpoint: %q } }
sources:
  - { name: web, type: http, listen: "127.0.0.1:1" }
  - { name: work, type: queue, queue: buffer }
routes:
  - { name: in, from: [web], to: [buffer] }
  - { name: out, from: [work], to: [ep] }
destinations:
  - { name: buffer, type: queue, queue: buffer, task: relay }
  - { name: ep, type: http, url: %q }
`, w.folder, to.URL, ep.URL))
	a := w.start()
	if status, body := w.send("127.0.0.1:1", "k1"); status != http.StatusOK {
		t.Errorf("answered %d %s", status, body)
	}
	eventually(t, "it came through", func() bool { return ep.count() == 1 })
	a.end()
	put, messages := to.named("attempt buffer"), to.named("message web")
	if len(put) != 1 || len(messages) != 2 { // the message keeps its source
		t.Fatalf("put in %v, messages %v", put, messages)
	}
	if !slices.ContainsFunc(messages, func(s *spans.Span) bool {
		return string(s.ParentSpanId) == string(put[0].SpanId) && string(s.TraceId) == string(put[0].TraceId)
	}) {
		t.Errorf("put in %v, messages %v", put[0], messages)
	}
}
