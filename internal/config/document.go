package config

import (
	"fmt"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
)

// sourceEntry is a source as it was read.
type sourceEntry struct {
	origin
	writtenSource
	settings connector.Settings // nil where its type is unknown
	kind     connector.SourceKind
}

// destinationEntry is a destination as it was read.
type destinationEntry struct {
	origin
	writtenDestination
	settings connector.Settings // nil where its type is unknown, or group
	kind     connector.DestinationKind
	group    *writtenGroup // of type group
}

// routeEntry is a route as it was read.
type routeEntry struct {
	origin
	writtenRoute
}

// decodeFile reads a file's keys into what is written so far. Lists are
// joined; everything else may be said by one file only.
func (l *loader) decodeFile(f *file) {
	if f.root == nil {
		return
	}
	d := decoder{l, f}
	doc := reflect.ValueOf(&l.written).Elem()
	known := map[string]field{}
	var keys []string
	for _, fd := range fieldsOf(doc.Type()) {
		known[fd.key] = fd
		keys = append(keys, fd.key)
	}
	for _, e := range d.keys(f.root) {
		fd, ok := known[e.key.Value]
		if !ok {
			d.unknownKey(e.key, keys, "the configuration")
			continue
		}
		n := target(e.value)
		if isNull(n) && fd.key != "jobs" { // which is said by its key alone
			continue // a section whose items are all commented out
		}
		if list := fd.typ.Kind() == reflect.Slice; list && n.Kind != yaml.SequenceNode {
			d.wanted(n, fd.key, "a list")
			continue
		}
		switch fd.key {
		case "include":
			var patterns []string
			d.value(n, reflect.ValueOf(&patterns).Elem(), fd.tags, fd.key)
		case "sources":
			d.sources(n)
		case "routes":
			d.routes(n)
		case "destinations":
			d.destinations(n)
		case "stores":
			d.stores(n)
		case "notify":
			d.notices(n)
		default:
			if before, twice := l.said[fd.key]; twice {
				l.errorf(f, e.key, "%s is said in %s too; say it in one file", fd.key, before.place())
				continue
			}
			l.said[fd.key] = origin{f, n}
			if isNull(n) {
				continue
			}
			d.value(n, doc.FieldByIndex(fd.index), fd.tags, fd.key)
		}
	}
}

func (o origin) place() string { return fmt.Sprintf("%s:%d", o.file.path, o.node.Line) }

func (d decoder) sources(list *yaml.Node) {
	reg := d.l.opts.Registry
	for _, n := range items(list) {
		n = target(n)
		s := sourceEntry{origin: origin{d.f, n}, writtenSource: defaultSource()}
		var own reflect.Value
		if typ, ok := d.typeOf(n, "source", reg.SourceTypes()); ok {
			s.kind, _ = reg.Source(typ)
			s.settings = s.kind.New()
			own = reflect.ValueOf(s.settings).Elem()
		}
		d.item(n, "a source", nil, reflect.ValueOf(&s.writtenSource).Elem(), own)
		d.l.sources = append(d.l.sources, s)
	}
}

func (d decoder) destinations(list *yaml.Node) {
	reg := d.l.opts.Registry
	for _, n := range items(list) {
		n = target(n)
		s := destinationEntry{origin: origin{d.f, n}}
		var own reflect.Value
		what, hints := "a destination", ofGroupsAlone()
		switch typ, ok := d.typeOf(n, "destination", groupTypes(reg)); {
		case typ == TypeGroup:
			s.group = new(defaultGroup())
			own, what, hints = reflect.ValueOf(s.group).Elem(), "a group; what its members have belongs into members", nil
		case ok:
			s.kind, _ = reg.Destination(typ)
			s.settings = s.kind.New()
			own = reflect.ValueOf(s.settings).Elem()
		}
		d.item(n, what, hints, reflect.ValueOf(&s.writtenDestination).Elem(), own)
		d.l.destinations = append(d.l.destinations, s)
	}
}

func (d decoder) routes(list *yaml.Node) {
	for _, n := range items(list) {
		n = target(n)
		r := routeEntry{origin: origin{d.f, n}}
		d.mapping(n, "a route", reflect.ValueOf(&r.writtenRoute).Elem())
		d.l.routes = append(d.l.routes, r)
	}
}

// typeOf reads the type of a source or destination and reports one that is
// missing or unknown.
func (d decoder) typeOf(n *yaml.Node, what string, types []string) (string, bool) {
	if n.Kind != yaml.MappingNode {
		return "", false // item reports it
	}
	typ := child(n, "type")
	switch {
	case typ == nil:
		d.l.errorf(d.f, n, "this %s has no type; give it one of %s", what, strings.Join(types, ", "))
	case typ.Kind != yaml.ScalarNode || d.l.notes[typ].secret != "" || isNull(typ):
		// the decoder reports it
	default:
		for _, t := range types {
			if t == typ.Value {
				return t, true
			}
		}
		d.l.suggestf(d.f, typ, typ.Value, types, "unknown type %q of a %s; known are %s", typ.Value, what, strings.Join(types, ", "))
	}
	return "", false
}

// item reads one source, destination or member. Where its kind is not known,
// keys that are not common to all kinds may be right and are not looked at.
func (d decoder) item(n *yaml.Node, what string, hints map[string]string, common, own reflect.Value) {
	if own.IsValid() {
		d.hinted(n, what, hints, common, own)
		return
	}
	if n.Kind != yaml.MappingNode {
		d.wanted(n, what, "a mapping")
		return
	}
	for _, f := range fieldsOf(common.Type()) {
		if c := child(n, f.key); c != nil {
			d.value(c, common.FieldByIndex(f.index), f.tags, f.key)
		}
	}
}

// decode reads a target: a name, or a mapping with more.
func (t *Target) decode(d decoder, n *yaml.Node) {
	t.At = d.f.at(n)
	w := writtenTarget{Required: true}
	switch n.Kind {
	case yaml.ScalarNode:
		d.text(n, reflect.ValueOf(&t.Destination).Elem(), tags{secrets: secretNever}, "to")
		t.Need = Required
		return
	case yaml.MappingNode:
		d.mapping(n, "a target", reflect.ValueOf(&w).Elem())
		if w.Destination == "" {
			d.l.errorf(d.f, n, "this target has no destination")
		}
	default:
		d.wanted(n, "a target", "a name or a mapping with destination and required")
	}
	t.Destination, t.Need = w.Destination, BestEffort
	if w.Required {
		t.Need = Required
	}
}

// decode reads a breaker's settings: true, false or numbers.
func (b *writtenBreaker) decode(d decoder, n *yaml.Node) {
	b.state = d.toggled(n, "circuit_breaker", reflect.ValueOf(b).Elem())
}

// decode reads a rate limit's settings.
func (r *writtenRateLimit) decode(d decoder, n *yaml.Node) {
	r.state = d.toggled(n, "rate_limit", reflect.ValueOf(r).Elem())
}

// decode reads a retry budget's settings.
func (b *writtenBudget) decode(d decoder, n *yaml.Node) {
	b.state = d.toggled(n, "retry_budget", reflect.ValueOf(b).Elem())
}

// decode reads a batch's settings.
func (b *writtenBatch) decode(d decoder, n *yaml.Node) {
	b.state = d.toggled(n, "batch", reflect.ValueOf(b).Elem())
}

// toggled reads true, false, or the mapping that switches on what it has the
// numbers of.
func (d decoder) toggled(n *yaml.Node, name string, into reflect.Value) toggle {
	if p := d.plain(n); p.Kind == yaml.ScalarNode && p.ShortTag() == "!!bool" {
		var on bool
		_ = p.Decode(&on) // a !!bool decodes
		if on {
			return switchedOn
		}
		return switchedOff
	}
	if n.Kind != yaml.MappingNode {
		d.wanted(n, name, "a mapping, true or false")
		return unsaid
	}
	d.mapping(n, name, into)
	return switchedOn
}

// decode reads a type of dead-letter queue. The type of a destination is a
// near miss that deserves its own word.
func (t *DeadLetterType) decode(d decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode {
		if _, kind := d.l.opts.Registry.Destination(n.Value); kind && n.Value != string(DeadLetterFile) {
			d.l.errorf(d.f, n, "type must be file, store or destination; list %q under destinations and say "+
				"{ type: destination, destination: its name }", n.Value)
			return
		}
	}
	var word string
	d.scalar(n, reflect.ValueOf(&word).Elem(), tags{enum: []string{string(DeadLetterFile), string(DeadLetterStore), string(DeadLetterDestination)}}, "type")
	if word != "" {
		*t = DeadLetterType(word)
	}
}
