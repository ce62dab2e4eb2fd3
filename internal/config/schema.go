package config

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/invopop/jsonschema"

	"github.com/pawlhq/pawl/internal/connector"
)

// schemaID names the schema; editors know it by this.
const schemaID = "https://raw.githubusercontent.com/pawlhq/pawl/main/docs/reference/pawl.schema.json"

// Schema returns a JSON Schema (2020-12) of the whole configuration with the
// kinds of reg, indented, always the same bytes. It is made of the structs
// that the loader decodes into.
//
// It takes every configuration that is written as the reference says. The
// loader takes a little more (a number where a text is wanted) and checks much
// more: names, cycles, expressions.
//
// The error says which kind's settings can't be described: a field without
// doc, of a type that no setting can have, or with a key that all kinds have.
func Schema(reg *connector.Registry) ([]byte, error) {
	b := schemaBuilder{defs: basicForms()}
	root := b.structure(reflect.TypeFor[written](), reflect.ValueOf(toldDefaults()))
	root.Version = jsonschema.Version
	root.ID = schemaID
	root.Title = "pawl"
	root.Description = "The configuration of pawl."
	root.Definitions = b.defs

	var sources []kindSchema
	for _, typ := range reg.SourceTypes() {
		k, _ := reg.Source(typ)
		sources = append(sources, kindSchema{typ, k.Doc, reflect.ValueOf(k.New())})
	}
	itemsOf(root, "sources", b.kinds("sources", reflect.ValueOf(defaultSource()), []string{"name", "type"}, sources))
	var destinations []kindSchema
	for _, typ := range reg.DestinationTypes() {
		k, _ := reg.Destination(typ)
		destinations = append(destinations, kindSchema{typ, k.Doc, reflect.ValueOf(k.New())})
	}
	b.defs["member"] = b.kinds("members", reflect.ValueOf(writtenMember{}), []string{"type"}, destinations)
	group := defaultGroup()
	destinations = append(destinations, kindSchema{TypeGroup, groupDoc, reflect.ValueOf(&group)})
	itemsOf(root, "destinations", b.kinds("destinations", reflect.ValueOf(writtenDestination{}), []string{"name", "type"}, destinations))

	if len(b.wrong) > 0 {
		return nil, fmt.Errorf("schema: %w", errors.Join(b.wrong...))
	}
	text, err := root.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	value := jsontext.Value(text)
	if err := value.Indent(jsontext.WithIndent("  ")); err != nil {
		return nil, fmt.Errorf("schema: %w", err)
	}
	return append(value, '\n'), nil
}

// kindSchema is a kind as the schema sees it.
type kindSchema struct {
	typ, doc string
	settings reflect.Value // a pointer to fresh settings
}

type schemaBuilder struct {
	defs  jsonschema.Definitions
	wrong []error
}

func ref(name string) *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/" + name} }

// basicForms defines the single values. Each may come from the environment or
// a secret, so a text with a reference is taken too.
func basicForms() jsonschema.Definitions {
	or := func(s ...*jsonschema.Schema) *jsonschema.Schema {
		return &jsonschema.Schema{AnyOf: append(s, ref("reference"))}
	}
	text := func(pattern string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Pattern: pattern}
	}
	zero := jsonschema.Schema{Const: 0}
	return jsonschema.Definitions{
		"reference": {Type: "string", Pattern: `\{\{\s*(env|secrets)\.`, Description: "A value from the environment or a secret."},
		"duration":  or(text(`^\s*([0-9.]+(d|h|ms|m|s|us|µs|ns))+\s*$|^0$`), &zero),
		"size":      or(text(`^\s*[0-9.]+\s*([KMGT]iB|[kKMGT]?B)?\s*$`), &jsonschema.Schema{Type: "integer", Minimum: "0"}),
		"ratio":     or(text(`^\s*[0-9.]+\s*%?\s*$`), &jsonschema.Schema{Type: "number", Minimum: "0", Maximum: "1"}),
		"tag":       or(&jsonschema.Schema{Type: "string"}, &jsonschema.Schema{Type: "integer", Minimum: "100", Maximum: "599"}),
		"integer":   or(&jsonschema.Schema{Type: "integer"}),
		"number":    or(&jsonschema.Schema{Type: "number"}),
		"boolean":   or(&jsonschema.Schema{Type: "boolean"}),
	}
}

// structure describes a struct: its keys and no others.
func (b *schemaBuilder) structure(t reflect.Type, v reflect.Value) *jsonschema.Schema {
	s := &jsonschema.Schema{
		Type: "object", Properties: jsonschema.NewProperties(), AdditionalProperties: jsonschema.FalseSchema,
	}
	b.properties(s, t, v)
	return s
}

func (b *schemaBuilder) properties(s *jsonschema.Schema, t reflect.Type, v reflect.Value) {
	for _, f := range fieldsOf(t) {
		if f.tags.doc == "" {
			b.wrong = append(b.wrong, fmt.Errorf("%s: the key %s has no doc", t, f.key))
		}
		p := b.field(f, under(v, f))
		p.Description = f.tags.doc
		if d := standardOf(f, under(v, f)); d != "" {
			p.Description += " (default: " + d + ")"
		}
		s.Properties.Set(f.key, p)
	}
}

// field describes one value.
func (b *schemaBuilder) field(f field, v reflect.Value) *jsonschema.Schema {
	t := indirect(f.typ)
	if len(f.tags.enum) > 0 && t.Kind() == reflect.String {
		words := make([]any, len(f.tags.enum))
		for i, w := range f.tags.enum {
			words[i] = w
		}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Enum: words}, ref("reference")}}
	}
	switch formOf(t, f.tags) {
	case formText, formSecret, formFile:
		return &jsonschema.Schema{Type: "string"}
	case formDuration:
		return ref("duration")
	case formSize:
		return ref("size")
	case formRatio:
		return ref("ratio")
	case formTag:
		return ref("tag")
	case formInteger:
		return ref("integer")
	case formNumber:
		return ref("number")
	case formBool:
		return ref("boolean")
	case formTarget:
		long := b.structure(reflect.TypeFor[writtenTarget](), reflect.Value{})
		long.Required = []string{"destination"}
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, long}}
	case formToggle:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{ref("boolean"), b.structure(t, v)}}
	case formAfter:
		return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{ref("duration"), {Const: wordP95}}}
	case formMembers:
		return &jsonschema.Schema{Type: "array", Items: ref("member")}
	case formMapping:
		return b.structure(t, v)
	case formNames:
		return &jsonschema.Schema{Type: "object", AdditionalProperties: b.field(field{typ: t.Elem(), tags: f.tags}, reflect.Value{})}
	case formList:
		return &jsonschema.Schema{Type: "array", Items: b.field(field{typ: t.Elem(), tags: f.tags}, reflect.Value{})}
	case formOther:
		return &jsonschema.Schema{}
	}
	b.wrong = append(b.wrong, fmt.Errorf("the key %s has the type %s, which no setting can have", f.key, t))
	return &jsonschema.Schema{}
}

// itemsOf says what the items of a list are.
func itemsOf(root *jsonschema.Schema, key string, item *jsonschema.Schema) {
	list, _ := root.Properties.Get(key)
	list.Items = item
}

// kinds describes an item whose keys depend on its type: each type has the
// common keys and its own, and no others.
func (b *schemaBuilder) kinds(key string, common reflect.Value, required []string, kinds []kindSchema) *jsonschema.Schema {
	item := &jsonschema.Schema{Type: "object", Required: required, Properties: jsonschema.NewProperties()}
	var words []any
	for _, k := range kinds {
		words = append(words, k.typ)
		for _, f := range fieldsOf(k.settings.Elem().Type()) {
			if slices.ContainsFunc(fieldsOf(common.Type()), func(c field) bool { return c.key == f.key }) {
				b.wrong = append(b.wrong, fmt.Errorf("%s of type %s: the key %s is common to all", key, k.typ, f.key))
			}
		}
		whole := b.structure(common.Type(), common)
		b.properties(whole, k.settings.Elem().Type(), k.settings)
		whole.Description = k.doc
		name := key + "." + k.typ
		b.defs[name] = whole
		is := &jsonschema.Schema{Properties: jsonschema.NewProperties()}
		is.Properties.Set("type", &jsonschema.Schema{Const: k.typ})
		item.AllOf = append(item.AllOf, &jsonschema.Schema{If: is, Then: ref(name)})
	}
	item.Properties.Set("type", &jsonschema.Schema{Enum: words, Description: "The kind."})
	return item
}
