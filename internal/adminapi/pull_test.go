package adminapi

// Catches: a lever that answers and moves nothing, one whose status does not say
// who moved it and since when, and one that forgets its first hand or keeps it
// after auto.

import (
	"context"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deliver"
)

// ledger returns how the destination stands.
func (r *rig) ledger() DestinationStatus {
	for _, d := range New(r.opts).Status(r.Context()).Destinations {
		if d.Name == "ledger" {
			return d
		}
	}
	r.Fatal("no ledger")
	return DestinationStatus{}
}

// move makes a call that must be done, and returns its answer.
func (r *rig) move(path, body string) string {
	r.Helper()
	code, answer := r.call("POST", path, body)
	if code != http.StatusOK {
		r.Fatalf("%s %s: %d %s", path, body, code, answer)
	}
	return answer
}

func TestBreakerLever(t *testing.T) {
	r := newRig(t)
	r.move("/v3/breaker", `{"name":"ledger","to":"open","by":"ada"}`)
	if text := r.move("/v3/breaker", `{"name":"ledger","to":"open","by":"bob"}`); !strings.Contains(text, `"by":"ada"`) {
		t.Errorf("the second to open it: %s", text)
	}
	if d := r.ledger(); d.Breaker != "open" || d.Forced == nil || d.Forced.By != "ada" || time.Since(d.Forced.Since) > time.Minute {
		t.Errorf("held open: %+v", d)
	}
	r.move("/v3/breaker", `{"name":"ledger","to":"close","by":"bob"}`)
	if d := r.ledger(); d.Breaker != "closed" || d.Forced == nil || d.Forced.By != "bob" {
		t.Errorf("held closed: %+v", d)
	}
	r.move("/v3/breaker", `{"name":"ledger","to":"auto","by":"bob"}`)
	if d := r.ledger(); d.Breaker != "closed" || d.Forced != nil {
		t.Errorf("left to itself: %+v", d)
	}
	var told []string
	for _, e := range r.events {
		told = append(told, e.Name+" "+e.Detail)
	}
	want := []string{"ledger breaker open by ada", "ledger breaker open by bob", "ledger breaker close by bob", "ledger breaker auto by bob"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}

func TestRateLever(t *testing.T) {
	r := newRig(t)
	if d := r.ledger(); d.RateLimit != nil || d.RateSet != nil {
		t.Fatalf("a limit at the start: %+v", d)
	}
	r.move("/v3/rate", `{"name":"ledger","per_second":2.5,"by":"ada"}`)
	if d := r.ledger(); d.RateLimit == nil || *d.RateLimit != (RateStatus{PerSecond: 2.5, Burst: 3}) || d.RateSet == nil || d.RateSet.By != "ada" {
		t.Errorf("limited: %+v", d)
	}
	r.move("/v3/rate", `{"name":"ledger","per_second":10,"burst":40,"by":"bob"}`)
	if d := r.ledger(); d.RateLimit.Burst != 40 || d.RateSet.By != "bob" {
		t.Errorf("limited anew: %+v %+v", d.RateLimit, d.RateSet)
	}
	r.move("/v3/rate", `{"name":"ledger","to":"auto","by":"bob"}`)
	if d := r.ledger(); d.RateLimit != nil || d.RateSet != nil {
		t.Errorf("back to the configuration: %+v", d)
	}
}

// asking is an endpoint that asks to be left alone for a minute.
type asking struct{}

func (asking) Send(context.Context, *message.Message) (connector.Answer, error) {
	return connector.Answer{}, failure.FromStatus(http.StatusServiceUnavailable, time.Minute)
}

func (asking) Close() error { return nil }

func TestHoldIsCleared(t *testing.T) {
	r := newRig(t)
	policy := retry.Resolve()
	policy.Attempts, policy.MaxRetryAfter = 1, time.Hour
	set, err := r.opts.Fleet.Configure([]deliver.Spec{{Name: "ledger", Connector: asking{}, Retry: policy, Timeout: time.Second, Workers: 4, MaxPending: 8}})
	if err != nil {
		t.Fatal(err)
	}
	ledger, _ := set.Destination("ledger")
	place, _ := ledger.Enter()
	ledger.Deliver(t.Context(), deliver.Request{Message: &message.Message{ID: "m", Time: time.Now()}, Place: place})
	if d := r.ledger(); d.HeldUntil == nil {
		t.Fatalf("not held: %+v", d)
	}
	if text := r.move("/v3/hold/clear", `{"name":"ledger","by":"ada"}`); !strings.Contains(text, `"by":"ada"`) {
		t.Error(text)
	}
	if d := r.ledger(); d.HeldUntil != nil {
		t.Errorf("held still: %+v", d)
	}
	if last := r.events[len(r.events)-1]; last.Name != "ledger" || last.Detail != "hold cleared by ada" {
		t.Errorf("told %+v", last)
	}
}

func TestRateText(t *testing.T) {
	for perSecond, want := range map[float64]string{20: "20/s", 0.5: "0.5/s", 1.0 / 60: "0.0166667/s", 100_000: "100000/s", 2.5: "2.5/s"} {
		if got := RateText(perSecond); got != want {
			t.Errorf("%v is written %q, want %q", perSecond, got, want)
		}
	}
}

// Whoever moves a lever has it until that is noted: else of two who pull at once one
// has his way and status shows the other.
func TestALeverIsMovedAndNotedInOneTurn(t *testing.T) {
	r := newRig(t)
	for path, body := range map[string]string{
		"/v3/pause": `{"name":"ledger","by":"ada"}`, "/v3/resume": `{"name":"ledger","by":"ada"}`,
		"/v3/breaker": `{"name":"ledger","to":"open","by":"ada"}`, "/v3/rate": `{"name":"ledger","per_second":5,"by":"ada"}`,
	} {
		r.opts.Levers.mu.Lock() // nothing can be noted
		done := make(chan struct{})
		go func() { defer close(done); r.move(path, body) }()
		for r.opts.Levers.turn.TryLock() {
			r.opts.Levers.turn.Unlock()
			select {
			case <-done:
				t.Fatalf("%s is done, and nothing is noted", path)
			default:
				runtime.Gosched()
			}
			if t.Context().Err() != nil {
				t.Fatalf("%s takes no turn", path)
			}
		}
		r.opts.Levers.mu.Unlock()
		<-done
	}
}
