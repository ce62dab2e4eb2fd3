package app

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/relay"
)

// spelled is a destination, a group and a source that say every key which the
// engines are told of, each as no default has it.
const spelled = `
sources:
  - { name: web, type: http, listen: "127.0.0.1:1", max_in_flight: 3, max_in_flight_bytes: 2KiB, unrouted: dead_letter }
stores: [ { name: shared, type: memory } ]
routes: [ { name: all, from: [web], to: [ep, group] } ]
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
    retry_budget: { ratio: 0.7, store: shared }
    batch: { max_messages: 7, max_bytes: 7KiB, max_wait: 7s }
  - name: group
    type: group
    strategy: weighted
    timeout: 8s
    idempotent: true
    health_check: { path: /ready, interval: 7s, timeout: 6s, unhealthy_after: 5, healthy_after: 4 }
    hedge: { after: 700ms, max: 2 }
    delivered_on: [410]
    members:
      - name: own
        type: http
        url: "http://127.0.0.1:9"
        weight: 7
        timeout: 9s
        delivered_on: [409]
        success: '.status == 207'
        circuit_breaker: { min_requests: 7 }
        transforms: [ { jq: '.seven' } ]
      - { type: http, url: "http://127.0.0.1:9/b" }
      - { type: http, url: "http://127.0.0.1:9/c", circuit_breaker: false }
  - { name: next, type: stdout }
`

// TestEveryKeyReachesTheEngine catches a key that is read, checked, printed by
// explain and then forgotten on its way to what should heed it.
func TestEveryKeyReachesTheEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	must(t, os.WriteFile(file, []byte(spelled), 0o600))
	c, report := Load([]string{file}, builtin.Connectors())
	must(t, report.Err())
	open := func(endpointSpec) (connector.Destination, error) { return nothing{}, nil }
	d, _ := c.Destination("ep")
	spec, err := specOf(d, open)
	must(t, err)
	// Of a plain destination alone: the group below has what is not here.
	told(t, spec, "EndpointName", "Group", "Hedge", "BudgetCounters")
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
	if want := (deliver.Batch{MaxMessages: 7, MaxBytes: 7 << 10, MaxWait: 7 * time.Second}); *spec.Batch != want {
		t.Errorf("batch: %+v", *spec.Batch)
	}
	if d.Delivery.BudgetStore != "shared" {
		t.Errorf("the budget's store is %q", d.Delivery.BudgetStore)
	}
	e := &Engine{opts: EngineOptions{Registry: builtin.Connectors()}}
	want := relay.SourceSpec{Name: "web", MaxInFlight: 3, MaxInFlightBytes: 2 << 10, Unrouted: relay.DeadLetterUnrouted}
	got, _, err := e.sourceSpecs(c)
	if err != nil || len(got) != 1 || got[0] != want {
		t.Errorf("sources: %+v, %v, want %+v", got, err, want)
	}
}

// told fails for fields that hold nothing, but for those that are left out.
func told(t *testing.T, v any, but ...string) {
	t.Helper()
	rv := reflect.ValueOf(v)
	for _, f := range reflect.VisibleFields(rv.Type()) {
		if !f.Anonymous && rv.FieldByIndex(f.Index).IsZero() && !slices.Contains(but, f.Name) {
			t.Errorf("%T.%s was told nothing", v, f.Name)
		}
	}
}

// nothing stands for a connector that nobody uses.
type nothing struct{ connector.Destination }

// TestEveryKeyOfAGroupReachesTheEngine is the same of a group and its members.
func TestEveryKeyOfAGroupReachesTheEngine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	must(t, os.WriteFile(file, []byte(spelled), 0o600))
	c, report := Load([]string{file}, builtin.Connectors())
	must(t, report.Err())
	opens := map[string]endpointSpec{}
	d, _ := c.Destination("group")
	spec, err := specOf(d, func(p endpointSpec) (connector.Destination, error) {
		opens[p.name] = p
		return nothing{}, nil
	})
	must(t, err)
	if !reflect.ValueOf(spec.Endpoint).IsZero() {
		t.Errorf("a group has an endpoint of its own: %+v", spec.Endpoint)
	}
	g := spec.Group
	told(t, *g)
	told(t, g.Members[0])
	if want := (deliver.HealthCheck{Interval: 7 * time.Second, Timeout: 6 * time.Second, UnhealthyAfter: 5, HealthyAfter: 4}); *g.Health != want {
		t.Errorf("health check: %+v", *g.Health)
	}
	if want := (deliver.Hedge{After: 700 * time.Millisecond, Max: 2}); *spec.Hedge != want || g.Strategy != balance.Weighted {
		t.Errorf("strategy %s, hedge %+v", g.Strategy, *spec.Hedge)
	}
	type row struct {
		name      string
		weight    int
		timeout   time.Duration
		delivered string
		breaker   int // its min_requests; 0 for none
	}
	var got []row
	for _, m := range g.Members {
		r := row{m.EndpointName, m.Weight, m.Timeout, m.DeliveredOn.String(), 0}
		if m.Breaker != nil {
			r.breaker = m.Breaker.MinRequests
		}
		got = append(got, r)
	}
	want := []row{{"own", 7, 9 * time.Second, "409", 7}, {"group/2", 1, 8 * time.Second, "410", 20}, {"group/3", 1, 8 * time.Second, "410", 0}}
	if !slices.Equal(got, want) {
		t.Errorf("members %+v, want %+v", got, want)
	}
	for _, name := range []string{"own", "group/2", "group/3"} {
		p := opens[name]
		if p.destination != "group" || p.kind != "http" || p.health == nil || p.health.Path != "/ready" || p.settings == nil || p.delivery == nil {
			t.Errorf("%s was opened as %+v", name, p)
		}
	}
	if ok, err := g.Members[0].Success(t.Context(), connector.Answer{Status: 207}); !ok || err != nil || g.Members[1].Success != nil {
		t.Errorf("success says %v, %v", ok, err)
	}
}
