package sqlite

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// Each hot statement finds its rows by an index: a scan would be fast in every
// test and slow in the field.
func TestWriterPlans(t *testing.T) {
	s := testStore(t, Options{})
	for text, want := range map[string]string{
		sqlCount:    "SEARCH mark USING INTEGER PRIMARY KEY (rowid=?)",
		sqlCommits:  "SEARCH mark USING INTEGER PRIMARY KEY (rowid=?)",
		sqlMark:     "SEARCH mark USING INTEGER PRIMARY KEY (rowid=?)",
		sqlIdem:     "SEARCH i USING PRIMARY KEY (key=?)\nSEARCH j USING INTEGER PRIMARY KEY (rowid=?)",
		sqlPolicyOf: "SEARCH policy USING COVERING INDEX sqlite_autoindex_policy_1 (hash=?)",
		sqlPolicy:   "SEARCH policy USING INTEGER PRIMARY KEY (rowid=?)",
		sqlHeads:    "SEARCH ready USING PRIMARY KEY (lane=?)",
		sqlTake:     "SEARCH ready USING PRIMARY KEY (lane=? AND (run_at,seq)<(?,?))",
		sqlTaken:    "SEARCH ready USING PRIMARY KEY (lane=? AND (run_at,seq)<(?,?))",
		sqlEnded:    "SEARCH running USING INTEGER PRIMARY KEY (rowid=?)",
		sqlStart:    "SEARCH running USING INTEGER PRIMARY KEY (rowid=?)",
		sqlHeard:    "SEARCH running USING INTEGER PRIMARY KEY (rowid=?)",
		sqlLogCut:   "SEARCH running USING INTEGER PRIMARY KEY (rowid=?)",
		sqlSettled: "SEARCH a USING INDEX attempt_job (seq=? AND number=?)\nSEARCH j USING INTEGER PRIMARY KEY (rowid=?)\n" +
			"SEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
		sqlHandBackOld: "SEARCH attempt USING INDEX attempt_job (seq=? AND number=?)",
		sqlLogOld:      "SEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
		sqlLaneGone:    "SEARCH lane USING INTEGER PRIMARY KEY (rowid=?)",
		sqlTallyGone:   "SEARCH tally USING INTEGER PRIMARY KEY (rowid=?)",
		sqlHandBack:    "SEARCH attempt USING INDEX attempt_job (seq=? AND number=?)\nCORRELATED SCALAR SUBQUERY 1\nSEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
		sqlLogSize:     "SEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
		sqlLogHas:      "SEARCH log USING PRIMARY KEY (seq=? AND attempt=? AND n=?)",
		sqlResume:      "SEARCH pause USING PRIMARY KEY (kind=? AND name=?)",
		sqlLoadLanes:   "SCAN l\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?) LEFT-JOIN\nCORRELATED SCALAR SUBQUERY 1\nSEARCH r USING PRIMARY KEY (lane=?)",
		sqlLoadRunning: "SCAN running",
		sqlLoadPauses:  "SCAN pause",
		// These find nothing: they insert.
		sqlTally: "", sqlIdemNew: "", sqlLaneNew: "", sqlJobNew: "", sqlReadyNew: "", sqlPolicyNew: "",
		sqlAttempt: "", sqlLogNew: "", sqlPause: "",
	} {
		var plan []string
		err := s.readers.use(t.Context(), func(c *conn) error {
			return c.each("EXPLAIN QUERY PLAN "+text, func(r *row) error { plan = append(plan, r.text(3)); return nil }, nulls(text)...)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Join(plan, "\n"); got != want {
			t.Errorf("%s\n got %q\nwant %q", text, got, want)
		}
	}
}

// nulls are arguments for a statement that is not run.
func nulls(text string) []any { return make([]any, strings.Count(text, "?")) }

// No statement of the writer is prepared a second time, not by the library
// either: that costs more than the statement.
func TestNothingIsPreparedAnew(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	round := func(i int) {
		jobs := []store.NewJob{newJob("q"), newJob("q"), newJob("q"), newJob("q"), newJob("q"), newJob("later")}
		for k := range jobs {
			jobs[k].Key = fmt.Sprintf("%d/%d", i, k)
		}
		jobs[5].Delay = time.Hour
		put(t, s, jobs...)
		put(t, s, jobs[0])
		leases := take(t, s, "q", 1+i%4)
		for k, l := range leases {
			say(t, s,
				store.Report{Type: store.Start, Lease: l.Lease}, store.Report{Type: store.Heartbeat, Lease: l.Lease},
				store.Report{Type: store.AddLog, Lease: l.Lease, Lines: []job.LogLine{{Seq: int64(i), Message: "m"}}},
				[]store.Report{
					{Type: store.Complete, Lease: l.Lease, Result: []byte("1")},
					{Type: store.Fail, Lease: l.Lease, Error: &job.Error{Message: "m"}},
					{Type: store.Release, Lease: l.Lease},
				}[k%3])
		}
		relay := want("q", 2, 0)
		relay.Worker = store.RelayWorker + "in"
		for _, c := range claimNow(t, s, relay).Jobs {
			say(t, s, store.Report{Type: store.Release, Lease: c.Lease})
		}
		take(t, s, "q", 2)
		h.step(time.Minute)
		if _, err := s.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 40 {
		round(i)
	}
	again, sorts := figures(t, s, sqlite3.SQLITE_STMTSTATUS_REPREPARE), figures(t, s, sqlite3.SQLITE_STMTSTATUS_SORT)
	ran := 0
	for text, n := range figures(t, s, sqlite3.SQLITE_STMTSTATUS_RUN) {
		ran += n
		if again[text] > 0 || sorts[text] > 0 {
			t.Errorf("prepared anew %d times, sorted %d times: %s", again[text], sorts[text], text)
		}
	}
	if ran < 40*20 {
		t.Errorf("statements ran %d times: the counts are not the library's", ran)
	}
	if n := len(again); n > maxStatements {
		t.Errorf("%d statements are kept: is one made up by its values?", n)
	}
}

// figures is what the library counts of each of the writer's statements.
func figures(t *testing.T, s *Store, what int32) map[string]int {
	t.Helper()
	tls := libc.NewTLS()
	defer tls.Close()
	found := map[string]int{}
	err := s.writer.submit(t.Context(), 0, func(x *tx) error {
		for text, st := range x.w.conn.stmts {
			p := uintptr(reflect.ValueOf(st.raw).Elem().FieldByName("pstmt").Uint())
			if p == 0 {
				return fmt.Errorf("%s is more than one statement", text)
			}
			found[text] = int(sqlite3.Xsqlite3_stmt_status(tls, p, what, 0))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// What a job costs does not depend on what else stands in the store. Counted in
// steps of the library's machine, which see a scan of rows and of indexes. A
// hundredth of the backlogs does for that; PAWL_LONG=1 takes them whole.
func TestWorkBesideABacklog(t *testing.T) {
	share := 100
	if os.Getenv("PAWL_LONG") == "1" {
		share = 1
	}
	steps := map[string]int{}
	for _, at := range backlogs {
		s := testStore(t, Options{})
		if at.jobs > 0 {
			pile(t, s, "other", max(at.lanes/share, 1), at.jobs/share)
			pile(t, s, "q", 1, at.jobs/share) // the lane is another one's, as its endpoint is
		}
		for _, g := range []lane.Gate{{Kind: lane.QueueGate, Name: "other"}, {Kind: lane.EndpointGate, Name: "e0"}} {
			if err := s.Pause(t.Context(), g, "me"); err != nil {
				t.Fatal(err)
			}
		}
		w := want("q", 1, 0)
		w.Queues = append(w.Queues, store.QueueLease{Queue: "other", Lease: time.Second})
		count := func() (n int) {
			for _, of := range figures(t, s, sqlite3.SQLITE_STMTSTATUS_VM_STEP) {
				n += of
			}
			return n
		}
		cycle := func() {
			put(t, s, newJob("q"))
			c := claimNow(t, s, w)
			if c.err != nil || len(c.Jobs) != 1 || c.Jobs[0].Job.Endpoint != "" {
				t.Fatalf("%s: claimed %+v", at.name, c)
			}
			say(t, s, store.Report{Type: store.Complete, Lease: c.Jobs[0].Lease})
		}
		cycle() // the lane and the policy are made
		before := count()
		for range 10 {
			cycle()
		}
		steps[at.name] = count() - before
	}
	for name, n := range steps {
		if empty := steps["empty"]; n > empty+empty/10 {
			t.Errorf("%s: %d steps, empty: %d", name, n, empty)
		}
	}
	if steps["empty"] < 500 {
		t.Errorf("%d steps: the counts are not the library's", steps["empty"])
	}
}

// maxStatements is about how many the writer has.
const maxStatements = 60
