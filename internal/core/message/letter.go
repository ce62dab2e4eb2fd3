package message

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
)

// attributeDLQ is the attribute that makes a written message a dead letter.
const attributeDLQ = "dlq"

// EncodeLetter returns the written form of a dead letter, without a newline:
// its message's, with the death as the attribute dlq. It refuses what Encode
// refuses, and a message that has a dlq attribute already. Text in the death
// that is not UTF-8 (what an endpoint said, say) is mended with U+FFFD rather
// than refused.
func EncodeLetter(l *DeadLetter) ([]byte, error) {
	if _, ok := l.Message.Attributes[attributeDLQ]; ok {
		return nil, errors.New("writing a dead letter: the message has a dlq attribute already")
	}
	death, err := inUTC(l.Death)
	if err != nil {
		return nil, fmt.Errorf("writing a dead letter: %w", err)
	}
	raw, err := json.Marshal(death, jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil, fmt.Errorf("writing a dead letter: %w", err)
	}
	return Encode(l.Message.With(func(m *Message) {
		if m.Attributes == nil {
			m.Attributes = map[string]jsontext.Value{}
		}
		m.Attributes[attributeDLQ] = raw
	}))
}

// DecodeLetter reads the written form of a dead letter. It refuses what Decode
// refuses, a missing dlq attribute, unknown members in it, an empty letter id
// and an unknown reason.
func DecodeLetter(line []byte) (*DeadLetter, error) {
	m, err := Decode(line)
	if err != nil {
		return nil, err
	}
	raw, ok := m.Attributes[attributeDLQ]
	if !ok {
		return nil, errors.New("reading a dead letter: the message has no dlq attribute")
	}
	l := &DeadLetter{Message: m}
	if err := json.Unmarshal(raw, &l.Death, json.RejectUnknownMembers(true)); err != nil {
		return nil, fmt.Errorf("reading a dead letter: attribute dlq: %w", err)
	}
	switch {
	case l.Letter == "":
		return nil, errors.New("reading a dead letter: attribute dlq: the letter's id is missing")
	case !slices.Contains(Reasons(), l.Reason):
		return nil, fmt.Errorf("reading a dead letter: attribute dlq: unknown reason %q", shorten(string(l.Reason)))
	}
	if l.Death, err = inUTC(l.Death); err != nil {
		return nil, fmt.Errorf("reading a dead letter: attribute dlq: %w", err)
	}
	delete(m.Attributes, attributeDLQ)
	m.Attributes = orNil(m.Attributes)
	return l, nil
}

// inUTC returns a copy with every time in UTC, as everything written is. A time
// that has no written form is an error.
func inUTC(d Death) (Death, error) {
	var bad error
	utc := func(t time.Time) time.Time {
		t = t.UTC()
		if err := checkYear(t); err != nil {
			bad = err
		}
		return t
	}
	d.At = utc(d.At)
	d.Hops = slices.Clone(d.Hops)
	for i := range d.Hops {
		h := &d.Hops[i]
		h.At = utc(h.At)
		h.Attempts = slices.Clone(h.Attempts)
		for j := range h.Attempts {
			h.Attempts[j].At = utc(h.Attempts[j].At)
		}
	}
	d.Replays = slices.Clone(d.Replays)
	for i, earlier := range d.Replays {
		var err error
		if d.Replays[i], err = inUTC(earlier); err != nil {
			bad = err
		}
	}
	return d, bad
}

// writtenAttempt is the written form of an Attempt. Durations are milliseconds
// with a fraction: people sort and add them with jq.
type writtenAttempt struct {
	Number   int          `json:"number"`
	Endpoint string       `json:"endpoint"`
	At       time.Time    `json:"at"`
	Waited   float64      `json:"waited_ms"`
	Duration float64      `json:"duration_ms"`
	Outcome  Outcome      `json:"outcome"`
	Tags     failure.Tags `json:"tags,omitempty"`
	Error    string       `json:"error,omitempty"`
	Hedge    bool         `json:"hedge,omitzero"`
}

// MarshalJSONTo writes the attempt with its durations in milliseconds.
func (a Attempt) MarshalJSONTo(enc *jsontext.Encoder) error {
	return json.MarshalEncode(enc, writtenAttempt{
		a.Number, a.Endpoint, a.At, millis(a.Waited), millis(a.Duration), a.Outcome, a.Tags, a.Error, a.Hedge,
	})
}

// UnmarshalJSONFrom reads what MarshalJSONTo wrote, to the nanosecond for
// durations up to 49 days.
func (a *Attempt) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	var w writtenAttempt
	if err := json.UnmarshalDecode(dec, &w); err != nil {
		return err
	}
	waited, err := fromMillis("waited_ms", w.Waited)
	if err != nil {
		return err
	}
	took, err := fromMillis("duration_ms", w.Duration)
	if err != nil {
		return err
	}
	*a = Attempt{w.Number, w.Endpoint, w.At, waited, took, w.Outcome, w.Tags, w.Error, w.Hedge}
	return nil
}

// millis returns d in milliseconds, to the nanosecond up to 49 days: float64 has
// 53 bits.
func millis(d time.Duration) float64 {
	return float64(d/time.Millisecond) + float64(d%time.Millisecond)/float64(time.Millisecond)
}

// fromMillis is the reverse of millis.
func fromMillis(field string, ms float64) (time.Duration, error) {
	const most = math.MaxInt64 / int64(time.Millisecond)
	if math.Abs(ms) >= float64(most) {
		return 0, fmt.Errorf("%s is too long a time", field)
	}
	whole, part := math.Modf(ms)
	return time.Duration(whole)*time.Millisecond + time.Duration(math.Round(part*float64(time.Millisecond))), nil
}
