// These tests catch more jobs through a gate than its terms allow, a job that
// stays behind though every gate has room, a probe from the task that is to be
// avoided while another waits, and terms that are forgotten or never end.
package lane_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/lane"
)

// limited is a board beside what the gates have room for.
type limited struct {
	*lane.Board
	room map[lane.Gate]int // of gates that have terms
	keys []lane.Key
	n    []int
}

func (w *limited) gates(k lane.Key) []lane.Gate {
	return []lane.Gate{{Kind: lane.QueueGate, Name: k.Queue}, k.EndpointGate()}
}

// roomFor is how many jobs of the lane its gates have room for.
func (w *limited) roomFor(k lane.Key) int {
	room := 1 << 30
	for _, g := range w.gates(k) {
		if n, ok := w.room[g]; ok {
			room = min(room, n)
		}
	}
	return room
}

// set tells the board what a gate has room for.
func (w *limited) set(g lane.Gate, room int) {
	w.room[g] = room
	w.Set(g, lane.Terms{Shut: room == 0, Most: room})
}

// What a claim takes is as much as the gates have room for: no more in any plan,
// and in the end no job that could go is left while the claim wanted more.
func TestPlansKeepTheTerms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &limited{Board: lane.NewBoard(), room: map[lane.Gate]int{}}
		for q := range 2 {
			for e := range 3 {
				for task := range 2 {
					k := lane.Key{
						Queue: fmt.Sprintf("q%d", q), Task: fmt.Sprintf("t%d", task), Version: "1", Endpoint: fmt.Sprintf("e%d", e),
						Priority: rapid.IntRange(0, 1).Draw(t, "priority"), Synthetic: rapid.IntRange(0, 3).Draw(t, "synthetic") == 0,
					}
					n := rapid.IntRange(0, 40).Draw(t, "jobs")
					w.keys, w.n = append(w.keys, k), append(w.n, n)
					id := lane.ID(len(w.keys))
					w.Add(id, k)
					w.SetReady(id, int64(n), start.Add(time.Duration(rapid.IntRange(-5, 0).Draw(t, "head"))*time.Second))
					for _, g := range w.gates(k) {
						if _, known := w.room[g]; !known && rapid.Bool().Draw(t, "limited") {
							w.set(g, rapid.IntRange(0, 50).Draw(t, "room"))
						}
					}
				}
			}
		}
		for range 4 {
			want := lane.Want{Queues: []string{"q0", "q1"}, Max: rapid.IntRange(1, 60).Draw(t, "max")}
			if rapid.Bool().Draw(t, "one task") {
				want.Tasks = []lane.Task{{Name: "t0"}}
			}
			for want.Max > 0 {
				plan := w.Plan(start, want)
				if len(plan) == 0 {
					break
				}
				used := map[lane.Gate]int{}
				for _, take := range plan {
					i := int(take.Lane) - 1
					for _, g := range w.gates(w.keys[i]) {
						used[g] += take.N
					}
					w.n[i] -= take.N
					want.Max -= take.N
					w.SetReady(take.Lane, int64(w.n[i]), start)
					if w.n[i] < 0 || want.Max < 0 {
						t.Fatalf("%v takes too much", plan)
					}
				}
				for g, n := range used {
					if room, ok := w.room[g]; ok {
						if n > room {
							t.Fatalf("%v takes %d through %v, which has room for %d", plan, n, g, room)
						}
						w.set(g, room-n)
					}
				}
			}
			for i, k := range w.keys {
				if want.Max > 0 && w.n[i] > 0 && want.Wants(k) && w.roomFor(k) > 0 {
					t.Fatalf("%d more were wanted, %d of %+v wait and there is room for %d", want.Max, w.n[i], k, w.roomFor(k))
				}
			}
		}
	})
}

func TestAGateOpensForOne(t *testing.T) {
	b := lane.NewBoard()
	sad, glad := lane.Task{Name: "sad", Version: "1"}, lane.Task{Name: "glad", Version: "1"}
	for i, task := range []lane.Task{sad, glad} {
		b.Add(lane.ID(i+1), lane.Key{Queue: "q", Task: task.Name, Version: task.Version, Endpoint: "e", Priority: -i})
		b.SetReady(lane.ID(i+1), 100, start)
	}
	endpoint := lane.Gate{Kind: lane.EndpointGate, Name: "e"}
	opens, any := start.Add(time.Minute), start.Add(2*time.Minute)
	terms := lane.Terms{Shut: true, Until: opens, Most: 1, Avoid: sad, AvoidUntil: any}
	plan := func(now time.Time, tasks ...lane.Task) []lane.Take {
		return b.Plan(now, lane.Want{Queues: []string{"q"}, Tasks: tasks, Max: 50})
	}
	b.Set(endpoint, terms)
	if got := plan(opens.Add(-1)); len(got) > 0 {
		t.Errorf("before its time: %v", got)
	}
	if at, ok := b.NextDue(); !ok || !at.Equal(opens) {
		t.Errorf("it opens at %v, %v", at, ok)
	}
	if got := b.Opened(opens); len(got) != 2 {
		t.Errorf("opened: %v", got)
	}
	if got, want := plan(opens), []lane.Take{{Lane: 2, N: 1}}; !cmp.Equal(got, want) {
		t.Errorf("one of the other task though it is less urgent: %v", got)
	}
	if got := plan(opens, sad); len(got) > 0 {
		t.Errorf("the task that is to be avoided: %v", got)
	}
	if at, ok := b.NextDue(); !ok || !at.Equal(any) {
		t.Errorf("the choice ends at %v, %v", at, ok)
	}
	if got := b.Opened(any); len(got) != 2 {
		t.Errorf("when the choice ends who waits is told: %v", got)
	}
	if got, want := plan(any, sad), []lane.Take{{Lane: 1, N: 1}}; !cmp.Equal(got, want) {
		t.Errorf("then any task: %v", got)
	}
	b.Set(endpoint, terms)
	b.SetReady(2, 0, time.Time{})
	b.Opened(opens)
	if got, want := plan(opens), []lane.Take{{Lane: 1, N: 1}}; !cmp.Equal(got, want) {
		t.Errorf("where no other task waits: %v", got)
	}
	b.Open(endpoint)
	if got := plan(any); !slices.Equal(got, []lane.Take{{Lane: 1, N: 50}}) {
		t.Errorf("without terms: %v", got)
	}
	for _, id := range []lane.ID{1, 2} {
		b.Remove(id)
	}
	b.Set(endpoint, terms)
	b.Add(3, lane.Key{Queue: "q", Task: "late", Version: "1", Endpoint: "e"})
	b.SetReady(3, 10, start)
	if got := plan(any); !slices.Equal(got, []lane.Take{{Lane: 3, N: 1}}) {
		t.Errorf("terms hold for a lane that came after: %v", got)
	}
}

// Of a lane only the head is known to be due. Where a plan has used a gate up with
// more than heads, a job of lower priority does not overtake one that waits for it.
func TestAGateThatIsUsedUpByGuessLetsNobodyOvertake(t *testing.T) {
	b := lane.NewBoard()
	f := lane.Gate{Kind: lane.EndpointGate, Name: "f"}
	for id, k := range []lane.Key{
		1: {Queue: "q", Task: "t", Endpoint: "f"}, 2: {Queue: "q", Task: "u", Endpoint: "f"}, 3: {Queue: "q", Task: "v", Endpoint: "f"},
		4: {Queue: "q", Task: "t", Priority: -5},
	} {
		if id > 0 {
			b.Add(lane.ID(id), k)
			b.SetReady(lane.ID(id), 2, start.Add(time.Duration(id-10)*time.Second))
		}
	}
	b.Set(f, lane.Terms{Most: 4})
	want := lane.Want{Queues: []string{"q"}, Max: 10}
	if d := cmp.Diff([]lane.Take{{Lane: 1, N: 2}, {Lane: 2, N: 2}}, b.Plan(start, want)); d != "" {
		t.Fatalf("(-want +got)\n%s", d)
	}
	// One of each was due, so there is room for the third lane.
	b.SetReady(1, 1, start.Add(time.Hour))
	b.SetReady(2, 1, start.Add(time.Hour))
	b.Set(f, lane.Terms{Most: 2})
	if plan := b.Plan(start, want); len(plan) == 0 || plan[0] != (lane.Take{Lane: 3, N: 2}) {
		t.Fatalf("then %v", plan)
	}
}
