package jobserver

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"strconv"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// eventJSON is the form of an event on the wire.
type eventJSON struct {
	ID           string          `json:"id"`
	Type         store.EventType `json:"type"`
	At           string          `json:"at"`
	Job          string          `json:"job,omitzero"`
	Queue        string          `json:"queue,omitzero"`
	Task         string          `json:"task,omitzero"`
	Version      string          `json:"version,omitzero"`
	Endpoint     string          `json:"endpoint,omitzero"`
	Replay       string          `json:"replay,omitzero"`
	Subscription string          `json:"subscription,omitzero"`
	Data         jsontext.Value  `json:"data"`
}

// EventJSON is an event as subscriptions get it and /v3/events writes it.
func EventJSON(e store.Event) ([]byte, error) {
	w := eventJSON{
		ID: strconv.FormatInt(e.ID, 10), Type: e.Type, At: e.At.UTC().Format(job.TimeForm), Job: e.Job, Queue: e.Queue,
		Task: e.Task, Version: e.Version, Endpoint: e.Endpoint, Data: e.Data,
	}
	if len(w.Data) == 0 {
		w.Data = jsontext.Value("{}")
	}
	switch e.Type {
	case store.ReplayMoved:
		w.Replay = e.Subject
	case store.SubscriptionGone:
		w.Subscription = e.Subject
	default:
	}
	return json.Marshal(w)
}
