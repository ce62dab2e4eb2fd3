// These tests would catch an event that its row changes, loses or gives to the
// event beside it, a reader that skips or doubles one at the edge of a row or of a
// page, and a damaged row that crashes its reader.
package sqlite

import (
	"encoding/json/v2"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// anEvent draws an event of few values, so that neighbours share some.
func anEvent(t *rapid.T) newEvent {
	name := rapid.SampledFrom([]string{"", "a", "b\x00", "ü"})
	number := rapid.OneOf(rapid.Int64Range(-2, 2), rapid.Int64())
	e := newEvent{
		kind: rapid.SampledFrom(store.EventTypes()).Draw(t, "type"), at: number.Draw(t, "at"),
		seq: number.Draw(t, "seq"), made: number.Draw(t, "made"),
		lane:     lane.Key{Queue: name.Draw(t, "queue"), Task: name.Draw(t, "task"), Version: name.Draw(t, "version")},
		endpoint: name.Draw(t, "endpoint"), subject: name.Draw(t, "subject"),
		data: eventData{Attempt: rapid.IntRange(0, 2).Draw(t, "attempt"), By: name.Draw(t, "by")},
	}
	if rapid.Bool().Draw(t, "failed") {
		e.data.Error = &job.Error{Message: name.Draw(t, "message")}
	}
	return e
}

func TestBlocksKeepEvents(t *testing.T) {
	var b eventBlock // used again and again, as the writer does
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Int64Range(1, 1<<50).Draw(t, "first")
		var want, got []string
		b.begin(first)
		for i, e := range rapid.SliceOfN(rapid.Custom(anEvent), 1, 20).Draw(t, "events") {
			if err := b.add(&e); err != nil {
				t.Fatal(err)
			}
			data, err := json.Marshal(e.data)
			if err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("%#v", []any{first + int64(i), e.kind, e.at, e.seq, e.made,
				e.lane.Queue, e.lane.Task, e.lane.Version, e.endpoint, e.subject, string(data)}))
		}
		read := func(limit int) (read []string) {
			if err := readBlock(b.body, func(e *readEvent) bool {
				read = append(read, fmt.Sprintf("%#v", []any{e.ID, e.Type, e.at, e.seq, e.made,
					e.Queue, e.Task, e.Version, e.Endpoint, e.Subject, string(e.Data)}))
				return len(read) == limit
			}); err != nil {
				t.Fatal(err)
			}
			return read
		}
		if got = read(len(want) + 1); !cmp.Equal(want, got) {
			t.Fatal(cmp.Diff(want, got))
		}
		if got = read(1); !cmp.Equal(want[:1], got) {
			t.Fatal(cmp.Diff(want[:1], got))
		}
	})
}

// What one transaction does may fill several rows; a reader of any page sees each
// event once, from wherever it begins.
func TestEventsOfManyRows(t *testing.T) {
	s := testStore(t, Options{})
	if err := s.WantEvents(t.Context(), store.EventTypes()); err != nil {
		t.Fatal(err)
	}
	const jobs = 300
	made := make([]store.NewJob, jobs)
	for i := range made {
		made[i] = newJob("q")
	}
	created, err := s.Create(t.Context(), made)
	if err != nil {
		t.Fatal(err)
	}
	got := claimNow(t, s, want("q", jobs, 0))
	reports := make([]store.Report, len(got.Jobs))
	for i, l := range got.Jobs {
		reports[i] = store.Report{Type: store.Fail, Lease: l.Lease, Error: &job.Error{Message: fmt.Sprint(i, strings.Repeat("x", 4000))}}
	}
	if _, err := s.Report(t.Context(), reports); err != nil {
		t.Fatal(err)
	}
	rows := int64(0)
	if err := s.readers.use(t.Context(), func(c *conn) error {
		_, err := c.one("SELECT count(*) FROM event", func(r *row) error { rows = r.int(0); return nil })
		return err
	}); err != nil || rows < 1+jobs*4000/blockBytes || rows > 20 {
		t.Fatalf("%d rows, %v", rows, err)
	}
	for _, page := range []int{1, 7, 500} {
		seen, after := map[string]int{}, int64(0)
		for {
			read, err := s.Events(t.Context(), store.EventFilter{}, after, page)
			if err != nil {
				t.Fatal(err)
			}
			if len(read.Events) == 0 {
				break
			}
			for _, e := range read.Events {
				if after++; e.ID != after {
					t.Fatalf("event %d after %d", e.ID, after-1)
				}
				seen[string(e.Type)+" "+e.Job]++
			}
			if read.Next != after {
				t.Fatalf("next is %d after %d", read.Next, after)
			}
		}
		if after != 2*jobs || len(seen) != 2*jobs {
			t.Fatalf("pages of %d: %d events, %d different ones", page, after, len(seen))
		}
		if seen[string(store.JobCreated)+" "+created[7].ID] != 1 {
			t.Errorf("no event of %s", created[7].ID)
		}
	}
}

// A page is full however small the rows are, and a filter that nothing passes comes
// to the end in steps.
func TestEventsOfSmallAndLargeRows(t *testing.T) {
	s := testStore(t, Options{})
	last := int64(0)
	if err := s.writer.submit(t.Context(), 0, func(t *tx) error {
		for _, size := range []int{1, blockEvents} {
			for range 600 {
				t.w.block.begin(last + 1)
				for range size {
					last++
					if err := t.w.block.add(&newEvent{kind: store.QueuePaused, at: last, lane: lane.Key{Queue: "q"}}); err != nil {
						return err
					}
				}
				if _, err := t.exec(sqlEvent, last, last, t.w.block.body); err != nil {
					return err
				}
			}
		}
		t.w.state.event = last
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	read, err := s.Events(t.Context(), store.EventFilter{}, 0, store.EventsPage)
	if err != nil || len(read.Events) != store.EventsPage || read.Next != store.EventsPage {
		t.Errorf("%d events, next %d, %v", len(read.Events), read.Next, err)
	}
	for after := int64(0); after < last; after = read.Next {
		read, err = s.Events(t.Context(), store.EventFilter{Types: []store.EventType{store.JobFailed}}, after, 1)
		if err != nil || len(read.Events) != 0 || read.Next < min(after+eventLook, last) {
			t.Fatalf("behind %d: %d events, next %d, %v", after, len(read.Events), read.Next, err)
		}
	}
}

func TestDamagedEvents(t *testing.T) {
	s := testStore(t, Options{})
	if err := s.writer.submit(t.Context(), 0, func(t *tx) error {
		t.w.state.event++
		_, err := t.exec(sqlEvent, 1, 1, []byte("\x08\x01\x12\x7f"))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Events(t.Context(), store.EventFilter{}, 0, 10); err == nil || !strings.Contains(err.Error(), "a row of events is damaged") {
		t.Errorf("%v", err)
	}
}

func FuzzReadBlock(f *testing.F) {
	var b eventBlock
	b.begin(7)
	for _, e := range []newEvent{
		{kind: store.JobCreated, at: 5, seq: 1, made: 5, lane: lane.Key{Queue: "q"}},
		{kind: store.CircuitOpened, at: 6, endpoint: "e", data: eventData{Generation: 3}},
	} {
		if err := b.add(&e); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(b.body)
	f.Add([]byte("\x08\x01\x12\x7f"))
	f.Fuzz(func(t *testing.T, body []byte) {
		n := 0
		_ = readBlock(body, func(*readEvent) bool { n++; return false }) // any answer but a panic
		if n > len(body) {
			t.Errorf("%d events in %d bytes", n, len(body))
		}
	})
}
