package httpapi

import (
	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlhq/pawl/internal/store"
)

// Events is a page of what happened, oldest first.
type Events struct {
	Events     []Event `json:"events" nullable:"false"`
	NextCursor string  `json:"next_cursor" doc:"Where the next page begins, always: what happens later is behind it."`
	Gone       bool    `json:"gone" doc:"Some behind the cursor were there and are kept no longer; or the cursor is ahead of every event, as after a backup was put back, and the page begins with the oldest."`
}

// Event is one thing that happened. What does not apply is left out.
type Event struct {
	ID           string `json:"id" doc:"Its cursor: it grows."`
	Type         string `json:"type"`
	At           Time   `json:"at"`
	Job          string `json:"job,omitzero"`
	Queue        string `json:"queue,omitzero"`
	Task         string `json:"task,omitzero"`
	Version      string `json:"version,omitzero"`
	Endpoint     string `json:"endpoint,omitzero"`
	Replay       string `json:"replay,omitzero"`
	Subscription string `json:"subscription,omitzero"`
	Data         Value  `json:"data" doc:"What else there is to say: an object."`
}

// SubscriptionRequest asks for events to be sent to a URL.
type SubscriptionRequest struct {
	Name   string   `json:"name" maxLength:"64" pattern:"^[A-Za-z0-9._:-]+$"`
	URL    string   `json:"url" format:"uri" maxLength:"2048" doc:"An http or https URL that takes POST. Private addresses are refused after DNS unless the configuration allows them."`
	Events []string `json:"events" minItems:"1" maxItems:"16" nullable:"false" doc:"Types of event, such as job.failed."`
	Queues []string `json:"queues,omitzero" minItems:"1" maxItems:"100" nullable:"false" doc:"Events of these queues alone. A key that is limited to queues has to say some of them."`
	Secret string   `json:"secret,omitzero" maxLength:"256" doc:"Standard Webhooks: whsec_ and base64; one is made unless said."`
}

// Subscriptions are all subscriptions.
type Subscriptions struct {
	Subscriptions []Subscription `json:"subscriptions" nullable:"false"`
	NextCursor    *string        `json:"next_cursor" nullable:"true" doc:"Always null: the list is whole."`
}

// Subscription is where events go.
type Subscription struct {
	Name string `json:"name"`
	Managed
	URL      *string           `json:"url" nullable:"true" doc:"Null where they go to destinations of the relay."`
	To       []string          `json:"to" nullable:"false" doc:"Destinations of the relay."`
	Events   []store.EventType `json:"events" nullable:"false"`
	Queues   []string          `json:"queues" nullable:"false" doc:"Empty for every queue."`
	Disabled *string           `json:"disabled" nullable:"true" doc:"Why nothing is sent any more."`
	Behind   int64             `json:"behind" doc:"How many events have happened that it has not looked at."`
	// Deliveries are kept as jobs are.
	Deliveries Counts `json:"deliveries" doc:"Those that wait, run, and are dead letters."`
	Secret     string `json:"secret,omitzero" doc:"Told once, where it was made."`
}

// TransformSchema says where null may stand.
func (Subscription) TransformSchema(_ huma.Registry, s *huma.Schema) *huma.Schema {
	return orNull(s, "managed_by")
}
