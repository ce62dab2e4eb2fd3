package connector

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// LineFormat is how a destination of lines (a file, stdout) writes a message.
type LineFormat string

// The formats.
const (
	// LinePlain writes the body. One without a newline or NUL byte is written
	// as it is; JSON over several lines is compacted; other text becomes a JSON
	// string; what is not UTF-8 becomes {"body":"…","body_encoding":"base64"}.
	// An empty body is "".
	LinePlain LineFormat = "plain"
	// LineEnvelope writes the whole message, as message.Encode does. Reading it
	// gives back exactly the same message.
	LineEnvelope LineFormat = "envelope"
)

// Check returns what is wrong with the format, "" for nothing.
func (f LineFormat) Check() string {
	if f == LinePlain || f == LineEnvelope {
		return ""
	}
	return fmt.Sprintf("unknown format %q; it is plain or envelope", string(f))
}

// Line returns the message as one line without its newline: never empty, no
// newline and no NUL byte in it, at most message.MaxLine bytes. An error is a
// permanent *failure.Error: the message can't be written so.
func (f LineFormat) Line(m *message.Message) ([]byte, error) {
	line, err := f.line(m)
	if err == nil && len(line) > message.MaxLine {
		err = fmt.Errorf("the line has %d bytes, the most is %d", len(line), message.MaxLine)
	}
	if err != nil {
		return nil, &failure.Error{
			Tags: failure.Tags{failure.Refused}, Class: failure.Permanent, Verdict: failure.Alive,
			Message: "the message can't be written as a line: " + err.Error(), Err: err,
		}
	}
	return line, nil
}

func (f LineFormat) line(m *message.Message) ([]byte, error) {
	if f == LineEnvelope {
		return message.Encode(m)
	}
	if len(m.Body) > 0 && !bytes.ContainsAny(m.Body, "\n\x00") {
		return m.Body, nil
	}
	v := jsontext.Value(slices.Clone(m.Body))
	if v.Compact(jsontext.AllowDuplicateNames(true)) == nil {
		return v, nil
	}
	if utf8.Valid(m.Body) {
		return json.Marshal(string(m.Body))
	}
	return json.Marshal(struct {
		Body     []byte `json:"body"`
		Encoding string `json:"body_encoding"`
	}{m.Body, "base64"})
}
