package alert

import (
	"crypto/rand"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawlhq/pawl/internal/core/message"
)

// source is the source that alerts name: no configured one made them.
const source = "pawl"

// body is an alert as it is sent. Its fields are a contract with those who
// shape it by transforms.
type body struct {
	Event Event     `json:"event"`
	Relay string    `json:"relay"`
	At    time.Time `json:"at"`    // of the last
	Since time.Time `json:"since"` // of the first
	Count int       `json:"count"`

	Destination string         `json:"destination,omitzero"`
	Endpoint    string         `json:"endpoint,omitzero"`
	Route       string         `json:"route,omitzero"`
	Source      string         `json:"source,omitzero"`
	Reason      message.Reason `json:"reason,omitzero"`
	Error       string         `json:"error,omitzero"`
	MessageID   string         `json:"message_id,omitzero"`
}

// messageOf writes an alert.
func messageOf(relay string, a Alert, now time.Time) (*message.Message, error) {
	id, err := ulid.New(ulid.Timestamp(now), rand.Reader)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(body{
		Event: a.Event, Relay: relay, At: a.At.UTC(), Since: a.Since.UTC(), Count: a.Count,
		Destination: a.Destination, Endpoint: a.Endpoint, Route: a.Route, Source: a.Source,
		Reason: a.Reason, Error: a.Error, MessageID: a.MessageID,
	}, jsontext.AllowInvalidUTF8(true)) // ids and errors come from outside
	if err != nil {
		return nil, err
	}
	return &message.Message{
		ID: id.String(), Source: source, Time: now, ContentType: "application/json", Body: text,
	}, nil
}
