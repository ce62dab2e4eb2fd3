package adminapi

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// noBlanks refuses a text that is there and says nothing: a filter that is empty by
// mistake must not let all pass.
var noBlanks = json.WithUnmarshalers(json.JoinUnmarshalers(
	json.UnmarshalFromFunc(notBlank[string]), json.UnmarshalFromFunc(notBlank[message.Reason]),
))

var errBlank = errors.New("is empty; leave it out")

func notBlank[T ~string](from *jsontext.Decoder, into *T) error {
	v, err := from.ReadValue()
	if err != nil {
		return err
	}
	if v.Kind() != '"' {
		return errors.New("must be a text")
	}
	var s string
	if err := json.Unmarshal(v, &s); err != nil {
		return err
	}
	if strings.TrimSpace(s) == "" {
		return errBlank
	}
	*into = T(s)
	return nil
}

// query reads the parameters of a call: one that the call does not know, or that
// says nothing, must not let all pass.
func query(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, errors.New("the query can't be read: write a=1&b=2, other characters escaped with %")
	}
	for name, values := range q {
		switch {
		case !slices.Contains(known, name):
			return nil, fmt.Errorf("there is no parameter %q; there are %s", name, strings.Join(known, ", "))
		case slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" }):
			return nil, fmt.Errorf("%s %w", name, errBlank)
		case len(values) > 1 && name != "id":
			return nil, fmt.Errorf("%s is there twice", name)
		}
	}
	return q, nil
}

// explainJSON says in a caller's words why its JSON can't be taken: by the name
// of the member, and never by a type of this program.
func explainJSON(err error) string {
	if wrong, ok := errors.AsType[*json.SemanticError](err); ok {
		return explainMember(wrong)
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "the request's JSON ends too early"
	}
	if syntactic, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		if errors.Is(err, jsontext.ErrDuplicateName) {
			return fmt.Sprintf("%s is there twice", memberName(syntactic.JSONPointer))
		}
		return fmt.Sprintf("the request's JSON is wrong at byte %d", syntactic.ByteOffset)
	}
	return "the request's JSON is wrong"
}

func explainMember(e *json.SemanticError) string {
	name := memberName(e.JSONPointer)
	if errors.Is(e.Err, json.ErrUnknownName) {
		return fmt.Sprintf("there is no member %s", name)
	}
	if errors.Is(e.Err, errBlank) {
		return name + " " + errBlank.Error()
	}
	if e.GoType == nil {
		return fmt.Sprintf("%s has a wrong value", name)
	}
	return fmt.Sprintf("%s must be %s", name, wanted(e.GoType))
}

// memberName names a member as people write it: message.id.
func memberName(p jsontext.Pointer) string {
	var all []string
	for token := range p.Tokens() {
		all = append(all, token)
	}
	if len(all) == 0 {
		return "the request"
	}
	return strings.ToValidUTF8(strings.Join(all, "."), "�")
}

// wanted says what a member of a type is in JSON.
func wanted(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t == reflect.TypeFor[time.Time]() {
		return "a time like 2026-01-02T15:04:05Z"
	}
	switch t.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	default:
		return "an object"
	}
}
