package sqlite

import (
	"fmt"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// pile writes n queued jobs, spread over lanes lanes of a queue, each of an endpoint
// of its own, as Create would.
func pile(tb testing.TB, s *Store, queue string, lanes, n int) {
	tb.Helper()
	keys := make([]lane.Key, lanes)
	for i := range keys {
		keys[i] = lane.Key{Queue: queue, Task: "send", Version: "1", Endpoint: fmt.Sprint("e", i)}
	}
	pileOn(tb, s, keys, n)
}

// pileOn writes n queued jobs, spread over new lanes, as Create would.
func pileOn(tb testing.TB, s *Store, keys []lane.Key, n int) {
	tb.Helper()
	err := s.writer.submit(tb.Context(), 0, func(x *tx) error {
		m, lanes := x.w.state, len(keys)
		policy, err := x.policyID(benchJob().Policy)
		if err != nil {
			return err
		}
		first := len(m.lanes)
		for _, k := range keys {
			if _, err := x.lane(k); err != nil {
				return err
			}
		}
		const numbers = "WITH RECURSIVE k(i) AS (SELECT 0 UNION ALL SELECT i+1 FROM k WHERE i+1<?1) "
		if _, err := x.exec(`INSERT INTO job(seq, lane, run_at, created_at, policy, timeout_ms, payload)
			`+numbers+`SELECT ?2+i, ?3+i%?4, ?5+i, ?5, ?6, 60000, zeroblob(200) FROM k`, n, m.seq+1, first, lanes, x.now-int64(n), int64(policy)); err != nil {
			return err
		}
		if _, err := x.exec(`INSERT INTO ready(lane, run_at, seq, attempt, charged, lost, lost_row, unreceived, policy, timeout_ms, bytes)
			`+numbers+`SELECT ?3+i%?4, ?5+i, ?2+i, 0, 0, 0, 0, 0, ?6, 60000, 200 FROM k`, n, m.seq+1, first, lanes, x.now-int64(n), int64(policy)); err != nil {
			return err
		}
		m.seq += int64(n)
		for i := range lanes {
			m.setReady(m.lanes[first+i], int64((n-i+lanes-1)/lanes), x.now-int64(n)+int64(i))
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
}

// backlogs are what stands in a store beside the jobs that are worked. Their
// claims must cost the same.
var backlogs = []struct {
	name  string
	lanes int
	jobs  int
	shut  bool
}{
	{"empty", 0, 0, false},
	{"behind-a-gate", 1, 1_000_000, true},
	{"another-queue", 1, 1_000_000, false},
	{"endpoints", 100_000, 1_000_000, true},
}

// BenchmarkBacklog is a create, a claim and a completion beside a backlog.
func BenchmarkBacklog(b *testing.B) {
	for _, at := range backlogs {
		b.Run(at.name, func(b *testing.B) {
			s := benchStore(b)
			if at.jobs > 0 {
				pile(b, s, "other", at.lanes, at.jobs)
			}
			w := store.Want{Worker: testWorker, Max: 1, MaxBytes: 8 << 20, Queues: []store.QueueLease{{Queue: "emails", Lease: 30 * time.Second}}}
			if at.shut {
				if err := s.Pause(b.Context(), lane.Gate{Kind: lane.QueueGate, Name: "other"}, "me"); err != nil {
					b.Fatal(err)
				}
				w.Queues = append(w.Queues, store.QueueLease{Queue: "other", Lease: 30 * time.Second})
			}
			for b.Loop() {
				if _, err := s.Create(b.Context(), []store.NewJob{benchJob()}); err != nil {
					b.Fatal(err)
				}
				c, err := s.Claim(b.Context(), w)
				if err != nil || len(c.Jobs) != 1 {
					b.Fatal(err, len(c.Jobs))
				}
				if _, err := s.Report(b.Context(), []store.Report{{Type: store.Complete, Lease: c.Jobs[0].Lease}}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
