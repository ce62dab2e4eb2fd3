package config

import (
	"encoding"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/setting"
)

// decoder reads nodes of one file into settings, reporting every problem and
// going on.
type decoder struct {
	l *loader
	f *file
}

// decodable is a type that reads itself with the decoder, for values that may
// be written in more than one way.
type decodable interface {
	decode(d decoder, n *yaml.Node)
}

// mapping reads the keys of n into every one of targets that has them.
// Targets are addressable structs. what names the whole, for messages.
func (d decoder) mapping(n *yaml.Node, what string, targets ...reflect.Value) {
	d.hinted(n, what, nil, targets...)
}

// hinted is mapping with words for keys that are known elsewhere: what to do
// about each.
func (d decoder) hinted(n *yaml.Node, what string, hints map[string]string, targets ...reflect.Value) {
	if n.Kind != yaml.MappingNode {
		d.wanted(n, what, "a mapping")
		return
	}
	type place struct {
		field field
		value reflect.Value
	}
	places := map[string][]place{}
	var keys []string
	for _, v := range targets {
		for _, f := range fieldsOf(v.Type()) {
			if _, known := places[f.key]; !known {
				keys = append(keys, f.key)
			}
			places[f.key] = append(places[f.key], place{f, v.FieldByIndex(f.index)})
		}
	}
	for _, e := range d.keys(n) {
		known := places[e.key.Value]
		if hint := hints[e.key.Value]; len(known) == 0 && hint != "" {
			d.l.errorf(d.f, e.key, "%s", hint)
		} else if len(known) == 0 {
			d.unknownKey(e.key, keys, what)
		}
		for _, p := range known {
			d.value(target(e.value), p.value, p.field.tags, e.key.Value)
		}
	}
}

func (d decoder) unknownKey(key *yaml.Node, known []string, what string) {
	message := fmt.Sprintf("unknown key %q", key.Value)
	near := nearest.To(key.Value, known)
	if near == "" && what != "" {
		message += " in " + what
	}
	d.l.report(d.f, d.f.at(key), Error, near, message)
}

// keys returns the entries of a mapping that have a plain and new key, and
// reports the others.
func (d decoder) keys(n *yaml.Node) []entry {
	var good []entry
	first := map[string]*yaml.Node{}
	for _, e := range entries(n) {
		if e.key.Kind != yaml.ScalarNode {
			d.l.errorf(d.f, e.key, "%s", oddKey(e.key))
			continue
		}
		if before, dup := first[e.key.Value]; dup {
			d.l.errorf(d.f, e.key, "the key %q stands here twice, first in line %d", e.key.Value, before.Line)
			continue
		}
		first[e.key.Value] = e.key
		good = append(good, e)
	}
	d.checkMerges(n)
	return good
}

// checkMerges reports a << that does not name mappings.
func (d decoder) checkMerges(n *yaml.Node) {
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].ShortTag() != "!!merge" {
			continue
		}
		bases := []*yaml.Node{n.Content[i+1]}
		if t := target(n.Content[i+1]); t.Kind == yaml.SequenceNode {
			bases = t.Content
		}
		for _, b := range bases {
			if t := target(b); t.Kind != yaml.MappingNode {
				d.l.errorf(d.f, b, "<< takes a mapping or a list of them, not %s", kindOf(t))
			}
		}
	}
}

// oddKey explains a key that is no word. The usual one is a reference without
// quotes, which YAML reads as a mapping in a mapping.
func oddKey(key *yaml.Node) string {
	if key.Kind == yaml.MappingNode && key.Style&yaml.FlowStyle != 0 {
		return `a value with {{…}} must stand in quotes: "{{env.NAME}}"`
	}
	return "a key must be a word, not " + kindOf(key)
}

// value reads n, which is no alias, into v. key is its name, for messages.
func (d decoder) value(n *yaml.Node, v reflect.Value, t tags, key string) {
	if isNull(n) && !d.filled(n) {
		d.l.errorf(d.f, n, "%s has no value; give it one or remove the key", key)
		return
	}
	if v.Kind() == reflect.Pointer {
		fresh := reflect.New(v.Type().Elem())
		before := len(d.l.problems)
		d.value(n, fresh.Elem(), t, key)
		if len(d.l.problems) == before || fresh.Elem().Kind() == reflect.Struct || fresh.Elem().Kind() == reflect.Slice {
			v.Set(fresh) // a bad number must not be checked as the number zero
		}
		return
	}
	switch x := v.Addr().Interface().(type) {
	case decodable:
		x.decode(d, n)
		return
	case interface{ UnmarshalYAML(*yaml.Node) error }:
		d.own(n, v, key, func() error { return x.UnmarshalYAML(d.plain(n)) })
		if s, ok := any(x).(*setting.Secret); ok {
			d.l.secrets.add(s.Reveal())
			d.template(n, s.Reveal(), t, key)
		}
		return
	case encoding.TextUnmarshaler:
		if n.Kind != yaml.ScalarNode {
			d.wanted(n, key, "a text")
			return
		}
		d.own(n, v, key, func() error { return x.UnmarshalText([]byte(n.Value)) })
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.mapping(n, key, v)
	case reflect.Slice:
		d.slice(n, v, t, key)
	case reflect.Map:
		d.mapOf(n, v, t, key)
	case reflect.Interface:
		var any any
		if err := n.Decode(&any); err != nil {
			d.l.errorf(d.f, n, "%s can't be read", key)
		} else if any != nil {
			v.Set(reflect.ValueOf(any))
		}
	default:
		d.scalar(n, v, t, key)
	}
}

// own lets a type read itself. On failure v keeps what it had, so that no
// check trips over half a value.
func (d decoder) own(n *yaml.Node, v reflect.Value, key string, read func() error) {
	before := reflect.New(v.Type()).Elem()
	before.Set(v)
	err := read()
	if err == nil {
		return
	}
	v.Set(before)
	if s := d.l.notes[n].secret; s != "" {
		// The error may quote the value.
		d.l.errorf(d.f, n, "%s: the value of {{secrets.%s}} does not fit here", key, s)
		return
	}
	d.l.errorf(d.f, n, "%s: %v", key, err)
}

// filled reports whether something was replaced in the scalar.
func (d decoder) filled(n *yaml.Node) bool { _, ok := d.l.notes[n]; return ok }

// plain returns a scalar as if its replaced value had been written there
// without quotes, so that "{{env.PORT}}" can be a number.
func (d decoder) plain(n *yaml.Node) *yaml.Node {
	if !d.filled(n) {
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: plainTag(n.Value), Value: n.Value, Line: n.Line, Column: n.Column}
}

// plainTag is what YAML makes of a value without quotes. Nothing stays a text:
// an empty variable is no missing value.
func plainTag(value string) string {
	if value == "true" || value == "false" {
		return "!!bool"
	}
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return "!!int"
	}
	if _, err := strconv.ParseUint(value, 10, 64); err == nil {
		return "!!int"
	}
	if _, err := strconv.ParseFloat(value, 64); err == nil && strings.Trim(value, "0123456789+-.eE") == "" {
		return "!!float"
	}
	return "!!str"
}

func (d decoder) wanted(n *yaml.Node, key, want string) {
	if n.Kind == yaml.MappingNode && len(n.Content) > 0 && n.Content[0].Kind == yaml.MappingNode {
		d.l.errorf(d.f, n, "%s", oddKey(n.Content[0]))
		return
	}
	d.l.errorf(d.f, n, "%s must be %s, not %s", key, want, kindOf(d.plain(n)))
}

func (d decoder) slice(n *yaml.Node, v reflect.Value, t tags, key string) {
	if n.Kind != yaml.SequenceNode {
		d.wanted(n, key, "a list")
		return
	}
	list := reflect.MakeSlice(v.Type(), 0, len(n.Content))
	for _, c := range n.Content {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(target(c), item, t, "an item of "+key)
		list = reflect.Append(list, item)
	}
	v.Set(list)
}

func (d decoder) mapOf(n *yaml.Node, v reflect.Value, t tags, key string) {
	if n.Kind != yaml.MappingNode || v.Type().Key().Kind() != reflect.String {
		d.wanted(n, key, "a mapping")
		return
	}
	m := reflect.MakeMap(v.Type())
	for _, e := range d.keys(n) {
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(target(e.value), item, t, e.key.Value)
		m.SetMapIndex(reflect.ValueOf(e.key.Value).Convert(v.Type().Key()), item)
	}
	v.Set(m)
}

// scalar reads texts, numbers and truth values.
func (d decoder) scalar(n *yaml.Node, v reflect.Value, t tags, key string) {
	if n.Kind == yaml.ScalarNode && n.Style&yaml.TaggedStyle != 0 && !strings.HasPrefix(n.ShortTag(), "!!") {
		d.l.errorf(d.f, n, "%s: unknown YAML tag %s", key, n.Tag)
		return
	}
	p := d.plain(n)
	fits := n.Kind == yaml.ScalarNode
	switch v.Kind() {
	case reflect.String:
		if !fits || p.ShortTag() == "!!binary" {
			d.wanted(n, key, "a text")
			return
		}
		d.text(n, v, t, key)
	case reflect.Bool:
		if !fits || p.ShortTag() != "!!bool" || p.Decode(v.Addr().Interface()) != nil {
			d.wanted(n, key, "true or false")
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if !fits || p.ShortTag() != "!!int" {
			d.wanted(n, key, "a whole number")
			return
		}
		if p.Decode(v.Addr().Interface()) != nil {
			d.l.errorf(d.f, n, "%s: the number is out of range", key)
		}
	case reflect.Float32, reflect.Float64:
		tag := p.ShortTag()
		if !fits || tag != "!!float" && tag != "!!int" || p.Decode(v.Addr().Interface()) != nil {
			d.wanted(n, key, "a number")
			return
		}
		if x := v.Float(); math.IsNaN(x) || math.IsInf(x, 0) {
			v.SetFloat(0)
			d.wanted(n, key, "a finite number")
		}
	default:
		panic("config: settings can't have the type " + v.Type().String())
	}
}

// text reads a string and holds it to its field's tags.
func (d decoder) text(n *yaml.Node, v reflect.Value, t tags, key string) {
	value := n.Value
	if s := d.l.notes[n].secret; s != "" && t.secrets == secretNever {
		d.l.errorf(d.f, n, "{{secrets.%s}} can't stand here: %s ends up in logs, metrics or dead letters; "+
			"give secrets to a source or destination", s, key)
		return
	}
	if len(t.enum) > 0 && !slices.Contains(t.enum, value) {
		if s := d.l.notes[n].secret; s != "" {
			value = "{{secrets." + s + "}}"
		}
		d.l.suggestf(d.f, n, value, t.enum, "%s must be %s, not %q", key, oneOf(t.enum), value)
		return
	}
	if t.path != noPath {
		value = d.path(n, value, t, key)
	}
	d.template(n, value, t, key)
	v.SetString(value)
}

// path makes the name of a file usable, and looks at the file as its tag wants.
func (d decoder) path(n *yaml.Node, value string, t tags, key string) string {
	value = d.f.resolve(value)
	if value == "" {
		return value
	}
	var err error
	switch {
	case strings.ContainsRune(value, 0):
		d.l.errorf(d.f, n, "%s: the name of a file can't hold a NUL byte", key)
		return value
	case t.path == readPath:
		err = readable(value)
	case t.path == appendPath:
		err = appendable(value)
	}
	if err != nil {
		d.l.errorf(d.f, n, "%s: %v", key, err)
	}
	return value
}

// template checks the jq of a text that may hold some, so that what can't be
// compiled is found at its place and not at the start.
func (d decoder) template(n *yaml.Node, text string, t tags, key string) {
	if t.jq == noJQ {
		return
	}
	if s := d.l.notes[n].braces; s != "" {
		d.l.errorf(d.f, n, "%s: the value of {{secrets.%s}} holds {{, which begins an expression here", key, s)
		return
	}
	parsed, err := connector.ParseTemplate(text)
	if err != nil {
		d.l.errorf(d.f, n, "%s: %v", key, err)
		return
	}
	for _, part := range parsed.Parts {
		if part.Expr == "" || d.l.opts.CheckExpr == nil {
			continue
		}
		if err := d.l.opts.CheckExpr(part.Expr); err != nil {
			d.l.errorf(d.f, n, "%s: {{ %s }}: %v", key, part.Expr, err)
		}
	}
}

// readable says why a file can't be read.
func readable(path string) error {
	f, err := setting.OpenFile(path)
	if err != nil {
		return err
	}
	return f.Close()
}

// appendable says why a file can't be appended to, as far as that shows before
// it is opened; one that is not there yet will be made.
func appendable(path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", path)
	}
	return nil
}
