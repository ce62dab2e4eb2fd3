package httpapi

// What these tests would catch: a stream that leaves an event out or tells one
// twice, that outlives its key, its server or its reader's patience, or that says
// nothing for so long that it is cut; a reader that is too slow and is waited for.

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// sent is an event of a stream.
type sent struct{ id, event, data string }

// followed is a stream that is read.
type followed struct {
	testing.TB
	header http.Header
	lines  *bufio.Scanner
	close  func()
}

// follow opens a stream. headers are name, value, ….
func (r *rig) follow(key, path string, headers ...string) *followed {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, http.NoBody)
	if err != nil {
		r.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+r.secret[key])
	req.Header.Set("Accept", "text/event-stream")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		text, _ := io.ReadAll(resp.Body)
		r.Fatalf("%d %s: %s", resp.StatusCode, resp.Header, text)
	}
	f := &followed{TB: r, header: resp.Header, lines: bufio.NewScanner(resp.Body), close: func() { cancel(); resp.Body.Close() }}
	f.lines.Buffer(nil, 1<<20)
	r.Cleanup(f.close)
	f.block() // the first says where it begins
	return f
}

// block reads up to an empty line; nothing at the stream's end.
func (f *followed) block() (s sent, more bool) {
	for f.lines.Scan() {
		line := f.lines.Text()
		if line == "" {
			return s, true
		}
		field, value, _ := strings.Cut(line, ": ")
		switch field {
		case "id":
			s.id = value
		case "event":
			s.event = value
		case "data":
			s.data = value
		}
	}
	return s, false
}

// next reads the next event.
func (f *followed) next() sent {
	f.Helper()
	for {
		s, more := f.block()
		if !more {
			f.Fatal("the stream ended")
		}
		if s.data != "" {
			return s
		}
	}
}

// TestAStreamIsFollowedAndTakenUpAgain reads from now on, is cut off, and comes
// back with the id of the last event, as a browser does.
func TestAStreamIsFollowedAndTakenUpAgain(t *testing.T) {
	r := newRig(t)
	r.happen("emails", 1) // before it begins
	s := r.follow("operate", "/v3/events?type=job.cancelled")
	if s.header.Get("Cache-Control") != "no-store" || s.header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%v", s.header)
	}
	first := r.happen("emails", streamPage+3) // more than one page of the store
	var last sent
	for _, id := range first {
		if last = s.next(); last.event != "job.cancelled" || !strings.Contains(last.data, id) {
			t.Fatalf("%+v is not of %s", last, id)
		}
	}
	s.close()
	missed := r.happen("reports", 2)
	again := r.follow("operate", "/v3/events?type=job.cancelled&cursor=0", LastEventHeader, last.id)
	for _, id := range missed {
		e := again.next()
		if isOf[Event](t, []byte(e.data)).Job != id {
			t.Errorf("%+v is not of %s", e, id)
		}
	}
	// What its filter leaves out is not told, and what follows is.
	filtered := r.follow("operate", "/v3/events?type=job.cancelled&queue=emails&cursor="+last.id)
	r.happen("reports", 1)
	if want := r.happen("emails", 1); !strings.Contains(filtered.next().data, want[0]) {
		t.Error("another event came first")
	}
}

func TestAStreamHasNoPages(t *testing.T) {
	newRig(t).call("operate", "GET", "/v3/events?limit=1&wait=1s", "", "Accept", "text/event-stream").fails(problem.Invalid).faults(t,
		"limit", "is of pages; leave it out of a stream", "wait", "is of pages; leave it out of a stream")
}

func TestAStreamEndsWhenItsServerStops(t *testing.T) {
	r := newRig(t)
	s := r.follow("operate", "/v3/events")
	r.stop()
	for {
		if _, more := s.block(); !more {
			break
		}
	}
	a := r.call("operate", "GET", "/v3/events", "", "Accept", "text/event-stream")
	a.fails(problem.Unavailable)
}

func TestStreamsAreBounded(t *testing.T) {
	p := &places{ofKey: map[string]int{}}
	for range keyStreams {
		if err := p.take("a"); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.take("a"); err != errStreams {
		t.Errorf("a key has more than its streams: %v", err)
	}
	for i := range MaxStreams - keyStreams {
		if err := p.take(strconv.Itoa(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.take("b"); err != errStreams {
		t.Errorf("there are more streams than may be: %v", err)
	}
	p.give("a")
	if err := p.take("b"); err != nil {
		t.Errorf("a place that was given back is lost: %v", err)
	}
	// A reader that is refused is told when to come back, and the place of one that
	// went is free again.
	r := newRig(t)
	a := silentOf(r, &places{all: MaxStreams, ofKey: map[string]int{}})
	r.serve(a)
	got := r.call("operate", "GET", "/v3/events", "", "Accept", "text/event-stream")
	if d := got.fails(problem.Unavailable); got.header.Get("Retry-After") == "" || !strings.Contains(d.Detail, "too many streams") {
		t.Errorf("%v", d)
	}
}

// silentOf is the rig's API with places of its own.
func silentOf(r *rig, p *places) http.Handler {
	a := newAPI(Options{Server: r.server, Store: r.store}, r.memory)
	a.streams = p
	return a.mux(calls)
}

// quiet is a store in which nothing happens but what it is told.
type quiet struct {
	instant
	mu      sync.Mutex
	revoked time.Time
	events  []store.Event
	asked   int
	came    chan struct{} // says that there are events; nil never does
}

func (s *quiet) Cursor(context.Context, string) (int64, error)       { return moment.Unix(), nil }
func (s *quiet) WantEvents(context.Context, []store.EventType) error { return nil }
func (s *quiet) LastEvent(context.Context) (int64, error)            { return 41, nil }
func (s *quiet) Events(_ context.Context, _ store.EventFilter, after int64, limit int) (store.EventsRead, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	n := min(limit, len(s.events))
	read := store.EventsRead{Events: s.events[:n], Next: after + int64(n)}
	s.events = s.events[n:]
	return read, nil
}

func (s *quiet) AwaitEvents(ctx context.Context, _ int64) error {
	select {
	case <-s.came:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *quiet) KeyByHash(context.Context, [32]byte) (store.Key, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.key
	k.Revoked = s.revoked
	return k, nil
}

// reader is a connection in virtual time.
type reader struct {
	header   http.Header
	mu       sync.Mutex
	got      []string
	deadline time.Time
	// slow is after how many writes it takes nothing more.
	slow int
}

func (w *reader) Header() http.Header { return w.header }
func (w *reader) WriteHeader(int)     {}
func (w *reader) Flush()              {}
func (w *reader) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.deadline = t
	return nil
}

func (w *reader) Write(b []byte) (int, error) {
	w.mu.Lock()
	w.got = append(w.got, string(b))
	late, full := w.deadline, w.slow > 0 && len(w.got) > w.slow
	w.mu.Unlock()
	if full {
		time.Sleep(time.Until(late)) // as a full socket: until its deadline
		return 0, os.ErrDeadlineExceeded
	}
	return len(b), nil
}

// stream runs a stream of events in a bubble, and returns when it has ended.
func streamIn(t *testing.T, s *quiet, w *reader) (ctx context.Context, end context.CancelFunc, ended chan struct{}, open *places) {
	t.Helper()
	h, secret := offlineOn(t, s)
	ctx, end = context.WithCancel(t.Context())
	req := httptest.NewRequestWithContext(ctx, http.MethodGet, "/v3/events", http.NoBody)
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Accept", "text/event-stream")
	ended = make(chan struct{})
	go func() { defer close(ended); h.mux(calls).ServeHTTP(w, req) }()
	return ctx, end, ended, h.streams
}

func TestAStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &reader{header: http.Header{}}
		_, end, ended, open := streamIn(t, &quiet{}, w)
		time.Sleep(2*StreamBeat + time.Second)
		synctest.Wait()
		end()
		<-ended
		want := []string{"retry: 2000\nid: 41\n\n", ": nothing new\nid: 41\n\n", ": nothing new\nid: 41\n\n"}
		if diff := cmp.Diff(want, w.got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		if open.all != 0 || len(open.ofKey) != 0 {
			t.Errorf("%+v", open)
		}
	})
}

// What comes a second after the revocation is sent to nobody.
func TestAStreamSendsNothingToABadKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, w := &quiet{came: make(chan struct{})}, &reader{header: http.Header{}}
		_, end, ended, _ := streamIn(t, s, w)
		defer end()
		time.Sleep(time.Second)
		s.mu.Lock()
		s.revoked, s.events = moment, []store.Event{{ID: 42, Type: store.JobFailed, At: moment}}
		s.mu.Unlock()
		s.came <- struct{}{}
		<-ended
		if diff := cmp.Diff([]string{"retry: 2000\nid: 41\n\n"}, w.got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestAStreamEndsWithItsKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &quiet{}
		_, end, ended, _ := streamIn(t, s, &reader{header: http.Header{}})
		defer end()
		synctest.Wait()
		s.mu.Lock()
		s.revoked = moment
		s.mu.Unlock()
		select {
		case <-ended:
		case <-time.After(StreamBeat + time.Second):
			t.Errorf("a key that was revoked still reads after %s", StreamBeat)
			end()
			<-ended
		}
	})
}

// TestASlowReaderIsCutOff has a reader that takes some and then nothing, while a
// million events wait for it: they are not read for it.
func TestASlowReaderIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &quiet{}
		for i := range 10_000 {
			s.events = append(s.events, store.Event{ID: int64(42 + i), Type: store.JobFailed, At: moment})
		}
		w := &reader{header: http.Header{}, slow: 3}
		_, end, ended, open := streamIn(t, s, w)
		defer end()
		began := time.Now()
		<-ended
		if took := time.Since(began); took != streamWrite {
			t.Errorf("it was waited for %s, not %s", took, streamWrite)
		}
		if s.asked != 3 || open.all != 0 {
			t.Errorf("%d pages were read, %d streams are open", s.asked, open.all)
		}
	})
}

// offlineOn is an API on a store that is none, with memory and places of its own.
func offlineOn(t *testing.T, s *quiet) (a *api, secret string) {
	t.Helper()
	secret, k, err := jobserver.NewKey(jobserver.KeyRequest{Name: "k", Scopes: []store.Scope{store.ScopeAdmin}}, moment)
	if err != nil {
		t.Fatal(err)
	}
	s.key = k
	server, err := jobserver.NewServer(jobserver.Options{Store: s, Config: someConfig})
	if err != nil {
		t.Fatal(err)
	}
	a = newAPI(Options{Server: server, Store: s}, newMemory(maxLarge, maxShare))
	a.streams = &places{ofKey: map[string]int{}}
	return a, secret
}
