package httpapi

import (
	"encoding/json/jsontext"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/pawlhq/pawl/internal/core/job"
)

// The bodies of requests and answers. Durations are text such as 1m30s or 7d;
// times are RFC 3339 in UTC with milliseconds. Members of a request that may be
// left out have omitzero; members of an answer are always there, null where
// there is nothing to say, but for those with omitzero.

// Time is a moment as text: RFC 3339.
type Time string

// wireTime writes a moment as the API has it.
func wireTime(t time.Time) Time { return Time(t.UTC().Format(job.TimeForm)) }

// Schema is its form in the OpenAPI document.
func (Time) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Format: "date-time"}
}

// Duration is a length of time as text.
type Duration string

// Schema is its form in the OpenAPI document.
func (Duration) Schema(huma.Registry) *huma.Schema {
	return &huma.Schema{Type: huma.TypeString, Pattern: durationPattern, Examples: []any{"30s"}}
}

// durationPattern is what duration.Parse takes, but for spaces around it and for
// what is too long: a Go duration, with d for days before it.
const (
	durationNumber  = `([0-9]+\.?[0-9]*|\.[0-9]+)`
	durationParts   = `(0|(` + durationNumber + `(h|m|s|ms|us|µs|μs|ns))+)`
	durationPattern = `^(` + durationNumber + `d` + durationParts + `?|` + durationParts + `)$`
)

// Value is a JSON value of any kind.
type Value jsontext.Value

// Schema is its form in the OpenAPI document.
func (Value) Schema(huma.Registry) *huma.Schema { return &huma.Schema{Description: "Any JSON value."} }

// MarshalJSONTo writes the value as it is.
func (v Value) MarshalJSONTo(enc *jsontext.Encoder) error {
	if v == nil {
		return enc.WriteToken(jsontext.Null)
	}
	return enc.WriteValue(jsontext.Value(v))
}

// UnmarshalJSONFrom takes the next value as it is.
func (v *Value) UnmarshalJSONFrom(dec *jsontext.Decoder) error {
	next, err := dec.ReadValue()
	*v = append((*v)[:0], next...)
	return err
}

// orNull lets null be the value of members that are objects or one of a few
// words, which huma's tags have no way to say.
func orNull(s *huma.Schema, members ...string) *huma.Schema {
	for _, name := range members {
		member := s.Properties[name]
		if member.Ref == "" {
			member.Enum = append(member.Enum, nil)
			continue
		}
		s.Properties[name] = &huma.Schema{Description: member.Description, AnyOf: []*huma.Schema{{Ref: member.Ref}, {Type: "null"}}}
	}
	return s
}

// Problem is what an error is answered with: RFC 9457, as application/problem+json.
type Problem struct {
	Type   string  `json:"type" doc:"urn:pawl:problem: and a word that stays the same: compare it."`
	Title  string  `json:"title"`
	Status int     `json:"status"`
	Detail string  `json:"detail,omitzero" doc:"What is wrong with this request and what to do, for people."`
	Job    string  `json:"job,omitzero" doc:"The job that it is about."`
	Errors []Fault `json:"errors,omitzero" nullable:"false" doc:"Everything that is wrong, each by itself."`
}

// Fault is one thing that is wrong with a request.
type Fault struct {
	Pointer   string `json:"pointer,omitzero" doc:"JSON pointer of the member of the body."`
	Parameter string `json:"parameter,omitzero" doc:"Name of the query parameter or header."`
	Offset    *int64 `json:"offset,omitzero" doc:"Byte of the body at or after which it is no JSON."`
	Message   string `json:"message"`
}
