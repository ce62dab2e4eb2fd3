package app

// Catches: a connector that is opened anew although nothing about its endpoint
// has changed, or is kept although something has; a member that is given to
// whoever wraps under a wrong name, or does not learn what it is checked by.

import (
	"context"
	"io"
	"log/slog"
	"slices"
	"testing"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

// plainSettings are of a kind that needs none.
type plainSettings struct{ URL string }

func (plainSettings) Check() []connector.Problem { return nil }

// idle is a connector that nobody sends to.
type idle struct{ env connector.Env }

func (*idle) Send(context.Context, *message.Message) (connector.Answer, error) {
	return connector.Answer{}, nil
}
func (*idle) Close() error { return nil }

func TestEndpointsStayOpen(t *testing.T) {
	kind := func(typ string, path bool) connector.DestinationKind {
		return connector.DestinationKind{
			Type: typ, ChecksPath: path, New: func() connector.Settings { return plainSettings{} },
			Open: func(_ connector.Settings, env connector.Env) (connector.Destination, error) { return &idle{env}, nil },
		}
	}
	var wrapped []string
	e := &Engine{open: map[string]opened{}, opts: EngineOptions{
		Registry: connector.NewRegistry(nil, []connector.DestinationKind{kind("asked", true), kind("other", false)}),
		Log:      slog.New(slog.NewTextHandler(io.Discard, nil)),
		Wrap: func(destination, endpoint string, d connector.Destination) connector.Destination {
			wrapped = append(wrapped, destination+" "+endpoint)
			return d
		},
	}}
	c := &config.Config{Relay: "r"}
	base := func() endpointSpec {
		return endpointSpec{destination: "g", name: "g/1", kind: "asked", delivery: &config.Delivery{IdempotencyHeader: "Idempotency-Key"},
			settings: plainSettings{"a"}, health: &config.HealthCheck{Path: "/ready"}}
	}
	first, err := e.openEndpoint(c, base())
	must(t, err)
	if env := first.dest.(*idle).env; env.Name != "g/1" || env.HealthPath != "/ready" {
		t.Errorf("opened with %+v", env)
	}
	e.open["g/1"] = first
	for _, row := range []struct {
		name   string
		change func(p *endpointSpec)
		same   bool
	}{
		{"nothing", func(*endpointSpec) {}, true},
		{"the interval of checks", func(p *endpointSpec) { p.health.Interval = 1 }, true},
		{"the path of checks", func(p *endpointSpec) { p.health.Path = "/" }, false},
		{"no checks", func(p *endpointSpec) { p.health = nil }, false},
		{"its settings", func(p *endpointSpec) { p.settings = plainSettings{"b"} }, false},
		{"its files", func(p *endpointSpec) { p.digest = "x" }, false},
		{"its kind", func(p *endpointSpec) { p.kind = "other" }, false},
		{"success", func(p *endpointSpec) { p.delivery.Success = ".ok" }, false},
		{"the headers that are sent on", func(p *endpointSpec) { p.delivery.ForwardHeaders = []string{"x"} }, false},
		// The group that had it closes it.
		{"its group", func(p *endpointSpec) { p.destination = "h" }, false},
	} {
		p := base()
		row.change(&p)
		again, err := e.openEndpoint(c, p)
		must(t, err)
		if same := again.dest == first.dest; same != row.same {
			t.Errorf("%s changed: kept %v, want %v", row.name, same, row.same)
		}
	}
	if want := []string{"g g/1", "h g/1"}; !slices.Equal(slices.Compact(wrapped), want) {
		t.Errorf("wrapped %q", wrapped)
	}
}
