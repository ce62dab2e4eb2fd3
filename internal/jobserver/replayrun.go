package jobserver

import (
	"context"
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	// replayStep is how many jobs of a replay are done in one transaction.
	replayStep = 500
	// replayRest is the least rest between two steps, so that whoever waits for an
	// answer has most of the writer.
	replayRest = 20 * time.Millisecond
	// replayTrial is how many jobs of a replay that may stop by itself are under way
	// at once before any succeeded: five times as many as it is judged by, so that
	// what fails again is found out about with few.
	replayTrial = 5 * store.StopAfter
	// replayWait is how often it is looked whether more may follow.
	replayWait = 250 * time.Millisecond
	// replayLook is how often replays are looked for that nobody told of.
	replayLook = 10 * time.Second
)

// replayer works on the replays that run, in turn. It is one goroutine's.
type replayer struct {
	server *Server
	// known are those that ran when it looked last, at the time looked.
	known  []store.Replay
	looked time.Time
	// next is when each replay may take its next step; what it forgets at a restart
	// costs one step's worth of its rate.
	next map[string]time.Time
}

// step takes the next step of every replay that may, and returns how long to rest.
func (r *replayer) step(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	if r.server.replaysMoved.Swap(false) || began.Sub(r.looked) >= replayLook {
		running, err := r.server.store.RunningReplays(ctx)
		if err != nil {
			r.looked = time.Time{}
			return 0, err
		}
		r.known, r.looked = running, began
	}
	rest := replayLook
	still := r.known[:0]
	var failed error
	for _, rp := range r.known {
		if wait := r.next[rp.ID].Sub(began); wait > 0 {
			rest, still = min(rest, wait), append(still, rp)
			continue
		}
		after, wait, err := r.one(ctx, rp)
		switch {
		case errors.Is(err, store.ErrStatus) || errors.Is(err, store.ErrNotFound):
			continue // a person moved it meanwhile
		case err != nil:
			failed = err
			after = rp
		case after.State != store.ReplayRunning:
			continue
		}
		r.next[rp.ID] = began.Add(wait)
		rest, still = min(rest, wait), append(still, after)
	}
	r.known = still
	for id := range r.next {
		if !contains(r.known, id) {
			delete(r.next, id)
		}
	}
	return max(rest, replayRest), failed
}

// one takes the next step of a replay, and says how long it has to wait then.
func (r *replayer) one(ctx context.Context, rp store.Replay) (after store.Replay, wait time.Duration, err error) {
	began := time.Now()
	n := stepOf(rp.PerSecond)
	if rp.Action == store.ActionRetry && rp.StopShare > 0 {
		if rp, err = r.server.store.Replay(ctx, rp.ID); err != nil || rp.State != store.ReplayRunning {
			return rp, 0, err
		}
		if n = min(n, roomOf(&rp)); n <= 0 {
			return rp, replayWait, nil
		}
	}
	if after, err = r.server.store.StepReplay(ctx, rp.ID, n); err != nil {
		return rp, 0, err
	}
	did := after.Done + after.Skipped - rp.Done - rp.Skipped
	return after, max(restOf(did, rp.PerSecond), retainRest*time.Since(began)), nil
}

func contains(all []store.Replay, id string) bool {
	for i := range all {
		if all[i].ID == id {
			return true
		}
	}
	return false
}

// stepOf is how many jobs a step of a replay takes: ten steps a second at most,
// and one job at least.
func stepOf(perSecond float64) int {
	if perSecond <= 0 {
		return replayStep
	}
	return min(max(int(perSecond/10), 1), replayStep)
}

// roomOf is how many jobs more a replay that may stop by itself can bring back now:
// as many may be under way as succeeded since it was judged, and replayTrial more.
// Without that all would be queued before the first one failed again, and there
// would be nothing left to stop.
func roomOf(r *store.Replay) int {
	succeeded := r.Succeeded - (r.JudgedFrom - r.JudgedFailed)
	return int(min(replayTrial+succeeded-r.UnderWay(), replayStep))
}

// restOf is how long after a step the next one comes, which did something to so
// many jobs. What it passed over costs nothing of the rate, or a slow replay of a
// few among a million would need days to find them.
func restOf(did int64, perSecond float64) time.Duration {
	if perSecond <= 0 {
		return 0
	}
	return time.Duration(float64(did) / perSecond * float64(time.Second))
}
