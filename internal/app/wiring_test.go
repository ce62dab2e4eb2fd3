package app

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/relay"
)

// spelled is one destination and one source that say every key which the
// engines are told of, each as no default has it.
const spelled = `
sources:
  - { name: web, type: http, listen: "127.0.0.1:1", max_in_flight: 3, max_in_flight_bytes: 2KiB, unrouted: dead_letter }
routes: [ { name: all, from: [web], to: [ep] } ]
destinations:
  - name: ep
    type: http
    url: "http://127.0.0.1:9"
    fallback: [next]
    timeout: 7s
    deadline: 70s
    ttl: 700s
    workers: 7
    max_pending: 77
    delivered_on: [409]
    success: '.status == 207'
    when_open: fail
    transforms: [ { jq: '.seven' } ]
    circuit_breaker: { min_requests: 7 }
    retry: { attempts: 7 }
    rate_limit: { per_second: 7 }
    retry_budget: { ratio: 0.7 }
  - { name: next, type: stdout }
`

// TestEveryKeyReachesTheEngine catches a key that is read, checked, printed by
// explain and then forgotten on its way to what should heed it.
func TestEveryKeyReachesTheEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	must(t, os.WriteFile(file, []byte(spelled), 0o600))
	c, report := Load([]string{file}, builtin.Connectors())
	must(t, report.Err())
	d, _ := c.Destination("ep")
	spec, err := specOf(d, nil)
	must(t, err)
	v := reflect.ValueOf(spec)
	for i := range v.NumField() {
		if f := v.Type().Field(i); v.Field(i).IsZero() && f.Name != "Connector" {
			t.Errorf("deliver.Spec.%s was told nothing", f.Name)
		}
	}
	if ok, err := spec.Success(t.Context(), connector.Answer{Status: 207}); !ok || err != nil {
		t.Errorf("success says %v, %v", ok, err)
	}
	m, err := spec.Transform(t.Context(), &message.Message{ID: "m", Body: []byte(`{"seven":7}`)})
	if err != nil || string(m.Body) != "7" {
		t.Errorf("transforms make %+v, %v", m, err)
	}
	if spec.Retry.Attempts != 7 || spec.Breaker.MinRequests != 7 || spec.WhenOpen != deliver.FailWhenOpen ||
		spec.RateLimit.PerSecond != 7 || spec.RetryBudget.Ratio != 0.7 {
		t.Errorf("told %+v", spec)
	}
	e := &Engine{opts: EngineOptions{Registry: builtin.Connectors()}}
	want := relay.SourceSpec{Name: "web", MaxInFlight: 3, MaxInFlightBytes: 2 << 10, Unrouted: relay.DeadLetterUnrouted}
	if got := e.sourceSpecs(c); len(got) != 1 || got[0] != want {
		t.Errorf("sources: %+v, want %+v", got, want)
	}
}
