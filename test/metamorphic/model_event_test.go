package metamorphic

import (
	"encoding/json/v2"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// modelEvent is an event with what its Data says.
type modelEvent struct {
	store.Event // without Data
	Told
}

// Told is what the Data of an event may say.
type Told struct {
	Attempt    int         `json:"attempt"`
	Outcome    job.Outcome `json:"outcome"`
	Reason     job.Reason  `json:"reason"`
	Error      *job.Error  `json:"error"`
	RunAt      time.Time   `json:"run_at"`
	By         string      `json:"by"`
	Why        string      `json:"why"`
	State      string      `json:"state"`
	Generation int64       `json:"generation"`
	RetryAt    time.Time   `json:"retry_at"`
	HeldUntil  time.Time   `json:"held_until"`
	Synthetic  bool        `json:"synthetic"`

	Action  store.Action `json:"action"`
	Filter  *ToldFilter  `json:"filter"`
	Done    int64        `json:"done"`
	Skipped int64        `json:"skipped"`
}

// ToldFilter is which jobs a replay is about.
type ToldFilter struct {
	Queue         string     `json:"queue"`
	Task          string     `json:"task"`
	Endpoint      string     `json:"endpoint"`
	Status        job.Status `json:"status"`
	Reason        job.Reason `json:"reason"`
	Tag           string     `json:"tag"`
	CreatedAfter  time.Time  `json:"created_after"`
	CreatedBefore time.Time  `json:"created_before"`
	FailedAfter   time.Time  `json:"failed_after"`
	FailedBefore  time.Time  `json:"failed_before"`
}

// understand reads the Data of events that a store returned.
func understand(events []store.Event) (read []modelEvent, err error) {
	for _, e := range events {
		m := modelEvent{Event: e}
		if err := json.Unmarshal(e.Data, &m.Told, json.RejectUnknownMembers(true)); err != nil {
			return nil, fmt.Errorf("event %d says %s: %w", e.ID, e.Data, err)
		}
		m.Data = nil
		read = append(read, m)
	}
	return read, nil
}

// tell writes an event, about a job where one is given, if it is one that is
// written.
func (m *model) tell(kind store.EventType, j *modelJob, e modelEvent) {
	switch kind {
	case store.JobCreated, store.JobRetried, store.JobSucceeded:
		if !m.wanted[kind] {
			m.met["events that nobody wants"]++
			return
		}
	}
	if j != nil {
		e.Job, e.Queue, e.Task, e.Version, e.Endpoint, e.Synthetic = j.ID, j.Queue, j.Task, j.Version, j.Endpoint, j.Kind == job.Synthetic
		switch {
		case strings.HasPrefix(j.Queue, "relay:events:"):
			m.met["events of deliveries of events"]++
			return
		case strings.HasPrefix(j.Queue, "relay:") && kind != store.JobFailed && kind != store.JobCancelled && kind != store.JobDeleted:
			return
		}
	}
	m.event++
	e.ID, e.Type, e.At = m.event, kind, m.now
	m.events = append(m.events, e)
}

// read is what a store returns of the events behind an id.
func (m *model) read(f store.EventFilter, after int64, limit int) (events []modelEvent, next int64, gone bool) {
	next = max(after, m.event)
	for _, e := range m.events {
		if e.ID <= after || len(f.Types) > 0 && !slices.Contains(f.Types, e.Type) || len(f.Queues) > 0 && !slices.Contains(f.Queues, e.Queue) {
			continue
		}
		if events = append(events, e); len(events) == limit {
			next = e.ID
			break
		}
	}
	return events, next, after > 0 && m.gone > after
}
