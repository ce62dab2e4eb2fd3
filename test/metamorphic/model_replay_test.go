package metamorphic

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// modelReplay is something that is done to many jobs.
type modelReplay struct {
	store.Replay     // without Cursor
	at           int // the serial of the job that it has come to
}

// fits says whether an action is for a job as it is now.
func fits(a store.Action, s store.Selection, u store.Uncertainty, j *modelJob) bool {
	died := j.Status == job.Failed
	switch {
	case s.Queue == "" && a != store.ActionRetry && strings.HasPrefix(j.Queue, "relay:"):
		return false
	case s.Queue != "" && s.Queue != j.Queue, s.Task != "" && s.Task != j.Task, s.Endpoint != "" && s.Endpoint != j.Endpoint,
		s.Tag != "" && !slices.Contains(j.Tags, s.Tag), s.Status != "" && s.Status != j.Status, s.Reason != "" && s.Reason != j.Reason,
		j.CreatedAt.After(s.Before), died && j.FinishedAt.After(s.Before),
		!s.CreatedAfter.IsZero() && j.CreatedAt.Before(s.CreatedAfter), !s.CreatedBefore.IsZero() && !j.CreatedAt.Before(s.CreatedBefore),
		!s.FailedAfter.IsZero() && !(died && !j.FinishedAt.Before(s.FailedAfter)),
		!s.FailedBefore.IsZero() && !(died && j.FinishedAt.Before(s.FailedBefore)):
		return false
	}
	switch a {
	case store.ActionRetry: // of dead letters; a check that failed is none
		if j.Reason == job.ReasonUncertain && (s.Reason != job.ReasonUncertain || u != store.AcceptUncertain) {
			return false
		}
		return died && j.Reason != ""
	case store.ActionCancel:
		return j.Status == job.Queued || j.Status == job.Running
	default:
		return j.Status != job.Running
	}
}

// preview counts what a selection has.
func (m *model) preview(a store.Action, s store.Selection, u store.Uncertainty) store.Preview {
	p := store.Preview{Tasks: map[string]int64{}, ByReason: map[job.Reason]int64{}}
	for _, j := range m.jobs {
		named := s
		named.Reason = job.ReasonUncertain
		if a == store.ActionRetry && (s.Reason == "" || s.Reason == job.ReasonUncertain) && fits(a, named, store.AcceptUncertain, j) {
			p.Uncertain++
		}
		if !fits(a, s, u, j) {
			continue
		}
		p.Jobs++
		p.Tasks[taskText(&j.Job)]++
		if j.Reason != "" {
			p.ByReason[j.Reason]++
		}
	}
	return p
}

// moveReplay sets the state of a replay where a person may.
func (m *model) moveReplay(r *modelReplay, to store.ReplayState, by, why string) error {
	may := map[store.ReplayState][]store.ReplayState{
		store.ReplayReview:  {store.ReplayRunning, store.ReplayCancelled},
		store.ReplayRunning: {store.ReplayPaused, store.ReplayStopped, store.ReplayDone, store.ReplayCancelled},
		store.ReplayPaused:  {store.ReplayRunning, store.ReplayCancelled},
		store.ReplayStopped: {store.ReplayRunning, store.ReplayCancelled},
	}
	if !slices.Contains(may[r.State], to) {
		return store.ErrStatus
	}
	if r.State == store.ReplayReview && to == store.ReplayRunning {
		r.ApprovedBy = by // who that may be is not the store's to say
	}
	if r.State == store.ReplayStopped && to == store.ReplayRunning {
		r.JudgedFrom, r.JudgedFailed = r.Succeeded+r.FailedAgain, r.FailedAgain
	}
	m.replayIs(r, to, by, why)
	return nil
}

func (m *model) replayIs(r *modelReplay, s store.ReplayState, by, why string) {
	r.State, r.Why = s, why
	if s == store.ReplayDone || s == store.ReplayCancelled {
		r.EndedAt = m.now
	}
	m.tellReplay(r, by)
}

func (m *model) tellReplay(r *modelReplay, by string) {
	s := r.Selection
	m.tell(store.ReplayMoved, nil, modelEvent{Event: store.Event{Subject: r.ID}, Told: Told{
		State: string(r.State), By: by, Why: r.Why, Action: r.Action, Done: r.Done, Skipped: r.Skipped,
		Filter: &ToldFilter{s.Queue, s.Task, s.Endpoint, s.Status, s.Reason, s.Tag, s.CreatedAfter, s.CreatedBefore, s.FailedAfter, s.FailedBefore},
	}})
}

// ahead are the jobs that a replay has not come to and that fit it.
func (m *model) ahead(r *modelReplay) []*modelJob {
	return m.inOrder(func(j *modelJob) bool { return j.serial > r.at && fits(r.Action, r.Selection, r.Uncertainty, j) })
}

// act does the replay's action to the next n jobs that it has.
func (m *model) act(r *modelReplay, n int) {
	for _, j := range m.ahead(r)[:n] {
		r.at = j.serial
		by := "replay " + r.ID
		var err error
		switch r.Action {
		case store.ActionRetry:
			if err = m.retry(j, by, r.Uncertainty); err == nil {
				m.brought[j.ID] = r.ID
			}
		case store.ActionCancel:
			err = m.cancel(j, by)
		case store.ActionDelete:
			err = m.delete(j, by)
		}
		if err != nil {
			r.Skipped++
			continue
		}
		r.Done++
		m.met["replayed: "+string(r.Action)]++
	}
}

// cameBack counts how a job that a replay brought back has ended.
func (m *model) cameBack(r *modelReplay, s job.Status) {
	switch s {
	case job.Succeeded:
		r.Succeeded++
	case job.Failed:
		r.FailedAgain++
	case job.Cancelled:
		r.Withdrawn++
	default:
		return
	}
	ended, failed := r.Succeeded+r.FailedAgain-r.JudgedFrom, r.FailedAgain-r.JudgedFailed
	if r.State == store.ReplayRunning && r.StopShare > 0 && ended >= 20 && float64(failed) > r.StopShare*float64(ended) {
		m.replayIs(r, store.ReplayStopped, "", fmt.Sprintf("%d of %d failed again, more than the share of %v", failed, ended, r.StopShare))
		m.met["replays that stopped by themselves"]++
	}
}
