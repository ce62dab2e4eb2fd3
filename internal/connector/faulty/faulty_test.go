package faulty

// These tests would catch faults that differ between two runs of one seed or
// miss their share, a latency that outlives its ctx, a fault that reaches the
// wrapped destination, and a setting that is taken and ignored.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/setting"
)

// recorder is what arrives at the endpoint that faulty plays.
type recorder struct {
	mu   sync.Mutex
	seen []connectortest.Request
}

func (r *recorder) arrived(m *message.Message) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.seen = append(r.seen, connectortest.Request{Key: m.ID, Body: m.Body})
}

func (r *recorder) Requests() []connectortest.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]connectortest.Request(nil), r.seen...)
}

func (r *recorder) Send(context.Context, *message.Message) (connector.Answer, error) {
	return connector.Answer{Status: 202}, nil
}

func (r *recorder) Close() error { return nil }

// scripted plays a script in place of what the seed draws.
func scripted(t *testing.T, next connector.Destination, script connectortest.Script) (connector.Destination, connectortest.FarSide) {
	t.Helper()
	s := NewSettings()
	d, err := newDestination(next, s)
	if err != nil {
		t.Fatal(err)
	}
	far := &recorder{}
	var mu sync.Mutex
	d.arrived = far.arrived
	d.pick = func(n uint64) draw {
		mu.Lock()
		defer mu.Unlock()
		switch step := script.At(int(n)); step.Do {
		case connectortest.Slow:
			return draw{wait: 200 * time.Millisecond}
		case connectortest.Hang:
			return draw{fault: Hangs}
		case connectortest.Reset:
			return draw{fault: Resets}
		case connectortest.Fail:
			return draw{fault: Fails}
		default:
			return draw{}
		}
	}
	if next == nil {
		return endpoint{d, batcher{d, nil}}, far
	}
	return d.wrapped(next), far
}

func harness(next connector.Destination) connectortest.DestinationHarness {
	return connectortest.DestinationHarness{
		Open: func(t *testing.T, script connectortest.Script) (connector.Destination, connectortest.FarSide) {
			return scripted(t, next, script)
		},
		Clock: connectortest.InBubble,
		Failures: []connectortest.Failure{
			{
				Name: "status", Step: connectortest.Step{Do: connectortest.Fail, Fail: "status"},
				Tags: failure.Tags{"5xx", "503"}, Class: failure.Transient, Verdict: failure.Sick,
			},
			{
				Name: "reset", Step: connectortest.Step{Do: connectortest.Reset},
				Tags: failure.Tags{"connect"}, Class: failure.Transient, Verdict: failure.Sick,
			},
		},
		Hangs:   connectortest.Yes,
		Keys:    connectortest.Yes,
		Batches: &connectortest.BatchHarness{},
	}
}

func TestContract(t *testing.T) {
	h := harness(nil)
	h.Health = &connectortest.HealthHarness{} // a check meets no fault
	connectortest.Destination(t, h)
}

func TestContractWrapped(t *testing.T) {
	connectortest.Destination(t, harness(batches{&recorder{}, taker{}}))
}

func settings(change func(*Settings)) *Settings {
	s := NewSettings()
	change(s)
	return s
}

// story is how the first n attempts end.
func story(t testing.TB, s *Settings, n int) []string {
	t.Helper()
	d, err := newDestination(nil, s)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for range n {
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		start := time.Now()
		_, err := d.Send(ctx, &message.Message{ID: "m"})
		cancel()
		took := time.Since(start)
		if err != nil {
			out = append(out, fmt.Sprint(took, " ", failure.From(err).Tags))
			continue
		}
		out = append(out, fmt.Sprint(took, " ok"))
	}
	return out
}

func TestSameSeedSameFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		with := func(seed uint64) *Settings {
			return settings(func(s *Settings) { s.Fail, s.Hang, s.Reset, s.Latency, s.Seed = 0.3, 0.1, 0.1, "10ms-2s", seed })
		}
		first, again, other := story(t, with(7), 100), story(t, with(7), 100), story(t, with(8), 100)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Errorf("one seed, two stories:\n%s", diff)
		}
		if cmp.Diff(first, other) == "" {
			t.Error("two seeds, one story")
		}
	})
}

func TestSharesAndLatency(t *testing.T) {
	const n = 20_000
	pick := picker(Settings{Fail: 0.3, Hang: 0.1, Reset: 0.2, SlowBody: 0.15, Seed: 1}, latency{50 * time.Millisecond, 2 * time.Second})
	counts := map[Fault]int{}
	var least, most, sum time.Duration = math.MaxInt64, 0, 0
	for i := range uint64(n) {
		d := pick(i)
		counts[d.fault]++
		least, most, sum = min(least, d.wait), max(most, d.wait), sum+d.wait
	}
	for f, want := range map[Fault]float64{Fails: 0.3, Hangs: 0.1, Resets: 0.2, SlowBody: 0.15, None: 0.25} {
		if got := float64(counts[f]) / n; math.Abs(got-want) > 0.02 {
			t.Errorf("fault %d: share %.3f, want %.3f", f, got, want)
		}
	}
	if least < 50*time.Millisecond || least > 60*time.Millisecond || most > 2*time.Second || most < 1990*time.Millisecond {
		t.Errorf("latencies from %v to %v", least, most)
	}
	if mean := sum / n; mean < 990*time.Millisecond || mean > 1060*time.Millisecond {
		t.Errorf("mean latency %v", mean)
	}
}

// 1 is always and 0 is never, at every attempt of every seed.
func TestAllOrNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed, n := rapid.Uint64().Draw(t, "seed"), rapid.Uint64().Draw(t, "n")
		for want, s := range map[Fault]Settings{None: {}, Fails: {Fail: 1}, Hangs: {Hang: 1}, Resets: {Reset: 1}, SlowBody: {SlowBody: 1}} {
			s.Seed = seed
			if got := picker(s, latency{})(n).fault; got != want {
				t.Fatalf("%+v draws fault %d", s, got)
			}
		}
	})
}

func TestFailureIsThatOfHTTP(t *testing.T) {
	for _, status := range []int{302, 400, 404, 408, 425, 429, 500, 503, 599} {
		for _, wait := range []time.Duration{0, 1500 * time.Millisecond} {
			d, err := newDestination(nil, settings(func(s *Settings) { s.Fail, s.Status = 1, status; s.RetryAfter = setting.Duration(wait) }))
			if err != nil {
				t.Fatal(err)
			}
			a, err := d.Send(t.Context(), &message.Message{ID: "m"})
			if diff := cmp.Diff(failure.FromStatus(status, wait), failure.From(err)); diff != "" {
				t.Errorf("%d: %s", status, diff)
			}
			want := ""
			if wait > 0 {
				want = "2"
			}
			if a.Status != status || a.Header.Get("Retry-After") != want {
				t.Errorf("%d: the answer is %+v", status, a)
			}
		}
	}
}

func TestLatencyEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, err := newDestination(nil, settings(func(s *Settings) { s.Latency = "10s" }))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = d.Send(ctx, &message.Message{ID: "m"})
		if f := failure.From(err); f == nil || !f.Tags.Has(failure.Timeout) || time.Since(start) != time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		start = time.Now()
		if _, err := d.Send(t.Context(), &message.Message{ID: "m"}); err != nil || time.Since(start) != 10*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
	})
}

// inner is a destination that counts, with health.
type inner struct {
	sends, batches, closes int
	health                 error
}

func (i *inner) Send(context.Context, *message.Message) (connector.Answer, error) {
	i.sends++
	return connector.Answer{Status: 204}, nil
}
func (i *inner) SendBatch(_ context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	i.batches++
	return connector.BatchAnswer{Answer: connector.Answer{Status: 207}, Each: make([]error, len(batch))}, nil
}
func (i *inner) Close() error                { i.closes++; return nil }
func (i *inner) Check(context.Context) error { return i.health }

func TestWrap(t *testing.T) {
	in := &inner{health: errors.New("ill")}
	d, err := Wrap(in, settings(func(s *Settings) { s.Fail, s.Seed = 0.5, 3 }), nil)
	if err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 1000 {
		a, err := d.Send(t.Context(), &message.Message{ID: "m"})
		switch {
		case err != nil:
			failed++
		case a.Status != 204:
			t.Fatalf("the answer is %+v", a)
		}
	}
	if failed+in.sends != 1000 || failed < 400 || failed > 600 {
		t.Errorf("%d failed, %d reached the destination", failed, in.sends)
	}
	h, ok := d.(connector.HealthChecker)
	if !ok || !errors.Is(h.Check(t.Context()), in.health) {
		t.Error("the health check does not reach the destination")
	}
	if err := d.Close(); err != nil || in.closes != 1 {
		t.Errorf("closed %d times, %v", in.closes, err)
	}
	plain, err := Wrap(&recorder{}, NewSettings(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := plain.(connector.HealthChecker); ok {
		t.Error("a destination without a health check has one when wrapped")
	}
	if _, err := Wrap(in, settings(func(s *Settings) { s.Status = 200 }), nil); err == nil {
		t.Error("bad settings are taken")
	}
}

// A slow body is the case in which a message arrives and pawl can't know it: it
// must be seen by the endpoint, and be a timeout all the same.
func TestSlowBodyArrivesAndTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &inner{}
		told := map[Fault]int{}
		d, err := Wrap(in, settings(func(s *Settings) { s.SlowBody, s.Latency = 1, "100ms" }), func(f Fault) { told[f]++ })
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		a, err := d.Send(ctx, &message.Message{ID: "m"})
		if f := failure.From(err); f == nil || !f.Tags.Has(failure.Timeout) || time.Since(start) != time.Second || a.Status != 0 {
			t.Errorf("after %v: %+v, %v", time.Since(start), a, err)
		}
		if in.sends != 1 {
			t.Errorf("the endpoint saw %d attempts", in.sends)
		}
		if diff := cmp.Diff(map[Fault]int{SlowBody: 1}, told); diff != "" {
			t.Error(diff)
		}
	})
}

// A count that a person reads has the name that the person wrote.
func TestFaultsAreNamedAsTheirSettings(t *testing.T) {
	got := []string{}
	for f := None; f <= SlowBody; f++ {
		got = append(got, f.String())
	}
	if diff := cmp.Diff([]string{"none", "fail", "hang", "reset", "slow_body"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSettings(t *testing.T) {
	s := NewSettings()
	const text = "{fail: 50%, hang: 0.1, reset: 0.2, slow_body: 5%, latency: 50ms-2s, status: 429, retry_after: 2s, seed: 9}"
	if err := yaml.Unmarshal([]byte(text), s); err != nil {
		t.Fatal(err)
	}
	want := &Settings{Fail: 0.5, Hang: 0.1, Reset: 0.2, SlowBody: 0.05, Latency: "50ms-2s", Status: 429, RetryAfter: setting.Duration(2 * time.Second), Seed: 9}
	if diff := cmp.Diff(want, s); diff != "" {
		t.Error(diff)
	}
	if ps := s.Check(); ps != nil {
		t.Errorf("good settings have problems: %v", ps)
	}
	if ps := NewSettings().Check(); ps != nil {
		t.Errorf("the defaults have problems: %v", ps)
	}
	bad := &Settings{Fail: 0.6, Hang: 0.3, Reset: 0.2, Latency: "2s-50ms", Status: 200}
	var got []string
	for _, p := range bad.Check() {
		got = append(got, p.Field)
	}
	if diff := cmp.Diff([]string{"fail", "status", "latency"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseLatency(t *testing.T) {
	for text, want := range map[string]latency{
		"": {}, "0": {}, "50ms": {50 * time.Millisecond, 50 * time.Millisecond}, "1s-1m30s": {time.Second, 90 * time.Second},
		"0-1s": {0, time.Second}, "5ms-5ms": {5 * time.Millisecond, 5 * time.Millisecond},
	} {
		if got, err := parseLatency(text); err != nil || got != want {
			t.Errorf("%q reads %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"x", "-1s", "1s-", "-", "1", "2s-1s", "1s-2s-3s", "2d", "1s-48h"} {
		if got, err := parseLatency(text); err == nil || !strings.Contains(err.Error(), "latency") {
			t.Errorf("%q reads %v, %v", text, got, err)
		}
	}
}

func FuzzParseLatency(f *testing.F) {
	for _, s := range []string{"", "1s", "1s-2s", "-", "--", "1d-2d", "9223372036854775807ns"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		l, err := parseLatency(s)
		if err == nil && (l.least < 0 || l.least > l.most || l.most > maxLatency) {
			t.Fatalf("%q reads %v", s, l)
		}
	})
}
