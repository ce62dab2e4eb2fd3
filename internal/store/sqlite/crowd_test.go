// These tests would catch a claim, a report, a circuit or a start that costs by the
// jobs that stand behind a shut gate, or by the endpoints that there are. They count
// steps of the library's machine and looks of the board, and no time.
package sqlite

import (
	"fmt"
	"os"
	"reflect"
	"testing"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
)

// sizes are the jobs behind the open circuit and the endpoints of a crowd: a share,
// or, with PAWL_LONG=1, all that is promised.
func sizes() (jobs, endpoints int) {
	if os.Getenv("PAWL_LONG") == "1" {
		return 1_000_000, 100_000
	}
	return 20_000, 1000
}

func endpointGate(name string) lane.Gate { return lane.Gate{Kind: lane.EndpointGate, Name: name} }

// patientCircuit opens at the first failure, for a day.
var patientCircuit = &circuit.Settings{Failures: 1, Cooldown: circuit.MaxCooldown}

// crowdLimits are the numbers of n endpoints, and of those that the tests work on.
func crowdLimits(n int) map[lane.Gate]store.Limits {
	all := map[lane.Gate]store.Limits{
		{Kind: lane.QueueGate, Name: "q"}: {Concurrency: n + 1000},
		endpointGate("down"):              {Circuit: patientCircuit},
		endpointGate("turns"):             {Circuit: patientCircuit},
		endpointGate("fine"):              {Concurrency: 1000, Rate: &limit.Rate{PerSecond: 1000, Burst: 1000}, Circuit: patientCircuit},
	}
	for i := range n {
		var l store.Limits
		switch i % 10 {
		case 3, 4:
			l.Rate = &limit.Rate{PerSecond: limit.MinPerSecond, Burst: 1}
		case 5, 6:
			l.Concurrency = 1
		default:
			l.Circuit = patientCircuit
		}
		all[endpointGate(fmt.Sprint("c", i))] = l
	}
	return all
}

// crowd lets n endpoints stand in the queue q, each with two lanes of due jobs and
// a gate that is shut: paused, held, with no token, at its concurrency, or with an
// open circuit. All of it comes about as it does in the field. The store's clock
// must stand still.
func crowd(t *testing.T, s *Store, n int) {
	t.Helper()
	if err := s.SetLimits(t.Context(), crowdLimits(n)); err != nil {
		t.Fatal(err)
	}
	var jobs []store.NewJob
	for i := range n {
		name := fmt.Sprint("c", i)
		if i%10 == 0 {
			if err := s.Pause(t.Context(), endpointGate(name), "me"); err != nil {
				t.Fatal(err)
			}
		}
		for _, task := range []string{"first", "rest"} {
			j := newJob("q")
			j.Task, j.Endpoint = task, name
			jobs = append(jobs, j)
		}
		if len(jobs) == 1000 || i == n-1 {
			put(t, s, jobs...)
			jobs = jobs[:0]
		}
	}
	w := want("q", 1000, 0)
	w.Tasks = []lane.Task{{Name: "first"}}
	for {
		c := claimNow(t, s, w)
		if c.err != nil {
			t.Fatal(c.err)
		}
		if len(c.Jobs) == 0 {
			break
		}
		var reports []store.Report
		for _, got := range c.Jobs {
			i := 0
			if _, err := fmt.Sscanf(got.Job.Endpoint, "c%d", &i); err != nil {
				t.Fatal(err)
			}
			r := store.Report{Type: store.Fail, Lease: got.Lease, Error: &job.Error{Message: "m"}}
			switch i % 10 {
			case 1, 2:
				r.Failure.RetryAfter = new(circuit.MaxHold)
			case 3, 4:
				r = store.Report{Type: store.Complete, Lease: got.Lease}
			case 5, 6:
				continue // it runs on
			}
			reports = append(reports, r)
		}
		say(t, s, reports...)
	}
}

// behindDown lets the circuit of the endpoint down open, and n jobs wait behind it,
// in ten lanes.
func behindDown(t *testing.T, s *Store, n int) {
	t.Helper()
	j := newJob("q")
	j.Task, j.Endpoint = "opens", "down"
	put(t, s, j)
	w := want("q", 1, 0)
	w.Tasks = []lane.Task{{Name: "opens"}}
	c := claimNow(t, s, w)
	if c.err != nil || len(c.Jobs) != 1 {
		t.Fatalf("%+v", c)
	}
	say(t, s, store.Report{Type: store.Fail, Lease: c.Jobs[0].Lease, Error: &job.Error{Message: "m"}})
	keys := make([]lane.Key, 10)
	for i := range keys {
		keys[i] = lane.Key{Queue: "q", Task: "mail", Version: "1", Endpoint: "down", Priority: i}
	}
	pileOn(t, s, keys, n)
}

// cost is what something took of the writer, counted: steps of the library's
// machine; pages, which see what a step hides, such as a count of rows; looks of the
// board.
type cost struct{ steps, pages, looks int }

func (a cost) minus(b cost) cost {
	return cost{a.steps - b.steps, a.pages - b.pages, a.looks - b.looks}
}

// spent is the writer's cost up to now, since its connection was opened.
func spent(t *testing.T, s *Store) (c cost) {
	t.Helper()
	c.steps = vmSteps(t, s)
	inWriter(t, s, func(x *tx) error {
		c.looks, c.pages = x.w.state.board.Looks(), pagesOf(t, x.w.conn)
		return nil
	})
	return c
}

// pagesOf is how many pages a connection has asked its cache for.
func pagesOf(t *testing.T, c *conn) int {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	var p uintptr
	for _, st := range c.stmts {
		p = uintptr(reflect.ValueOf(st.raw).Elem().FieldByName("pstmt").Uint())
		break
	}
	out := tls.Alloc(8)
	defer tls.Free(8)
	sum := 0
	for _, what := range []int32{sqlite3.SQLITE_DBSTATUS_CACHE_HIT, sqlite3.SQLITE_DBSTATUS_CACHE_MISS} {
		if rc := sqlite3.Xsqlite3_db_status(tls, sqlite3.Xsqlite3_db_handle(tls, p), what, out, out+4, 0); rc != 0 {
			t.Fatalf("the status of a connection: %d", rc)
		}
		sum += int(libc.AtomicLoadPInt32(out))
	}
	return sum
}

// above fails the test where something cost more in a crowd than alone: a tenth of
// the steps; three pages for each that it looked at, as the trees are deeper; and
// the looks of some levels of heaps that are deeper, too.
func (c cost) above(t *testing.T, what string, alone cost, deeper int) {
	t.Helper()
	t.Logf("%s: %+v, alone %+v", what, c, alone)
	if c.steps > alone.steps+alone.steps/10 || c.pages > 4*alone.pages || c.looks > alone.looks+deeper {
		t.Errorf("%s: %+v, alone %+v", what, c, alone)
	}
	if alone.steps < 100 || alone.pages < 3 || alone.looks == 0 {
		t.Errorf("%s: %+v: the counts are not what they should be", what, alone)
	}
}

// What is done in a store with a million jobs behind an open circuit and a hundred
// thousand endpoints, each with a gate that is shut, costs as much as in one that has
// little: a cycle of create, claim and report, of a job without an endpoint and of one
// whose endpoint has every kind of limit, alone and while another claim waits; and to
// open and to close the circuit of one endpoint.
func TestACrowdBacklog(t *testing.T) {
	jobs, endpoints := sizes()
	var of [2]map[string]cost
	for i, size := range []struct{ jobs, endpoints int }{{20, 20}, {jobs, endpoints}} {
		var h hand
		s := testStore(t, h.options(Options{}))
		crowd(t, s, size.endpoints)
		behindDown(t, s, size.jobs)
		checkGates(t, s, size.endpoints)
		of[i] = map[string]cost{"a job of no endpoint": cycles(t, s, ""), "a job of an endpoint with limits": cycles(t, s, "fine")}
		w := want("q", 1, forever)
		w.Tasks = []lane.Task{{Name: "none"}}
		park(t, s, t.Context(), w)
		of[i]["beside a claim that waits"] = cycles(t, s, "fine")
		of[i]["a circuit opens"], of[i]["a circuit closes"] = turns(t, s)
	}
	for what, alone := range of[0] {
		of[1][what].above(t, what, alone, 10*8*17) // ten cycles, of some moves in a heap of 100,000
	}
}

// cycles is the cost of ten jobs, from create to report. Their worker would take the
// crowd's, too.
func cycles(t *testing.T, s *Store, endpoint string) cost {
	t.Helper()
	j := newJob("q")
	j.Task, j.Endpoint = "work", endpoint
	cycle := func() {
		id := put(t, s, j)[0]
		c := claimNow(t, s, want("q", 5, 0))
		gets(t, c, id)
		say(t, s, store.Report{Type: store.Complete, Lease: c.Jobs[0].Lease})
	}
	cycle() // the lane and the policy are made
	before := spent(t, s)
	for range 10 {
		cycle()
	}
	return spent(t, s).minus(before)
}

// turns is the cost of opening, and of closing, the circuit of one endpoint.
func turns(t *testing.T, s *Store) (opens, closes cost) {
	t.Helper()
	stands := func(want circuit.State) {
		t.Helper()
		if c, err := s.Circuit(t.Context(), "turns"); err != nil || c.State != want {
			t.Fatalf("%+v, %v, want %s", c, err, want)
		}
	}
	j := newJob("q")
	j.Task, j.Endpoint = "work", "turns"
	put(t, s, j, j)
	got := claimNow(t, s, want("q", 5, 0))
	if len(got.Jobs) != 2 {
		t.Fatalf("%+v", got)
	}
	before := spent(t, s)
	say(t, s, store.Report{Type: store.Fail, Lease: got.Jobs[0].Lease, Error: &job.Error{Message: "m"}})
	opens = spent(t, s).minus(before)
	stands(circuit.Open)
	before = spent(t, s)
	if _, err := s.ResetCircuit(t.Context(), "turns", "me"); err != nil {
		t.Fatal(err)
	}
	closes = spent(t, s).minus(before)
	stands(circuit.Closed)
	return opens, closes
}

// checkGates fails the test where a crowd is not what it should be.
func checkGates(t *testing.T, s *Store, n int) {
	t.Helper()
	got := map[store.Barrier]int{}
	for i := range min(n, 20) {
		k := lane.Key{Queue: "q", Task: "rest", Version: "1", Endpoint: fmt.Sprint("c", i)}
		all, err := s.GateStates(t.Context(), k)
		if err != nil || len(all) != 1 {
			t.Fatalf("endpoint %d: %+v, %v", i, all, err)
		}
		got[all[0].Barrier]++
	}
	for barrier, n := range map[store.Barrier]int{
		store.BarrierPause: 2, store.BarrierHold: 4, store.BarrierRate: 4, store.BarrierConcurrency: 4, store.BarrierCircuit: 6,
	} {
		if got[barrier] != n {
			t.Errorf("%d endpoints wait for %s, want %d", got[barrier], barrier, n)
		}
	}
}

// A start costs by lanes and by running jobs, however many wait, have unique keys
// or were brought back.
func TestAStartBesideACrowdBacklog(t *testing.T) {
	jobs, most := sizes()
	for _, endpoints := range []int{20, most} {
		var h hand
		s := testStore(t, h.options(Options{}))
		crowd(t, s, endpoints)
		behindDown(t, s, 20)
		keep := func() {
			inWriter(t, s, func(x *tx) error {
				for _, text := range []string{
					"INSERT INTO uniq SELECT 'q', 'mail', seq, seq FROM job WHERE true ON CONFLICT DO NOTHING",
					"INSERT INTO brought SELECT seq, 'r' FROM job WHERE true ON CONFLICT DO NOTHING",
				} {
					if _, err := x.exec(text); err != nil {
						return err
					}
				}
				return nil
			})
		}
		keep()
		s = reopen(t, s, h.options(Options{}))
		few := spent(t, s)
		pileOn(t, s, []lane.Key{{Queue: "q", Task: "mail", Version: "1", Endpoint: "down", Priority: 99}}, jobs)
		keep()
		if n := rowsOf(t, s, "uniq"); n < int64(jobs) {
			t.Fatalf("%d unique keys", n)
		}
		s = reopen(t, s, h.options(Options{}))
		many := spent(t, s)
		many.above(t, "a start", few, few.looks) // the map of gates has another order
		if lanes := 2*endpoints + 12; many.steps > 100*lanes || many.looks > 100*lanes {
			t.Errorf("%+v for %d lanes", many, lanes)
		}
		checkMemory(t, s)
	}
}
