package sqlite

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

func benchJob() store.NewJob {
	return store.NewJob{
		Queue: "emails", Task: "send", Version: "1", Endpoint: "mailer",
		Content: job.Content{Payload: make([]byte, 200)}, Policy: job.Resolve(), Timeout: time.Minute,
	}
}

func benchStore(b *testing.B) *Store {
	s, err := Open(b.Context(), Options{Path: b.TempDir() + "/pawl.db"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	b.ReportAllocs()
	return s
}

// BenchmarkCreate is one create a call, alone and from 64 callers.
func BenchmarkCreate(b *testing.B) {
	for _, callers := range []int{1, 64} {
		for _, keyed := range []string{"", "keyed"} {
			b.Run(fmt.Sprintf("callers=%d%s", callers, keyed), func(b *testing.B) {
				s := benchStore(b)
				var n atomic.Int64
				b.SetParallelism((callers + 1) / 2)
				b.ResetTimer()
				b.RunParallel(func(pb *testing.PB) {
					for pb.Next() {
						j := benchJob()
						if keyed != "" {
							j.Key = fmt.Sprintf("order/%012d", n.Add(1))
						}
						if _, err := s.Create(b.Context(), []store.NewJob{j}); err != nil {
							b.Error(err)
							return
						}
					}
				})
				v := s.Vitals()
				b.ReportMetric(float64(v.Operations)/float64(max(v.Commits, 1)), "ops/commit")
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}

// BenchmarkCycle creates, claims and completes jobs in batches.
func BenchmarkCycle(b *testing.B) {
	for _, batch := range []int{1, 64} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			s := benchStore(b)
			jobs := make([]store.NewJob, batch)
			for i := range jobs {
				jobs[i] = benchJob()
			}
			var worker atomic.Int64
			b.SetParallelism(2)
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				w := store.Want{
					Worker: fmt.Sprintf("worker-%d", worker.Add(1)), Max: batch, MaxBytes: 8 << 20,
					Queues: []store.QueueLease{{Queue: "emails", Lease: 30 * time.Second}},
				}
				for pb.Next() {
					if _, err := s.Create(b.Context(), jobs); err != nil {
						b.Error(err)
						return
					}
					c, err := s.Claim(b.Context(), w)
					if err != nil {
						b.Error(err)
						return
					}
					reports := make([]store.Report, len(c.Jobs))
					for i := range c.Jobs {
						reports[i] = store.Report{Type: store.Complete, Lease: c.Jobs[i].Lease, Hash: [32]byte{1}, Result: []byte(`{"ok":true}`)}
					}
					if _, err := s.Report(b.Context(), reports); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(b.N*batch)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}

// BenchmarkCreateBesideParked is a create while claims wait for another task of
// the queue.
func BenchmarkCreateBesideParked(b *testing.B) {
	for _, parked := range []int{0, 5000} {
		b.Run(fmt.Sprintf("parked=%d", parked), func(b *testing.B) {
			s := benchStore(b)
			w := store.Want{
				Max: 1, MaxBytes: 8 << 20, Wait: time.Hour, Tasks: []lane.Task{{Name: "other"}},
				Queues: []store.QueueLease{{Queue: "emails", Lease: 30 * time.Second}},
			}
			for i := range parked {
				w.Worker = fmt.Sprintf("worker-%d", i)
				go s.Claim(b.Context(), w)
			}
			for s.Vitals().Parked < parked {
				time.Sleep(time.Millisecond)
			}
			for b.Loop() {
				if _, err := s.Create(b.Context(), []store.NewJob{benchJob()}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
