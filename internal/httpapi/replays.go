package httpapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

var (
	replayMembers = []string{"action", "filter", "accept_uncertain", "per_second", "stop_share", "review"}
	filterMembers = []string{"queue", "task", "endpoint", "status", "reason", "tag", "created_after", "created_before", "failed_after", "failed_before"}
)

// readReplay reads what is to be done to many jobs.
func readReplay(r *wirejson.Reader) jobserver.NewReplay {
	ask := jobserver.NewReplay{Action: store.ActionRetry}
	seen := r.Object(replayMembers, func(member string) {
		switch member {
		case "action":
			ask.Action = oneOf(r, store.ActionRetry, store.ActionCancel, store.ActionDelete)
		case "filter":
			ask.Selection = readSelection(r)
		case "accept_uncertain":
			ask.Uncertainty = store.Uncertainty(r.Flag())
		case "per_second":
			ask.PerSecond = r.Number()
		case "stop_share":
			ask.StopShare = new(r.Number())
		case "review":
			ask.Review = jobserver.Review(r.Flag())
		}
	})
	if r.Problems() == 0 && !seen.Has(1) {
		r.WrongMember("filter", "is missing; {} is every job that the action fits")
	}
	return ask
}

func readSelection(r *wirejson.Reader) (s store.Selection) {
	r.Object(filterMembers, func(member string) {
		switch member {
		case "queue":
			s.Queue = nameOf(r)
		case "task":
			s.Task = nameOf(r)
		case "endpoint":
			s.Endpoint = nameOf(r)
		case "tag":
			s.Tag = nameOf(r)
		case "status":
			s.Status = oneOf(r, job.Statuses()...)
		case "reason":
			s.Reason = oneOf(r, job.Reasons()...)
		case "created_after":
			s.CreatedAfter = instantOf(r)
		case "created_before":
			s.CreatedBefore = instantOf(r)
		case "failed_after":
			s.FailedAfter = instantOf(r)
		case "failed_before":
			s.FailedBefore = instantOf(r)
		}
	})
	return s
}

// nameOf reads a text that is a name.
func nameOf(r *wirejson.Reader) string {
	before := r.Problems()
	s := r.Text()
	if bad := job.BadName(s); bad != "" && r.Problems() == before {
		r.Wrong("%s", bad)
	}
	return s
}

// instantOf reads a time; the zero time where it is none.
func instantOf(r *wirejson.Reader) time.Time {
	if t := r.Time(); t != nil {
		return *t
	}
	return time.Time{}
}

// askedReplay reads a request for a replay.
func (q *request) askedReplay() (jobserver.NewReplay, error) {
	var ask jobserver.NewReplay
	err := q.read(wirejson.Refuse, func(r *wirejson.Reader) { ask = readReplay(r) })
	if hidden := q.sees(ask.Selection.Queue); hidden != nil {
		return ask, hidden
	}
	return ask, err
}

// preview says what a replay would have to do.
func (a *api) preview(q *request) error {
	ask, err := q.askedReplay()
	if err != nil {
		return err
	}
	p, err := a.server.PreviewReplay(q.Context(), q.who, ask)
	if err != nil {
		return err
	}
	answer := Preview{Jobs: p.Jobs, Uncertain: p.Uncertain, AtLeast: p.AtLeast, Tasks: p.Tasks, Reasons: map[string]int64{}}
	if answer.Tasks == nil {
		answer.Tasks = map[string]int64{}
	}
	for reason, n := range p.ByReason {
		answer.Reasons[string(reason)] = n
	}
	return q.marshal(http.StatusOK, answer)
}

// createReplay begins one, or hands it in for review.
func (a *api) createReplay(q *request) error {
	ask, err := q.askedReplay()
	if err != nil {
		return err
	}
	p, err := a.server.AddReplay(q.Context(), q.who, ask)
	if errors.Is(err, store.ErrTooMany) {
		return errReplays
	}
	if err != nil {
		return err
	}
	q.w.Header()["Location"] = []string{"/v3/replays/" + p.ID}
	return q.marshal(http.StatusCreated, wireReplay(p))
}

// wireReplay is a replay as the wire has it.
func wireReplay(p store.Replay) Replay {
	s := p.Selection
	return Replay{
		ID: p.ID, Action: string(p.Action), Before: wireTime(s.Before), AcceptUncertain: bool(p.Uncertainty),
		Filter: ReplayFilter{
			Queue: s.Queue, Task: s.Task, Endpoint: s.Endpoint, Status: string(s.Status), Reason: string(s.Reason), Tag: s.Tag,
			CreatedAfter: wireTimeOrNull(s.CreatedAfter), CreatedBefore: wireTimeOrNull(s.CreatedBefore),
			FailedAfter: wireTimeOrNull(s.FailedAfter), FailedBefore: wireTimeOrNull(s.FailedBefore),
		},
		PerSecond: p.PerSecond, StopShare: p.StopShare, State: string(p.State), Why: textOrNull(p.Why),
		CreatedBy: p.CreatedBy, ApprovedBy: textOrNull(p.ApprovedBy), CreatedAt: wireTime(p.CreatedAt), EndedAt: wireTimeOrNull(p.EndedAt),
		Total: p.Total, TotalAtLeast: p.TotalAtLeast, Done: p.Done, Skipped: p.Skipped,
		Succeeded: p.Succeeded, FailedAgain: p.FailedAgain, Withdrawn: p.Withdrawn, UnderWay: p.UnderWay(),
	}
}

// listReplays returns a page of the replays that the key sees.
func (a *api) listReplays(q *request) error {
	p := q.query("limit", "cursor")
	limit, before := p.limit(defaultLimit), p.text("cursor")
	if err := p.err(); err != nil {
		return err
	}
	all, next, err := a.server.Replays(q.Context(), q.who, limit, before)
	if errors.Is(err, store.ErrNotFound) {
		return noCursor
	}
	if err != nil {
		return err
	}
	answer := Replays{Replays: make([]Replay, 0, len(all)), NextCursor: textOrNull(next)}
	for _, p := range all {
		answer.Replays = append(answer.Replays, wireReplay(p))
	}
	return q.marshal(http.StatusOK, answer)
}

// replay returns one that the key sees.
func (a *api) replay(q *request) (store.Replay, error) {
	id := q.PathValue("replay")
	p, err := a.server.Replay(q.Context(), q.who, id)
	if errors.Is(err, store.ErrNotFound) {
		return p, notFound("there is no replay %s, or not any more", cut(id))
	}
	return p, err
}

func (a *api) getReplay(q *request) error {
	p, err := a.replay(q)
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireReplay(p))
}

// replayMove is something that a person does to a replay.
type replayMove func(ctx context.Context, by jobserver.Principal, id string) (store.Replay, error)

func (a *api) approveReplay(q *request) error {
	return a.moveReplay(q, "approved", a.server.ApproveReplay)
}
func (a *api) pauseReplay(q *request) error { return a.moveReplay(q, "paused", a.server.PauseReplay) }
func (a *api) resumeReplay(q *request) error {
	return a.moveReplay(q, "resumed", a.server.ResumeReplay)
}
func (a *api) cancelReplay(q *request) error {
	return a.moveReplay(q, "cancelled", a.server.CancelReplay)
}

// possibleOfReplay says what can be done to a replay in each state.
var possibleOfReplay = map[store.ReplayState]string{
	store.ReplayReview:    "another key can approve it, and it can be cancelled",
	store.ReplayRunning:   "it can be paused or cancelled",
	store.ReplayPaused:    "it can be resumed or cancelled",
	store.ReplayStopped:   "it can be resumed or cancelled",
	store.ReplayDone:      "that is its end",
	store.ReplayCancelled: "that is its end",
}

func (a *api) moveReplay(q *request, word string, move replayMove) error {
	before, err := a.replay(q)
	if err != nil {
		return err
	}
	if err := q.nothing(); err != nil {
		return err
	}
	p, err := move(q.Context(), q.who, before.ID)
	if errors.Is(err, store.ErrStatus) {
		if before, err = a.replay(q); err != nil { // as it is now
			return err
		}
		return &refusal{problem.Document{Type: problem.Status,
			Detail: "the replay is " + string(before.State) + " and can't be " + word + "; " + possibleOfReplay[before.State]}}
	}
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireReplay(p))
}
