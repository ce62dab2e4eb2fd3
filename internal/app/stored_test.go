package app

// Catches: a message that is stored without a place, or answered as if it were
// stored; a sender that is told to come again with what never fits; a message
// whose sender has gone and that is nowhere.

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/semaphore"
	"github.com/pawlhq/pawl/internal/store"
)

// scripted is a store that does what a test says.
type scripted struct {
	connector.Queues
	put func(context.Context, connector.Put) (connector.Kept, error)
}

func (s scripted) Put(ctx context.Context, p connector.Put) (connector.Kept, error) {
	return s.put(ctx, p)
}

func newIntakeFor(put func(context.Context, connector.Put) (connector.Kept, error)) (in *intake, letters *[]*message.DeadLetter, counted *[]event.Settlement) {
	letters, counted = &[]*message.DeadLetter{}, &[]event.Settlement{}
	var mu sync.Mutex
	return &intake{
		source: "web", queues: scripted{put: put}, places: semaphore.New(2), bytes: semaphore.New(100),
		paused: func(string) bool { return false },
		events: func(e event.Event) {
			mu.Lock()
			defer mu.Unlock()
			*counted = append(*counted, e.Settlement)
		},
		letter: func(_ context.Context, l *message.DeadLetter) error { *letters = append(*letters, l); return nil },
	}, letters, counted
}

func delivery(id string, size int) connector.Delivery {
	return connector.Delivery{Message: &message.Message{ID: id, Source: "web", Body: make([]byte, size)}}
}

func TestIntakeBounds(t *testing.T) {
	begun, end := make(chan struct{}), make(chan struct{})
	in, _, _ := newIntakeFor(func(context.Context, connector.Put) (connector.Kept, error) {
		begun <- struct{}{}
		<-end
		return connector.Kept{}, nil
	})
	done := make(chan connector.Settlement)
	hold := func(size int) {
		t.Helper()
		go func() { done <- in.Handle(t.Context(), delivery("held", size)) }()
		select {
		case <-begun:
		case s := <-done:
			t.Fatalf("there is room, and it was %+v", s)
		}
	}
	refused := func(what string, size int) {
		t.Helper()
		if s := in.Handle(t.Context(), delivery("m", size)); s.Status != event.SettledRefused || s.RetryAfter == 0 {
			t.Errorf("%s: %+v", what, s)
		}
	}
	hold(90)
	refused("more bytes than there is room for", 11)
	hold(10)
	refused("more messages than there are places", 0)
	in.resize(&config.Source{MaxInFlight: 3, MaxInFlightBytes: 200})
	hold(100)
	refused("more messages than there are places after a reload", 0)
	close(end)
	for range 3 {
		if s := <-done; s.Status != event.SettledStored {
			t.Errorf("a message that had its place: %+v", s)
		}
	}
	if in.places.Held() != 0 || in.bytes.Held() != 0 {
		t.Errorf("%d places and %d bytes are held by nobody", in.places.Held(), in.bytes.Held())
	}
}

func TestIntakeAnswers(t *testing.T) {
	gone, there := func() bool { return false }, func() bool { return true }
	for name, c := range map[string]struct {
		kept     connector.Kept
		err      error
		nackable func() bool
		want     event.Settlement
		counted  event.Settlement
		letters  int
	}{
		"stored":                 {want: event.SettledStored, counted: event.SettledStored},
		"there already":          {kept: connector.Kept{Found: true}, want: event.SettledStored, counted: event.SettledJoined},
		"another under the key":  {err: connector.ErrKeyConflict, want: event.SettledConflict, counted: event.SettledConflict},
		"a full disk":            {err: store.ErrFull, want: event.SettledNacked, counted: event.SettledNacked},
		"a full disk, told":      {err: store.ErrFull, nackable: there, want: event.SettledNacked, counted: event.SettledNacked},
		"nobody to tell":         {err: store.ErrUnavailable, nackable: gone, want: event.SettledDeadLettered, counted: event.SettledDeadLettered, letters: 1},
		"nobody knows":           {err: store.ErrUnknown, want: event.SettledNacked, counted: event.SettledNacked},
		"larger than a job":      {err: connector.ErrTooLarge, nackable: there, want: event.SettledDeadLettered, counted: event.SettledDeadLettered, letters: 1},
		"stored, nobody to tell": {nackable: gone, want: event.SettledStored, counted: event.SettledStored},
	} {
		in, letters, counted := newIntakeFor(func(ctx context.Context, _ connector.Put) (connector.Kept, error) {
			return c.kept, errors.Join(c.err, ctx.Err())
		})
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // the sender's end is not the message's
		d := delivery("m", 1)
		d.Nackable = c.nackable
		s := in.Handle(ctx, d)
		if s.Status != c.want || s.ID != "m" || len(*counted) != 1 || (*counted)[0] != c.counted || len(*letters) != c.letters {
			t.Errorf("%s: %+v, counted %v, %d letters", name, s, *counted, len(*letters))
		}
		if (s.Status == event.SettledNacked) != (s.RetryAfter > 0) {
			t.Errorf("%s: come again after %v", name, s.RetryAfter)
		}
	}
	in, _, _ := newIntakeFor(func(context.Context, connector.Put) (connector.Kept, error) { return connector.Kept{}, store.ErrFull })
	in.letter = func(context.Context, *message.DeadLetter) error { return errors.New("no letters either") }
	d := delivery("m", 1)
	d.Nackable = gone
	if s := in.Handle(t.Context(), d); s.Status != event.SettledNacked || !strings.Contains(s.Err.Error(), "no letters either") {
		t.Errorf("neither store nor letters: %+v", s)
	}
}

func TestIntakeKeys(t *testing.T) {
	var got []connector.Put
	in, _, _ := newIntakeFor(func(_ context.Context, p connector.Put) (connector.Kept, error) {
		got = append(got, p)
		return connector.Kept{}, nil
	})
	for _, d := range []connector.Delivery{
		{Message: &message.Message{ID: "made-up"}},
		{Keyed: true, Message: &message.Message{ID: "a/b"}},
		{Keyed: true, Caller: "a", Message: &message.Message{ID: "b"}},
		{Keyed: true, Caller: "x/a", Message: &message.Message{ID: "b"}},
		{Keyed: true, Caller: "x", Message: &message.Message{ID: "a/b"}},
	} {
		in.Handle(t.Context(), d)
	}
	if got[0].Key != "" || got[0].Queue != "relay:web" {
		t.Errorf("a message that pawl named: %+v", got[0])
	}
	seen := map[string]bool{}
	for _, p := range got[1:] {
		if seen[p.Key] || !strings.HasPrefix(p.Key, "relay:web/") {
			t.Errorf("the key %q", p.Key)
		}
		seen[p.Key] = true
	}
}

// TestReadinessOfTheStore: a store that can't write is a reason to send messages
// and jobs elsewhere.
func TestReadinessOfTheStore(t *testing.T) {
	ep, w := newEndpoint(t), newWorld(t)
	w.write(w.jobsConf(ep.URL, "{}"))
	a := w.start()
	if status, text := w.ask(http.MethodGet, "127.0.0.1:2", "/readyz", "", ""); status != http.StatusOK {
		t.Errorf("ready: %d %s", status, text)
	}
	must(t, a.jobs.store.Close())
	if status, text := w.ask(http.MethodGet, "127.0.0.1:2", "/readyz", "", ""); status != http.StatusServiceUnavailable || !strings.Contains(text, "jobs: ") {
		t.Errorf("with a store that is closed: %d %s", status, text)
	}
	if status, _ := w.send("127.0.0.1:1", "k1"); status != http.StatusServiceUnavailable {
		t.Errorf("a message for a store that is closed: %d", status)
	}
	a.end()
}
