package jobqueue_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/jobqueue"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// BenchmarkThrough is a message's way into a queue and out of it, on the real
// store: 64 senders and one source whose handler does nothing.
func BenchmarkThrough(b *testing.B) {
	s, err := sqlite.Open(b.Context(), sqlite.Options{Path: filepath.Join(b.TempDir(), "pawl.db")})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	server, err := jobserver.NewServer(jobserver.Options{Store: s, Config: jobserver.Config{Queues: map[string]jobserver.Queue{"q": {}}}})
	if err != nil {
		b.Fatal(err)
	}
	env := connector.Env{Name: "b", Queues: server.Messages()}
	kind := jobqueue.DestinationKind()
	d, err := kind.Open(&jobqueue.DestinationSettings{Queue: "q", Task: "t"}, env)
	if err != nil {
		b.Fatal(err)
	}
	source, err := jobqueue.OpenSource("q", nil, env)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	var settled sync.WaitGroup
	settled.Add(b.N)
	go func() {
		ended <- source.Run(ctx, handlerFunc(func(context.Context, connector.Delivery) connector.Settlement {
			settled.Done()
			return connector.Settlement{Status: event.SettledDelivered}
		}))
	}()
	body := make([]byte, 1024)
	b.ReportAllocs()
	b.ResetTimer()
	b.SetParallelism(32) // times the processors
	var n sync.Mutex
	next := 0
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			n.Lock()
			next++
			id := fmt.Sprint("m", next)
			n.Unlock()
			if _, err := d.Send(ctx, &message.Message{ID: id, Source: "web", Time: time.Now(), Body: body}); err != nil {
				b.Error(err)
			}
		}
	})
	settled.Wait()
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
