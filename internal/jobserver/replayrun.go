package jobserver

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	// replayStep is how many jobs of a replay are done in one transaction.
	replayStep = 500
	// replayRest is the least rest between two steps, so that whoever waits for an
	// answer has most of the writer.
	replayRest = 20 * time.Millisecond
	// replayLook is how often replays are looked for that nobody told of.
	replayLook = 10 * time.Second
)

// replayer works on the replays that run, in turn. It is one goroutine's.
type replayer struct {
	server *Server
	// next is when each replay may take its next step; what it forgets at a restart
	// costs one step's worth of its rate.
	next map[string]time.Time
}

// step takes the next step of every replay that may, and returns how long to rest.
func (r *replayer) step(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	running, err := r.running(ctx)
	if err != nil {
		return 0, err
	}
	rest := replayLook
	for _, rp := range running {
		if wait := r.next[rp.ID].Sub(began); wait > 0 {
			rest = min(rest, wait)
			continue
		}
		n, every := pace(rp.PerSecond)
		after, err := r.server.store.StepReplay(ctx, rp.ID, n)
		if err != nil {
			return 0, err
		}
		did := after.Done + after.Skipped - rp.Done - rp.Skipped
		if after.State == store.ReplayRunning && did == 0 && after.Cursor == rp.Cursor {
			// It waits for those that it brought back.
			r.next[rp.ID] = began.Add(time.Second)
			rest = min(rest, time.Second)
			continue
		}
		r.next[rp.ID] = began.Add(every)
		rest = min(rest, max(every, retainRest*time.Since(began)))
	}
	for id := range r.next {
		if !contains(running, id) {
			delete(r.next, id)
		}
	}
	return max(rest, replayRest), nil
}

func contains(all []store.Replay, id string) bool {
	for i := range all {
		if all[i].ID == id {
			return true
		}
	}
	return false
}

// running returns the replays that run, oldest first.
func (r *replayer) running(ctx context.Context) ([]store.Replay, error) {
	var all []store.Replay
	before := ""
	for {
		page, err := r.server.store.ListReplays(ctx, store.MaxPage, before)
		if err != nil {
			return nil, err
		}
		for _, rp := range page {
			if rp.State == store.ReplayRunning {
				all = append(all, rp)
			}
		}
		if len(page) < store.MaxPage {
			return all, nil
		}
		before = page[len(page)-1].ID
	}
}

// pace is how many jobs a step of a replay takes, and how long after it the next
// one comes: ten steps a second at most, and one job at least.
func pace(perSecond float64) (n int, every time.Duration) {
	if perSecond <= 0 {
		return replayStep, 0
	}
	n = min(max(int(perSecond/10), 1), replayStep)
	return n, time.Duration(float64(n) / perSecond * float64(time.Second))
}
