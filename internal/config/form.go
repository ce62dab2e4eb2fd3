package config

import (
	"encoding"
	"fmt"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/setting"
)

// form is how a value is written, for the schema and the reference.
type form string

const (
	formText     form = "text"
	formSecret   form = "secret text"
	formFile     form = "file"
	formDuration form = "duration"
	formSize     form = "size"
	formRatio    form = "ratio"
	formTag      form = "tag"
	formInteger  form = "whole number"
	formNumber   form = "number"
	formBool     form = "true or false"
	formTarget   form = "name or mapping" // a Target
	formToggle   form = "mapping or true or false"
	formAfter    form = "duration or p95"
	formMembers  form = "list of members"
	formMapping  form = "mapping" // a struct, whose keys are known
	formNames    form = "mapping of"
	formList     form = "list of"
	formOther    form = "see its description" // a type that reads itself
	formNone     form = ""                    // a type that no setting can have
)

var (
	nodeReader = reflect.TypeFor[interface{ UnmarshalYAML(*yaml.Node) error }]()
	textReader = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// formOf returns how values of a field's type are written. Pointers are
// followed by the caller.
func formOf(t reflect.Type, tg tags) form {
	switch t {
	case reflect.TypeFor[time.Duration]():
		return formNone // it would be read as nanoseconds
	case reflect.TypeFor[setting.Duration]():
		return formDuration
	case reflect.TypeFor[setting.Size]():
		return formSize
	case reflect.TypeFor[setting.Ratio]():
		return formRatio
	case reflect.TypeFor[setting.Secret](), reflect.TypeFor[storeURL]():
		return formSecret
	case reflect.TypeFor[failure.Tag]():
		return formTag
	case reflect.TypeFor[Target]():
		return formTarget
	case reflect.TypeFor[writtenBreaker](), reflect.TypeFor[writtenRateLimit](), reflect.TypeFor[writtenBudget](), reflect.TypeFor[writtenBatch]():
		return formToggle
	case reflect.TypeFor[hedgeAfter]():
		return formAfter
	case reflect.TypeFor[memberList]():
		return formMembers
	case reflect.TypeFor[writtenDedupe]():
		return formMapping
	}
	if reads := reflect.PointerTo(t); t.Kind() != reflect.String && (reads.Implements(nodeReader) || reads.Implements(textReader)) {
		return formOther
	}
	switch t.Kind() {
	case reflect.Struct:
		return formMapping
	case reflect.Slice:
		return formList
	case reflect.Map:
		return formNames
	case reflect.Bool:
		return formBool
	case reflect.Float32, reflect.Float64:
		return formNumber
	case reflect.String:
		if tg.path != noPath {
			return formFile
		}
		return formText
	case reflect.Interface:
		return formOther
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return formInteger
	}
	return formNone
}

// standardOf returns the default of a field as the reference prints it: the
// value that fresh settings hold, else what the tag says.
func standardOf(f field, v reflect.Value) string {
	if v.IsValid() && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.IsZero() {
		return f.tags.standard
	}
	switch formOf(v.Type(), f.tags) {
	case formMapping, formNames, formSecret, formTarget, formToggle, formMembers, formAfter:
		return ""
	}
	if v.Kind() == reflect.Slice {
		var items []string
		for i := range v.Len() {
			items = append(items, fmt.Sprint(v.Index(i).Interface()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(v.Interface())
}

// toldDefaults are the defaults for the reader: those that the dead letters
// have of their own stand where a level of settings says nothing.
func toldDefaults() written {
	w := defaultWritten()
	w.DeadLetter.Retry.Attempts = new(DefaultLetterAttempts)
	return w
}

// under returns the value of a field in v, or nothing where v is nothing.
func under(v reflect.Value, f field) reflect.Value {
	if v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() {
		return v
	}
	return v.FieldByIndex(f.index)
}

func indirect(t reflect.Type) reflect.Type {
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}
