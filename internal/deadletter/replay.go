package deadletter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Verdict is how the replay of one letter ended.
type Verdict uint8

// The verdicts of a replay.
const (
	// Abandoned: it was not tried to the end (pawl is stopping, or the
	// destination is not configured any more). The letter stays open.
	Abandoned Verdict = iota
	// Delivered: every required destination has it, or its route no longer
	// wants it.
	Delivered
	// FailedAgain: it died again; Letters are its new deaths.
	FailedAgain
)

// String returns abandoned, delivered or failed_again.
func (v Verdict) String() string {
	switch v {
	case Abandoned:
		return "abandoned"
	case Delivered:
		return "delivered"
	case FailedAgain:
		return "failed_again"
	}
	return fmt.Sprintf("verdict(%d)", uint8(v))
}

// ReplayOutcome is what Deliver says about one letter.
type ReplayOutcome struct {
	Verdict Verdict
	// Letters are the new letters of a message that failed again: one, or one
	// for each required destination of a route that ran again. Replay gives
	// them an id where they have none, and their history.
	Letters []*message.DeadLetter
	// Err says why a replay was abandoned.
	Err error
}

// ReplayOptions say what to replay and how.
type ReplayOptions struct {
	// Filter chooses the letters. Its State is not looked at: only open
	// letters are replayed.
	Filter Filter
	// DryRun counts what would be replayed and touches nothing.
	DryRun bool
	// Rate is how many letters begin a second; 0 is as fast as they go, with
	// at most MaxReplaysInFlight open.
	Rate float64
	// Deliver replays one letter: a delivery letter over its failed
	// destination's whole path (or another that the caller chose), others over
	// their route from the filter on. It is called from several goroutines.
	Deliver func(ctx context.Context, l *message.DeadLetter) ReplayOutcome
	// Write keeps the new letters of what failed again; nil is the store's own
	// Write. The old letter is marked only after it.
	Write func(ctx context.Context, l *message.DeadLetter) error
	// Progress is told after each letter, one call at a time; nil is nobody.
	// A slow one slows the replay down.
	Progress func(Progress)
}

// MaxReplaysInFlight bounds how many letters one Replay has open: as many as a
// destination has workers by default.
const MaxReplaysInFlight = 64

// maxReplays bounds the history that a letter carries: the first death, which
// says most, and the latest ones.
const maxReplays = 20

// Progress is how far a replay is.
type Progress struct {
	// Total is how many letters matched when it began.
	Total int
	// Delivered and FailedAgain are done; Left is what is not: to come, or
	// abandoned.
	Delivered   int
	FailedAgain int
	Left        int
	// Err says why the last letter that was begun and is left was left.
	Err error
}

// Summary is how a replay ended. Left counts what is still open: never begun,
// abandoned, or failed again with its new letter stored nowhere.
type Summary struct {
	Progress
	// Busy is how many of Left another replay had in hand.
	Busy int
}

// result is how one letter's replay ended.
type result struct {
	verdict Verdict
	busy    bool
	err     error
}

// replayAll is Store.Replay.
func replayAll(ctx context.Context, s shelf, o ReplayOptions) (Summary, error) {
	if math.IsNaN(o.Rate) || o.Rate < 0 {
		return Summary{}, fmt.Errorf("a replay can't have the rate %v a second", o.Rate)
	}
	if o.Write == nil {
		o.Write = s.Write
	}
	o.Filter.State = OnlyOpen
	total, err := s.Count(ctx, o.Filter)
	sum := Summary{Progress: Progress{Total: total, Left: total}}
	if err != nil || o.DryRun {
		return sum, err
	}
	results := make(chan result, MaxReplaysInFlight)
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for r := range results {
			sum.count(r)
			if o.Progress != nil {
				o.Progress(sum.Progress)
			}
		}
	}()
	err = replayEach(ctx, s, &o, results)
	close(results)
	<-counted
	return sum, err
}

func (s *Summary) count(r result) {
	switch {
	case r.busy:
		s.Busy++
	case r.verdict == Delivered:
		s.Delivered++
	case r.verdict == FailedAgain:
		s.FailedAgain++
	default:
		s.Err = r.err
	}
	s.Left = max(0, s.Total-s.Delivered-s.FailedAgain)
}

// replayEach begins each letter and returns when all that were begun ended.
func replayEach(ctx context.Context, s shelf, o *ReplayOptions, results chan<- result) error {
	begin, stop := context.WithCancelCause(ctx) // ends the beginning of letters alone
	defer stop(nil)
	places := make(chan struct{}, MaxReplaysInFlight)
	pace := newPace(o.Rate)
	defer pace.stop()
	var wg sync.WaitGroup
	err := s.List(begin, o.Filter, func(e Entry) error {
		if err := pace.wait(begin); err != nil {
			return err
		}
		select {
		case places <- struct{}{}:
		case <-begin.Done():
			return begin.Err()
		}
		if c, err := s.claim(begin, e.Letter); err != nil || c == taken {
			<-places
			results <- result{busy: err == nil, err: err}
			return err
		}
		wg.Go(func() {
			r, err := replay(ctx, s, o, e.DeadLetter)
			s.unclaim(e.Letter)
			if err != nil {
				stop(err)
			}
			results <- r
			<-places
		})
		return nil
	})
	wg.Wait()
	if cause := context.Cause(begin); cause != nil {
		return cause
	}
	return err
}

// replay replays one letter. Its error is of marking.
func replay(ctx context.Context, s shelf, o *ReplayOptions, l *message.DeadLetter) (result, error) {
	out := o.Deliver(ctx, l)
	// What was settled is written down even if ctx ended meanwhile.
	keep := context.WithoutCancel(ctx)
	switch out.Verdict {
	case FailedAgain:
		if len(out.Letters) == 0 {
			return result{err: errors.New("it failed again without a new letter")}, nil
		}
		for _, again := range out.Letters {
			if again.Letter == "" {
				again.Letter = NewID(time.Now())
			}
			again.Replays = history(l.Death)
			if err := o.Write(keep, again); err != nil {
				return result{err: err}, nil
			}
		}
	case Delivered:
	default:
		return result{err: out.Err}, nil
	}
	if err := s.MarkReplayed(keep, l.Letter, out.Verdict); err != nil {
		return result{err: err}, err
	}
	return result{verdict: out.Verdict}, nil
}

// history is what the next death of a message carries of the earlier ones.
func history(d message.Death) []message.Death {
	earlier := append([]message.Death(nil), d.Replays...)
	d.Replays = nil
	earlier = append(earlier, d)
	if over := len(earlier) - maxReplays; over > 0 {
		earlier = append(earlier[:1], earlier[1+over:]...)
	}
	return earlier
}

// pace spaces the beginnings of a replay evenly.
type pace struct {
	ticker *time.Ticker
	first  bool
}

// fastest is the rate from which pacing is left out: a tick below a
// microsecond is no pace.
const fastest = 1e6

// slowest keeps the wait for one letter within what a duration can hold.
const slowest = 1e-9

func newPace(rate float64) *pace {
	if rate == 0 || rate >= fastest {
		return &pace{}
	}
	every := time.Duration(float64(time.Second) / max(rate, slowest))
	return &pace{ticker: time.NewTicker(every), first: true}
}

func (p *pace) wait(ctx context.Context) error {
	if p.ticker == nil || p.first {
		p.first = false
		return ctx.Err()
	}
	select {
	case <-p.ticker.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (p *pace) stop() {
	if p.ticker != nil {
		p.ticker.Stop()
	}
}
