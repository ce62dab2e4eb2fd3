package sqlite

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// eventData is what an event says beside its columns.
type eventData struct {
	Attempt    int         `json:"attempt,omitzero"`
	Outcome    job.Outcome `json:"outcome,omitzero"`
	Reason     job.Reason  `json:"reason,omitzero"`
	Error      *job.Error  `json:"error,omitzero"`
	RunAt      stamp       `json:"run_at,omitzero"`
	By         string      `json:"by,omitzero"`
	Why        string      `json:"why,omitzero"`
	State      string      `json:"state,omitzero"`
	Generation int64       `json:"generation,omitzero"`
	RetryAt    stamp       `json:"retry_at,omitzero"`
	HeldUntil  stamp       `json:"held_until,omitzero"`
	Synthetic  bool        `json:"synthetic,omitzero"`
	// Of a replay: what it does, to what, and how far it is.
	Action  store.Action `json:"action,omitzero"`
	Filter  *eventFilter `json:"filter,omitzero"`
	Done    int64        `json:"done,omitzero"`
	Skipped int64        `json:"skipped,omitzero"`
}

// eventFilter is which jobs a replay is about; what is left out lets all pass.
type eventFilter struct {
	Queue         string     `json:"queue,omitzero"`
	Task          string     `json:"task,omitzero"`
	Endpoint      string     `json:"endpoint,omitzero"`
	Status        job.Status `json:"status,omitzero"`
	Reason        job.Reason `json:"reason,omitzero"`
	Tag           string     `json:"tag,omitzero"`
	CreatedAfter  stamp      `json:"created_after,omitzero"`
	CreatedBefore stamp      `json:"created_before,omitzero"`
	FailedAfter   stamp      `json:"failed_after,omitzero"`
	FailedBefore  stamp      `json:"failed_before,omitzero"`
}

// replayMoved tells of a replay as it is now.
func (t *tx) replayMoved(r *store.Replay, by string) {
	s := &r.Selection
	t.subjectEvent(store.ReplayMoved, r.ID, eventData{
		State: string(r.State), By: by, Why: r.Why, Action: r.Action, Done: r.Done, Skipped: r.Skipped,
		Filter: &eventFilter{
			s.Queue, s.Task, s.Endpoint, s.Status, s.Reason, s.Tag,
			stampOf(s.CreatedAfter), stampOf(s.CreatedBefore), stampOf(s.FailedAfter), stampOf(s.FailedBefore),
		},
	})
}

// stamp is a time in an event, in Unix milliseconds; 0 for none.
type stamp int64

func stampOf(t time.Time) stamp { return stamp(millis(t)) }

// AppendText writes the time in the form of every other one.
func (s stamp) AppendText(b []byte) ([]byte, error) {
	return at(int64(s)).AppendFormat(b, job.TimeForm), nil
}
