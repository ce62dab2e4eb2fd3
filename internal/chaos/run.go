package chaos

import (
	"context"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// MaxCount bounds the messages of one run: their ids are all kept until its end.
const MaxCount = 1_000_000

// MaxOpen is how many messages a run has open at once: twice a destination's
// places, so that a full lane is seen, and waits, too.
const MaxOpen = 1024

// Load is the messages of a run.
type Load struct {
	Count int
	// Rate is how many begin in a second whatever became of those before, as long
	// as no more than MaxOpen are open; 0 is as fast as they are taken.
	Rate float64
	// Message makes the nth, from 0.
	Message func(n int) *message.Message
	// Deliver brings one to its end: delivered, or kept as a dead letter. An error
	// says that it is neither. It is called by several goroutines at once.
	Deliver func(ctx context.Context, m *message.Message) error
}

// Run makes the load and returns when every message has come to its end. When
// ctx ends no message begins any more, those on their way are given up, and the
// error is that of ctx. Otherwise it is the first that Deliver returned; the
// load goes on after one, and the Recorder will miss the message.
func Run(ctx context.Context, r *Recorder, l Load) error {
	var (
		open  = make(chan struct{}, MaxOpen)
		group sync.WaitGroup
		once  sync.Once
		first error
		began = time.Now()
	)
	for n := range l.Count {
		if !pace(ctx, r, began, l.Rate, n) {
			break
		}
		select {
		case open <- struct{}{}:
		case <-ctx.Done():
		}
		if ctx.Err() != nil {
			break
		}
		m := l.Message(n)
		r.Sent(m.ID)
		group.Go(func() {
			defer func() { <-open }()
			if err := l.Deliver(ctx, m); err != nil {
				if ctx.Err() != nil {
					r.Cut(m.ID)
					return
				}
				once.Do(func() { first = err })
			}
		})
	}
	group.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	return first
}

// pace waits until the nth message is due, and says whether it is to be sent.
func pace(ctx context.Context, r *Recorder, began time.Time, rate float64, n int) bool {
	if rate <= 0 {
		return ctx.Err() == nil
	}
	due := began.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	wait := time.Until(due)
	if wait <= 0 {
		r.Late(-wait)
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
