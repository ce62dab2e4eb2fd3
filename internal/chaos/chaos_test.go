// These tests catch: a lost message that is not told, or a delivered or kept one
// that is called lost; counts that are not those of the events; a page that
// changed unnoticed (golden files; go test -update writes them anew), that is
// not well-formed, loads something from elsewhere or lets a name out of its
// place; a load that runs ahead of its rate or past its bound; memory without a
// bound.
package chaos_test

import (
	"bytes"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/chaos"
	"github.com/pawlhq/pawl/internal/connector/faulty"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

func html(t testing.TB, r chaos.Report) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := r.WriteHTML(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The whole: faults, retries, a breaker that opens, hops, dead letters.
func TestGolden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faulty.Settings{Status: 503}, halfSick)
		if err := chaos.Run(t.Context(), w.rec, w.load(60, 25)); err != nil {
			t.Fatal(err)
		}
		r := w.report()
		if r.Messages.Lost != 0 || r.Messages.Delivered == 0 || r.Messages.DeadLettered == 0 || r.Messages.Delivered+r.Messages.DeadLettered != 60 || r.Endpoints[0].Opened == 0 {
			t.Errorf("a run that shows little: %+v", r.Messages)
		}
		text, err := json.Marshal(r, jsontext.WithIndent("  "))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "report.json", append(text, '\n'))
		golden(t, "page.html", html(t, r))
		w.fleet.Close()
	})
}

var elsewhere = regexp.MustCompile(`(?i)(src|href|action)\s*=|url\(|@import|<script|https?://`)

// A page is XML, stands alone, and keeps every name in its place.
func checkPage(t testing.TB, page []byte) {
	t.Helper()
	d := xml.NewDecoder(bytes.NewReader(page))
	for {
		_, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page is not well-formed: %v", err)
		}
	}
	rest := strings.NewReplacer(`xmlns="http://www.w3.org/1999/xhtml"`, "", `xmlns="http://www.w3.org/2000/svg"`, "").Replace(string(page))
	if found := elsewhere.FindString(rest); found != "" {
		t.Errorf("the page has %q", found)
	}
}

func TestPageStandsAlone(t *testing.T) {
	const evil = `</title><script>alert(1)</script><img src=x onerror="a()">&'"]]>`
	now := time.Now()
	rec := chaos.NewRecorder(now, nil)
	rec.Sent(evil)
	rec.Sent("kept")
	rec.Kept(chaos.Letter{ID: "kept", Letter: evil, Reason: evil, Error: evil, At: now})
	rec.Fault(evil)
	rec.Observe(event.Event{Kind: event.AttemptEnded, At: now, Destination: evil, Endpoint: evil, MessageID: evil, Number: 1, Outcome: message.OutcomeRetry, Error: evil})
	rec.Observe(event.Event{Kind: event.Hopped, At: now, Destination: evil, MessageID: evil, Hop: message.HopExhausted, Error: evil})
	rec.Observe(event.Event{Kind: event.HoldSet, At: now, Destination: evil, Took: time.Second})
	rec.Observe(event.Event{Kind: event.BreakerMoved, At: now, Destination: evil, Breaker: event.BreakerOpen})
	page := html(t, rec.Report(now.Add(time.Second), chaos.Setup{Destination: evil, Command: evil, Faults: evil}))
	checkPage(t, bytes.ReplaceAll(page, []byte("src=x"), nil)) // which stands in texts
	if bytes.Contains(page, []byte("<img")) || bytes.Contains(page, []byte("<script")) {
		t.Error("a name got out of its place")
	}
	if n := strings.Count(string(page), "alert(1)"); n < 10 {
		t.Errorf("only %d of the names are on the page: the test looks at nothing", n)
	}
	checkPage(t, html(t, chaos.NewRecorder(now, nil).Report(now, chaos.Setup{}))) // of nothing at all
}

// One message whose dead letter could not be kept is lost, and named.
func TestLostIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faulty.Settings{Fail: 1, Status: 503, Seed: 1}, nil)
		full := errors.New("the disk is full")
		var lost []string
		w.refuse = func(id string) error {
			lost = append(lost, id)
			if len(lost) > 1 {
				lost = lost[:1]
				return nil
			}
			return full
		}
		if err := chaos.Run(t.Context(), w.rec, w.load(20, 10)); !errors.Is(err, full) {
			t.Errorf("the run says %v", err)
		}
		r := w.report()
		if diff := cmp.Diff(lost, r.Lost); diff != "" || r.Messages.Lost != 1 || r.Messages.Delivered+r.Messages.DeadLettered != 19 {
			t.Errorf("%+v\n%s", r.Messages, diff)
		}
		if page := string(html(t, r)); !strings.Contains(page, "1 of 20 messages were lost") {
			t.Error("the page does not say so")
		}
		w.fleet.Close()
	})
}

// An end that was asked for loses nothing, and begins nothing more.
func TestInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, faulty.Settings{Hang: 1, Status: 503, Seed: 1}, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 1020*time.Millisecond)
		defer cancel()
		if err := chaos.Run(ctx, w.rec, w.load(1000, 10)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the run says %v", err)
		}
		m := w.report().Messages
		if m.Sent != 11 || m.Interrupted == 0 || m.Lost != 0 || m.Delivered+m.DeadLettered+m.Interrupted != m.Sent {
			t.Errorf("%+v", m)
		}
		w.fleet.Close()
	})
}

// Whatever became of each message, the audit says it.
func TestAudit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Now()
		rec := chaos.NewRecorder(now, nil)
		var want chaos.Messages
		for i, end := range rapid.SliceOfN(rapid.IntRange(0, 15), 1, 60).Draw(t, "ends") {
			id := fmt.Sprint(i)
			rec.Sent(id)
			want.Sent++
			delivered, kept, cut := end&1 != 0, end&2 != 0, end&4 != 0
			if delivered {
				rec.Observe(event.Event{Kind: event.Delivered, At: now, Destination: "a", Endpoint: "a", MessageID: id})
				want.Delivered++
			}
			if kept {
				rec.Kept(chaos.Letter{ID: id})
				want.DeadLettered++
			}
			if cut {
				rec.Cut(id)
			}
			if end&8 != 0 { // of somebody else's: of no account
				rec.Kept(chaos.Letter{ID: "other"})
				rec.Cut("other")
			}
			switch {
			case delivered || kept:
			case cut:
				want.Interrupted++
			default:
				want.Lost++
			}
		}
		if diff := cmp.Diff(want, rec.Report(now, chaos.Setup{}).Messages); diff != "" {
			t.Fatal(diff)
		}
	})
}

// The load keeps its rate however long each message takes, as far as its bound
// on open ones lets it, and says how far it fell behind.
func TestRateAndBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rec := chaos.NewRecorder(time.Now(), nil)
		began := time.Now()
		var begins []time.Duration
		load := chaos.Load{
			Count: chaos.MaxOpen + 10, Rate: 1000,
			Message: func(n int) *message.Message {
				begins = append(begins, time.Since(began))
				return &message.Message{ID: fmt.Sprint(n)}
			},
			Deliver: func(context.Context, *message.Message) error { time.Sleep(5 * time.Second); return nil },
		}
		if err := chaos.Run(t.Context(), rec, load); err != nil {
			t.Fatal(err)
		}
		for n, at := range begins {
			want := time.Duration(float64(n) / 1000 * float64(time.Second))
			if n >= chaos.MaxOpen { // after the first of those that are open
				want = begins[n-chaos.MaxOpen] + 5*time.Second
			}
			if at != want {
				t.Fatalf("message %d began after %v, want %v", n, at, want)
			}
		}
		if late := time.Duration(rec.Report(time.Now(), chaos.Setup{}).Late); late < 3*time.Second {
			t.Errorf("it says it was %v late", late)
		}
	})
}

// A long run keeps a sample, whole messages, and exact counts.
func TestTimelineIsBounded(t *testing.T) {
	now := time.Now()
	rec := chaos.NewRecorder(now, nil)
	const messages, tries = 20_000, 3
	for i := range messages {
		id := fmt.Sprint("m-", i)
		for n := range tries {
			rec.Observe(event.Event{
				Kind: event.AttemptEnded, At: now.Add(time.Duration(i) * time.Millisecond), Took: time.Millisecond,
				Destination: "a", Endpoint: fmt.Sprint("e-", i%300), MessageID: id, Number: n + 1, Outcome: message.OutcomeRetry,
			})
		}
		rec.Observe(event.Event{Kind: event.Hopped, At: now, Destination: "a", MessageID: id, Hop: message.HopReason(id)})
		rec.Observe(event.Event{Kind: event.DeliveryFailed, At: now, Destination: "a", MessageID: id})
	}
	r := rec.Report(now.Add(time.Minute), chaos.Setup{Traffic: chaos.Received})
	tl := r.Timeline
	if r.Attempts.Total != messages*tries || r.Attempts.Retries != messages*(tries-1) || r.Messages.Sent != messages {
		t.Errorf("counts: %+v, %+v", r.Attempts, r.Messages)
	}
	if len(tl.Bars) < 1000 || len(tl.Bars) > 4000 || len(tl.Hops) < 500 || len(tl.Hops) > 2000 || len(tl.Lanes) != 128 || tl.Dropped == 0 || len(r.Hops) != 256 {
		t.Errorf("%d bars, %d hops, %d lanes, %d dropped, %d kinds", len(tl.Bars), len(tl.Hops), len(tl.Lanes), tl.Dropped, len(r.Hops))
	}
	of := map[string]int{}
	for _, b := range tl.Bars {
		of[b.ID]++
	}
	for id, n := range of {
		if n != tries {
			t.Fatalf("%s has %d of its %d attempts", id, n, tries)
		}
	}
	page := html(t, r)
	checkPage(t, page)
	if len(page) > 3<<20 || !bytes.Contains(page, []byte("show some of the messages")) {
		t.Errorf("a page of %d bytes", len(page))
	}
}

// A message that was given up goes to no dead letters, in the picture and in the
// table.
func TestGivenUpIsNoDeadLetter(t *testing.T) {
	now := time.Now()
	rec := chaos.NewRecorder(now, nil)
	for _, id := range []string{"1", "2"} {
		rec.Sent(id)
		rec.Observe(event.Event{Kind: event.AttemptEnded, At: now, Destination: "a", Endpoint: "a", MessageID: id, Number: 1, Outcome: message.OutcomeCancelled})
	}
	rec.Observe(event.Event{Kind: event.Hopped, At: now, Destination: "a", MessageID: "1", Hop: message.HopCancelled})
	rec.Cut("1")
	rec.Observe(event.Event{Kind: event.Hopped, At: now, Destination: "a", MessageID: "2", Hop: message.HopExhausted})
	rec.Kept(chaos.Letter{ID: "2", Letter: "l", Reason: "exhausted", At: now})
	page := string(html(t, rec.Report(now.Add(time.Second), chaos.Setup{Traffic: chaos.Made})))
	if strings.Contains(page, "1: a to the dead letters") || !strings.Contains(page, "2: a to the dead letters") || !strings.Contains(page, "<td>nowhere</td><td>cancelled</td>") {
		t.Error("who was given up is drawn as a dead letter, or who is one is not")
	}
}

// Of messages that sources took it claims no more than was counted: a delivery that
// failed is a dead letter only where one was stored.
func TestReceivedMessagesAreCountedNotProven(t *testing.T) {
	now := time.Now()
	rec := chaos.NewRecorder(now, func(destination string) bool { return destination == "a" })
	tell := func(k event.Kind, destination, id string) {
		rec.Observe(event.Event{Kind: k, At: now, Destination: destination, Endpoint: destination, MessageID: id})
	}
	tell(event.Delivered, "a", "1")
	tell(event.Delivered, "b", "1")
	for _, id := range []string{"2", "3", "4"} {
		tell(event.DeliveryFailed, "a", id)
	}
	tell(event.Lettered, "a", "2")
	tell(event.Lettered, "b", "9")
	tell(event.LetterFailed, "a", "3")
	r := rec.Report(now, chaos.Setup{Traffic: chaos.Received})
	if want := (chaos.Messages{Sent: 4, Delivered: 1, DeadLettered: 1, Unkept: 2}); r.Messages != want {
		t.Errorf("%+v, want %+v", r.Messages, want)
	}
	page := string(html(t, r))
	if strings.Contains(page, "Nothing was lost") || !strings.Contains(page, "can't be shown from here") {
		t.Error("the page claims that nothing was lost, or does not say what it can't know")
	}
}

// Only what it was told to look at.
func TestMine(t *testing.T) {
	now := time.Now()
	rec := chaos.NewRecorder(now, func(destination string) bool { return destination == "a" })
	for _, d := range []string{"a", "b", ""} {
		rec.Observe(event.Event{Kind: event.AttemptEnded, At: now, Destination: d, Endpoint: d, Number: 1, Outcome: message.OutcomeOK})
	}
	if r := rec.Report(now, chaos.Setup{}); r.Attempts.Total != 1 || len(r.Endpoints) != 1 {
		t.Errorf("%+v", r.Attempts)
	}
}

// A breaker's times, one that is still open included.
func TestBreakerTimes(t *testing.T) {
	now := time.Now()
	rec := chaos.NewRecorder(now, nil)
	for _, m := range []struct {
		at    int
		state event.BreakerState
	}{{1, event.BreakerOpen}, {3, event.BreakerHalfOpen}, {4, event.BreakerOpen}, {6, event.BreakerHalfOpen}, {7, event.BreakerClosed}, {9, event.BreakerOpen}} {
		rec.Observe(event.Event{Kind: event.BreakerMoved, At: now.Add(time.Duration(m.at) * time.Second), Destination: "a", Breaker: m.state})
	}
	if open := rec.Progress().Open; len(open) != 1 || open[0] != "a open" {
		t.Errorf("now open: %v", open)
	}
	e := rec.Report(now.Add(10*time.Second), chaos.Setup{}).Endpoints[0]
	if e.Opened != 2 || time.Duration(e.Shut) != 7*time.Second {
		t.Errorf("opened %d times, %v not closed", e.Opened, time.Duration(e.Shut))
	}
}
