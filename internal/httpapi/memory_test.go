package httpapi

// What these tests would catch: memory that large requests or answers fill beyond
// its bound, or never give back; callers who keep others out by being slow; a job
// that is lost for want of memory; a reload that doubles what there is.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

func TestAKeyHasItsShareAndNoMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(10<<20, 4<<20)
		one, two, other := hold{of: m, key: "a"}, hold{of: m, key: "a"}, hold{of: m, key: "b"}
		must := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		must(one.grow(t.Context(), small))
		if one.bytes != 0 || len(m.shares) != 0 {
			t.Fatalf("a small one holds %d bytes", one.bytes)
		}
		must(one.grow(t.Context(), 3<<20))
		must(one.grow(t.Context(), 2<<20)) // fewer: nothing to do
		began := time.Now()
		if err := two.grow(t.Context(), 2<<20); !errors.Is(err, errLarge) || time.Since(began) != largeWait || two.share != nil {
			t.Fatalf("beyond its key's share: %v after %v", err, time.Since(began))
		}
		must(other.grow(t.Context(), 4<<20))
		if m.all.Held() != 7<<20 {
			t.Fatalf("%d bytes are held", m.all.Held())
		}
		ended := make(chan error)
		go func() { ended <- two.grow(t.Context(), 2<<20) }()
		synctest.Wait()
		one.shrink(2 << 20)
		must(<-ended)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := one.grow(ctx, 4<<20); !errors.Is(err, context.Canceled) || one.bytes != 2<<20 {
			t.Errorf("for a caller that is gone: %v", err)
		}
		for _, h := range []*hold{&one, &two, &other} {
			h.shrink(0)
			h.shrink(0)
		}
		if m.all.Held() != 0 || len(m.shares) != 0 {
			t.Errorf("in the end %d bytes are held, by %d keys", m.all.Held(), len(m.shares))
		}
		must(one.grow(t.Context(), 1<<40)) // larger than may be: alone with all of its key's share
		if one.bytes != 4<<20 {
			t.Errorf("it holds %d bytes", one.bytes)
		}
		must(one.fit(t.Context(), 1<<20))
		must(two.fit(t.Context(), 3<<20))
		if one.bytes != 1<<20 || two.bytes != 3<<20 || m.all.Held() != 4<<20 {
			t.Errorf("%d and %d bytes of %d", one.bytes, two.bytes, m.all.Held())
		}
	})
}

// All together are bounded, too: what one key waits for stands in nobody's way
// that has room.
func TestMemoryIsBounded(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const all, ofKey = 8 << 20, 5 << 20
		m := newMemory(all, ofKey)
		holds := make([]hold, 6)
		for i := range holds {
			holds[i] = hold{of: m, key: string(rune('a' + i%3))}
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel() // who would have to wait gives up at once
		for range rapid.IntRange(1, 60).Draw(rt, "steps") {
			h := &holds[rapid.IntRange(0, len(holds)-1).Draw(rt, "hold")]
			bytes, before := rapid.Int64Range(0, 6<<20).Draw(rt, "bytes"), h.bytes
			if err := h.fit(gone, bytes); err == nil && bytes > small && h.bytes != min(bytes, ofKey) || err != nil && h.bytes != before {
				rt.Fatalf("from %d to %d it holds %d: %v", before, bytes, h.bytes, err)
			}
			var sum int64
			of := map[string]int64{}
			for i := range holds {
				sum += holds[i].bytes
				of[holds[i].key] += holds[i].bytes
			}
			if sum > all || m.all.Held() != sum {
				rt.Fatalf("%d bytes are held, %d by the memory", sum, m.all.Held())
			}
			for key, bytes := range of {
				switch s := m.shares[key]; {
				case bytes > ofKey || (s != nil) != (bytes > 0):
					rt.Fatalf("the key %s holds %d", key, bytes)
				case s != nil && s.Held() != bytes:
					rt.Fatalf("the key %s holds %d, %d by its share", key, bytes, s.Held())
				}
			}
		}
	})
}

func TestAHandlerThatAReloadMakesHasTheSameMemory(t *testing.T) {
	var o Options
	if a, b := newAPI(o, process), newAPI(o, process); a.memory != b.memory || a.memory.all.Max() != maxLarge {
		t.Error("two handlers of a process have two memories")
	}
}

// slow is a request whose caller sent some of its body and does not go on.
type slow struct {
	to   *io.PipeWriter
	done chan int // its status
}

// slowly begins a create with a body of spaces so far.
func (r *rig) slowly(key string, sent, length int) slow {
	from, to := io.Pipe()
	s := slow{to, make(chan int, 1)}
	go func() {
		req, _ := http.NewRequestWithContext(r.Context(), "POST", r.url+"/v3/jobs", from)
		req.Header.Set("Authorization", "Bearer "+r.secret[key])
		req.Header.Set("Content-Type", "application/json")
		req.ContentLength = int64(length)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			s.done <- 0
			return
		}
		resp.Body.Close()
		s.done <- resp.StatusCode
	}()
	_, _ = io.WriteString(to, strings.Repeat(" ", sent))
	return s
}

// held waits until so many bytes are held.
func (r *rig) held(bytes int64) {
	r.Helper()
	r.until(fmt.Sprintf("%d bytes are held", bytes), func() bool { return r.memory.all.Held() >= bytes })
}

// until waits for what the server does beside the test.
func (r *rig) until(what string, is func() bool) {
	r.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			r.Fatalf("never: %s", what)
		}
	}
}

// TestSlowBodiesShutNobodyOut has callers that say a body is as large as may be,
// send a little and stop: they hold what came, not what was said.
func TestSlowBodiesShutNobodyOut(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const sent = small + 8<<10
	var open []slow
	for range 2 * maxLarge / MaxRequest {
		open = append(open, r.slowly("produce", sent, MaxRequest))
	}
	r.held(2 * small * int64(len(open)))
	if held := r.memory.all.Held(); held > 2*small*int64(len(open)) {
		t.Errorf("%d bytes are held for %d that came", held, sent*len(open))
	}
	large := strings.Repeat(" ", MaxRequest/2) + aJob
	r.make(large)
	is[Job](r.call("admin", "POST", "/v3/jobs", large), 201)
	for _, s := range open {
		s.to.CloseWithError(io.ErrUnexpectedEOF)
		<-s.done
	}
}

// TestLargeRequestsWaitForEachOther fills the share of one key with requests that
// do not go on: its small ones are served all the same, a large one is told to
// come back, and other keys know nothing of it.
func TestLargeRequestsWaitForEachOther(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const half = MaxRequest / 2
	var open []slow
	for range maxShare / MaxRequest {
		open = append(open, r.slowly("produce", half, half+len(aJob)))
	}
	r.held(int64(len(open) * (half + 1)))
	// What is left of the share is less than another one needs.
	rest := hold{of: r.memory, key: r.keyID("produce")}
	if err := rest.grow(t.Context(), maxShare-r.memory.all.Held()-small); err != nil {
		t.Fatal(err)
	}
	r.make(aJob)
	large := strings.Repeat(" ", half) + aJob
	a := r.call("produce", "POST", "/v3/jobs", large)
	if d := a.fails(problem.Unavailable); a.header.Get("Retry-After") == "" || !strings.Contains(d.Detail, "too many large requests") {
		t.Error(d.Detail)
	}
	is[Job](r.call("admin", "POST", "/v3/jobs", large), 201)
	for _, s := range open {
		_, _ = io.WriteString(s.to, aJob)
		s.to.Close()
		if status := <-s.done; status != http.StatusCreated {
			t.Errorf("a large request is answered %d", status)
		}
	}
	rest.shrink(0)
	r.make(large)
}

// keyID is the id of the rig's key of the name.
func (r *rig) keyID(name string) string {
	r.Helper()
	keys, err := r.store.Keys(r.Context())
	if err != nil {
		r.Fatal(err)
	}
	for _, k := range keys {
		if k.Name == name {
			return k.ID
		}
	}
	r.Fatalf("no key %s", name)
	return ""
}

// TestNoAnswerIsMadeWithoutRoom has no memory left for answers: what would read
// much is told to come back, and jobs that were taken go back as they were.
func TestNoAnswerIsMadeWithoutRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	big := r.make(`{"queue":"emails","task":"send","payload":"` + strings.Repeat("x", 1<<20-2) + `"}`)
	full := hold{of: r.memory, key: "another"}
	fuller := hold{of: r.memory, key: "a third"}
	for _, h := range []*hold{&full, &fuller} {
		if err := h.grow(t.Context(), maxShare); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(key, method, path, body string, headers ...string) {
		t.Helper()
		a := r.call(key, method, path, body, headers...)
		if d := a.fails(problem.Unavailable); a.header.Get("Retry-After") == "" || !strings.Contains(d.Detail, "nothing was done") {
			t.Error(d.Detail)
		}
	}
	var all sync.WaitGroup // each waits for a while
	all.Go(func() { refused("operate", "GET", "/v3/jobs", "") })
	all.Go(func() { refused("produce", "GET", "/v3/jobs/"+big.ID, "") })
	all.Go(func() {
		refused("work", "POST", "/v3/claims", `{"worker":"worker-1","queues":["emails"],"wait":"0s"}`)
	})
	all.Wait()
	// Small answers need none.
	is[Queues](r.call("operate", "GET", "/v3/queues", ""), 200)
	full.shrink(0)
	got := r.fetch(big.ID)
	if got.Status != job.Queued || got.AttemptsCharged != 0 || got.Lost != 0 {
		t.Errorf("the job that there was no room for is %s, %d attempts charged, %d lost", got.Status, got.AttemptsCharged, got.Lost)
	}
	if c := r.claim(`{"worker":"worker-1","queues":["emails"],"wait":"10s"}`); len(c.Jobs) != 1 || c.Jobs[0].Job.ID != big.ID {
		t.Errorf("%d jobs", len(c.Jobs))
	}
	fuller.shrink(0)
	r.until("all is given back", func() bool { return r.memory.all.Held() == 0 })
}

// TestAnAnswerHoldsItsRoomUntilItIsWritten has a caller that takes its answer
// slowly.
func TestAnAnswerHoldsItsRoomUntilItIsWritten(t *testing.T) {
	r := newRig(t)
	payload := strings.Repeat("x", 600_000)
	id := r.make(`{"queue":"emails","task":"send","payload":"` + payload + `"}`).ID
	r.until("the create's room is given back", func() bool { return r.memory.all.Held() == 0 })
	for _, c := range []struct{ name, key, method, path, body string }{
		{"get", "produce", "GET", "/v3/jobs/" + id, ""},
		{"list", "operate", "GET", "/v3/jobs", ""},
		{"claim", "work", "POST", "/v3/claims", `{"worker":"worker-1","queues":["emails"],"wait":"0s"}`},
		{"create", "produce", "POST", "/v3/jobs", `{"queue":"reports","task":"send","payload":"` + payload + `"}`},
	} {
		req, err := http.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+r.secret[c.key])
		req.Header.Set("Content-Type", "application/json")
		w := &taker{header: http.Header{}, taken: func(n int) {
			// Of the job, and of its JSON; nothing of what it might have been.
			if held := r.memory.all.Held(); held < 2*int64(len(payload)) || held > 3*int64(len(payload)) {
				t.Errorf("%s: %d bytes are held while %d are written", c.name, held, n)
			}
		}}
		r.api.ServeHTTP(w, req)
		if w.status > 201 || w.bytes < len(payload) {
			t.Errorf("%s: %d, %d bytes", c.name, w.status, w.bytes)
		}
		if held := r.memory.all.Held(); held != 0 {
			t.Errorf("%s: %d bytes are held after it", c.name, held)
		}
	}
}

// taker takes an answer.
type taker struct {
	header        http.Header
	status, bytes int
	taken         func(bytes int)
}

func (w *taker) Header() http.Header    { return w.header }
func (w *taker) WriteHeader(status int) { w.status = status }
func (w *taker) Write(b []byte) (int, error) {
	w.bytes += len(b)
	w.taken(len(b))
	return len(b), nil
}

// TestJobsThatCannotBeGivenBackAreTold is a claim without room whose jobs stay
// under leases: that nothing was done would be wrong.
func TestJobsThatCannotBeGivenBackAreTold(t *testing.T) {
	doc, wait := explain(fmt.Errorf("%w: %w", store.ErrUnknown, errLarge))
	if wait == 0 || !strings.Contains(doc.Detail, "not known") {
		t.Error(doc.Detail)
	}
}

// TestRoomIsFoundBeforeContentsAreRead asks the store itself: what it reads has
// its room by then, as much as it may be.
func TestRoomIsFoundBeforeContentsAreRead(t *testing.T) {
	base := newRig(t)
	made := base.make(aJob, KeyHeader, "k-1")
	base.until("the create is done", func() bool { return base.memory.all.Held() == 0 })
	asked := &asking{Store: base.store, memory: base.memory}
	r := rigWith(t, base, asked)
	for _, c := range []struct {
		name string
		call func() answer
		room int64
	}{
		{"a list", func() answer { return r.call("operate", "GET", "/v3/jobs?limit=500", "") }, 2 * jobserver.MaxAnswer},
		{"a short list", func() answer { return r.call("operate", "GET", "/v3/jobs?limit=1", "") }, jobRoom},
		{"a get", func() answer { return r.call("produce", "GET", "/v3/jobs/"+made.ID, "") }, jobRoom},
		{"logs", func() answer { return r.call("produce", "GET", "/v3/jobs/"+made.ID+"/attempts/1/logs", "") }, jobRoom},
		{"a repeat", func() answer { return r.call("produce", "POST", "/v3/jobs", aJob, KeyHeader, "k-1") }, jobRoom},
	} {
		asked.held = 0
		if a := c.call(); a.status >= 500 || asked.held != c.room {
			t.Errorf("%s, %d: %d bytes are held while it is read, not %d", c.name, a.status, asked.held, c.room)
		}
		r.until("its room is given back", func() bool { return r.memory.all.Held() == 0 })
	}
}

// asking is a store that notes what is held when it reads contents.
type asking struct {
	*sqlite.Store
	memory *memory
	held   int64
}

func (s *asking) Job(ctx context.Context, id string) (*job.Job, error) {
	s.held = s.memory.all.Held()
	return s.Store.Job(ctx, id)
}

func (s *asking) List(ctx context.Context, f store.Filter) (store.Page, error) {
	s.held = s.memory.all.Held()
	return s.Store.List(ctx, f)
}
