package jobserver

import (
	"encoding/json/jsontext"
	"strconv"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// AppendEvent writes an event as subscriptions get it and /v3/events has it. What
// there is nothing to say of is left out, but for data, which is {} then.
func AppendEvent(b []byte, e *store.Event) []byte {
	b = strconv.AppendInt(append(b, `{"id":"`...), e.ID, 10)
	b = appendMember(append(b, '"'), "type", string(e.Type))
	b = append(e.At.UTC().AppendFormat(append(b, `,"at":"`...), job.TimeForm), '"')
	b = appendMember(b, "job", e.Job)
	b = appendMember(b, "queue", e.Queue)
	b = appendMember(b, "task", e.Task)
	b = appendMember(b, "version", e.Version)
	b = appendMember(b, "endpoint", e.Endpoint)
	switch e.Type {
	case store.ReplayMoved:
		b = appendMember(b, "replay", e.Subject)
	case store.SubscriptionGone:
		b = appendMember(b, "subscription", e.Subject)
	default:
	}
	b = append(b, `,"data":`...)
	if len(e.Data) == 0 {
		return append(b, `{}}`...)
	}
	return append(append(b, e.Data...), '}')
}

func appendMember(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	b = append(append(append(b, `,"`...), name...), `":`...)
	b, _ = jsontext.AppendQuote(b, text) // an error is text that is no UTF-8: U+FFFD stands for it
	return b
}
