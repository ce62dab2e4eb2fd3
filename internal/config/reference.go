package config

import (
	"fmt"
	"reflect"
	"strings"

	"github.com/pawlhq/pawl/internal/connector"
)

// Reference returns the reference of the whole configuration with the kinds of
// reg as Markdown: every key with its type, default and meaning, made of the
// structs that the loader decodes into. Always the same bytes.
func Reference(reg *connector.Registry) []byte {
	var b referenceWriter
	b.printf("# Configuration\n\n")
	b.printf("One YAML file, `pawl.yaml` unless `-c` names others, or several: `include` lists more, and lists with the same key are joined.\n" +
		"A path is relative to the folder of the file that says it. Any value may hold `{{env.NAME}}`, `{{env.NAME:default}}` or\n" +
		"`{{secrets.NAME}}`; in quotes, since braces mean a mapping in YAML.\n\n")
	b.printf("Durations are Go durations and `d` for days: `250ms`, `1m30s`, `7d`. Sizes are bytes: `65536`, `64KiB`, `1MB`. Ratios are `0.5` or `50%%`.\n" +
		"Tags name failures: `connect`, `dns`, `tls`, `timeout`, `4xx`, `503`.\n\n")

	w := reflect.ValueOf(toldDefaults())
	elsewhere := map[string]string{
		"defaults": "delivery-settings", "sources": "sources", "routes": "routes",
		"destinations": "destinations", "dead_letter": "dead_letter",
	}
	b.section(2, "Top level", "")
	b.begin()
	for _, f := range fieldsOf(w.Type()) {
		if anchor, ok := elsewhere[f.key]; ok {
			b.row(f.key, fmt.Sprintf("see [%s](#%s)", strings.ReplaceAll(anchor, "-", " "), anchor), "", f.tags.doc)
			continue
		}
		b.field("", f, under(w, f))
	}

	b.section(2, "Sources", "Every source has these keys, and those of its type.")
	b.table(reflect.ValueOf(defaultSource()))
	for _, typ := range reg.SourceTypes() {
		k, _ := reg.Source(typ)
		b.section(3, "`type: "+typ+"` source", k.Doc)
		b.table(reflect.ValueOf(k.New()).Elem())
	}

	b.section(2, "Routes", "A route takes messages from sources, shapes them and leads to destinations: `to` or `router`.")
	b.table(reflect.ValueOf(writtenRoute{}))

	b.section(2, "Destinations", "Every destination has these keys, the delivery settings, and those of its type.")
	b.begin()
	for _, f := range fieldsOf(reflect.TypeFor[writtenDestination]()) {
		if len(f.index) == 1 { // not of the delivery settings
			b.field("", f, reflect.Value{})
		}
	}
	b.section(2, "Delivery settings", "Of a destination, and of `defaults` for all of them. Mappings are merged key by key; a list replaces the inherited one.")
	b.table(reflect.ValueOf(writtenDelivery{}))
	for _, typ := range reg.DestinationTypes() {
		k, _ := reg.Destination(typ)
		b.section(3, "`type: "+typ+"` destination", k.Doc)
		b.table(reflect.ValueOf(k.New()).Elem())
	}

	b.section(3, "`type: group` destination", groupDoc)
	b.table(reflect.ValueOf(defaultGroup()))
	b.section(3, "Members of a group", "Every member has these keys, and those of its type. What is not here belongs to the group, and holds for all of them.")
	b.begin()
	for _, f := range fieldsOf(reflect.TypeFor[writtenMember]()) {
		if len(f.index) == 1 {
			b.field("", f, reflect.Value{})
			continue
		}
		doc := f.tags.doc
		if inner, _ := below(f); inner != nil {
			doc += "; see [delivery settings](#delivery-settings)"
		}
		b.row(f.key, typeName(f), "", doc+"; the group's unless set")
	}

	b.section(2, "dead_letter", "Where messages are kept that could not be delivered; `{ type: file }` unless set.")
	b.table(reflect.ValueOf(toldDefaults().DeadLetter))
	return []byte(b.text.String())
}

type referenceWriter struct{ text strings.Builder }

func (b *referenceWriter) printf(format string, args ...any) { fmt.Fprintf(&b.text, format, args...) }

func (b *referenceWriter) section(level int, title, intro string) {
	b.printf("\n%s %s\n\n", strings.Repeat("#", level), title)
	if intro != "" {
		b.printf("%s\n\n", intro)
	}
}

func (b *referenceWriter) begin() {
	b.printf("| key | type | default | meaning |\n|---|---|---|---|\n")
}

// table lists the keys of a struct, or says that there are none.
func (b *referenceWriter) table(v reflect.Value) {
	fields := fieldsOf(v.Type())
	if len(fields) == 0 {
		b.printf("It has no keys of its own.\n")
		return
	}
	b.begin()
	for _, f := range fields {
		b.field("", f, under(v, f))
	}
}

// field writes a key's row, and those of the keys below it.
func (b *referenceWriter) field(prefix string, f field, v reflect.Value) {
	key := prefix + f.key
	b.row(key, typeName(f), standardOf(f, v), f.tags.doc)
	inner, step := below(f)
	if inner == nil {
		return
	}
	if v.IsValid() && v.Kind() != reflect.Struct && (v.Kind() != reflect.Pointer || v.IsNil()) {
		v = reflect.Value{} // nothing stands there yet, so it has no values below
	}
	for _, fd := range fieldsOf(inner) {
		b.field(key+step, fd, under(v, fd))
	}
}

// below returns the struct whose keys stand below a key, and what goes
// between: a dot, or [] for the items of a list.
func below(f field) (inner reflect.Type, step string) {
	t := indirect(f.typ)
	if formOf(t, f.tags) == formMembers {
		return nil, "" // which have a section of their own
	}
	step = "."
	switch t.Kind() {
	case reflect.Slice:
		t, step = indirect(t.Elem()), "[]."
	case reflect.Map:
		t, step = indirect(t.Elem()), ".NAME."
	}
	switch formOf(t, f.tags) {
	case formMapping, formToggle:
		return t, step
	case formTarget:
		return reflect.TypeFor[writtenTarget](), step
	}
	return nil, ""
}

// typeName says how a value is written.
func typeName(f field) string {
	t := indirect(f.typ)
	if len(f.tags.enum) > 0 && t.Kind() == reflect.String {
		return "`" + strings.Join(f.tags.enum, "`, `") + "`"
	}
	kind := formOf(t, f.tags)
	switch kind {
	case formList, formNames:
		return string(kind) + " " + typeName(field{typ: t.Elem(), tags: f.tags})
	}
	return string(kind)
}

func (b *referenceWriter) row(key, typ, standard, doc string) {
	if standard != "" {
		standard = "`" + standard + "`"
	}
	cell := strings.NewReplacer("|", "\\|", "\n", " ")
	b.printf("| `%s` | %s | %s | %s |\n", key, cell.Replace(typ), cell.Replace(standard), cell.Replace(doc))
}
