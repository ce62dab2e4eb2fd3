package app

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/kv"
)

// spec makes what the fleet is told of a destination, with the connectors of
// its endpoints open. Those go into fresh, also where an error follows.
func (e *Engine) spec(c *config.Config, d *config.Destination, fresh map[string]opened) (deliver.Spec, error) {
	open := func(p endpointSpec) (connector.Destination, error) {
		o, err := e.openEndpoint(c, p)
		if err != nil {
			return nil, err
		}
		fresh[p.name] = o
		return o.dest, nil
	}
	spec, err := specOf(d, open)
	if err == nil && d.Delivery.BudgetStore != "" {
		spec.BudgetCounters, err = e.counters(c.Relay, d.Delivery.BudgetStore)
	}
	return spec, err
}

// endpointSpec is what a connector is opened for: a plain destination, or a member
// of a group.
type endpointSpec struct {
	destination, name string
	kind              string
	delivery          *config.Delivery
	settings          connector.Settings
	digest            string
	health            *config.HealthCheck // nil: nobody checks it
}

// specOf turns a destination of the configuration into the engine's words. open
// opens the connector of an endpoint.
func specOf(d *config.Destination, open func(endpointSpec) (connector.Destination, error)) (deliver.Spec, error) {
	v := &d.Delivery
	s := deliver.Spec{
		Name: d.Name, Retry: v.Retry, Deadline: v.Deadline, TTL: v.TTL, Fallback: d.Fallback,
		Workers: v.Workers, MaxPending: v.MaxPending, RateLimit: v.RateLimit, RetryBudget: v.RetryBudget,
	}
	if v.WhenOpen == config.WhenOpenFail {
		s.WhenOpen = deliver.FailWhenOpen
	}
	if h := v.Hedge; h != nil {
		s.Hedge = &deliver.Hedge{After: h.After, Max: h.Max}
	}
	if b := v.Batch; b != nil {
		s.Batch = &deliver.Batch{MaxMessages: b.MaxMessages, MaxBytes: b.MaxBytes, MaxWait: b.MaxWait}
	}
	var err error
	if d.Group != nil {
		s.Group, err = groupOf(d, open)
		return s, err
	}
	s.Endpoint, err = endpointOf(endpointSpec{d.Name, d.Name, d.Type, v, d.Settings, d.Digest, nil}, open)
	s.EndpointName = "" // the destination's own
	return s, err
}

func groupOf(d *config.Destination, open func(endpointSpec) (connector.Destination, error)) (*deliver.Group, error) {
	g := &deliver.Group{Strategy: d.Group.Strategy}
	if h := d.Group.Health; h != nil {
		g.Health = &deliver.HealthCheck{
			Interval: h.Interval, Timeout: h.Timeout, UnhealthyAfter: h.UnhealthyAfter, HealthyAfter: h.HealthyAfter,
		}
	}
	for i := range d.Group.Members {
		m := &d.Group.Members[i]
		ep, err := endpointOf(endpointSpec{d.Name, m.Name, m.Type, &m.Delivery, m.Settings, m.Digest, d.Group.Health}, open)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", m.Name, err)
		}
		g.Members = append(g.Members, deliver.Member{Endpoint: ep, Weight: m.Weight})
	}
	return g, nil
}

func endpointOf(p endpointSpec, open func(endpointSpec) (connector.Destination, error)) (deliver.Endpoint, error) {
	v := p.delivery
	ep := deliver.Endpoint{EndpointName: p.name, Timeout: v.Timeout, Breaker: v.Breaker, DeliveredOn: v.DeliveredOn}
	var err error
	if ep.Connector, err = open(p); err != nil {
		return ep, err
	}
	if ep.Success, err = success(v.Success); err != nil {
		return ep, err
	}
	chain, err := steps(v.Transforms)
	if err != nil {
		return ep, err
	}
	if len(chain) > 0 {
		ep.Transform = chain.Apply
	}
	return ep, nil
}

// openEndpoint opens the endpoint's connector, or returns the one that is open
// where nothing about it has changed: its connections stay warm.
func (e *Engine) openEndpoint(c *config.Config, p endpointSpec) (opened, error) {
	kind, ok := e.opts.Registry.Destination(p.kind)
	if !ok {
		return opened{}, fmt.Errorf("type %q is not known", p.kind)
	}
	env := connector.Env{
		Name: p.name, Relay: c.Relay, State: c.State, Compile: compileExpr,
		KeepAnswers:       p.delivery.Success != "",
		IdempotencyHeader: p.delivery.IdempotencyHeader,
		ForwardHeaders:    p.delivery.ForwardHeaders,
	}
	if p.health != nil && kind.ChecksPath {
		env.HealthPath = p.health.Path
	}
	if old, ok := e.open[p.name]; ok && old.kind == p.kind && old.of == p.destination && old.digest == p.digest &&
		sameEnv(old.env, env) && reflect.DeepEqual(old.settings, p.settings) {
		return old, nil
	}
	o := opened{of: p.destination, kind: p.kind, settings: p.settings, digest: p.digest, env: env}
	env.Queues = e.opts.Jobs.messages()
	env.Events, env.Log = e.opts.Events, e.opts.Log.With("destination", p.destination)
	if p.name != p.destination {
		env.Log = env.Log.With("endpoint", p.name)
	}
	dest, err := kind.Open(p.settings, env)
	if err != nil {
		return opened{}, err
	}
	if e.opts.Wrap != nil {
		dest = e.opts.Wrap(p.destination, p.name, dest)
	}
	o.dest = dest
	return o, nil
}

// sameEnv compares what an Env says apart from its functions, which are always
// the same.
func sameEnv(a, b connector.Env) bool {
	a.Compile, b.Compile = nil, nil
	return reflect.DeepEqual(a, b)
}

// counters returns the store of the name, in which several relays count a retry
// budget together.
func (e *Engine) counters(relay, name string) (kv.Counters, error) {
	store, ok := e.taking.byName[name]
	if !ok {
		return nil, fmt.Errorf("retry_budget.store: no store %q is configured", name)
	}
	return scoped{store, "budget/" + url.PathEscape(relay) + "/"}, nil
}

// scoped is counters whose series begin with a scope: relays of one name count
// together.
type scoped struct {
	kv.Counters
	scope string
}

// Add is kv.Counters.
func (s scoped) Add(ctx context.Context, series string, slots []kv.Slot, ttl time.Duration) ([]kv.Slot, error) {
	return s.Counters.Add(ctx, s.scope+series, slots, ttl)
}
