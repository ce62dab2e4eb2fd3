package transform

import (
	"bytes"
	"encoding/json"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"

	"github.com/pawlhq/pawl/internal/core/message"
)

// ErrNotJSON is wrapped by Body's error for a body that is not one JSON value.
var ErrNotJSON = errors.New("the body is not JSON")

// Body returns the body of m as a value: the parsed JSON, or beside an error
// that wraps ErrNotJSON the body as a string. The body is decoded once a
// message; the value is shared, and callers must not change it.
//
// Values are nil, bool, json.Number, string, []any and map[string]any. Numbers
// keep the digits they were written with, so that an id past 2^53 or a price
// with trailing zeros comes out as it went in. A name that an object has twice
// counts with its last value, as in jq. JSON nested more than 10,000
// deep, with bytes that are not UTF-8, or with a number of more than 4,096
// characters is not JSON here.
func Body(m *message.Message) (any, error) { return m.Parse(decode) }

func decode(body []byte) (any, error) {
	d := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	v, err := value(d)
	if err == nil {
		if _, end := d.ReadToken(); errors.Is(end, io.EOF) {
			return v, nil
		}
		err = errors.New("something follows the first value")
	}
	return string(body), fmt.Errorf("%w: %w", ErrNotJSON, err)
}

// maxDigits is the longest number: the time to calculate with one grows with
// its square, and no system writes longer ones.
const maxDigits = 4096

// DecodeJSON decodes one JSON value the way Body does.
func DecodeJSON(text []byte) (any, error) {
	v, err := decode(text)
	if err != nil {
		return nil, err
	}
	return v, nil
}

func value(d *jsontext.Decoder) (any, error) {
	t, err := d.ReadToken()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch t.Kind() {
	case 'n':
		return nil, nil
	case 't', 'f':
		return t.Bool(), nil
	case '"':
		return t.String(), nil
	case '0':
		n := t.String()
		if len(n) > maxDigits {
			return nil, fmt.Errorf("a number has %d characters; %d are the most", len(n), maxDigits)
		}
		return json.Number(n), nil
	case '[':
		return array(d)
	default: // '{': the decoder gives no closing token where a value is due
		return object(d)
	}
}

func array(d *jsontext.Decoder) (any, error) {
	vs := []any{}
	for d.PeekKind() != ']' {
		v, err := value(d)
		if err != nil {
			return nil, err
		}
		vs = append(vs, v)
	}
	_, err := d.ReadToken()
	return vs, err
}

func object(d *jsontext.Decoder) (any, error) {
	vs := map[string]any{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		if vs[key], err = value(d); err != nil {
			return nil, err
		}
	}
	_, err := d.ReadToken()
	return vs, err
}
