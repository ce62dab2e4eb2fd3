package lane_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/lane"
)

// Plans of a few lanes, by the rules of Plan one by one.
func TestPlans(t *testing.T) {
	const chunk = lane.Chunk
	type stands struct {
		key  lane.Key
		n    int64
		head time.Duration
	}
	in := func(queue, version string, priority int) lane.Key {
		return lane.Key{Queue: queue, Task: "t", Version: version, Priority: priority}
	}
	for name, c := range map[string]struct {
		lanes []stands
		want  lane.Want
		plan  []lane.Take
	}{
		"one lane": {
			[]stands{{in("q", "1", 0), 1000, -1}}, lane.Want{Queues: []string{"q"}, Max: 64}, []lane.Take{{Lane: 1, N: 64}},
		},
		"a lane's end": {
			[]stands{{in("q", "1", 0), 5, -1}}, lane.Want{Queues: []string{"q"}, Max: 64}, []lane.Take{{Lane: 1, N: 5}},
		},
		"a chunk, then the new head is to be known": {
			[]stands{{in("q", "1", 0), 1000, -1}, {in("q", "2", 0), 1000, -2}}, lane.Want{Queues: []string{"q"}, Max: 64},
			[]lane.Take{{Lane: 2, N: chunk}},
		},
		"short lanes by their heads": {
			[]stands{{in("q", "1", 0), 2, -1}, {in("q", "2", 0), 3, -3}, {in("q", "3", 0), 4, -2}}, lane.Want{Queues: []string{"q"}, Max: 8},
			[]lane.Take{{Lane: 2, N: 3}, {Lane: 3, N: 4}, {Lane: 1, N: 1}},
		},
		"all of a priority before the next": {
			[]stands{{in("q", "1", 0), 100, -9}, {in("q", "2", 5), 30, -1}}, lane.Want{Queues: []string{"q"}, Max: 64},
			[]lane.Take{{Lane: 2, N: 30}, {Lane: 1, N: 34}},
		},
		"no other priority past a head that is to be known": {
			[]stands{{in("q", "1", 0), 100, -9}, {in("q", "2", 5), 30, -1}, {in("q", "3", 5), 30, -1}}, lane.Want{Queues: []string{"q"}, Max: 64},
			[]lane.Take{{Lane: 2, N: chunk}},
		},
		"queues by turns of a chunk": {
			[]stands{{in("q", "1", 0), 100, -1}, {in("r", "1", 0), 100, -9}}, lane.Want{Queues: []string{"r", "q"}, Max: 40},
			[]lane.Take{{Lane: 1, N: 40 - chunk}, {Lane: 2, N: chunk}},
		},
		"not due, and empty": {
			[]stands{{in("q", "1", 0), 100, 1}, {in("q", "2", 0), 0, -1}}, lane.Want{Queues: []string{"q"}, Max: 40}, []lane.Take{},
		},
		"nothing for nothing": {
			[]stands{{in("q", "1", 0), 100, -1}}, lane.Want{Queues: []string{"q"}}, []lane.Take{},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := lane.NewBoard()
			for i, l := range c.lanes {
				b.Add(lane.ID(i+1), l.key)
				b.SetReady(lane.ID(i+1), l.n, start.Add(l.head*time.Second))
			}
			if diff := cmp.Diff(c.plan, b.Plan(start, c.want)); diff != "" {
				t.Errorf("the plan (-want +got):\n%s", diff)
			}
		})
	}
}

// What the board knows stays, whatever it is told twice or of lanes it does not
// know; and its time does not go back.
func TestBoard(t *testing.T) {
	b := lane.NewBoard()
	key, other := lane.Key{Queue: "q", Task: "t"}, lane.Key{Queue: "q", Task: "u"}
	b.Add(1, key)
	b.Add(1, other)
	b.Add(2, key)
	b.SetReady(7, 5, start)
	if id, ok := b.Find(key); !ok || id != 1 || b.Len() != 1 {
		t.Errorf("lane %d, %v; %d lanes", id, ok, b.Len())
	}
	if _, ok := b.Find(other); ok {
		t.Error("a lane that was refused is there")
	}
	plan := func(now time.Time) []lane.Take { return b.Plan(now, lane.Want{Queues: []string{"q"}, Max: 9}) }
	all := []lane.Take{{Lane: 1, N: 5}}
	b.SetReady(1, 5, start)
	if got := plan(start); !cmp.Equal(got, all) || !cmp.Equal(plan(start.Add(-time.Hour)), all) {
		t.Errorf("%v; what was due once is due no more by an earlier clock: %v", got, plan(start.Add(-time.Hour)))
	}
	b.Opened(start)
	b.SetReady(1, 5, start.Add(-time.Minute))
	if at, ok := b.NextDue(); ok {
		t.Errorf("what is due comes due at %v", at)
	}
	b.Shut(lane.Gate{Kind: lane.QueueGate, Name: "q"}, start.Add(time.Minute))
	if at, ok := b.NextDue(); !ok || !at.Equal(start.Add(time.Minute)) {
		t.Errorf("the gate opens at %v, %v", at, ok)
	}
	if got := b.Opened(start.Add(time.Minute - 1)); len(plan(start.Add(time.Minute-1))) > 0 || len(got) > 0 {
		t.Errorf("a gate opens before its time, for %v", got)
	}
	if got := b.Opened(start.Add(time.Minute)); !cmp.Equal(plan(start.Add(time.Minute)), all) || !cmp.Equal(got, []lane.ID{1}) {
		t.Errorf("a gate does not open when its time is over: %v", got)
	}
}

// What a plan opens on its way is told all the same, once.
func TestOpenedBetween(t *testing.T) {
	b := lane.NewBoard()
	b.Add(1, lane.Key{Queue: "q", Task: "t", Endpoint: "e"})
	b.SetReady(1, 5, start.Add(time.Second))
	b.Plan(start.Add(2*time.Second), lane.Want{Queues: []string{"other"}, Max: 1})
	if at, ok := b.NextDue(); !ok || at.After(start.Add(2*time.Second)) {
		t.Errorf("a lane opened untold, and the next moment is %v, %v", at, ok)
	}
	if got := b.Opened(start); !cmp.Equal(got, []lane.ID{1}) {
		t.Errorf("opened %v", got)
	}
	if got := b.Opened(start.Add(time.Hour)); len(got) > 0 {
		t.Errorf("told twice: %v", got)
	}
	b.Shut(lane.Gate{Kind: lane.EndpointGate, Name: "e"}, start.Add(2*time.Hour))
	if got := b.Opened(start.Add(3 * time.Hour)); !cmp.Equal(got, []lane.ID{1}) {
		t.Errorf("behind a gate whose time is over: %v", got)
	}
}
