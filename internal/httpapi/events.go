package httpapi

import (
	"context"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// LastEventHeader is where a reader of a stream says how far it came.
const LastEventHeader = "Last-Event-ID"

const (
	// defaultEvents is a page that says no limit.
	defaultEvents = 100
	// eventRoom is what an event and its JSON fill at most: an error with its
	// stack, and both again.
	eventRoom = 2 * 48 << 10
)

// eventParameters are the query parameters of the events.
var eventParameters = []string{"type", "queue", "limit", "cursor", "wait"}

// eventsAsked is what a reader of events asks for.
type eventsAsked struct {
	filter store.EventFilter
	after  int64
	begun  beginning
	limit  int
}

// beginning says whether a reader named a cursor.
type beginning int

const (
	fromStart beginning = iota
	fromCursor
)

// askedEvents reads what the reader of events asks for.
func (q *request) askedEvents(p *query) (eventsAsked, error) {
	asked := eventsAsked{limit: p.limit(defaultEvents)}
	asked.filter.Types = words(p, "type", store.EventTypes())
	asked.filter.Queues = p.names("queue")
	cursor := p.text("cursor")
	if last := q.Header.Get(LastEventHeader); last != "" && q.streams() { // a reader that comes back: newer than its URL
		cursor = last
	}
	if cursor != "" {
		n, err := strconv.ParseInt(cursor, 10, 64)
		if err != nil || n < 0 || strconv.FormatInt(n, 10) != cursor {
			p.add("cursor", "is none that the events gave out; begin without one")
		}
		asked.after, asked.begun = n, fromCursor
	}
	if err := p.err(); err != nil {
		return asked, err
	}
	return asked, q.sees(asked.filter.Queues...)
}

// words returns a parameter that is a list of words of a few, parted by commas.
func words[T ~string](p *query, name string, known []T) []T {
	var list []T
	for _, s := range p.list(name, len(known)) {
		if slices.Contains(known, T(s)) {
			list = append(list, T(s))
			continue
		}
		texts := make([]string, len(known))
		for i, k := range known {
			texts[i] = string(k)
		}
		if near := nearest.To(s, texts); near != "" {
			p.add(name, "has the unknown %q; did you mean %s?", cut(s), near)
		} else {
			p.add(name, "has the unknown %q; known are %s", cut(s), strings.Join(texts, ", "))
		}
	}
	return list
}

// events returns a page of what happened, or all that happens from now on as a
// stream.
func (a *api) events(q *request) error {
	p := q.query(eventParameters...)
	wait := p.wait("wait")
	if q.streams() {
		for _, name := range []string{"limit", "wait"} {
			if _, said := p.values[name]; said {
				p.add(name, "is of pages; leave it out of a stream")
			}
		}
	}
	asked, err := q.askedEvents(p)
	if err != nil {
		return err
	}
	if q.streams() {
		return a.streamEvents(q, asked)
	}
	read, err := a.readEvents(q, asked)
	if err != nil {
		return err
	}
	if wait > 0 && len(read.Events) == 0 && !read.Gone {
		if a.stopping.Err() != nil {
			return errStopping
		}
		ctx, end := a.polling(q, wait)
		defer end()
		ctx, cancel := context.WithTimeout(ctx, wait)
		defer cancel()
		for len(read.Events) == 0 && ctx.Err() == nil {
			asked.after = read.Next
			if err := a.server.AwaitEvents(ctx, asked.after); err != nil && (!isDone(err) || q.Context().Err() != nil) {
				return err
			}
			if err := a.good(q.Context(), q); err != nil {
				return err
			}
			q.hold.shrink(0)
			if read, err = a.readEvents(q, asked); err != nil {
				return err
			}
		}
	}
	b := append(make([]byte, 0, 64+256*len(read.Events)), `{"events":[`...)
	for i := range read.Events {
		if i > 0 {
			b = append(b, ',')
		}
		b = jobserver.AppendEvent(b, &read.Events[i])
	}
	b = strconv.AppendInt(append(b, `],"next_cursor":"`...), read.Next, 10)
	b = appendFlag(append(b, `","gone":`...), read.Gone)
	return q.answer(http.StatusOK, append(b, '}'))
}

// readEvents reads a page, with room for it and for its JSON.
func (a *api) readEvents(q *request, asked eventsAsked) (store.EventsRead, error) {
	ctx, before := q.Context(), q.hold.bytes
	if err := q.hold.grow(ctx, before+int64(asked.limit)*eventRoom); err != nil {
		return store.EventsRead{}, err
	}
	read, err := a.server.Events(ctx, q.who, asked.filter, asked.after, asked.limit)
	if err != nil {
		return read, err
	}
	size := 0
	for i := range read.Events {
		size += 2 * (256 + len(read.Events[i].Data))
	}
	return read, q.hold.fit(ctx, before+int64(size))
}
