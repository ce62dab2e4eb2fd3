// These tests would catch a read that scans, or that the library prepares anew
// for each value: fast with few rows, slow with many.
package sqlite

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// Each statement of readers and of upkeep finds its rows by an index, however
// many there are of others.
func TestReaderPlans(t *testing.T) {
	s := testStore(t, Options{})
	letters := func(f store.LetterFilter) string {
		where, _, err := letterWhere(f)
		if err != nil {
			t.Fatal(err)
		}
		return "SELECT body FROM letter" + where + " ORDER BY place LIMIT +?"
	}
	const attemptsOf = "SEARCH attempt USING INDEX attempt_job (seq=?)"
	const runningOf = "SEARCH running USING INTEGER PRIMARY KEY (rowid=?)"
	const jobOf = "SEARCH j USING INTEGER PRIMARY KEY (rowid=?)"
	const jobAndAll = jobOf + "\nSEARCH l USING INTEGER PRIMARY KEY (rowid=?)\nSEARCH p USING INTEGER PRIMARY KEY (rowid=?)"
	const idsOf = "LIST SUBQUERY 1\nSCAN json_each VIRTUAL TABLE INDEX 1:"
	for text, want := range map[string]string{
		sqlJob:             jobAndAll,
		sqlContents:        jobAndAll + "\nCORRELATED SCALAR SUBQUERY 1\nSEARCH a USING INDEX attempt_error (seq=?)",
		sqlStandingRunning: runningOf,
		sqlStandingLast:    attemptsOf,
		sqlStandingDue:     attemptsOf,
		sqlStandingError:   "SEARCH attempt USING INDEX attempt_error (seq=?)",
		sqlAttempts:        attemptsOf,
		sqlAttemptRunning:  runningOf,
		sqlLogs:            "SEARCH log USING PRIMARY KEY (seq=? AND attempt=?)",
		sqlLogsEnd:         "SEARCH attempt USING INDEX attempt_job (seq=? AND number=?)",
		sqlLogsRun:         runningOf,
		sqlListJobs:        "SEARCH job USING INTEGER PRIMARY KEY (rowid<?)",
		sqlListDead:        "SEARCH a USING COVERING INDEX attempt_dead (seq<?)\n" + jobOf,
		sqlListRunning:     "SEARCH r USING INTEGER PRIMARY KEY (rowid<?)\n" + jobOf,
		sqlListNext:        "SEARCH job USING INTEGER PRIMARY KEY (rowid>?)",
		sqlListLast:        "SEARCH job",
		// By lanes, of which it looks at a bounded number.
		sqlListLanes:   "SCAN l\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
		sqlListLanesOf: "SEARCH l USING COVERING INDEX sqlite_autoindex_lane_1 (queue=?)\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
		sqlListLane:    "SEARCH l USING INTEGER PRIMARY KEY (rowid=?)\nSEARCH t USING INTEGER PRIMARY KEY (rowid=?)",
		sqlCounts:      "SEARCH t USING INTEGER PRIMARY KEY (rowid>?)\nSEARCH l USING INTEGER PRIMARY KEY (rowid=?)",
		// All of what there is, which the caller asked for.
		sqlKeys: "SCAN api_key",

		sqlKeyHash:   "SEARCH api_key USING INDEX sqlite_autoindex_api_key_3 (hash=?)",
		sqlKeyName:   "SEARCH api_key USING INDEX sqlite_autoindex_api_key_2 (name=?)",
		sqlKeyID:     "SEARCH api_key USING INDEX sqlite_autoindex_api_key_1 (id=?)",
		sqlRevokeKey: "SEARCH api_key USING INDEX sqlite_autoindex_api_key_1 (id=?)",

		sqlAddLetter:      "SCAN CONSTANT ROW\nSCALAR SUBQUERY 1\nSEARCH letter USING COVERING INDEX sqlite_autoindex_letter_1 (id=?)",
		sqlMarkLetters:    "SEARCH letter USING INDEX sqlite_autoindex_letter_1 (id=?)\n" + idsOf,
		sqlSettledLetters: "SEARCH letter USING INDEX letter_settled (at<?)",
		sqlRemoveLetter:   "SEARCH letter USING INTEGER PRIMARY KEY (rowid=?)",
		sqlLastLetter:     "SEARCH letter",
		letters(store.LetterFilter{Destination: "d"}):                        "SEARCH letter USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)",
		letters(store.LetterFilter{State: store.LetterOpen, Reason: "lost"}): "SEARCH letter USING INDEX letter_open (place>? AND place<?)",
		letters(store.LetterFilter{IDs: []string{"x"}, State: store.LetterPurged}): "SEARCH letter USING INTEGER PRIMARY KEY (rowid=?)\n" +
			"LIST SUBQUERY 4\nMERGE (UNION)\nLEFT\nSEARCH letter USING COVERING INDEX sqlite_autoindex_letter_1 (id=?)\n" + idsOf +
			"\nUSE TEMP B-TREE FOR ORDER BY\nRIGHT\nSEARCH letter USING COVERING INDEX letter_message (message_id=?)\n" +
			"LIST SUBQUERY 3\nSCAN json_each VIRTUAL TABLE INDEX 1:\nUSE TEMP B-TREE FOR ORDER BY",

		sqlPolicyList:    "SEARCH policy USING INTEGER PRIMARY KEY (rowid>?)",
		sqlPolicyUse:     "SEARCH job USING INTEGER PRIMARY KEY (rowid>?)",
		sqlPolicyGone:    "SEARCH policy USING INTEGER PRIMARY KEY (rowid=?)",
		sqlRetain:        "SEARCH attempt USING INTEGER PRIMARY KEY (rowid>?)",
		sqlRetainLast:    "SEARCH attempt USING COVERING INDEX attempt_job (seq=?)",
		sqlRetainJob:     "SEARCH job USING INTEGER PRIMARY KEY (rowid=?)",
		sqlRetainAttempt: "SEARCH attempt USING INTEGER PRIMARY KEY (rowid=?)\nLIST SUBQUERY 1\nSEARCH attempt USING COVERING INDEX attempt_job (seq=?)",
		sqlRetainEnd:     "SEARCH attempt USING INTEGER PRIMARY KEY (rowid=?)",
		sqlRetainLog:     "SEARCH log USING PRIMARY KEY (seq=? AND attempt=? AND n=?)\nLIST SUBQUERY 2\nSEARCH log USING PRIMARY KEY (seq=?)",
		sqlRetainKey:     "SEARCH idem USING PRIMARY KEY (key=?)",
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

// No statement of readers and of upkeep is prepared a second time, whatever it is
// asked for. The whole of them run here, so a new one is looked at too.
func TestNoReadIsPreparedAnew(t *testing.T) {
	var h hand
	s := testStore(t, h.options(Options{}))
	ids := put(t, s, newJob("q"), newJob("q"), newJob("r"))
	var seqs []int64
	for _, id := range ids {
		seq, _, _ := s.ids.Parse(id)
		seqs = append(seqs, seq)
	}
	take(t, s, "q", 1)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	const rounds = 5 * readerCount
	for round := range byte(rounds) {
		finish(t, s, newJob("d"), giveUp)
		finish(t, s, newJob(fmt.Sprintf("e%d", round)), again)
		must(s.AddLetter(t.Context(), testLetter(int(round))))
		must(s.AddKey(t.Context(), testKey(round)))
		for i, id := range ids {
			_, err := s.Job(t.Context(), id)
			must(err)
			if i == 0 {
				_, err = s.Logs(t.Context(), id, 1)
				must(err)
			}
			must(s.AwaitEnd(t.Context(), s.ids.Make(at(1), int64(round)*10+int64(i)+1000)))
			_, err = s.contents(t.Context(), seqs[i:])
			must(err)
			for _, f := range []store.Filter{
				{Limit: 500 - i}, {Limit: 1 + i, Status: job.Failed}, {Limit: 1, Status: job.Running}, {Queue: "q", Limit: 1}, {CreatedBefore: s.Now(), Limit: 1},
			} {
				_, err := s.List(t.Context(), f)
				must(err)
			}
			for _, f := range []store.LetterFilter{{}, {State: store.LetterOpen, Limit: 1 + i}, {State: store.LetterPurged}, {IDs: []string{"message-1", id}, Destination: "to-1"}} {
				_, err := s.Letters(t.Context(), f, int64(i))
				must(err)
				_, err = s.CountLetters(t.Context(), f)
				must(err)
			}
			_, err = s.Counts(t.Context())
			must(err)
			_, err = s.KeyByHash(t.Context(), testKey(round+byte(i)).Hash)
			if !errors.Is(err, store.ErrNotFound) {
				must(err)
			}
		}
		_, err := s.Keys(t.Context())
		must(err)
		must(s.RevokeKey(t.Context(), testKey(round).Name))
		must(s.MarkLetters(t.Context(), []string{testLetter(int(round)).ID}, store.LetterPurged, at(1)))
		_, err = s.RemoveLetters(t.Context(), letterTime(int64(round)-2))
		must(err)
		h.step(time.Minute)
		_, err = s.Retain(t.Context(), store.Retention{Finished: time.Minute, DeadLetters: 2 * time.Minute})
		must(err)
	}

	tls := libc.NewTLS()
	defer tls.Close()
	ran := 0
	look := func(c *conn) {
		for text, st := range c.stmts {
			p := uintptr(reflect.ValueOf(st.raw).Elem().FieldByName("pstmt").Uint())
			ran += int(sqlite3.Xsqlite3_stmt_status(tls, p, sqlite3.SQLITE_STMTSTATUS_RUN, 0))
			if n := sqlite3.Xsqlite3_stmt_status(tls, p, sqlite3.SQLITE_STMTSTATUS_REPREPARE, 0); n > 0 {
				t.Errorf("prepared anew %d times: %s", n, text)
			}
		}
	}
	for range readerCount {
		must(s.readers.use(t.Context(), func(c *conn) error { look(c); return nil }))
	}
	must(s.writer.submit(t.Context(), 0, func(x *tx) error { look(x.w.conn); return nil }))
	if ran < rounds*100 {
		t.Errorf("statements ran %d times: the counts are not the library's", ran)
	}
}
