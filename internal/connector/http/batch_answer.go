package http

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// An endpoint that takes a batch can answer for each message, in the body of a
// 2xx:
//
//	{"results": [
//	  {"id": "order-1", "status": 200},
//	  {"id": "order-2", "status": 422, "error": "no such customer"},
//	  {"id": "order-3", "status": 429, "retry_after": 5}
//	]}
//
// status is an HTTP status, error a text for people, retry_after seconds. A
// result belongs to the message of its id; where no result has an id and there
// are as many as messages, to the one in its place. A message without a result
// went as the whole answer says, so that only failures need be listed. Of two
// results for one id the one that failed counts: better sent twice than lost.
// Anything else is no such answer, and the status of the whole holds for all.

// result is one of results, as it is written.
type result struct {
	ID         *string        `json:"id"`
	Status     int            `json:"status"`
	Error      jsontext.Value `json:"error"`
	RetryAfter float64        `json:"retry_after"`
}

// settle reads what the answer says of each message that was sent. The body is
// at most egress.DefaultMaxBodyBytes long.
func (b *bundle) settle(body []byte) {
	rs := results(body)
	if len(rs) == 0 {
		return
	}
	total := len(b.sent)
	if b.each != nil {
		total = len(b.each)
	}
	if !slices.ContainsFunc(rs, func(r result) bool { return r.ID != nil }) {
		if len(rs) != len(b.sent) {
			return
		}
		for i, r := range rs {
			if f := r.failure(); f != nil {
				b.fail(total, b.at[i], f)
			}
		}
		return
	}
	failed := map[string]*failure.Error{}
	for _, r := range rs {
		if f := r.failure(); f != nil && r.ID != nil {
			failed[*r.ID] = f
		}
	}
	for i, m := range b.sent {
		if f := failed[m.ID]; f != nil {
			b.fail(total, b.at[i], f)
		}
	}
}

// results returns the results of an answer. What is not one by its form counts
// as a message that nothing is said of, in its place.
func results(body []byte) []result {
	var answer struct {
		Results []jsontext.Value `json:"results"`
	}
	if json.Unmarshal(body, &answer) != nil {
		return nil
	}
	rs := make([]result, len(answer.Results))
	for i, v := range answer.Results {
		if json.Unmarshal(v, &rs[i]) != nil {
			rs[i] = result{}
		}
	}
	return rs
}

// failure is what the result says went wrong, nil for nothing.
func (r result) failure() *failure.Error {
	text := r.text()
	switch {
	case r.Status >= 200 && r.Status < 300:
		return nil
	case r.Status >= 300 && r.Status <= 599:
		f := failure.FromStatus(r.Status, r.wait())
		f.Message += " for this message of a batch"
		if text != "" {
			f.Message += ": " + text
		}
		return f
	case text == "":
		return nil // it says nothing
	}
	return &failure.Error{
		Tags: failure.Tags{failure.Refused}, Class: failure.Transient, Verdict: failure.Alive, RetryAfter: r.wait(),
		Message: "the answer names an error for this message of a batch: " + text,
	}
}

// maxResultText bounds what is kept of a result's error, in bytes.
const maxResultText = 300

// text is the error on one line: a string as it is, anything else as JSON.
func (r result) text() string {
	if len(r.Error) == 0 || r.Error.Kind() == 'n' {
		return ""
	}
	text := string(r.Error)
	var plain string
	if json.Unmarshal(r.Error, &plain) == nil {
		text = plain
	}
	if len(text) > maxResultText {
		text = text[:maxResultText] + "…"
	}
	return strings.Join(strings.FieldsFunc(strings.ToValidUTF8(text, "?"), func(c rune) bool {
		return c <= ' ' || c == 0x7f
	}), " ")
}

// maxResultWait is the longest wait that a result can ask for: longer is a
// mistake or an attack on the arithmetic. Policies cap far below it.
const maxResultWait = 30 * 24 * time.Hour

func (r result) wait() time.Duration {
	if math.IsNaN(r.RetryAfter) || r.RetryAfter <= 0 {
		return 0
	}
	return time.Duration(min(r.RetryAfter, maxResultWait.Seconds()) * float64(time.Second))
}
