package e2e

import (
	"bufio"
	"context"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// happened is an event as the API shows it.
type happened struct {
	ID       string    `json:"id"`
	Type     string    `json:"type"`
	At       time.Time `json:"at"`
	Job      string    `json:"job"`
	Endpoint string    `json:"endpoint"`
	Replay   string    `json:"replay"`
	Data     struct {
		Attempt    int        `json:"attempt"`
		Outcome    string     `json:"outcome"`
		Reason     string     `json:"reason"`
		Error      *errorTold `json:"error"`
		By         string     `json:"by"`
		State      string     `json:"state"`
		Generation int64      `json:"generation"`
		HeldUntil  time.Time  `json:"held_until"`
	} `json:"data"`
}

func (e happened) String() string {
	return fmt.Sprintf("%s %s %s job %q attempt %d %s %s", e.ID, e.At.Format("15:04:05.000"), e.Type, e.Job, e.Data.Attempt, e.Data.Outcome, e.Data.By)
}

// events returns a page of events behind a cursor as they were written.
func (j *jobServer) events(cursor string, wait time.Duration) (code int, page []jsontext.Value, next string) {
	code, text := j.call(http.MethodGet, "/v3/events?limit=200&cursor="+cursor+"&wait="+wait.String(), "", nil)
	if code != http.StatusOK {
		return code, nil, cursor
	}
	var answer struct {
		Events []jsontext.Value `json:"events"`
		Next   string           `json:"next_cursor"`
		Gone   bool             `json:"gone"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || answer.Gone {
		j.Errorf("events behind %s: gone %v, %v in %s", cursor, answer.Gone, err, text)
		return 0, nil, cursor
	}
	return code, answer.Events, answer.Next
}

// book is what those who follow the events saw, over every restart.
type book struct {
	api *jobServer

	mu     sync.Mutex
	text   map[int64]string   // as it was seen first
	seen   map[string][]int64 // by follower, in its order
	moved  int                // how often circuits did
	failed []string
}

func newBook(api *jobServer) *book {
	return &book{api: api, text: map[int64]string{}, seen: map[string][]int64{}}
}

// follow begins to follow the events by cursor and as a stream, until the test
// ends. Both have begun when it returns.
func (b *book) follow() {
	ctx, stop := context.WithCancel(context.Background())
	var all sync.WaitGroup
	b.api.Cleanup(func() { stop(); all.Wait() })
	begun := make(chan struct{})
	begins := sync.OnceFunc(func() { close(begun) })
	all.Go(func() {
		cursor := "0"
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			_, page, next := b.api.events(cursor, 200*time.Millisecond)
			for _, text := range page {
				b.note("the follower", text)
			}
			cursor = next
		}
	})
	all.Go(func() {
		last := ""
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			last = b.stream(ctx, last, begins)
		}
	})
	select {
	case <-begun:
	case <-time.After(patience):
		b.api.Fatal("no stream began")
	}
}

// stream follows the events as a stream until it breaks, and returns the last id.
func (b *book) stream(ctx context.Context, last string, begun func()) string {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, b.api.url+"/v3/events", nil)
	if err != nil {
		b.api.Error(err)
		return last
	}
	r.Header.Set("Authorization", "Bearer "+adminKey)
	r.Header.Set("Accept", "text/event-stream")
	if last != "" {
		r.Header.Set("Last-Event-ID", last)
	}
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return last
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		if res.StatusCode != http.StatusServiceUnavailable {
			b.api.Errorf("a stream was answered %s", res.Status)
		}
		return last
	}
	id, kind, data := last, "", ""
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		line := lines.Text()
		field, value, _ := strings.Cut(line, ": ")
		if field == "" && line != "" {
			continue // a remark
		}
		switch field {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			data = value
		case "": // the end of one; what was cut off before it is none
			if last == "" {
				b.mark("the stream", id)
			}
			if last = id; data != "" {
				if kind == "gone" {
					b.api.Errorf("the stream says %s", data)
				} else {
					b.note("the stream", jsontext.Value(data))
				}
			}
			kind, data = "", ""
			begun()
		}
	}
	return last
}

// mark notes behind which event a follower begins.
func (b *book) mark(who, id string) {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		b.api.Errorf("%s begins with the id %q", who, id)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.seen[who] = append(b.seen[who], n)
}

// note takes in an event that a follower saw.
func (b *book) note(who string, text jsontext.Value) {
	var e happened
	if err := json.Unmarshal(text, &e); err != nil {
		b.api.Errorf("%s saw %s: %v", who, text, err)
		return
	}
	id, err := strconv.ParseInt(e.ID, 10, 64)
	if err != nil {
		b.api.Errorf("%s saw %s: %v", who, text, err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if seen := b.seen[who]; len(seen) > 0 && id <= seen[len(seen)-1] {
		b.failed = append(b.failed, fmt.Sprintf("%s saw event %d after %d", who, id, seen[len(seen)-1]))
	}
	if strings.HasPrefix(e.Type, "circuit.") && who == "the follower" {
		b.moved++
	}
	b.seen[who] = append(b.seen[who], id)
	if first, there := b.text[id]; !there {
		b.text[id] = string(text)
	} else if first != string(text) {
		b.failed = append(b.failed, fmt.Sprintf("%s saw event %d as %s, which was %s", who, id, text, first))
	}
}

func (b *book) moves() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.moved
}

// last is the newest event that a follower saw.
func (b *book) last(who string) int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	if seen := b.seen[who]; len(seen) > 0 {
		return seen[len(seen)-1]
	}
	return 0
}

// read reads all events from the first one.
func (b *book) read(t *testing.T) *story {
	t.Helper()
	st := &story{}
	for cursor := "0"; ; {
		code, page, next := b.api.events(cursor, 0)
		if code != http.StatusOK {
			t.Fatalf("events are answered %d", code)
		}
		if len(page) == 0 {
			return st
		}
		for _, text := range page {
			b.note("the reader", text)
			var e happened
			if err := json.Unmarshal(text, &e); err != nil {
				t.Fatal(err)
			}
			st.all = append(st.all, e)
		}
		cursor = next
	}
}

// story reads all events, and checks that those who followed them saw the same.
func (b *book) story(t *testing.T) *story {
	t.Helper()
	st := b.read(t)
	ids := b.seen["the reader"]
	for _, who := range []string{"the follower", "the stream"} {
		inTime(func() bool { return b.last(who) >= ids[len(ids)-1] }) // what is missing is told below
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, problem := range b.failed {
		t.Error(problem)
	}
	if got := b.seen["the follower"]; !slices.Equal(got, ids) {
		t.Errorf("the follower saw %d events of %d; they part at %d", len(got), len(ids), parting(got, ids))
	}
	got := b.seen["the stream"]
	from, _ := slices.BinarySearch(ids, got[0]+1) // its first is the one that it began behind
	if !slices.Equal(got[1:], ids[from:]) {
		t.Errorf("the stream saw %d events of %d behind %d; they part at %d", len(got)-1, len(ids)-from, got[0], parting(got[1:], ids[from:]))
	}
	return st
}

// parting is the first event that two lists do not share.
func parting(a, b []int64) int64 {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return min(a[i], b[i])
		}
	}
	return -1
}
