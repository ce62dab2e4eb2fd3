// These tests catch a job that is taken though its gate is shut, its time has
// not come or nobody asked for it; one that is due and stays behind; one that
// others pass by priority or age; a queue that gets no turn; a claim over its
// maximum; a sleep past the moment at which a lane opens; and a cost that grows
// with what stands behind a shut gate, waits for its time or is not wanted.
// This file compares the board with a list of jobs, cost_test.go counts what a
// plan looks at.
package lane_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/lane"
)

var start = time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)

// waiting is a job of the reference.
type waiting struct {
	seq  int
	lane lane.ID
	due  time.Time
	// passed counts, by lane, the younger jobs that were taken before it by
	// somebody who would have taken it too.
	passed map[lane.ID]int
	// missed counts, by who claimed, the claims in a row that could have had it
	// and took nothing of its queue.
	missed map[string]int
}

// world is a board beside the list of all jobs that it should know of.
type world struct {
	*lane.Board
	now   time.Time
	keys  map[lane.ID]lane.Key
	jobs  []*waiting // in no order
	seqs  int
	shut  map[lane.Gate]time.Time // until; zero: until it is opened
	story []string
}

func newWorld() *world {
	return &world{Board: lane.NewBoard(), now: start, keys: map[lane.ID]lane.Key{}, shut: map[lane.Gate]time.Time{}}
}

func (w *world) tell(format string, args ...any) {
	w.story = append(w.story, fmt.Sprintf(format, args...))
}

// closed says whether a gate is shut now.
func (w *world) closed(g lane.Gate) bool {
	until, ok := w.shut[g]
	return ok && (until.IsZero() || w.now.Before(until))
}

func (w *world) open(k lane.Key) bool {
	return !w.closed(lane.Gate{Kind: lane.QueueGate, Name: k.Queue}) &&
		(k.Endpoint == "" || !w.closed(lane.Gate{Kind: lane.EndpointGate, Name: k.Endpoint}))
}

// due are the jobs that a claim may take now.
func (w *world) due(want lane.Want) (jobs []*waiting) {
	for _, j := range w.jobs {
		if k := w.keys[j.lane]; !j.due.After(w.now) && w.open(k) && want.Wants(k) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// line is what stands in a lane, in order.
func (w *world) line(id lane.ID) (jobs []*waiting) {
	for _, j := range w.jobs {
		if j.lane == id {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, byAge)
	return jobs
}

func byAge(a, b *waiting) int {
	if c := a.due.Compare(b.due); c != 0 {
		return c
	}
	return a.seq - b.seq
}

// set tells the board what stands in a lane.
func (w *world) set(id lane.ID) {
	jobs := w.line(id)
	if len(jobs) == 0 {
		w.SetReady(id, 0, time.Time{})
		return
	}
	w.SetReady(id, int64(len(jobs)), jobs[0].due)
}

func (w *world) create(k lane.Key, n int, due time.Time, apart time.Duration) {
	id, known := w.Find(k)
	if !known {
		for id = 1; w.keys[id] != (lane.Key{}); { // the numbers of removed ones are used again
			id++
		}
		w.Add(id, k)
		w.keys[id] = k
	}
	for i := range n {
		w.seqs++
		w.jobs = append(w.jobs, &waiting{seq: w.seqs, lane: id, due: due.Add(time.Duration(i) * apart), passed: map[lane.ID]int{}, missed: map[string]int{}})
	}
	w.set(id)
}

// claim takes jobs as a store does, and checks each plan by itself.
func (w *world) claim(t failer, want lane.Want) (taken []*waiting) {
	for left := want.Max; left > 0; {
		before := w.due(want)
		asked := want
		asked.Max = left
		plan := w.Plan(w.now, asked)
		if len(plan) == 0 {
			if len(before) > 0 {
				t.Fatalf("an empty plan for %+v while %d jobs can be had", asked, len(before))
			}
			break
		}
		sum, lanes := 0, map[lane.ID]bool{}
		for _, take := range plan {
			if lanes[take.Lane] {
				t.Fatalf("lane %d is twice in %v", take.Lane, plan)
			}
			lanes[take.Lane] = true
			sum += take.N
			k := w.keys[take.Lane]
			if !w.open(k) || !want.Wants(k) {
				t.Fatalf("%v takes of lane %d (%+v), which is shut or not wanted", plan, take.Lane, k)
			}
			got := 0
			gone := map[*waiting]bool{}
			for _, j := range w.line(take.Lane) {
				if got < take.N && !j.due.After(w.now) {
					got++
					taken, gone[j] = append(taken, j), true
				}
			}
			w.jobs = slices.DeleteFunc(w.jobs, func(j *waiting) bool { return gone[j] })
			if got == 0 {
				t.Fatalf("%v takes of lane %d, where nothing is due", plan, take.Lane)
			}
			left -= got
			w.set(take.Lane)
		}
		if sum > asked.Max {
			t.Fatalf("%v is more than %d", plan, asked.Max)
		}
		w.tell("    plan for %d: %v", asked.Max, plan)
	}
	w.check(t, want, taken)
	return taken
}

// check holds a whole claim against what it left behind.
func (w *world) check(t failer, want lane.Want, taken []*waiting) {
	behind := w.due(want)
	if len(behind) > 0 && len(taken) < want.Max {
		t.Fatalf("%d of %d taken, while %d are left", len(taken), want.Max, len(behind))
	}
	served := map[string]bool{}
	for _, j := range taken {
		served[w.keys[j.lane].Queue] = true
	}
	for _, y := range behind {
		ky := w.keys[y.lane]
		for _, x := range taken {
			kx := w.keys[x.lane]
			if kx.Queue != ky.Queue {
				continue
			}
			if kx.Priority < ky.Priority {
				t.Fatalf("job %d with priority %d was taken, job %d with %d was not", x.seq, kx.Priority, y.seq, ky.Priority)
			}
			if kx.Priority > ky.Priority || !x.due.After(y.due) {
				continue
			}
			if y.passed[x.lane]++; y.passed[x.lane] >= lane.Chunk {
				t.Fatalf("job %d of lane %d was passed by %d younger ones of lane %d", y.seq, y.lane, y.passed[x.lane], x.lane)
			}
		}
		who := fmt.Sprint(want.Queues, want.Tasks)
		if served[ky.Queue] {
			y.missed[who] = 0
		} else if y.missed[who]++; y.missed[who] >= len(queues) {
			t.Fatalf("%d claims went by queue %s while job %d stood in it", y.missed[who], ky.Queue, y.seq)
		}
	}
}

type failer interface {
	Fatalf(format string, args ...any)
}

var (
	queues     = []string{"a", "b", "c"}
	tasks      = []string{"t", "u"}
	versions   = []string{"1", "2"}
	endpoints  = []string{"", "x", "y", "z"}
	priorities = []int{-1, 0, 5}
)

func drawKey(t *rapid.T) lane.Key {
	return lane.Key{
		Queue: rapid.SampledFrom(queues).Draw(t, "queue"), Task: rapid.SampledFrom(tasks).Draw(t, "task"),
		Version: rapid.SampledFrom(versions).Draw(t, "version"), Endpoint: rapid.SampledFrom(endpoints).Draw(t, "endpoint"),
		Priority: rapid.SampledFrom(priorities).Draw(t, "priority"),
	}
}

func drawGate(t *rapid.T) lane.Gate {
	if rapid.Bool().Draw(t, "queue's") {
		return lane.Gate{Kind: lane.QueueGate, Name: rapid.SampledFrom(append(queues, "unused")).Draw(t, "queue")}
	}
	return lane.Gate{Kind: lane.EndpointGate, Name: rapid.SampledFrom(append(endpoints, "unused")).Draw(t, "endpoint")}
}

func drawWant(t *rapid.T) lane.Want {
	want := lane.Want{Max: rapid.SampledFrom([]int{1, 2, 7, 16, 17, 40, 200}).Draw(t, "max")}
	want.Queues = rapid.SliceOfN(rapid.SampledFrom(append(queues, "unused")), 1, 4).Draw(t, "queues")
	for range rapid.IntRange(0, 3).Draw(t, "tasks") {
		want.Tasks = append(want.Tasks, lane.Task{
			Name:    rapid.SampledFrom(append(tasks, "unused")).Draw(t, "task"),
			Version: rapid.SampledFrom(append(versions, "", "unused")).Draw(t, "version"),
		})
	}
	return want
}

// step does one thing that a rapid run draws.
func (w *world) step(t *rapid.T) {
	switch rapid.IntRange(0, 9).Draw(t, "step") {
	case 0, 1, 2:
		k, n := drawKey(t), rapid.SampledFrom([]int{1, 2, 15, 16, 17, 50}).Draw(t, "jobs")
		ahead := time.Duration(rapid.IntRange(0, 5).Draw(t, "ahead")) * time.Second
		apart := rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Second}).Draw(t, "apart")
		w.tell("%v: create %d of %+v in %v, %v apart", w.now.Sub(start), n, k, ahead, apart)
		w.create(k, n, w.now.Add(ahead), apart)
	case 3:
		g := drawGate(t)
		var until time.Time
		if d := rapid.IntRange(0, 6).Draw(t, "for"); d > 0 {
			until = w.now.Add(time.Duration(d) * time.Second)
		}
		w.tell("%v: shut %v until %v", w.now.Sub(start), g, until.Sub(start))
		w.Shut(g, until)
		w.shut[g] = until
	case 4:
		g := drawGate(t)
		w.tell("%v: open %v", w.now.Sub(start), g)
		w.Open(g)
		delete(w.shut, g)
	case 5:
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 4000).Draw(t, "pass")) * time.Millisecond)
	case 6:
		w.sleep(t)
	case 7:
		w.remove()
	default:
		want := drawWant(t)
		w.tell("%v: claim %+v", w.now.Sub(start), want)
		w.claim(t, want)
	}
}

// remove makes the board forget every lane in which nothing stands.
func (w *world) remove() {
	for id := range w.keys {
		if len(w.line(id)) == 0 {
			w.Remove(id)
			delete(w.keys, id)
		}
	}
	w.tell("%v: removed the empty lanes, %d are left", w.now.Sub(start), len(w.keys))
}

// sleep goes to the moment that NextDue names and checks that none was missed.
func (w *world) sleep(t failer) {
	w.Opened(w.now)
	at, ok := w.NextDue()
	if ok && !at.After(w.now) {
		t.Fatalf("the next moment, %v, is not ahead of %v", at.Sub(start), w.now.Sub(start))
	}
	// Time is in milliseconds here, so the last moment before at is one earlier.
	from := w.now
	if w.now = at.Add(-time.Millisecond); !ok {
		w.now = from.Add(24 * time.Hour)
	}
	open := w.lanesDue(from)
	if !maps.Equal(open, w.lanesDue(w.now)) {
		t.Fatalf("lanes open between %v and %v, and NextDue says %v, %v", from.Sub(start), w.now.Sub(start), at.Sub(start), ok)
	}
	if w.now = at; !ok {
		w.now = from.Add(24 * time.Hour)
	}
	opened := w.Opened(w.now)
	for id := range w.lanesDue(w.now) {
		if !open[id] && !slices.Contains(opened, id) {
			t.Fatalf("lane %d opened by %v, and Opened says %v", id, w.now.Sub(start), opened)
		}
	}
	w.tell("slept until %v", w.now.Sub(start))
}

// lanesDue are the lanes that are open at a time.
func (w *world) lanesDue(at time.Time) map[lane.ID]bool {
	now := w.now
	defer func() { w.now = now }()
	w.now = at
	lanes := map[lane.ID]bool{}
	for _, j := range w.due(lane.Want{Queues: queues, Max: 1}) {
		lanes[j.lane] = true
	}
	return lanes
}

func TestPlansKeepOrderAndGates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		defer func() {
			if t.Failed() {
				for _, line := range w.story {
					t.Log(line)
				}
			}
		}()
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			w.step(t)
		}
		// What is left comes out once every gate is open and all is due.
		for g := range w.shut {
			w.Open(g)
		}
		clear(w.shut)
		w.now = w.now.Add(time.Hour)
		w.claim(t, lane.Want{Queues: queues, Max: 1 << 20})
		if len(w.jobs) > 0 {
			t.Fatalf("%d jobs never came out", len(w.jobs))
		}
		w.remove()
		if left := w.Left(); left != "" {
			t.Fatalf("of no lane and no gate is left: %s", left)
		}
	})
}

// TestPlansKeepAge: few lanes, all with more jobs than a chunk, whose ages
// overlap in every way, against workers who take little and much.
func TestPlansKeepAge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		for i := range rapid.IntRange(2, 4).Draw(t, "lanes") {
			from := time.Duration(rapid.IntRange(0, 100).Draw(t, "from")) * time.Second
			apart := rapid.SampledFrom([]time.Duration{0, time.Second / 3, time.Second, 3 * time.Second}).Draw(t, "apart")
			k := lane.Key{Queue: rapid.SampledFrom(queues[:2]).Draw(t, "queue"), Task: "t", Version: fmt.Sprint(i)}
			w.create(k, rapid.IntRange(1, 60).Draw(t, "jobs"), start.Add(from-100*time.Second), apart)
		}
		for range 20 {
			w.claim(t, lane.Want{Queues: queues, Max: rapid.IntRange(1, 100).Draw(t, "max")})
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 10).Draw(t, "pass")) * time.Second)
		}
	})
}

// TestQueuesShare: queues that are never empty get the same share of what a
// worker takes, however much each claim takes and whoever else claims.
func TestQueuesShare(t *testing.T) {
	for _, most := range []int{1, 7, 16, 64, 200} {
		w := newWorld()
		for _, q := range queues {
			for v := range 3 {
				w.create(lane.Key{Queue: q, Task: "t", Version: fmt.Sprint(v)}, 400, start, 0)
			}
			w.create(lane.Key{Queue: q, Task: "later", Version: "1", Priority: 9}, 100, start.Add(time.Hour), 0)
		}
		shares := map[string]int{}
		for range 6 {
			for _, j := range w.claim(t, lane.Want{Queues: queues, Max: most}) {
				shares[w.keys[j.lane].Queue]++
			}
			w.claim(t, lane.Want{Queues: []string{"b", "c"}, Max: 5})
			w.claim(t, lane.Want{Queues: []string{"a"}, Max: 100})
		}
		for _, q := range queues {
			if got, even := shares[q], 6*most/len(queues); got < even-2*lane.Chunk || got > even+2*lane.Chunk {
				t.Errorf("at %d a claim, queue %s got %d of %d, want about %d", most, q, got, 6*most, even)
			}
		}
	}
}

func TestPlansAreDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := newWorld(), newWorld()
		type create struct {
			key   lane.Key
			ahead time.Duration
		}
		creates := make([]create, rapid.IntRange(1, 40).Draw(t, "creates"))
		for i := range creates {
			creates[i] = create{drawKey(t), time.Duration(rapid.IntRange(-3, 3).Draw(t, "ahead")) * time.Second}
		}
		for _, c := range creates {
			a.create(c.key, 20, start.Add(c.ahead), 0)
		}
		// The same end by another way: lanes fill and empty in between.
		for id := lane.ID(1); int(id) <= len(a.keys); id++ {
			b.Add(id, a.keys[id])
			b.keys[id] = a.keys[id]
		}
		for _, id := range rapid.Permutation(slices.Collect(ids(a))).Draw(t, "order") {
			b.SetReady(id, 3, start.Add(-time.Minute))
			b.SetReady(id, 0, time.Time{})
			b.SetReady(id, 9, start.Add(time.Minute))
		}
		for _, id := range rapid.Permutation(slices.Collect(ids(a))).Draw(t, "order again") {
			b.SetReady(a.ready(id))
		}
		for range 5 {
			want := drawWant(t)
			if diff := cmp.Diff(a.Plan(start, want), b.Plan(start, want)); diff != "" {
				t.Fatalf("two boards with the same lanes plan differently:\n%s", diff)
			}
		}
	})
}

func ids(w *world) func(func(lane.ID) bool) {
	return func(yield func(lane.ID) bool) {
		for id := lane.ID(1); int(id) <= len(w.keys) && yield(id); id++ {
		}
	}
}

func (w *world) ready(id lane.ID) (lane.ID, int64, time.Time) {
	jobs := w.line(id)
	return id, int64(len(jobs)), jobs[0].due
}
