package telemetry

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

func newTestLog(out io.Writer, level slog.Level, access AccessLog) *EventLog {
	return NewEventLog(slog.New(NewLogHandler(LogOptions{Out: out, Level: level})), access)
}

// everyEvent is one event of each kind with every field set that the kind has.
func everyEvent(at time.Time) []event.Event {
	base := event.Event{
		At: at, MessageID: "m-1\n{}", Route: "orders", Destination: "ledger", Endpoint: "east",
		Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503", Number: 5, Took: 1500 * time.Millisecond,
	}
	with := func(k event.Kind, change func(*event.Event)) event.Event {
		e := base
		e.Kind = k
		change(&e)
		return e
	}
	plain := func(k event.Kind, change func(*event.Event)) event.Event {
		e := event.Event{Kind: k, At: at}
		change(&e)
		return e
	}
	return []event.Event{
		with(event.AttemptEnded, func(e *event.Event) { e.Outcome = message.OutcomeRetry }),
		with(event.AttemptEnded, func(e *event.Event) { e.Outcome, e.Hedge = message.OutcomeRetry, true }),
		with(event.AttemptEnded, func(e *event.Event) { e.Outcome = message.OutcomeOK }),
		with(event.Hopped, func(e *event.Event) { e.To, e.Hop = "disk", message.HopExhausted }),
		with(event.Delivered, func(*event.Event) {}),
		with(event.DeliveryFailed, func(e *event.Event) { e.Hop, e.Required = message.HopExhausted, true }),
		with(event.DeliveryFailed, func(e *event.Event) { e.MessageID = "no line: best effort" }),
		with(event.BestEffortDropped, func(*event.Event) {}),
		with(event.Deferred, func(e *event.Event) { e.Waited = 40 * time.Second }),
		plain(event.LeaseLost, func(e *event.Event) { e.Source, e.MessageID, e.Detail = "buffer", "m-1", "job_01" }),
		plain(event.BreakerMoved, func(e *event.Event) { e.Destination, e.Endpoint, e.Breaker = "ledger", "ledger", event.BreakerOpen }),
		plain(event.BreakerMoved, func(e *event.Event) { e.Destination, e.Endpoint = "ledger", "ledger" }),
		plain(event.HoldSet, func(e *event.Event) { e.Destination, e.Endpoint, e.Took = "ledger", "east", 2*time.Minute }),
		with(event.Lettered, func(e *event.Event) { e.Reason, e.Letter = message.ReasonDelivery, "01L" }),
		with(event.Lettered, func(e *event.Event) { e.Reason, e.Letter, e.Destination = message.ReasonSchema, "01L", "" }),
		with(event.LetterFailed, func(e *event.Event) { e.Reason = message.ReasonDelivery }),
		plain(event.Settled, func(e *event.Event) {
			e.Source, e.MessageID, e.Route, e.Destination = "web", "m-1", "orders", "ledger"
			e.Number, e.Settlement, e.Took = 2, event.SettledDelivered, 12345*time.Microsecond
		}),
		plain(event.SourceUp, func(e *event.Event) { e.Source = "web" }),
		plain(event.SourceDown, func(e *event.Event) { e.Source, e.Error = "web", "refused" }),
		plain(event.ConnectionRetried, func(e *event.Event) { e.Destination, e.Endpoint = "ledger", "ledger" }),
		plain(event.LeverPulled, func(e *event.Event) { e.Name, e.Detail = "pause ledger", "by root" }),
		plain(event.Reloaded, func(e *event.Event) { e.Number = 2 }),
		plain(event.Reloaded, func(e *event.Event) { e.Error = "pawl.yaml:3:1: unknown key" }),
		plain(event.RouterFellBack, func(e *event.Event) { e.Route, e.To, e.Error = "orders", "static", "no rule matches" }),
		plain(event.Raced, func(e *event.Event) {
			e.Destination, e.Route, e.MessageID, e.Race, e.Number = "tickets", "orders", "m-1", event.RaceHedge, 1
		}),
		plain(event.HealthMoved, func(e *event.Event) {
			e.Destination, e.Endpoint, e.Health, e.Error = "tickets", "east", event.Unhealthy, "HTTP 500"
		}),
		plain(event.HealthMoved, func(e *event.Event) { e.Destination, e.Endpoint, e.Health = "tickets", "east", event.Healthy }),
		plain(event.BatchSent, func(e *event.Event) { e.Destination, e.Endpoint, e.Number = "ledger", "ledger", 7 }),
		plain(event.NoKey, func(e *event.Event) { e.Source, e.MessageID, e.Error = "web", "m-1", "not a string" }),
		plain(event.StoreFailed, func(e *event.Event) { e.Name, e.Detail, e.Error = "shared", "mark", "refused" }),
		plain(event.Alerted, func(e *event.Event) {
			e.Name, e.Destination, e.Alert, e.Number = "circuit_open", "ops", event.AlertSent, 3
		}),
		plain(event.Alerted, func(e *event.Event) {
			e.Name, e.Destination, e.Alert, e.Number, e.Error = "circuit_open", "ops", event.AlertFailed, 3, "HTTP 503"
		}),
		plain(event.Alerted, func(e *event.Event) {
			e.Name, e.Destination, e.Alert, e.Number, e.Error = "dead_letter", "ops", event.AlertDropped, 1, "too many"
		}),
	}
}

func TestLines(t *testing.T) {
	for _, tt := range []struct {
		golden string
		level  slog.Level
		access AccessLog
	}{
		{"lines-info.golden", slog.LevelInfo, AccessOff},
		{"lines-debug-access.golden", slog.LevelDebug, AccessOn},
	} {
		t.Run(tt.golden, func(t *testing.T) {
			var out bytes.Buffer
			l := newTestLog(&out, tt.level, tt.access)
			for _, e := range everyEvent(time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)) {
				l.Observe(e)
			}
			l.Close()
			golden(t, tt.golden, out.String())
		})
	}
}

func TestNoisyDestinationIsCutAndOthersAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out slowBuffer
		l := newTestLog(&out, slog.LevelInfo, AccessOn)
		for range 100 {
			l.Observe(event.Event{Kind: event.DeliveryFailed, Required: true, Destination: "noisy"})
			l.Observe(event.Event{Kind: event.Settled, Source: "web"})
		}
		l.Observe(event.Event{Kind: event.DeliveryFailed, Required: true, Destination: "calm"})
		l.Observe(event.Event{Kind: event.Lettered, Destination: "noisy"})
		synctest.Wait()
		count := func(want int, part string) {
			t.Helper()
			if got := strings.Count(out.String(), part); got != want {
				t.Errorf("%d lines with %q, want %d", got, part, want)
			}
		}
		count(linesPerSecond, `msg="delivery failed" destination=noisy`)
		count(1, `msg="delivery failed" destination=calm`)
		count(1, `msg="dead letter stored" destination=noisy`)
		count(100, "msg=settled")
		count(0, "left out")

		time.Sleep(time.Second) // of the bubble's clock
		synctest.Wait()
		count(1, fmt.Sprintf(`of="delivery failed" about=noisy lines=%d`, 100-linesPerSecond))
		l.Observe(event.Event{Kind: event.DeliveryFailed, Required: true, Destination: "noisy"})
		synctest.Wait()
		count(linesPerSecond+1, `msg="delivery failed" destination=noisy`)
		l.Close()
		count(1, "left out")
	})
}

// TestStoreOutageIsToldOnceAMinute looks for a line with each message while a
// store is away.
func TestStoreOutageIsToldOnceAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out slowBuffer
		l := newTestLog(&out, slog.LevelInfo, AccessOff)
		for range 150 { // seconds
			l.Observe(event.Event{Kind: event.StoreFailed, Name: "shared", Detail: "mark", Error: "refused"})
			l.Observe(event.Event{Kind: event.StoreFailed, Name: "other", Detail: "mark", Error: "refused"})
			time.Sleep(time.Second) // of the bubble's clock
		}
		l.Close()
		for _, name := range []string{"shared", "other"} {
			if n := strings.Count(out.String(), "name="+name); n != 3 {
				t.Errorf("%d lines about %s in 150 seconds, want 3", n, name)
			}
		}
	})
}

func TestOutagesAreBounded(t *testing.T) {
	b := newBrake(time.Now())
	for i := range 3 * maxOutages {
		if !b.outage(event.Event{Name: strconv.Itoa(i), Detail: "mark"}) {
			t.Fatalf("the first failure of store %d was kept back", i)
		}
		if n := len(b.outages); n > maxOutages {
			t.Fatalf("%d are remembered, want at most %d", n, maxOutages)
		}
	}
}

func TestCloseTellsWhatWasKeptBack(t *testing.T) {
	var out bytes.Buffer
	l := newTestLog(&out, slog.LevelInfo, AccessOff)
	for range linesPerSecond + 3 {
		l.Observe(event.Event{Kind: event.SourceDown, Source: "web"})
	}
	l.Close()
	l.Close()
	if !strings.Contains(out.String(), "left out") {
		t.Errorf("no line tells of what was left out:\n%s", &out)
	}
	l.Observe(event.Event{Kind: event.SourceDown, Source: "web"})
}

// slowBuffer is a log that is written by one goroutine and read by another,
// and hangs while its lock is held.
type slowBuffer struct {
	text bytes.Buffer
	hold sync.Mutex
}

func (s *slowBuffer) Write(p []byte) (int, error) {
	s.hold.Lock()
	defer s.hold.Unlock()
	return s.text.Write(p)
}

func (s *slowBuffer) String() string {
	s.hold.Lock()
	defer s.hold.Unlock()
	return s.text.String()
}

func TestStuckLogBlocksNobody(t *testing.T) {
	var out slowBuffer
	out.hold.Lock()
	l := newTestLog(&out, slog.LevelInfo, AccessOn)
	for range logQueue + 100 { // returns although nothing is written
		l.Observe(event.Event{Kind: event.Settled, Source: "web"})
	}
	out.hold.Unlock()
	l.Close()
	if !strings.Contains(out.String(), "the log is too slow") {
		t.Error("no line tells of what was lost")
	}
	if n := strings.Count(out.String(), "msg=settled"); n < logQueue || n > logQueue+1 {
		t.Errorf("%d lines were written, want the %d that were queued", n, logQueue)
	}
}

func TestBrakeIsBounded(t *testing.T) {
	b := newBrake(time.Time{})
	for i := range 3 * maxSubjects {
		b.admit(subject{"k", fmt.Sprint(i)})
	}
	if len(b.lines) > maxSubjects+1 {
		t.Errorf("the brake holds %d subjects, want at most %d", len(b.lines), maxSubjects+1)
	}
}

func TestQuietEventsCostNothing(t *testing.T) {
	l := newTestLog(io.Discard, slog.LevelInfo, AccessOff)
	defer l.Close()
	n := testing.AllocsPerRun(100, func() {
		l.Observe(event.Event{Kind: event.AttemptEnded, Destination: "ledger", Outcome: message.OutcomeOK})
		l.Observe(event.Event{Kind: event.Settled, Source: "web"})
	})
	if n != 0 {
		t.Errorf("events without a line made %v allocations", n)
	}
}

func TestAccessLogIsSwitchedWhileItRuns(t *testing.T) {
	var out bytes.Buffer
	l := newTestLog(&out, slog.LevelInfo, AccessOff)
	for _, access := range []AccessLog{AccessOff, AccessOn, AccessOff} {
		l.SetAccess(access)
		l.Observe(event.Event{Kind: event.Settled, Source: "web"})
	}
	l.Close()
	if n := strings.Count(out.String(), "msg=settled"); n != 1 {
		t.Errorf("%d lines, want that of the message that was settled while it was on:\n%s", n, out.String())
	}
}
