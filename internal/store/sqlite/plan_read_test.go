// These tests would catch a read that scans, or that the library prepares anew
// for each value: fast with few rows, slow with many.
package sqlite

import (
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"modernc.org/libc"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

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
			for _, text := range []string{sqlContents, sqlContentsErrors} {
				var jobs []*readJob
				for _, seq := range seqs[i:] {
					jobs = append(jobs, &readJob{seq: seq, job: new(job.Job)})
				}
				must(s.readContents(t.Context(), text, jobs))
			}
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
