package explain

// Would catch: a schedule, a bound or a count on paper that is not what the
// engine does. Messages go through deliver itself, in virtual time, at endpoints
// that all are away, and every time and number of the explanation is held against
// what came of them.

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/setting"
)

const ms = time.Millisecond

// gone is an endpoint that refuses each send after the time that next says.
type gone struct{ next func() time.Duration }

func (g gone) Send(ctx context.Context, _ *message.Message) (connector.Answer, error) {
	t := time.NewTimer(g.next())
	defer t.Stop()
	select {
	case <-t.C:
		return connector.Answer{}, &failure.Error{Tags: failure.Tags{failure.Connect}, Message: "connection refused"}
	case <-ctx.Done():
		return connector.Answer{}, &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "no answer in time"}
	}
}

func (gone) Close() error { return nil }

// outage delivers one message at the first destination of c, whose endpoints all
// fail after takes, with jitter u, and returns what came of it.
func outage(t *testing.T, c *config.Config, takes func() time.Duration, u func() float64) (r deliver.Result, began time.Time) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		fleet := deliver.NewFleet(deliver.Options{Random: u})
		defer fleet.Close()
		var specs []deliver.Spec
		for i := range c.Destinations {
			specs = append(specs, specOf(&c.Destinations[i], gone{takes}))
		}
		set, err := fleet.Configure(specs)
		if err != nil {
			t.Fatal(err)
		}
		defer fleet.Retire(set)
		d, _ := set.Destination(c.Destinations[0].Name)
		place, ok := d.Enter()
		if !ok {
			t.Fatal("no place")
		}
		began = time.Now()
		r = d.Deliver(t.Context(), deliver.Request{Message: &message.Message{ID: "m", Time: began}, Place: place})
	})
	return r, began
}

// specOf is the destination as the engine takes it.
func specOf(d *config.Destination, to connector.Destination) deliver.Spec {
	v := &d.Delivery
	s := deliver.Spec{
		Name: d.Name, Retry: v.Retry, Deadline: v.Deadline, TTL: v.TTL, Fallback: d.Fallback,
		Workers: v.Workers, MaxPending: v.MaxPending, RateLimit: v.RateLimit, RetryBudget: v.RetryBudget,
		Endpoint: deliver.Endpoint{Connector: to, Timeout: v.Timeout, Breaker: v.Breaker},
	}
	if v.WhenOpen == config.WhenOpenFail {
		s.WhenOpen = deliver.FailWhenOpen
	}
	if g := d.Group; g != nil {
		s.Endpoint, s.Group = deliver.Endpoint{}, &deliver.Group{Strategy: g.Strategy}
		if h := v.Hedge; h != nil {
			s.Hedge = &deliver.Hedge{After: h.After, Max: h.Max}
		}
		for i := range g.Members {
			m := &g.Members[i]
			s.Group.Members = append(s.Group.Members, deliver.Member{Weight: m.Weight, Endpoint: deliver.Endpoint{
				EndpointName: m.Name, Connector: to, Timeout: m.Delivery.Timeout, Breaker: m.Delivery.Breaker,
			}})
		}
	}
	return s
}

// chainOf draws a destination with its fallbacks.
func chainOf(t *rapid.T) *config.Config {
	c := &config.Config{DeadLetter: config.DeadLetter{Type: config.DeadLetterFile, Path: "dead"}}
	names := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "length")]
	for i, name := range names {
		d := destinationOf(t, name)
		if i == 0 && len(names) > 1 {
			d.Fallback = names[1:2]
			if len(names) > 2 && rapid.Bool().Draw(t, "flat") {
				d.Fallback = names[1:]
			}
		}
		c.Destinations = append(c.Destinations, d)
	}
	if len(names) > 2 && len(c.Destinations[0].Fallback) == 1 {
		c.Destinations[1].Fallback = names[2:]
	}
	// A limit that cuts a round short says nothing of the hedges of its last try.
	if slices.ContainsFunc(c.Destinations, limited) {
		for i := range c.Destinations {
			c.Destinations[i].Delivery.Hedge = nil
		}
	}
	return c
}

func limited(d config.Destination) bool { return d.Delivery.Deadline+d.Delivery.TTL > 0 }

func destinationOf(t *rapid.T, name string) config.Destination {
	span := func(what string, least, most int) time.Duration {
		return time.Duration(rapid.IntRange(least, most).Draw(t, name+" "+what)) * ms
	}
	v := config.Delivery{
		Retry: retry.Resolve(retry.Layer{Level: config.LevelDestination, Overlay: retry.Overlay{
			Attempts: new(rapid.IntRange(1, 5).Draw(t, name+" attempts")), Backoff: new(span("backoff", 0, 500)), MaxBackoff: new(span("max", 500, 2000)),
			Jitter: new(rapid.SampledFrom([]backoff.Jitter{backoff.Full, backoff.Equal, backoff.None}).Draw(t, name+" jitter")),
		}}),
		Timeout: span("timeout", 1, 1000), Workers: 4, MaxPending: 4, WhenOpen: config.WhenOpenWait,
	}
	if rapid.Bool().Draw(t, name+" has a deadline") {
		v.Deadline = span("deadline", 1, 5000)
	}
	if rapid.IntRange(0, 3).Draw(t, name+" has a ttl") == 0 {
		v.TTL = span("ttl", 1, 8000)
	}
	if rapid.IntRange(0, 2).Draw(t, name+" has a rate") == 0 {
		v.RateLimit = &limit.Rate{PerSecond: rapid.Float64Range(0.5, 20).Draw(t, name+" rate"), Burst: rapid.IntRange(1, 3).Draw(t, name+" burst")}
	}
	d := config.Destination{Name: name, Type: "test", Delivery: v}
	if n := rapid.IntRange(1, 3).Draw(t, name+" members"); n > 1 {
		d.Type, d.Group = config.TypeGroup, &config.Group{Strategy: balance.RoundRobin}
		for i := range n {
			m := config.Member{Name: fmt.Sprintf("%s/%d", name, i+1), Type: "test", Weight: 1, Delivery: v}
			m.Delivery.Timeout = span(fmt.Sprintf("timeout of member %d", i+1), 1, 1000)
			d.Group.Members = append(d.Group.Members, m)
		}
		if rapid.Bool().Draw(t, name+" is hedged") {
			d.Delivery.Hedge = &config.Hedge{After: span("hedge", 1, 500), Max: rapid.IntRange(1, n-1).Draw(t, name+" hedges")}
		}
	}
	return d
}

// within reports whether a time is in the window, which is rounded to what a
// random number can be off.
func within(at time.Duration, w Window) bool {
	return at >= w.Earliest.D()-time.Microsecond && at <= w.Latest.D()+time.Microsecond
}

func TestTheEngineKeepsTheBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := chainOf(rt)
		e, err := Destination(c, "a", nil)
		if err != nil {
			rt.Fatal(err)
		}
		speeds := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, ms, 50 * ms, 300 * ms, 900 * ms, time.Hour}), 1, 10).Draw(rt, "speeds")
		jitters := rapid.SliceOfN(rapid.Float64Range(0, 0.999999), 1, 10).Draw(rt, "jitters")
		var sends, draws atomic.Int64
		r, began := outage(t, c,
			func() time.Duration { return speeds[int(sends.Add(1)-1)%len(speeds)] },
			func() float64 { return jitters[int(draws.Add(1)-1)%len(jitters)] })
		if r.Status != deliver.Failed || r.Attempts > e.Amplification.Sends || r.Attempts != int(sends.Load()) {
			rt.Fatalf("%d sends, %d on paper; %+v", sends.Load(), e.Amplification.Sends, r)
		}
		if !within(r.Took, e.Patience.Tries) {
			rt.Fatalf("given up after %s, on paper %v", r.Took, e.Patience.Tries)
		}
		if e.Longest != nil && r.Took > e.Longest.Time.D() {
			rt.Fatalf("open for %s, on paper at most %s", r.Took, e.Longest.Time)
		}
		for i, h := range r.Hops {
			if at := h.At.Sub(began); !within(at, e.Chain[i].Left) {
				rt.Fatalf("%s was left after %s (%s), on paper %v", h.Destination, at, h.Reason, e.Chain[i].Left)
			}
			if c.Destinations[i].Group != nil {
				continue // a member's try is no attempt of the schedule
			}
			for j, a := range h.Attempts {
				if j == 0 {
					continue
				}
				wait := e.Chain[i].Attempts[j].Wait
				if c.Destinations[i].Delivery.RateLimit != nil {
					wait.Earliest = 0 // the token comes while a slow attempt goes on
				}
				if !within(a.Waited, wait) {
					rt.Fatalf("%s waited %s for attempt %d, on paper %v", h.Destination, a.Waited, j+1, wait)
				}
			}
		}
	})
}

// The fastest failures with the least jitter are the schedule to the nanosecond,
// and the most sends.
func TestTheEngineKeepsTheSchedule(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := chainOf(rt)
		e, err := Destination(c, "a", nil)
		if err != nil {
			rt.Fatal(err)
		}
		r, began := outage(t, c, func() time.Duration { return 0 }, func() float64 { return 0 })
		// A limit may cut more off than it must: those sends are a bound.
		if r.Attempts > e.Amplification.Sends || r.Attempts < e.Amplification.Sends && !slices.ContainsFunc(c.Destinations, limited) {
			rt.Fatalf("%d sends, on paper %d: %+v", r.Attempts, e.Amplification.Sends, r)
		}
		h, first := r.Hops[0], e.Attempts
		made := 0
		for _, a := range first {
			made += a.Sends
		}
		if string(h.Reason) != e.Reason || len(h.Attempts) != made {
			rt.Fatalf("%d attempts end with %s, on paper %v with %s", len(h.Attempts), h.Reason, first, e.Reason)
		}
		for i, a := range h.Attempts {
			if on := first[i/first[0].Sends]; i%first[0].Sends == 0 && a.At.Sub(began) != on.Since.Earliest.D() {
				rt.Fatalf("round %d begins after %s, on paper %s", on.Number, a.At.Sub(began), on.Since.Earliest)
			}
		}
	})
}

// A message alone at breakers that the first failure opens is borne for as long as
// their trials take.
func TestTheEngineKeepsThePatience(t *testing.T) {
	for _, attempts := range []int{1, 2, 5, 8} {
		for _, deadline := range []time.Duration{0, 3 * time.Second, 20 * time.Second, 400 * time.Second} {
			s := breaker.Defaults()
			s.MinRequests = 1
			v := config.Delivery{
				Retry:   retry.Resolve(retry.Layer{Level: config.LevelDestination, Overlay: retry.Overlay{Attempts: &attempts, Jitter: new(backoff.None)}}),
				Timeout: time.Second, Deadline: deadline, Workers: 4, MaxPending: 4, Breaker: &s, WhenOpen: config.WhenOpenWait,
			}
			c := &config.Config{Destinations: []config.Destination{{Name: "a", Type: "test", Delivery: v}}}
			e, err := Destination(c, "a", nil)
			if err != nil {
				t.Fatal(err)
			}
			r, _ := outage(t, c, func() time.Duration { return 0 }, func() float64 { return 0 })
			if o := e.Patience.Open; o == nil || r.Took != o.Earliest.D() || o.WaitsAt != "a" || o.Places != 4 || (o.Latest == nil) != (deadline == 0) {
				t.Errorf("%d attempts, deadline %s: given up after %s, on paper %+v", attempts, deadline, r.Took, o)
			}
			v.WhenOpen = config.WhenOpenFail
			c.Destinations[0].Delivery = v
			if e, err = Destination(c, "a", nil); err != nil || e.Patience.Open.Earliest != 0 || e.AtOpen != FailsAtOpen {
				t.Errorf("when_open: fail: %+v, %v", e.Patience.Open, err)
			}
		}
	}
}

// A full lane takes as long as the limit lets it.
func TestTheEngineKeepsTheBacklog(t *testing.T) {
	v := config.Delivery{
		Retry:   retry.Resolve(retry.Layer{Level: config.LevelDestination, Overlay: retry.Overlay{Attempts: new(1)}}),
		Timeout: time.Second, Workers: 3, MaxPending: 50, RateLimit: &limit.Rate{PerSecond: 0.7, Burst: 4},
	}
	c := &config.Config{Destinations: []config.Destination{{Name: "a", Type: "test", Delivery: v}}}
	e, err := Destination(c, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		fleet := deliver.NewFleet(deliver.Options{})
		defer fleet.Close()
		set, err := fleet.Configure([]deliver.Spec{specOf(&c.Destinations[0], gone{func() time.Duration { return 0 }})})
		if err != nil {
			t.Fatal(err)
		}
		d, _ := set.Destination("a")
		took := make(chan time.Duration, v.MaxPending)
		for range v.MaxPending {
			place, _ := d.Enter()
			go func() {
				took <- d.Deliver(t.Context(), deliver.Request{Message: &message.Message{ID: "m", Time: time.Now()}, Place: place}).Took
			}()
		}
		var longest time.Duration
		for range v.MaxPending {
			longest = max(longest, <-took)
		}
		if setting.Duration(longest) != e.RateLimit.Backlog {
			t.Errorf("the last of %d begins after %s, on paper %s", v.MaxPending, longest, e.RateLimit.Backlog)
		}
	})
}
