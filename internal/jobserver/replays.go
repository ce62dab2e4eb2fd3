package jobserver

import (
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	// ReplayPrefix begins the ids of replays.
	ReplayPrefix = "rpl_"
	// MaxReplayRate is the highest rate that a replay may be given; 0 has none.
	MaxReplayRate = 10_000
	// DefaultStopShare is the share of jobs that may fail again before a replay
	// stops by itself.
	DefaultStopShare = 0.5
)

// Review says whether a replay waits for a second key.
type Review bool

// The answers.
const (
	NoReview   Review = false
	WithReview Review = true
)

// NewReplay is something that somebody asks to be done to many jobs.
type NewReplay struct {
	Action      store.Action // "" is store.ActionRetry
	Selection   store.Selection
	Uncertainty store.Uncertainty
	PerSecond   float64  // up to MaxReplayRate; 0 is as fast as it goes
	StopShare   *float64 // 0 to 1, of ActionRetry; nil is DefaultStopShare
	Review      Review
}

// checked returns the replay that is asked for, without what only the store
// knows. Pointers of its *InvalidError are into {action, filter, …}.
func (n NewReplay) checked(by Principal, now time.Time) (store.Replay, error) {
	var c checker
	r := store.Replay{Action: n.Action, Selection: n.Selection, Uncertainty: n.Uncertainty, PerSecond: n.PerSecond, CreatedBy: by.Name, CreatedKey: by.ID, CreatedAt: now, State: store.ReplayRunning}
	if r.Action == "" {
		r.Action = store.ActionRetry
	}
	if r.Selection.Before.IsZero() {
		r.Selection.Before = now
	}
	r.Selection.Limit, r.Selection.Cursor = 0, ""
	f := &r.Selection
	if len(by.Queues) > 0 && !(f.Queue != "" && by.Sees(f.Queue)) {
		c.add("/filter/queue", "must be one of those that the key %q is limited to", by.Name)
	}
	for _, name := range []struct{ pointer, name string }{{"/filter/queue", f.Queue}, {"/filter/task", f.Task}, {"/filter/endpoint", f.Endpoint}, {"/filter/tag", f.Tag}} {
		if name.name != "" {
			c.name(name.pointer, name.name)
		}
	}
	switch r.Action {
	case store.ActionRetry:
		c.statusOf(f, job.Failed)
		if n.StopShare == nil {
			r.StopShare = DefaultStopShare
		} else if r.StopShare = *n.StopShare; !(r.StopShare >= 0 && r.StopShare <= 1) {
			c.add("/stop_share", "must be from 0 to 1, not %v", r.StopShare)
		}
	case store.ActionCancel:
		c.statusOf(f, "", job.Queued, job.Running)
	case store.ActionDelete:
		c.statusOf(f, "", job.Queued, job.Succeeded, job.Failed, job.Cancelled)
	default:
		c.add("/action", "unknown action %q; known are %s, %s, %s", r.Action, store.ActionRetry, store.ActionCancel, store.ActionDelete)
	}
	if n.StopShare != nil && r.Action != store.ActionRetry {
		c.add("/stop_share", "is of the action %s alone", store.ActionRetry)
	}
	if f.Reason != "" && !slices.Contains(job.Reasons(), f.Reason) {
		c.add("/filter/reason", "unknown reason %q", f.Reason)
	}
	if bool(n.Uncertainty) && (r.Action != store.ActionRetry || f.Reason != job.ReasonUncertain) {
		c.add("/accept_uncertain", "is of the action %s with the reason %s alone", store.ActionRetry, job.ReasonUncertain)
	}
	if r.Action == store.ActionRetry && f.Reason == job.ReasonUncertain && !bool(n.Uncertainty) {
		c.add("/accept_uncertain", "must be true: the effect of these jobs may have happened already, and may happen again")
	}
	if !(n.PerSecond >= 0 && n.PerSecond <= MaxReplayRate) {
		c.add("/per_second", "must be from 0 (as fast as it goes) to %d, not %v", MaxReplayRate, n.PerSecond)
	}
	if n.Review == WithReview {
		r.State = store.ReplayReview
	}
	return r, c.err()
}

// statusOf checks the status of a selection against those that the action fits;
// the first stands for one that is not said.
func (c *checker) statusOf(f *store.Selection, fits ...job.Status) {
	if f.Status == "" {
		f.Status = fits[0]
	} else if !slices.Contains(fits, f.Status) {
		var names []string
		for _, s := range fits {
			if s != "" {
				names = append(names, string(s))
			}
		}
		c.add("/filter/status", "must be %s for this action, not %s", strings.Join(names, " or "), f.Status)
	}
}

// PreviewReplay counts what a replay would have to do. Errors: *InvalidError, or
// the store's.
func (s *Server) PreviewReplay(ctx context.Context, by Principal, n NewReplay) (store.Preview, error) {
	if n.Selection.Reason == job.ReasonUncertain { // to look is to accept nothing
		n.Uncertainty = store.Uncertainty(n.Action == "" || n.Action == store.ActionRetry)
	}
	r, err := n.checked(by, s.store.Now())
	if err != nil {
		return store.Preview{}, err
	}
	return s.store.Preview(ctx, r.Action, r.Selection, r.Uncertainty)
}

// AddReplay begins something that is done to many jobs, or puts it up for
// review. Errors: *InvalidError; store.ErrTooMany.
func (s *Server) AddReplay(ctx context.Context, by Principal, n NewReplay) (store.Replay, error) {
	r, err := n.checked(by, s.store.Now())
	if err != nil {
		return store.Replay{}, err
	}
	preview, err := s.store.Preview(ctx, r.Action, r.Selection, r.Uncertainty)
	if err != nil {
		return store.Replay{}, err
	}
	r.Total, r.TotalAtLeast = preview.Jobs, preview.AtLeast
	r.ID = ReplayPrefix + strings.ToLower(ulid.MustNew(ulid.Timestamp(r.CreatedAt), rand.Reader).String())
	if err := s.store.AddReplay(ctx, r); err != nil {
		return store.Replay{}, err
	}
	s.lookAtReplays()
	return r, nil
}

// seesReplay reports whether a key sees a replay: one that is limited to queues
// sees those of its queues.
func (p Principal) seesReplay(r store.Replay) bool {
	return len(p.Queues) == 0 || r.Selection.Queue != "" && p.Sees(r.Selection.Queue)
}

// asked reports whether the key is the one that asked for a replay. Its id tells,
// not its name.
func (p Principal) asked(r store.Replay) bool {
	if r.CreatedKey == "" {
		return p.Name == r.CreatedBy
	}
	return p.ID == r.CreatedKey
}

// Replay returns one that the key sees. store.ErrNotFound.
func (s *Server) Replay(ctx context.Context, by Principal, id string) (store.Replay, error) {
	r, err := s.store.Replay(ctx, id)
	if err == nil && !by.seesReplay(r) {
		return store.Replay{}, fmt.Errorf("replay %s: %w", id, store.ErrNotFound)
	}
	return r, err
}

// Replays lists those that the key sees, newest first, at most limit (up to
// store.MaxPage) from behind the id before, "" for the first. next goes on where
// it is not ""; a page may be short though more follow.
func (s *Server) Replays(ctx context.Context, by Principal, limit int, before string) (page []store.Replay, next string, err error) {
	all, err := s.store.ListReplays(ctx, limit, before)
	if err != nil {
		return nil, "", err
	}
	if len(all) == limit {
		next = all[len(all)-1].ID
	}
	return slices.DeleteFunc(all, func(r store.Replay) bool { return !by.seesReplay(r) }), next, nil
}

// ApproveReplay begins one that waits for review. The key must be another than
// the one that asked for it. Errors: store.ErrNotFound, store.ErrStatus.
func (s *Server) ApproveReplay(ctx context.Context, by Principal, id string) (store.Replay, error) {
	r, err := s.Replay(ctx, by, id)
	if err != nil {
		return r, err
	}
	if by.asked(r) {
		return r, fmt.Errorf("%w: the key that asked for replay %s can't approve it", store.ErrStatus, id)
	}
	return s.moveReplay(ctx, by, id, store.ReplayRunning, store.ReplayReview)
}

// PauseReplay rests one that runs, ResumeReplay lets one go on that rests or
// stopped by itself, CancelReplay ends one for good; what it has done stays done.
// Errors as ApproveReplay's.
func (s *Server) PauseReplay(ctx context.Context, by Principal, id string) (store.Replay, error) {
	return s.moveReplay(ctx, by, id, store.ReplayPaused, store.ReplayRunning)
}

// ResumeReplay: see PauseReplay.
func (s *Server) ResumeReplay(ctx context.Context, by Principal, id string) (store.Replay, error) {
	return s.moveReplay(ctx, by, id, store.ReplayRunning, store.ReplayPaused, store.ReplayStopped)
}

// CancelReplay: see PauseReplay.
func (s *Server) CancelReplay(ctx context.Context, by Principal, id string) (store.Replay, error) {
	return s.moveReplay(ctx, by, id, store.ReplayCancelled, store.ReplayReview, store.ReplayRunning, store.ReplayPaused, store.ReplayStopped)
}

// moveReplay moves a replay from one of the states.
func (s *Server) moveReplay(ctx context.Context, by Principal, id string, to store.ReplayState, from ...store.ReplayState) (store.Replay, error) {
	r, err := s.Replay(ctx, by, id)
	if err != nil {
		return r, err
	}
	if !slices.Contains(from, r.State) {
		return r, fmt.Errorf("%w: replay %s is %s", store.ErrStatus, id, r.State)
	}
	r, err = s.store.MoveReplay(ctx, id, to, by.Name, "")
	if err == nil {
		s.lookAtReplays()
	}
	return r, err
}

// lookAtReplays makes the loop look which replays run.
func (s *Server) lookAtReplays() {
	s.replaysMoved.Store(true)
	s.wake(s.replays)
}
