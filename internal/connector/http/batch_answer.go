package http

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
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
// The results may stand alone too, as a JSON array, or as NDJSON, one a line.
//
// status is an HTTP status, as a number or a text, error a text for people,
// retry_after seconds. A result belongs to the message of its id; where no result
// has an id and there are as many as messages, to the one in its place. A message
// without a result went as the whole answer says, so that only failures need be
// listed. Of two results for one id the one that failed counts: better sent twice
// than lost.
//
// An answer that tells of single messages and can't be understood is no success
// of those that it may be about: they are sent again. It is cut short, a status
// is none, results are no list, as many as there should be, or name nobody of
// this batch. An answer that tells of no messages is one for all.

// result is one of results, as it is written.
type result struct {
	ID         *string        `json:"id"`
	Status     jsontext.Value `json:"status"`
	Error      jsontext.Value `json:"error"`
	RetryAfter float64        `json:"retry_after"`
	// odd says that it is no result by its form.
	odd bool
}

// settle reads what the answer says of each message that was sent. The body is
// at most egress.DefaultMaxBodyBytes long; of a longer one it is empty or cut.
func (b *bundle) settle(body []byte) {
	rs, why := results(body, len(b.sent))
	if why == "" && len(rs) == 0 {
		return
	}
	total := len(b.sent)
	if b.each != nil {
		total = len(b.each)
	}
	byID := slices.ContainsFunc(rs, func(r result) bool { return r.ID != nil })
	if why == "" && !byID && len(rs) != len(b.sent) {
		why = fmt.Sprintf("it has %d results without ids for %d messages", len(rs), len(b.sent))
	}
	told := map[string]*failure.Error{} // nil: it is well
	for i, r := range rs {
		f := r.failure()
		if !byID {
			if f != nil && why == "" {
				b.fail(total, b.at[i], f)
			}
			continue
		}
		if r.ID == nil {
			if f != nil && why == "" {
				why = "a result that failed names no message"
			}
			continue
		}
		if before, twice := told[*r.ID]; !twice || before == nil {
			told[*r.ID] = f
		}
		if f != nil && why == "" && !slices.ContainsFunc(b.sent, func(m *message.Message) bool { return m.ID == *r.ID }) {
			why = "a result that failed names no message of the batch"
		}
	}
	for i, m := range b.sent {
		f, said := told[m.ID]
		if !said && why != "" {
			f = unreadable(why)
		}
		if f != nil {
			b.fail(total, b.at[i], f)
		}
	}
}

// settleCut is settle for an answer that was too long to be read to its end.
func (b *bundle) settleCut(body []byte) {
	if !mentions(body) {
		return
	}
	total := len(b.sent)
	if b.each != nil {
		total = len(b.each)
	}
	for i := range b.sent {
		b.fail(total, b.at[i], unreadable("it is longer than 1 MiB"))
	}
}

// unreadable is the failure of a message that an answer may be about which can't
// be understood.
func unreadable(why string) *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Refused}, Class: failure.Transient, Verdict: failure.Alive,
		Message: "the answer to a batch can't be understood, so the message may not have been taken: " + why,
	}
}

// results returns the results of an answer, and what can't be understood of one
// that has some.
func results(body []byte, sent int) (rs []result, why string) {
	body = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(body), []byte("\xef\xbb\xbf")))
	if len(body) == 0 || body[0] != '{' && body[0] != '[' {
		return nil, ""
	}
	if body[0] == '[' {
		return listed(body)
	}
	var answer struct {
		Results jsontext.Value `json:"results"`
	}
	if json.Unmarshal(body, &answer) == nil {
		if len(answer.Results) == 0 {
			return oneLine(body, sent)
		}
		if answer.Results.Kind() != '[' {
			return nil, "its results are no list"
		}
		return listed(answer.Results)
	}
	return ndjson(body)
}

// listed reads a JSON array of results. One of other things is no such answer.
func listed(text []byte) (rs []result, why string) {
	var list []jsontext.Value
	if json.Unmarshal(text, &list) != nil {
		if mentions(text) {
			return nil, "it is no JSON"
		}
		return nil, ""
	}
	some := false
	for _, v := range list {
		r := parseResult(v)
		some = some || r.tells()
		rs = append(rs, r)
	}
	if !some {
		return nil, ""
	}
	return rs, ""
}

// oneLine is an object that may be the only result: by its id, or, of a message
// that was sent alone, by its status.
func oneLine(text []byte, sent int) (rs []result, why string) {
	r := parseResult(text)
	if status, _ := r.status(); r.ID != nil && r.tells() || sent == 1 && status != 0 {
		return []result{r}, ""
	}
	return nil, ""
}

// ndjson reads a result a line.
func ndjson(text []byte) (rs []result, why string) {
	some := false
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		r := parseResult(line)
		if r.odd && !jsontext.Value(line).IsValid() {
			if some || mentions(text) {
				return rs, "it is no JSON, or was cut short"
			}
			return nil, ""
		}
		some = some || r.tells()
		rs = append(rs, r)
	}
	if !some {
		return nil, ""
	}
	return rs, ""
}

// mentions reports whether a text that is no JSON looks as if it told of messages.
func mentions(text []byte) bool {
	for _, word := range []string{`"results"`, `"status"`, `"error"`, `"id"`} {
		if bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

func parseResult(v []byte) (r result) {
	if json.Unmarshal(v, &r) != nil {
		r = result{odd: true}
		var some struct {
			ID     jsontext.Value `json:"id"`
			Status jsontext.Value `json:"status"`
			Error  jsontext.Value `json:"error"`
		}
		if json.Unmarshal(v, &some) == nil { // a member has another type
			r.Status, r.Error = some.Status, some.Error
			var id string
			if json.Unmarshal(some.ID, &id) == nil {
				r.ID = &id
			}
		}
	}
	return r
}

// tells reports whether the result says how it went.
func (r result) tells() bool { return len(r.Status) > 0 || r.text() != "" }

// status is the result's HTTP status; 0 where it says none, and said is false
// where what it says is no status.
func (r result) status() (status int, said bool) {
	if len(r.Status) == 0 || r.Status.Kind() == 'n' {
		return 0, true
	}
	text := string(r.Status)
	if r.Status.Kind() == '"' && json.Unmarshal(r.Status, &text) != nil {
		return 0, false
	}
	status, err := strconv.Atoi(strings.TrimSpace(text))
	return status, err == nil && status >= 200 && status <= 599
}

// failure is what the result says went wrong, nil for nothing.
func (r result) failure() *failure.Error {
	text := r.text()
	status, said := r.status()
	switch {
	case !said:
		return unreadable("the status of its result is none")
	case status >= 300:
		f := failure.FromStatus(status, r.wait())
		f.Message += " for this message of a batch"
		if text != "" {
			f.Message += ": " + text
		}
		return f
	case status >= 200 || text == "": // well, or it says nothing
		return nil
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
