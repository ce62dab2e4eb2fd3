package deadletter_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

func TestTimeline(t *testing.T) {
	in := time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)
	at := func(ms int) time.Time { return in.Add(time.Duration(ms) * time.Millisecond) }
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	unavailable := failure.Tags{failure.Status5xx, "503"}
	l := &message.DeadLetter{
		Message: &message.Message{ID: "order-4711", Source: "web", Time: in, ContentType: "application/json", Body: []byte(`{"secret":1}`)},
		Death: message.Death{
			Letter: "01KBB0000000000000000000A1", Relay: "shop", At: at(31_000), Reason: message.ReasonDelivery,
			Destination: "ledger", Route: "new-orders", Attempts: 4, Tags: failure.Tags{failure.Connect}, Error: "connection refused",
			Hops: []message.Hop{
				{Destination: "ledger", Reason: message.HopExhausted, At: at(5_350), Tags: unavailable, Error: "HTTP 503 Service Unavailable",
					Attempts: []message.Attempt{
						{Number: 1, Endpoint: "ledger", At: at(2), Duration: ms(12.3456), Outcome: message.OutcomeRetry, Tags: unavailable, Error: "HTTP 503 Service Unavailable"},
						{Number: 2, Endpoint: "ledger", At: at(150), Waited: ms(135.6), Duration: ms(5000), Outcome: message.OutcomeRetry, Tags: failure.Tags{failure.Timeout}, Error: "no answer within 5s"},
						{Number: 3, Endpoint: "ledger", At: at(5_340), Waited: ms(190), Duration: ms(9), Outcome: message.OutcomeRetry, Tags: unavailable, Error: "HTTP 503 Service Unavailable"},
					}},
				{Destination: "ledger-b", Reason: message.HopBreakerOpen, At: at(5_350), Error: "the breaker is open"},
				{Destination: "ledger-c", Reason: message.HopPermanent, At: at(31_000), Tags: failure.Tags{failure.Connect}, Error: "connection refused",
					Attempts: []message.Attempt{
						{Number: 1, Endpoint: "ledger-c/2", At: at(30_900), Waited: ms(25_550), Duration: ms(0.4), Outcome: message.OutcomePermanent, Tags: failure.Tags{failure.Connect}, Error: "connection refused"},
					}},
			},
		},
	}
	golden(t, "timeline.txt", deadletter.Timeline(l))

	again := *l
	again.Replays = []message.Death{l.Death}
	again.Letter, again.At, again.Attempts = "01KBB0000000000000000000B2", at(7_261_000), 0
	again.Error, again.Tags = "evil\x1b]0;title\a\nnewline", nil
	again.Hops = []message.Hop{{Destination: "ledger", Reason: message.HopDeadline, At: at(7_261_000), Error: "no place in time"}}
	golden(t, "timeline-again.txt", deadletter.Timeline(&again))

	schema := letter(1, func(l *message.DeadLetter) {
		l.Source = "buffer"
		l.Letter, l.Reason, l.Destination, l.Attempts = "01KBB0000000000000000000C3", message.ReasonSchema, "", 0
		l.Error, l.Message.ContentType = "/total: a number is wanted", ""
	})
	golden(t, "timeline-schema.txt", deadletter.Timeline(schema))

	for _, text := range []string{deadletter.Timeline(l), deadletter.Timeline(&again), deadletter.Timeline(schema)} {
		if strings.Contains(text, "secret") || strings.ContainsAny(text, "\x1b\a") {
			t.Errorf("it shows the body or control characters: %q", text)
		}
	}
}
