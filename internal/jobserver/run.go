package jobserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

const (
	// sweepAtMost is the longest time between two sweeps. A lease is recovered
	// within a second of its end: the next sweep knows the ends of the leases
	// that were given before it, and none is shorter than a second.
	sweepAtMost = time.Second
	// sweepAtLeast is the shortest: ends that lie close together are swept
	// together, and an end that the store does not move can't make this spin.
	sweepAtLeast = 10 * time.Millisecond
	// retainEvery is how often old jobs are looked for. They are kept for a day
	// at least, so half a minute more is nothing.
	retainEvery = 30 * time.Second
	// retainRest is how many times as long as a step the rest after it is: what
	// removes old jobs has a fifth of the writer at most, and the rest is for
	// who waits for an answer. A step of some 400 jobs takes about 10 ms, so some
	// 7,000 jobs a second are removed: as many as can be finished.
	retainRest = 4
	// retainPause is the least rest between two steps.
	retainPause = 20 * time.Millisecond
	// againEvery is how often what was defined is read again and put in force: what
	// another node was told, and what the store could not take before.
	againEvery = 30 * time.Second
	// sameTrouble is how often a trouble that lasts is logged again.
	sameTrouble = time.Minute
)

// Run keeps the store in order until ctx ends: it recovers leases that have
// ended, and removes finished jobs that were kept long enough. Trouble with the
// store is logged and ends nothing; the error is store.ErrClosed where the store
// was closed first, else nil. It is called once.
func (s *Server) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var loops sync.WaitGroup
	for _, l := range []loop{
		{"recovering leases", s.sweep, sweepAtMost, nil},
		{"removing old jobs", s.retain, retainEvery, nil},
		{"keeping what was defined in force", s.again, againEvery, nil},
		{"telling of events", (&teller{server: s, after: s.tellFrom}).step, sweepAtMost, nil},
		{"working on replays", (&replayer{server: s, next: map[string]time.Time{}}).step, replayLook, s.replays},
	} {
		loops.Go(func() {
			if err := s.repeat(ctx, l); err != nil {
				stop(err)
			}
		})
	}
	loops.Go(func() { s.runSubscriptions(ctx) })
	loops.Wait()
	if err := context.Cause(ctx); errors.Is(err, store.ErrClosed) {
		return err
	}
	return nil
}

// loop is a step that is done over and over.
type loop struct {
	what string
	// step returns how long to rest until the next one.
	step func(context.Context) (time.Duration, error)
	// rest is how long to rest after an error.
	rest time.Duration
	// wake ends a rest; nil never does.
	wake <-chan struct{}
}

// repeat does the step until ctx ends (nil) or the store is closed.
func (s *Server) repeat(ctx context.Context, l loop) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	var t trouble
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.wake:
		case <-timer.C:
		}
		rest, err := l.step(ctx)
		switch {
		case errors.Is(err, store.ErrClosed):
			return fmt.Errorf("%s: %w", l.what, err)
		case ctx.Err() != nil:
			return nil
		case err != nil:
			rest = l.rest
		}
		t.log(s.log, l.what, err)
		timer.Reset(rest)
	}
}

// gracedEvery is the least time between two lines about leases that were
// lengthened: a disk that comes and goes would write one every few seconds.
const gracedEvery = time.Minute

// gracedLog is what is still to be told of lengthened leases. The sweep's alone.
type gracedLog struct {
	leases, times int
	next          time.Time // no line before
}

// tellGraced logs that leases were lengthened, n of them now; what came too soon
// after a line is in the next one.
func (s *Server) tellGraced(n int, now time.Time) {
	g := &s.graced
	if n > 0 {
		g.leases += n
		g.times++
	}
	if g.times == 0 || now.Before(g.next) {
		return
	}
	s.log.Warn("nobody could report for a while: leases were lengthened once", "leases", g.leases, "times", g.times)
	*g = gracedLog{next: now.Add(gracedEvery)}
}

// sweep ends the leases and timeouts that are over.
func (s *Server) sweep(ctx context.Context) (time.Duration, error) {
	// With an error it tells what was ended before it: that is done, and counts.
	swept, err := s.store.Sweep(ctx)
	t := &s.totals
	t.sweptTimedOut.Add(int64(swept.TimedOut))
	t.sweptLost.Add(int64(swept.Lost))
	t.sweptUnreceived.Add(int64(swept.Unreceived))
	t.sweptGrace.Add(int64(swept.Graced))
	s.tellGraced(swept.Graced, time.Now())
	if n := swept.TimedOut + swept.Lost + swept.Unreceived; n > 0 {
		s.log.Info("attempts ended without a report",
			"timed_out", swept.TimedOut, "lost", swept.Lost, "unreceived", swept.Unreceived)
	}
	if err != nil {
		return 0, err
	}
	if swept.Next.IsZero() {
		return sweepAtMost, nil
	}
	return min(sweepAtMost, max(sweepAtLeast, swept.Next.Sub(s.store.Now()))), nil
}

// again puts in force what is defined.
func (s *Server) again(ctx context.Context) (time.Duration, error) {
	return againEvery, s.Refresh(ctx)
}

// retain removes some finished jobs.
func (s *Server) retain(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	more, err := s.store.Retain(ctx, s.settings.Load().retention)
	if err != nil {
		return 0, err
	}
	if !more {
		return retainEvery, nil
	}
	return max(retainPause, retainRest*time.Since(began)), nil
}

// trouble logs an error when it begins, when it is another one, once a minute
// while it lasts, and when it is over.
type trouble struct {
	text  string // "" for none
	since time.Time
	told  time.Time
}

func (t *trouble) log(to *slog.Logger, what string, err error) {
	now := time.Now()
	switch {
	case err == nil && t.text != "":
		to.Info(what+" works again", "after", now.Sub(t.since).Round(time.Second).String())
		*t = trouble{}
	case err == nil:
	case t.text == "":
		*t = trouble{text: err.Error(), since: now, told: now}
		to.Error(what+" failed, it is tried again", "error", err)
	case t.text != err.Error() || now.Sub(t.told) >= sameTrouble:
		t.text, t.told = err.Error(), now
		to.Error(what+" still fails", "error", err, "since", t.since.UTC().Format(time.RFC3339))
	}
}
