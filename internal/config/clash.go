package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/connector"
)

// checkKeyHeader keeps the header of the key free: a kind's own headers must
// not say another.
func (l *loader) checkKeyHeader(e endpointEntry, key string) {
	if own, ok := lookupField(e.settings, "headers"); ok && own.Kind() == reflect.Map {
		for _, k := range own.MapKeys() {
			if name := k.String(); strings.EqualFold(name, key) {
				l.errorf(e.file, keyNode(child(e.node, "headers"), name), "headers: %s carries the message's id (idempotency_header); leave it out", name)
			}
		}
	}
	heading, ok := e.settings.(connector.Heading)
	if !ok {
		return
	}
	named := heading.Headings()
	for _, name := range slices.Sorted(maps.Keys(named)) {
		if field := named[name]; strings.EqualFold(name, key) {
			l.errorf(e.file, find(e.node, field), "%s: %s carries the message's id (idempotency_header); name another", field, name)
		}
	}
}

// checkSharing warns of destinations of one type that use one thing and do not
// say the same of it: only one of them can have its way.
func (l *loader) checkSharing() {
	type shared struct{ typ, thing, field string }
	type said struct {
		by    endpointEntry
		value string
	}
	first := map[shared]said{}
	for _, e := range l.allEndpoints() {
		sharing, ok := e.settings.(connector.Sharing)
		if !ok {
			continue
		}
		thing, field, value := sharing.Shares()
		if thing == "" {
			continue
		}
		key := shared{e.typ, thing, field}
		before, there := first[key]
		if !there {
			first[key] = said{e, value}
			continue
		}
		if before.value != value {
			l.warnf(e.file, find(e.node, field), "%s: %s here and %s at the destination %q (%s), which shares %s; whichever opens it first has its way",
				field, value, before.value, before.by.name, before.by.place(), thing)
		}
	}
}
