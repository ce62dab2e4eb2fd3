// These tests catch: an alert with other fields than the guide names; one that
// leaves a secret or a broken character in; one that skips its destination's
// retries or fallbacks; a failing or hanging destination that holds up others,
// loses alerts without a word, or makes alerts on alerts for ever; a stop that
// forgets what was counted or outlasts its time.
package alert

import (
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/oklog/ulid/v2"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deliver"
)

var update = flag.Bool("update", false, "write the golden files anew")

// endpoint takes alerts, refuses them while down, and keeps them waiting while
// hung.
type endpoint struct {
	mu   sync.Mutex
	down bool
	hung chan struct{}
	got  []*message.Message
	at   []time.Time
	asks int
}

func (e *endpoint) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	e.mu.Lock()
	e.asks++
	down, hung := e.down, e.hung
	e.mu.Unlock()
	if hung != nil {
		select {
		case <-hung:
		case <-ctx.Done():
			return connector.Answer{}, &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "no answer in time"}
		}
	}
	if down {
		return connector.Answer{}, failure.FromStatus(503, 0)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.got, e.at = append(e.got, m), append(e.at, time.Now())
	return connector.Answer{Status: 200}, nil
}

func (e *endpoint) Close() error { return nil }

func (e *endpoint) bodies() (all []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, m := range e.got {
		all = append(all, string(m.Body))
	}
	return all
}

// messages returns what it got, asked how often it was sent anything.
func (e *endpoint) messages() []*message.Message {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

func (e *endpoint) times() []time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.at)
}

func (e *endpoint) asked() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asks
}

// hang makes it wait, with a channel of the bubble, until release.
func (e *endpoint) hang() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.hung = make(chan struct{})
}

func (e *endpoint) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	close(e.hung)
}

// rig is a notifier with real lanes in a bubble of virtual time.
type rig struct {
	*testing.T
	*Notifier
	fleet *deliver.Fleet
	began time.Time

	mu   sync.Mutex
	told []event.Event // of Alerted
}

func spec(name string, e *endpoint, change ...func(*deliver.Spec)) deliver.Spec {
	s := deliver.Spec{
		Name:     name,
		Endpoint: deliver.Endpoint{Connector: e, Timeout: 5 * time.Second},
		Retry:    retry.Policy{Attempts: 2, Schedule: backoff.Schedule{Initial: time.Second, Max: time.Second, Factor: 2, Jitter: backoff.None}},
		Workers:  4, MaxPending: 8,
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func inBubble(t *testing.T, specs []deliver.Spec, rules []Rule, test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, began: time.Now()}
		r.fleet = deliver.NewFleet(deliver.Options{Events: func(e event.Event) { r.Observe(e) }})
		set, err := r.fleet.Configure(specs)
		if err != nil {
			t.Fatal(err)
		}
		r.Notifier = New(Options{Relay: "shop", Destination: set.Destination, Events: func(e event.Event) {
			r.mu.Lock()
			r.told = append(r.told, e)
			r.mu.Unlock()
			r.Observe(e) // as it is wired: it sees its own
		}})
		r.Configure(rules)
		test(r)
		r.Stop(t.Context())
		for _, s := range r.fleet.Status() {
			if s.Pending != 0 || s.Busy != 0 {
				t.Errorf("lane %s holds %d places and %d workers at the end", s.Destination, s.Pending, s.Busy)
			}
		}
		r.fleet.Close()
	})
}

// alerted returns what was told of alerts.
func (r *rig) alerted() []event.Event {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.told)
}

// outcomes counts what became of alerts.
func (r *rig) outcomes() map[event.Alert]int {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := map[event.Alert]int{}
	for _, e := range r.told {
		all[e.Alert]++
	}
	return all
}

// after waits until d after the beginning.
func (r *rig) after(d time.Duration) {
	time.Sleep(time.Until(r.began.Add(d))) // of the bubble's clock
	synctest.Wait()
}

func letter(what Event, reason message.Reason, destination, route, text string) event.Event {
	e := event.Event{
		Kind: event.Lettered, Reason: reason, Destination: destination, Route: route, Source: "web",
		MessageID: "m-1", Letter: "01L", Error: text, At: time.Now(),
	}
	if what == DeadLetterFailed {
		e.Kind = event.LetterFailed
	}
	return e
}

func moved(destination, endpoint string, from, to event.BreakerState) event.Event {
	return event.Event{Kind: event.BreakerMoved, At: time.Now(), Destination: destination, Endpoint: endpoint, Breaker: to, BreakerFrom: from}
}

func TestAlertsAsTheyAreSent(t *testing.T) {
	ops := &endpoint{}
	inBubble(t, []deliver.Spec{spec("ops", ops)}, []Rule{{On: Events(), To: []string{"ops"}, Every: time.Minute}}, func(r *rig) {
		for _, e := range []event.Event{
			letter(DeadLetter, message.ReasonDelivery, "ledger", "orders", "HTTP 503"),
			letter(DeadLetter, message.ReasonSchema, "", "orders", "no total"),
			letter(DeadLetter, message.ReasonNoRoute, "", "", "no route takes it"),
			letter(DeadLetterFailed, message.ReasonDelivery, "ledger", "orders", "disk full"),
			moved("tickets", "east", event.BreakerClosed, event.BreakerOpen),
			moved("tickets", "east", event.BreakerOpen, event.BreakerHalfOpen),
			moved("tickets", "east", event.BreakerHalfOpen, event.BreakerOpen),
			moved("tickets", "east", event.BreakerHalfOpen, event.BreakerClosed),
			{Kind: event.Settled, Settlement: event.SettledUnrouted, Source: "web", MessageID: "m-\xff", At: time.Now()},
			{Kind: event.Settled, Settlement: event.SettledDelivered, Source: "web", MessageID: "m-3", At: time.Now()},
			{Kind: event.SourceDown, Source: "orders-queue", Error: "connection refused", At: time.Now()},
			{Kind: event.SourceUp, Source: "orders-queue", At: time.Now()},
			{Kind: event.DeliveryFailed, Destination: "ledger", Required: true, At: time.Now()},
		} {
			r.Observe(e)
		}
		synctest.Wait()
		golden(t, "alerts.golden", strings.Join(ops.bodies(), "\n")+"\n")
		for _, m := range ops.messages() {
			if _, err := ulid.ParseStrict(m.ID); err != nil {
				t.Errorf("id %q: %v", m.ID, err)
			}
			if m.ContentType != "application/json" || m.Source != "pawl" || !m.Time.Equal(r.began) {
				t.Errorf("a message of %s from %s at %v", m.ContentType, m.Source, m.Time)
			}
			if !jsontext.Value(m.Body).IsValid() {
				t.Errorf("not JSON: %s", m.Body)
			}
		}
	})
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got); -update writes it anew:\n%s", path, diff)
	}
}

// fields reads count and the offsets of at and since.
func (r *rig) fields(body string) string {
	r.Helper()
	var b struct {
		Count     int
		At, Since time.Time
	}
	if err := json.Unmarshal([]byte(body), &b, json.MatchCaseInsensitiveNames(true)); err != nil {
		r.Fatal(err)
	}
	return fmt.Sprintf("%d from %v to %v", b.Count, b.Since.Sub(r.began), b.At.Sub(r.began))
}

func TestFirstAtOnceThenOneAWindow(t *testing.T) {
	ops := &endpoint{}
	inBubble(t, []deliver.Spec{spec("ops", ops)}, []Rule{{On: []Event{DeadLetter}, To: []string{"ops"}, Every: time.Minute}}, func(r *rig) {
		// Second 0 alerts. 10 and 20 are told of at 60, 70 at 120; the window to
		// 180 is quiet; 200 alerts at once.
		for _, second := range []time.Duration{0, 10, 20, 70, 200} {
			r.after(second * time.Second)
			r.Observe(letter(DeadLetter, message.ReasonDelivery, "ledger", "orders", "HTTP 503"))
		}
		r.after(time.Hour)
		var got []string
		for i, body := range ops.bodies() {
			got = append(got, fmt.Sprintf("%v: %s", ops.times()[i].Sub(r.began), r.fields(body)))
		}
		want := []string{"0s: 1 from 0s to 0s", "1m0s: 2 from 10s to 20s", "2m0s: 1 from 1m10s to 1m10s", "3m20s: 1 from 3m20s to 3m20s"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestSubjectsAreCountedApart(t *testing.T) {
	ops := &endpoint{}
	inBubble(t, []deliver.Spec{spec("ops", ops)}, []Rule{{On: []Event{DeadLetter, CircuitOpen}, To: []string{"ops"}, Every: time.Minute}}, func(r *rig) {
		for range 3 {
			r.Observe(letter(DeadLetter, message.ReasonDelivery, "orders", "r1", "x")) // a destination
			r.Observe(letter(DeadLetter, message.ReasonSchema, "", "orders", "x"))     // a route of that name
			r.Observe(letter(DeadLetter, message.ReasonTransform, "", "orders", "x"))  // the same route
			r.Observe(letter(DeadLetter, message.ReasonSchema, "", "refunds", "x"))
			r.Observe(moved("orders", "orders", event.BreakerClosed, event.BreakerOpen))
			r.Observe(moved("ops2", "east", event.BreakerClosed, event.BreakerOpen))
		}
		synctest.Wait()
		if n := len(ops.bodies()); n != 5 {
			t.Errorf("%d alerts at once, want one each of two circuits, one destination and two routes", n)
		}
		r.after(time.Minute)
		if n := len(ops.bodies()); n != 10 {
			t.Errorf("%d alerts after a minute, want 10", n)
		}
	})
}

func TestAlertTakesRetriesAndFallbacks(t *testing.T) {
	ops, mail, lost := &endpoint{down: true}, &endpoint{}, &endpoint{down: true}
	specs := []deliver.Spec{
		spec("ops", ops, func(s *deliver.Spec) { s.Fallback = []string{"mail"} }),
		spec("mail", mail), spec("lost", lost),
	}
	inBubble(t, specs, []Rule{{On: []Event{SourceDown}, To: []string{"ops", "lost", "gone"}, Every: time.Minute}}, func(r *rig) {
		r.Observe(event.Event{Kind: event.SourceDown, Source: "web", Error: "refused"})
		r.after(30 * time.Second)
		if ops.asked() != 2 || len(mail.messages()) != 1 || lost.asked() != 2 {
			t.Errorf("ops was asked %d times and lost %d times, want 2; its fallback got %d", ops.asked(), lost.asked(), len(mail.messages()))
		}
		var got []string
		for _, e := range r.alerted() {
			got = append(got, fmt.Sprintf("%s %s %s %d %s", e.Destination, e.Name, e.Alert, e.Number, e.Error))
		}
		slices.Sort(got)
		want := []string{
			"gone source_down failed 1 the destination is not configured any more",
			"lost source_down failed 1 HTTP 503 Service Unavailable",
			"ops source_down sent 1 ",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestNoAlertAboutADestinationGoesThere(t *testing.T) {
	ops, mail := &endpoint{}, &endpoint{}
	inBubble(t, []deliver.Spec{spec("ops", ops), spec("mail", mail)}, []Rule{{On: Events(), To: []string{"ops", "mail"}, Every: time.Minute}}, func(r *rig) {
		r.Observe(moved("ops", "east", event.BreakerClosed, event.BreakerOpen))
		r.Observe(letter(DeadLetter, message.ReasonDelivery, "ops", "r", "x"))
		synctest.Wait()
		if len(ops.messages()) != 0 || len(mail.messages()) != 2 {
			t.Errorf("ops got %d alerts about itself, mail %d of 2", len(ops.messages()), len(mail.messages()))
		}
	})
}

// TestNoAlertAboutADestinationGoesThereAsAFallback has ops fall back on mail, and
// mail on pager. What is about mail goes to pager then, and what is about neither
// goes to mail as ever.
func TestNoAlertAboutADestinationGoesThereAsAFallback(t *testing.T) {
	ops, mail, pager := &endpoint{down: true}, &endpoint{}, &endpoint{}
	specs := []deliver.Spec{
		spec("ops", ops, func(s *deliver.Spec) { s.Fallback = []string{"mail"} }),
		spec("mail", mail, func(s *deliver.Spec) { s.Fallback = []string{"pager"} }),
		spec("pager", pager),
	}
	inBubble(t, specs, []Rule{{On: Events(), To: []string{"ops"}, Every: time.Minute}}, func(r *rig) {
		r.Observe(letter(DeadLetter, message.ReasonDelivery, "mail", "r", "x"))
		r.after(10 * time.Second)
		if len(mail.messages()) != 0 || len(pager.messages()) != 1 {
			t.Errorf("mail got %d alerts about itself, pager %d of 1", len(mail.messages()), len(pager.messages()))
		}
		r.Observe(letter(DeadLetter, message.ReasonDelivery, "ledger", "r", "x"))
		r.after(20 * time.Second)
		if len(mail.messages()) != 1 || len(pager.messages()) != 1 {
			t.Errorf("mail got %d alerts about ledger, want 1; pager has %d in all, want 1", len(mail.messages()), len(pager.messages()))
		}
	})
}

func TestWaitingAlertsAreBoundedAndKeepTheirOrder(t *testing.T) {
	ops, mail := &endpoint{}, &endpoint{}
	long := func(s *deliver.Spec) { s.Timeout = time.Hour }
	inBubble(t, []deliver.Spec{spec("ops", ops, long), spec("mail", mail)}, []Rule{{On: []Event{SourceDown}, To: []string{"ops", "mail"}, Every: time.Minute}}, func(r *rig) {
		ops.hang()
		r.Observe(event.Event{Kind: event.SourceDown, Source: "first"})
		synctest.Wait() // ops hangs with it
		for i := range maxWaiting + 10 {
			r.Observe(event.Event{Kind: event.SourceDown, Source: fmt.Sprintf("s%03d", i)})
			synctest.Wait()
		}
		if n := len(mail.messages()); n != maxWaiting+11 {
			t.Errorf("mail got %d alerts while ops hangs, want all %d", n, maxWaiting+11)
		}
		if n := r.outcomes()[event.AlertDropped]; n != 10 {
			t.Errorf("%d are told to be dropped, want 10", n)
		}
		ops.release()
		synctest.Wait()
		if n := len(ops.messages()); n != maxWaiting+1 {
			t.Fatalf("ops got %d in the end, want %d", n, maxWaiting+1)
		}
		for i, body := range ops.bodies()[1:] {
			if !strings.Contains(body, fmt.Sprintf(`"source":"s%03d"`, i)) {
				t.Fatalf("alert %d is %s", i, body)
			}
		}
	})
}

func TestFullLaneIsNotWaitedForLong(t *testing.T) {
	ops := &endpoint{}
	inBubble(t, []deliver.Spec{spec("ops", ops)}, []Rule{{On: []Event{SourceDown}, To: []string{"ops"}, Every: time.Minute}}, func(r *rig) {
		d, _ := r.opts.Destination("ops")
		place, ok := d.EnterMany(8)
		if !ok {
			t.Fatal("no places")
		}
		r.Observe(event.Event{Kind: event.SourceDown, Source: "web"})
		r.after(6 * time.Second)
		place.Leave()
		if got := r.outcomes(); got[event.AlertFailed] != 1 {
			t.Errorf("%v, want one that failed", got)
		}
	})
}

func TestStopSendsWhatIsCounted(t *testing.T) {
	ops := &endpoint{}
	inBubble(t, []deliver.Spec{spec("ops", ops)}, []Rule{{On: []Event{DeadLetter}, To: []string{"ops"}, Every: time.Hour}}, func(r *rig) {
		for range 4 {
			r.Observe(letter(DeadLetter, message.ReasonDelivery, "ledger", "orders", "x"))
		}
		r.Stop(r.Context())
		if n := len(ops.messages()); n != 2 || !strings.Contains(ops.bodies()[1], `"count":3`) {
			t.Errorf("%d alerts: %v", n, ops.bodies())
		}
		// Later ones alert nobody, and neither does the alarm.
		r.Observe(letter(DeadLetter, message.ReasonDelivery, "ledger", "orders", "x"))
		r.Configure([]Rule{{On: []Event{DeadLetter}, To: []string{"ops"}, Every: time.Second}})
		r.Observe(letter(DeadLetter, message.ReasonDelivery, "other", "orders", "x"))
		r.after(2 * time.Hour)
		if n := len(ops.messages()); n != 2 {
			t.Errorf("%d alerts after the stop", n)
		}
	})
}

func TestStopEndsInTime(t *testing.T) {
	ops := &endpoint{}
	long := func(s *deliver.Spec) { s.Timeout = time.Hour }
	inBubble(t, []deliver.Spec{spec("ops", ops, long)}, []Rule{{On: []Event{SourceDown}, To: []string{"ops"}, Every: time.Minute}}, func(r *rig) {
		ops.hang()
		for i := range 5 {
			r.Observe(event.Event{Kind: event.SourceDown, Source: fmt.Sprint(i)})
		}
		synctest.Wait()
		ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
		defer cancel()
		r.Stop(ctx)
		if took := time.Since(r.began); took != 3*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if got := r.outcomes(); got[event.AlertFailed] != 1 || got[event.AlertDropped] != 4 {
			t.Errorf("%v, want the one in flight to fail and four dropped", got)
		}
	})
}

// TestReloadGoesOnCounting looks at a reload in the middle of a window.
func TestReloadGoesOnCounting(t *testing.T) {
	ops, mail := &endpoint{}, &endpoint{}
	rule := func(every time.Duration, to ...string) []Rule {
		return []Rule{{On: []Event{DeadLetter}, To: to, Every: every}}
	}
	inBubble(t, []deliver.Spec{spec("ops", ops), spec("mail", mail)}, rule(time.Minute, "ops", "mail"), func(r *rig) {
		one := letter(DeadLetter, message.ReasonDelivery, "ledger", "orders", "x")
		r.Observe(one)
		r.Observe(one)
		r.after(20 * time.Second)
		r.Configure(rule(30*time.Second, "ops")) // mail is told no more, ops earlier
		synctest.Wait()
		if len(ops.messages()) != 1 || len(mail.messages()) != 2 {
			t.Fatalf("at the reload ops has %d alerts, want 1, and mail %d, want what was counted too", len(ops.messages()), len(mail.messages()))
		}
		r.Observe(one)
		r.after(29 * time.Second)
		if n := len(ops.messages()); n != 1 {
			t.Errorf("ops has %d alerts before its window ends", n)
		}
		r.after(30 * time.Second)
		if n := len(ops.messages()); n != 2 || !strings.Contains(ops.bodies()[1], `"count":2`) {
			t.Errorf("ops has %d alerts after it: %v", n, ops.bodies())
		}
		r.after(time.Hour)
		if len(ops.messages()) != 2 || len(mail.messages()) != 2 {
			t.Errorf("in the end ops has %d and mail %d alerts", len(ops.messages()), len(mail.messages()))
		}
	})
}

// TestNoAlertsOnAlerts has two destinations that are told of each other, and
// both are down: what they are sent ends.
func TestNoAlertsOnAlerts(t *testing.T) {
	a, b := &endpoint{down: true}, &endpoint{down: true}
	breaks := func(s *deliver.Spec) {
		s.Breaker = &breaker.Settings{FailureRatio: 0.5, MinRequests: 2, Window: time.Minute, OpenFor: time.Second, MaxOpenFor: 10 * time.Second, HalfOpenMax: 1}
		s.Retry.Attempts = 4
	}
	inBubble(t, []deliver.Spec{spec("a", a, breaks), spec("b", b, breaks)}, []Rule{{On: Events(), To: []string{"a", "b"}, Every: time.Second}}, func(r *rig) {
		for i := range 3 { // opens both breakers: one message counts once
			r.Observe(event.Event{Kind: event.SourceDown, Source: fmt.Sprint(i)})
		}
		r.after(10 * time.Minute)
		opened := 0
		for _, e := range r.alerted() {
			if e.Name == string(CircuitOpen) {
				opened++
			}
		}
		if opened != 2 {
			t.Errorf("%d alerts about circuits, want one about each", opened)
		}
		before := a.asked() + b.asked()
		r.after(2 * time.Hour)
		if after := a.asked() + b.asked(); after != before {
			t.Errorf("alerts go on: %d attempts in the last hours", after-before)
		}
	})
}

func TestQuietEventsCostNothing(t *testing.T) {
	n := New(Options{})
	allocs := testing.AllocsPerRun(100, func() {
		n.Observe(event.Event{Kind: event.AttemptEnded, Destination: "ledger", Outcome: message.OutcomeOK})
		n.Observe(event.Event{Kind: event.Settled, Settlement: event.SettledDelivered, Source: "web"})
	})
	if allocs != 0 {
		t.Errorf("%v allocations for a message that is delivered", allocs)
	}
}
