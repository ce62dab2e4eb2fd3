package lane

import (
	"fmt"
	"testing"
	"time"
)

var epoch = time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)

// now is when the tests plan.
var now = epoch.Add(time.Second)

// crowd is a board whose queue "q" has a few open lanes of the task "t", and
// around them many lanes that a worker of "t" can't have.
func crowd(lanes int, around func(b *Board, id ID, i int)) *Board {
	b := NewBoard()
	for i := range 8 {
		id := ID(i + 1)
		b.Add(id, Key{Queue: "q", Task: "t", Version: "1", Endpoint: fmt.Sprintf("open-%d", i)})
		b.SetReady(id, 1000, epoch.Add(time.Duration(i)*time.Millisecond))
	}
	for i := range lanes {
		around(b, ID(i+100), i)
	}
	b.wake(now) // each lane comes due once, which is not a plan's cost
	return b
}

// crowds are the lanes that must cost a plan nothing.
var crowds = []struct {
	name   string
	around func(b *Board, id ID, i int)
}{
	{"behind shut endpoints", func(b *Board, id ID, i int) {
		endpoint := fmt.Sprintf("e-%d", i)
		b.Add(id, Key{Queue: "q", Task: "t", Version: "1", Endpoint: endpoint, Priority: 50})
		b.SetReady(id, 10, epoch.Add(-time.Hour))
		b.Shut(Gate{EndpointGate, endpoint}, time.Time{})
	}},
	{"behind one shut endpoint", func(b *Board, id ID, i int) {
		b.Shut(Gate{EndpointGate, "down"}, time.Time{})
		b.Add(id, Key{Queue: "q", Task: "t", Version: "1", Endpoint: "down", Priority: i})
		b.SetReady(id, 10, epoch.Add(-time.Hour))
	}},
	{"in a shut queue", func(b *Board, id ID, i int) {
		b.Shut(Gate{QueueGate, "r"}, time.Time{})
		b.Add(id, Key{Queue: "r", Task: "t", Version: "1", Endpoint: fmt.Sprintf("e-%d", i)})
		b.SetReady(id, 10, epoch.Add(-time.Hour))
	}},
	{"not due", func(b *Board, id ID, i int) {
		b.Add(id, Key{Queue: "q", Task: "t", Version: "1", Endpoint: fmt.Sprintf("e-%d", i), Priority: 50})
		b.SetReady(id, 10, epoch.Add(time.Hour+time.Duration(i)*time.Millisecond))
	}},
	{"of other tasks", func(b *Board, id ID, i int) {
		b.Add(id, Key{Queue: "q", Task: fmt.Sprintf("u-%d", i), Version: "1", Priority: 50})
		b.SetReady(id, 10, epoch.Add(-time.Hour))
	}},
	{"of other versions", func(b *Board, id ID, i int) {
		b.Add(id, Key{Queue: "q", Task: "t", Version: fmt.Sprintf("v-%d", i), Priority: 50})
		b.SetReady(id, 10, epoch.Add(-time.Hour))
	}},
	{"in other queues", func(b *Board, id ID, i int) {
		b.Add(id, Key{Queue: fmt.Sprintf("q-%d", i), Task: "t", Version: "1"})
		b.SetReady(id, 10, epoch.Add(-time.Hour))
	}},
	{"empty", func(b *Board, id ID, i int) {
		b.Add(id, Key{Queue: "q", Task: "t", Version: fmt.Sprintf("v-%d", i), Priority: 50})
		b.SetReady(id, 10, epoch)
		b.SetReady(id, 0, time.Time{})
	}},
}

var worker = Want{Queues: []string{"r", "q"}, Tasks: []Task{{"t", "1"}}, Max: 64}

// steps is what f costs.
func (b *Board) count(f func()) int {
	before := b.steps
	f()
	return b.steps - before
}

func TestAPlanCostsByWhatItCanHave(t *testing.T) {
	alone := crowd(0, nil)
	want := alone.count(func() { alone.Plan(now, worker) })
	if want == 0 {
		t.Fatal("a plan of eight lanes looked at nothing")
	}
	for _, c := range crowds {
		t.Run(c.name, func(t *testing.T) {
			b := crowd(30_000, c.around)
			got := b.count(func() {
				if len(b.Plan(now, worker)) == 0 {
					t.Error("nothing was planned")
				}
			})
			if got > want {
				t.Errorf("a plan looked %d times at lanes, %d times where it is alone", got, want)
			}
		})
	}
}

// TestAPlanOfManyLanesCostsByItsTakes: where every lane is open and wanted, a
// plan looks at those it takes and their neighbours in the heaps.
func TestAPlanOfManyLanesCostsByItsTakes(t *testing.T) {
	for name, key := range map[string]func(i int) Key{
		"of one task":    func(i int) Key { return Key{Queue: "q", Task: "t", Version: "1", Endpoint: fmt.Sprintf("e-%d", i)} },
		"of many tasks":  func(i int) Key { return Key{Queue: "q", Task: fmt.Sprintf("t-%d", i), Version: "1"} },
		"of many levels": func(i int) Key { return Key{Queue: "q", Task: "t", Version: "1", Priority: i} },
	} {
		t.Run(name, func(t *testing.T) {
			b := NewBoard()
			for i := range 30_000 {
				b.Add(ID(i+1), key(i))
				b.SetReady(ID(i+1), 1, epoch.Add(time.Duration(i*7919%30_000)*time.Microsecond))
			}
			b.wake(now)
			var plan []Take
			steps := b.count(func() { plan = b.Plan(now, Want{Queues: []string{"q"}, Max: 64}) })
			if len(plan) != 64 {
				t.Fatalf("%d takes, want 64", len(plan))
			}
			if most := 64 * 40; steps > most { // each take: pop and push two or four in a heap of some hundred
				t.Errorf("looked %d times at lanes for 64 takes, want at most %d", steps, most)
			}
		})
	}
}

// TestTheBoardIsKeptCheaply: what the store says of each job that comes and goes
// costs the depth of a heap at most.
func TestTheBoardIsKeptCheaply(t *testing.T) {
	b := crowd(30_000, crowds[3].around)
	for name, f := range map[string]func(){
		"one more job":    func() { b.SetReady(200, 11, epoch.Add(time.Hour+100*time.Millisecond)) },
		"an earlier head": func() { b.SetReady(25_000, 11, epoch.Add(time.Minute)) },
		"a later head":    func() { b.SetReady(100, 11, epoch.Add(24*time.Hour)) },
		"a shut queue":    func() { b.Shut(Gate{QueueGate, "q"}, epoch.Add(time.Minute)); b.Open(Gate{QueueGate, "q"}) },
		"a shut endpoint": func() { b.Shut(Gate{EndpointGate, "e-7"}, time.Time{}); b.Open(Gate{EndpointGate, "e-7"}) },
	} {
		if got := b.count(f); got > 120 { // two heaps of 30,000, 15 levels, two looks a level
			t.Errorf("%s took %d looks at lanes", name, got)
		}
	}
}

func BenchmarkPlan(b *testing.B) {
	board := crowd(30_000, crowds[0].around)
	b.ReportAllocs()
	for b.Loop() {
		board.Plan(now, worker)
	}
}

func BenchmarkSetReady(b *testing.B) {
	board := crowd(30_000, crowds[3].around)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		board.SetReady(ID(100+i%30_000), 10, epoch.Add(time.Hour+time.Duration(i)*time.Microsecond))
	}
}

// After a probe has failed, a plan asks once for each endpoint whether another task
// has something due, however many lanes of the avoided one it meets.
func TestAvoidingLooksOnce(t *testing.T) {
	const lanes = 2000
	b := NewBoard()
	now := time.UnixMilli(1_000_000)
	for i := range lanes {
		b.Add(ID(i+1), Key{Queue: "q", Task: "a", Version: "1", Endpoint: "e", Priority: i})
		b.SetReady(ID(i+1), 5, now)
	}
	b.Add(lanes+1, Key{Queue: "elsewhere", Task: "b", Version: "1", Endpoint: "e"})
	b.SetReady(lanes+1, 1, now)
	b.Set(Gate{EndpointGate, "e"}, Terms{Most: 1, Avoid: Task{"a", "1"}, AvoidUntil: now.Add(5 * time.Second)})
	var plan []Take
	steps := b.count(func() { plan = b.Plan(now, Want{Queues: []string{"q"}, Max: 10}) })
	if len(plan) != 0 {
		t.Errorf("the avoided task gets %v", plan)
	}
	if most := 100 * lanes; steps > most { // a heap of so many, and not lanes times lanes
		t.Errorf("%d looks at %d lanes, want at most %d", steps, lanes, most)
	}
}
