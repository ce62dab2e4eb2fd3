package config

import (
	"reflect"
	"strings"
)

// field is one key of a settings struct, as its tags say.
type field struct {
	key   string
	index []int // for reflect's FieldByIndex
	typ   reflect.Type
	tags  tags
}

// tags are what a field's tags say beside its key.
type tags struct {
	doc, standard string // standard is the default as the reference prints it
	enum          []string
	path          pathUse
	secrets       secretUse
	jq            jqUse
}

// pathUse says whether a text names a file.
type pathUse string

const (
	noPath     pathUse = ""
	anyPath    pathUse = "file"   // made relative to the file that says it
	readPath   pathUse = "read"   // and must be readable
	appendPath pathUse = "append" // and must be a regular file, where it is there
)

// secretUse says whether a secret may stand in a text.
type secretUse string

const (
	secretAllowed secretUse = ""
	secretNever   secretUse = "never" // the value ends up where people read it
)

// jqUse says whether a text holds jq for the message.
type jqUse string

const (
	noJQ       jqUse = ""
	jqTemplate jqUse = "template" // in {{ }}, with other text around
)

// fieldsOf lists the keys of a struct type, those of inline structs included,
// in the order they are declared. Fields without a yaml tag are no keys.
func fieldsOf(t reflect.Type) []field {
	var all []field
	for i := range t.NumField() {
		sf := t.Field(i)
		tag, tagged := sf.Tag.Lookup("yaml")
		key, flags, _ := strings.Cut(tag, ",")
		if key == "-" {
			continue
		}
		if st := sf.Type; key == "" && st.Kind() == reflect.Struct && (strings.Contains(flags, "inline") || sf.Anonymous) {
			for _, inner := range fieldsOf(st) {
				inner.index = append([]int{i}, inner.index...)
				all = append(all, inner)
			}
			continue
		}
		if !tagged || key == "" || !sf.IsExported() {
			continue
		}
		f := field{key: key, index: []int{i}, typ: sf.Type, tags: tags{
			doc: sf.Tag.Get("doc"), standard: sf.Tag.Get("default"),
			path: pathUse(sf.Tag.Get("path")), secrets: secretUse(sf.Tag.Get("secret")),
			jq: jqUse(sf.Tag.Get("jq")),
		}}
		if enum := sf.Tag.Get("enum"); enum != "" {
			f.tags.enum = strings.Split(enum, ",")
		}
		all = append(all, f)
	}
	return all
}

// lookupField finds the value of a key in a settings struct, and whether the
// struct has it. v is a struct or a pointer to one.
func lookupField(v any, key string) (reflect.Value, bool) {
	rv := reflect.Indirect(reflect.ValueOf(v))
	if rv.Kind() != reflect.Struct {
		return reflect.Value{}, false
	}
	for _, f := range fieldsOf(rv.Type()) {
		if f.key == key {
			return rv.FieldByIndex(f.index), true
		}
	}
	return reflect.Value{}, false
}
