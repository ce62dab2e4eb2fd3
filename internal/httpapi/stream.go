package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// Streams of events are for readers that stay. Each bound keeps one of them, or
// one key, from what is everybody's.
const (
	// MaxStreams is how many may be open at once, of all keys, and keyStreams of
	// one.
	MaxStreams, keyStreams = 1000, 100
	// StreamBeat is how long a stream is silent at most: proxies cut what says
	// nothing for a minute, and a reader knows after a few that it is cut off.
	StreamBeat = 15 * time.Second
	// streamWrite is how long a reader may take for what it was sent. One that is
	// slower is cut off, and comes back by its cursor: nothing waits for it in
	// memory.
	streamWrite = 10 * time.Second
	// keyAgain is after how long the key of a stream that sends is looked at again.
	keyAgain = time.Second
	// streamPage is how many events are read and written at once.
	streamPage = 16
	// streamRetry is what a reader is told to wait before it comes back.
	streamRetry = 2 * time.Second
)

const eventStream = "text/event-stream"

// errStreams: as many streams are open as may be.
var errStreams = errors.New("nothing was begun: too many streams of events are open already, of this key or of all; read pages by cursor")

// streams reports whether the caller wants server-sent events.
func (q *request) streams() bool {
	if q.Method == http.MethodHead {
		return false
	}
	for _, accept := range strings.Split(q.Header.Get("Accept"), ",") {
		media, _, _ := strings.Cut(accept, ";")
		if strings.EqualFold(strings.TrimSpace(media), eventStream) {
			return true
		}
	}
	return false
}

// places are the streams that are open. Safe for concurrent use.
type places struct {
	mu    sync.Mutex
	all   int
	ofKey map[string]int
}

// openStreams are those of every Handler: a reload makes a new one.
var openStreams = &places{ofKey: map[string]int{}}

// take takes a place, or says that there is none.
func (p *places) take(key string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= MaxStreams || p.ofKey[key] >= keyStreams {
		return errStreams
	}
	p.all++
	p.ofKey[key]++
	return nil
}

func (p *places) give(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all--
	if p.ofKey[key]--; p.ofKey[key] == 0 {
		delete(p.ofKey, key)
	}
}

// streamEvents sends what happens for as long as the reader stays. It begins
// behind the reader's cursor, or with what happens from now on.
func (a *api) streamEvents(q *request, asked eventsAsked) error {
	if a.stopping.Err() != nil {
		return errStopping
	}
	if err := a.streams.take(q.who.ID); err != nil {
		return err
	}
	defer a.streams.give(q.who.ID)
	ctx, cancel := context.WithCancel(q.Context())
	defer cancel()
	defer context.AfterFunc(a.stopping, cancel)()
	if asked.begun == fromStart {
		last, err := a.store.LastEvent(ctx)
		if err != nil {
			return err
		}
		asked.after = last
	}
	asked.limit = streamPage
	s := stream{q: q, out: http.NewResponseController(q.w), checked: time.Now()}
	h := q.w.Header()
	if q.ProtoMajor == 1 { // its deadline must not stay for another request
		h["Connection"] = []string{"close"}
	}
	h["Content-Type"] = []string{eventStream}
	h["Cache-Control"] = []string{"no-store"}
	h["X-Accel-Buffering"] = []string{"no"} // nginx would gather what is sent
	h["X-Content-Type-Options"] = nosniff
	q.w.WriteHeader(http.StatusOK)
	// The first words make the beginning known, so that a reader that is cut off
	// before any event comes back to where it was.
	first := strconv.AppendInt([]byte("retry: "), streamRetry.Milliseconds(), 10)
	first = strconv.AppendInt(append(first, "\nid: "...), asked.after, 10)
	if err := s.send(append(first, "\n\n"...)); err != nil {
		return nil
	}
	if err := a.pump(ctx, &s, asked); ctx.Err() == nil && !errors.Is(err, errReader) {
		// The answer has begun: the reader is told no more than that it ended, and
		// comes back.
		a.log.Warn("a stream of events ended", "key", q.who.Name, "error", err)
	}
	return nil
}

// errReader: the reader is gone, or too slow.
var errReader = errors.New("the reader of a stream took nothing")

// pump sends events until something ends it, which it returns.
func (a *api) pump(ctx context.Context, s *stream, asked eventsAsked) error {
	for {
		if err := a.stillOpen(ctx, s); err != nil {
			return err
		}
		read, err := a.readEvents(s.q, asked)
		if err != nil {
			return err
		}
		if err := s.events(&read); err != nil {
			return err
		}
		s.q.hold.shrink(0)
		moved := read.Next > asked.after
		asked.after = read.Next
		if moved {
			continue
		}
		if err := a.beat(ctx, s, asked.after); err != nil {
			return err
		}
	}
}

// stillOpen looks from time to time whether the key is good still, and always
// whether the server stops.
func (a *api) stillOpen(ctx context.Context, s *stream) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if time.Since(s.checked) < keyAgain {
		return nil
	}
	s.checked = time.Now()
	return a.good(ctx, s.q)
}

// beat returns once there are events behind the cursor. While there are none it
// says so from time to time, and looks whether the key is good still.
func (a *api) beat(ctx context.Context, s *stream, after int64) error {
	for {
		within, cancel := context.WithTimeout(ctx, StreamBeat)
		err := a.server.AwaitEvents(within, after)
		cancel()
		if err == nil || ctx.Err() != nil || !isDone(err) {
			return err
		}
		if err := a.stillOpen(ctx, s); err != nil {
			return err
		}
		// An id without data is no event: it moves the reader's cursor past what
		// its filter left out.
		b := strconv.AppendInt([]byte(": nothing new\nid: "), after, 10)
		if err := s.send(append(b, "\n\n"...)); err != nil {
			return err
		}
	}
}

// stream is one reader's.
type stream struct {
	q       *request
	out     *http.ResponseController
	buf     []byte
	checked time.Time // when its key was
}

// events sends a page.
func (s *stream) events(read *store.EventsRead) error {
	b := s.buf[:0]
	if read.Gone {
		b = append(b, "event: gone\ndata: {\"detail\":\"some events behind the cursor are not there any more\"}\n\n"...)
	}
	for i := range read.Events {
		e := &read.Events[i]
		b = strconv.AppendInt(append(b, "id: "...), e.ID, 10)
		b = append(append(b, "\nevent: "...), e.Type...)
		b = append(jobserver.AppendEvent(append(b, "\ndata: "...), e), "\n\n"...)
	}
	if len(b) == 0 {
		return nil
	}
	if s.buf = b[:0]; cap(b) > small {
		s.buf = nil
	}
	return s.send(b)
}

// send writes and sends at once, or gives the reader up.
func (s *stream) send(b []byte) error {
	_ = s.out.SetWriteDeadline(time.Now().Add(streamWrite)) // not supported: then the connection's own bounds it
	if _, err := s.q.w.Write(b); err != nil {
		return errReader
	}
	if err := s.out.Flush(); err != nil {
		return errReader
	}
	return nil
}
