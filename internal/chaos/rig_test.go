package chaos_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/chaos"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/faulty"
	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deliver"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", file, diff)
	}
}

// script is an endpoint that answers by the message's number and by how often it
// has come: who comes first among many changes nothing.
type script struct {
	mu   sync.Mutex
	seen map[string]int
	do   func(message, n int) (time.Duration, error)
}

func (s *script) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	s.mu.Lock()
	n := s.seen[m.ID]
	s.seen[m.ID]++
	s.mu.Unlock()
	var number int
	if _, err := fmt.Sscanf(m.ID, "m-%d", &number); err != nil {
		return connector.Answer{}, err
	}
	took, err := s.do(number, n)
	select {
	case <-time.After(took + time.Duration(number)*time.Microsecond): // no two at one moment
		return connector.Answer{Status: 200}, err
	case <-ctx.Done():
		return connector.Answer{}, &failure.Error{Tags: failure.Tags{failure.Timeout}, Verdict: failure.Sick, Message: "no answer in time", Err: ctx.Err()}
	}
}

func (s *script) Close() error { return nil }

func well(int, int) (time.Duration, error) { return 20 * time.Millisecond, nil }

// halfSick fails, hangs and is slow, each for some messages, and is out for some.
func halfSick(rec *chaos.Recorder, message, n int) (time.Duration, error) {
	took := time.Duration(30+(message*17+n*11)%61) * time.Millisecond
	switch {
	case message%13 == 5 && n == 0:
		rec.Fault("hang")
		return time.Hour, nil
	case (message*7+n*3)%5 < 2, message > 15 && message < 36: // an outage among single failures
		rec.Fault("fail")
		return took, failure.FromStatus(503, 0)
	}
	rec.Fault("none")
	return took, nil
}

// world is a fleet of a destination with faults in front and a fallback that
// refuses every fourth message.
type world struct {
	rec   *chaos.Recorder
	fleet *deliver.Fleet
	head  *deliver.Destination

	mu      sync.Mutex
	letters []chaos.Letter
	refuse  func(id string) error // of a dead letter
}

// It is played as play says; nil is well.
func newWorld(t *testing.T, faults faulty.Settings, play func(rec *chaos.Recorder, message, n int) (time.Duration, error)) *world {
	t.Helper()
	w := &world{rec: chaos.NewRecorder(time.Now(), nil), refuse: func(string) error { return nil }}
	w.fleet = deliver.NewFleet(deliver.Options{Events: w.rec.Observe, Random: func() float64 { return 0.5 }})
	first := &script{seen: map[string]int{}, do: well}
	if play != nil {
		first.do = func(message, n int) (time.Duration, error) { return play(w.rec, message, n) }
	}
	wrapped, err := faulty.Wrap(first, &faults, nil)
	if err != nil {
		t.Fatal(err)
	}
	second := &script{seen: map[string]int{}, do: func(message, _ int) (time.Duration, error) {
		if message%4 == 3 {
			return 3 * time.Millisecond, failure.FromStatus(400, 0)
		}
		return 11 * time.Millisecond, nil
	}}
	policy := func(attempts int) retry.Policy {
		return retry.Policy{
			Attempts: attempts, Schedule: backoff.Schedule{Initial: 100 * time.Millisecond, Max: time.Second, Factor: 2, Jitter: backoff.None},
			RetryOn: failure.Tags{failure.Connect, failure.Timeout, failure.Status5xx}, RespectRetryAfter: true, MaxRetryAfter: time.Second,
		}
	}
	numbers := breaker.Settings{FailureRatio: 0.5, MinRequests: 10, Window: 10 * time.Second, OpenFor: 200 * time.Millisecond, MaxOpenFor: 200 * time.Millisecond, HalfOpenMax: 2}
	set, err := w.fleet.Configure([]deliver.Spec{
		{
			Name: "ledger", Endpoint: deliver.Endpoint{Connector: wrapped, Timeout: 500 * time.Millisecond, Breaker: &numbers},
			Retry: policy(3), Workers: 16, MaxPending: 64, Fallback: []string{"disk"},
		},
		{Name: "disk", Endpoint: deliver.Endpoint{Connector: second, Timeout: time.Second}, Retry: policy(1), Workers: 16, MaxPending: 64},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.head, _ = set.Destination("ledger")
	return w
}

// deliver brings a message to its end, as the relay does.
func (w *world) deliver(ctx context.Context, m *message.Message) error {
	place, err := w.head.EnterWait(ctx)
	if err != nil {
		return err
	}
	res := w.head.Deliver(ctx, deliver.Request{Message: m, Place: place})
	switch res.Status {
	case deliver.Delivered:
		return nil
	case deliver.Failed:
	case deliver.Cancelled, deliver.Deferred:
		return errors.New("given up")
	}
	if err := w.refuse(m.ID); err != nil {
		return err
	}
	tags, why := res.Last()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.letters = append(w.letters, chaos.Letter{
		ID: m.ID, Letter: "letter-of-" + m.ID, Reason: string(res.Hops[len(res.Hops)-1].Reason), Attempts: res.Attempts, Tags: tags, Error: why, At: time.Now(),
	})
	return nil
}

func (w *world) load(count int, rate float64) chaos.Load {
	return chaos.Load{
		Count: count, Rate: rate, Deliver: w.deliver,
		Message: func(n int) *message.Message {
			return &message.Message{ID: fmt.Sprintf("m-%03d", n+1), Time: time.Now(), Body: []byte("{}")}
		},
	}
}

// report adds up what was, with the dead letters read back.
func (w *world) report() chaos.Report {
	for _, l := range w.letters {
		w.rec.Kept(l)
	}
	return w.rec.Report(time.Now(), chaos.Setup{Destination: "ledger", Traffic: chaos.Made, Command: "pawl chaos --destination ledger --seed 3", Seed: 3, Faults: "40% answered 503"})
}
