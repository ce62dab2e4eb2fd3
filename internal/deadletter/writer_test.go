package deadletter_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deadletter"
)

// sink fails until it was tried often enough.
type sink struct {
	name  string
	fails int
	err   error
	hangs bool

	mu    sync.Mutex
	at    []time.Time
	taken []*message.DeadLetter
}

func (s *sink) Name() string { return s.name }

func (s *sink) Write(ctx context.Context, l *message.DeadLetter) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	if len(s.at) <= s.fails {
		return s.err
	}
	s.taken = append(s.taken, l)
	return nil
}

var policy = retry.Policy{Attempts: 3, Schedule: backoff.Schedule{
	Initial: time.Second, Max: 10 * time.Second, Factor: 2, Jitter: backoff.None,
}}

func TestWriteChain(t *testing.T) {
	boom := errors.New("disk on fire")
	refused := &failure.Error{Class: failure.Permanent, Message: "refused"}
	tests := []struct {
		name      string
		primary   *sink
		fallback  []*sink
		tries     []int // of primary and fallbacks
		took      time.Duration
		err       string
		lastErr   error
		cancelled bool
	}{
		{name: "first try", primary: &sink{}, tries: []int{1}},
		{name: "third try", primary: &sink{fails: 2, err: boom}, tries: []int{3}, took: 3 * time.Second},
		{name: "fallback", primary: &sink{fails: 9, err: boom}, fallback: []*sink{{}, {}}, tries: []int{3, 1, 0}, took: 3 * time.Second},
		{name: "second fallback", primary: &sink{fails: 9, err: refused}, fallback: []*sink{{fails: 9, err: boom}, {}}, tries: []int{1, 1, 1}},
		{name: "nobody", primary: &sink{name: "file", fails: 9, err: boom}, fallback: []*sink{{name: "spare", fails: 9, err: refused}}, tries: []int{3, 1},
			took: 3 * time.Second, lastErr: refused,
			err: "the dead letter could be stored nowhere: file: disk on fire; spare: refused"},
		{name: "gives up with its caller", primary: &sink{name: "file", hangs: true}, tries: []int{1}, took: 5 * time.Second,
			lastErr: context.DeadlineExceeded, err: "the dead letter could be stored nowhere: file: context deadline exceeded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var events []event.Event
				o := deadletter.WriterOptions{Primary: tt.primary, Retry: policy, Events: func(e event.Event) { events = append(events, e) }}
				sinks := []*sink{tt.primary}
				for _, f := range tt.fallback {
					o.Fallback = append(o.Fallback, f)
					sinks = append(sinks, f)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				began := time.Now()
				l := letter(1, func(l *message.DeadLetter) { l.Letter = "" })
				err := deadletter.NewWriter(o).Write(ctx, l)
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				var tries []int
				stored := 0
				for _, s := range sinks {
					tries = append(tries, len(s.at))
					stored += len(s.taken)
				}
				if d := cmp.Diff(tt.tries, tries); d != "" {
					t.Errorf("tries (-want +got):\n%s", d)
				}
				kind, text := event.Lettered, "HTTP 503"
				if tt.err != "" {
					kind, text = event.LetterFailed, tt.err+"; it had died of: HTTP 503"
					if err == nil || err.Error() != tt.err || !errors.Is(err, deadletter.ErrNotStored) || !errors.Is(err, tt.lastErr) {
						t.Errorf("got %v", err)
					}
				} else if err != nil || stored != 1 {
					t.Errorf("stored %d times, %v", stored, err)
				}
				want := []event.Event{{
					Kind: kind, At: time.Now(), Reason: message.ReasonDelivery, Source: "web", Route: "orders", Destination: "ledger",
					MessageID: "m1", Letter: l.Letter, Error: text,
				}}
				if d := cmp.Diff(want, events); d != "" || l.Letter == "" {
					t.Errorf("events (-want +got):\n%s", d)
				}
			})
		})
	}
}

func TestNotice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		w := deadletter.NewWriter(deadletter.WriterOptions{Primary: &sink{}, Retry: policy, Notice: &out})
		for _, l := range []*message.DeadLetter{
			letter(1, func(l *message.DeadLetter) { l.Letter = "L1" }),
			letter(2, func(l *message.DeadLetter) {
				l.Letter, l.Destination, l.Reason = "L2", "", message.ReasonSchema
				l.Error = "line\x1b[31m\nbreak" + strings.Repeat("x", 1000)
			}),
		} {
			if err := w.Write(t.Context(), l); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		lines := strings.SplitAfter(out.String(), "\n")
		if lines[0] != "pawl: dead letter L1 of message m1 (delivery, destination ledger): HTTP 503\n" {
			t.Errorf("got %q", lines[0])
		}
		if len(lines) != 3 || !strings.HasPrefix(lines[1], `pawl: dead letter L2 of message m2 (schema, route orders): "line\x1b[31m\nbreakxxx`) || len(lines[1]) > 700 {
			t.Errorf("got %q", lines[1:])
		}
		if strings.Contains(out.String(), "secret") {
			t.Error("the body is told")
		}
	})
}

// gate holds up every write until it is closed.
type gate struct {
	out  bytes.Buffer
	open chan struct{}
}

func (g *gate) Write(p []byte) (int, error) { <-g.open; return g.out.Write(p) }

func TestNoticeNeverHoldsUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		w := deadletter.NewWriter(deadletter.WriterOptions{Primary: &sink{}, Retry: policy, Notice: g})
		for range 500 {
			if err := w.Write(t.Context(), letter(1)); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		close(g.open)
		synctest.Wait()
		got := g.out.String()
		if n := strings.Count(got, "\n"); n != 1+256+1 || !strings.HasSuffix(got, "pawl: and 243 dead letters more\n") {
			t.Errorf("%d lines, the end is %q", n, got[len(got)-50:])
		}
	})
}

func TestDestinationSink(t *testing.T) {
	var sent *message.Message
	no := errors.New("no")
	s := deadletter.NewDestinationSink("archive", func(_ context.Context, m *message.Message) error { sent = m; return no })
	l := letter(1)
	if err := s.Write(t.Context(), l); err != no || s.Name() != "archive" {
		t.Errorf("%v", err)
	}
	if sent.ID != l.Letter || sent.ContentType != "application/json" || sent.Source != "web" {
		t.Errorf("%+v", sent)
	}
	back, err := message.DecodeLetter(sent.Body)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(l, back, sameLetter); d != "" {
		t.Error(d)
	}
}

func TestStreamSink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := &gate{open: make(chan struct{})}
		s := deadletter.NewStreamSink("stderr", g)
		began := time.Now()
		for range 2 { // one in the write, one waiting for its turn
			if err := s.Write(t.Context(), letter(1)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("nobody reads: %v", err)
			}
		}
		if took := time.Since(began); took != time.Minute {
			t.Errorf("took %v", took)
		}
		close(g.open)
		l := letter(2)
		if err := s.Write(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(g.out.String(), "\n")
		back, err := message.DecodeLetter([]byte(lines[len(lines)-2]))
		if err != nil || back.Letter != l.Letter || len(lines) != 3 {
			t.Errorf("%v, %v", lines, err)
		}
	})
}
