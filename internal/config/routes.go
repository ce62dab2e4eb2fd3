package config

import (
	"fmt"

	"go.yaml.in/yaml/v4"
)

func (l *loader) checkRoutes() {
	seen := map[string]origin{}
	for i := range l.routes {
		r := &l.routes[i]
		if r.node.Kind != yaml.MappingNode {
			continue // reported as no mapping
		}
		l.checkName(r.file, find(r.node, "name"), "this route", r.Name)
		l.unique(seen, r.origin, "route", r.Name)
		from := child(r.node, "from")
		if len(r.From) == 0 && (from == nil || from.Kind == yaml.SequenceNode) {
			l.errorf(r.file, find(r.node, "from"), "this route takes from no source; list some in from")
		}
		l.checkList(r.file, items(from), r.From, "from", "source", l.sourceNames)
		if child(r.node, "filter") != nil {
			l.checkExpr(r.file, find(r.node, "filter"), "filter", r.Filter)
		}
		l.checkTransforms(r.file, find(r.node, "transforms"), r.Transforms)
		l.checkValidate(r)
		l.checkWays(r)
	}
}

// checkList reports names that are unknown or there twice. nodes are those of
// list, where the list was read.
func (l *loader) checkList(f *file, nodes []*yaml.Node, list []string, key, what string, known names) {
	if len(nodes) > MaxList {
		l.errorf(f, nodes[0], "more than %d names in %s", MaxList, key)
		return
	}
	seen := map[string]struct{}{}
	for i, name := range list {
		if i >= len(nodes) {
			continue
		}
		n := target(nodes[i])
		if name == "" {
			if n.Kind == yaml.ScalarNode && !l.spoiled(f, n) {
				l.errorf(f, n, "%s: an empty name; name a %s or leave it out", key, what)
			}
			continue
		}
		if _, twice := seen[name]; twice {
			l.errorf(f, n, "%s: %q is there twice", key, name)
		} else if _, ok := known.has[name]; !ok {
			l.unknownName(f, n, name, key, what, known)
		}
		seen[name] = struct{}{}
	}
}

// unknownName reports a name that nothing has. A member of a group gets a word
// of its own where a destination is wanted.
func (l *loader) unknownName(f *file, n *yaml.Node, name, key, what string, known names) {
	if word, is := l.memberWord(name); is && what == "destination" {
		l.errorf(f, n, "%s: %s", key, word)
		return
	}
	l.suggestf(f, n, name, known.list, "%s: unknown %s %q", key, what, name)
}

func (l *loader) checkValidate(r *routeEntry) {
	if r.Validate == nil {
		return
	}
	n := find(r.node, "validate.schema")
	if r.Validate.Schema == "" {
		if n.Kind == yaml.MappingNode {
			l.errorf(r.file, n, "validate needs a schema: the name of a JSON Schema file")
		}
		return
	}
	if l.spoiled(r.file, n) {
		return
	}
	check := l.opts.CheckSchema
	if check == nil {
		check = readable
	}
	if err := check(r.Validate.Schema); err != nil {
		l.errorf(r.file, n, "validate.schema: %v", err)
	}
}

// checkWays looks at to and router.
func (l *loader) checkWays(r *routeEntry) {
	to, router := child(r.node, "to"), child(r.node, "router")
	switch {
	case to == nil && router == nil:
		l.errorf(r.file, r.node, "this route leads nowhere; give it to or router")
	case to != nil && router != nil:
		l.errorf(r.file, router, "this route has to and router; leave one")
	}
	if r.To != nil {
		l.checkTargets(r, "to", *r.To)
	}
	if r.Router != nil {
		l.checkChoice(r, "router", &r.Router.writtenChoice)
		for i := range r.Router.Fallback {
			l.checkChoice(r, fmt.Sprintf("router.fallback[%d]", i), &r.Router.Fallback[i])
		}
	}
}

func (l *loader) checkTargets(r *routeEntry, path string, targets []Target) {
	n := find(r.node, path)
	if n.Kind == yaml.SequenceNode && len(targets) == 0 {
		l.errorf(r.file, n, "an empty list of destinations")
	}
	l.checkList(r.file, items(n), targetNames(targets), "to", "destination", l.destinationNames)
}

func (l *loader) checkChoice(r *routeEntry, path string, w *writtenChoice) {
	n := find(r.node, path)
	if n.Kind != yaml.MappingNode {
		return // reported as no mapping
	}
	has := func(key string) bool { return child(n, key) != nil }
	misplaced := func(key string, belongs RouterType) {
		if has(key) {
			l.errorf(r.file, child(n, key), "%s belongs to a router of type %s, and this one is %s", key, belongs, w.Type)
		}
	}
	switch w.Type {
	case RouterStatic:
		misplaced("rules", RouterRules)
		misplaced("match", RouterRules)
		if !has("to") {
			l.errorf(r.file, n, "a static router needs to")
		}
		l.checkTargets(r, path+".to", w.To)
	case RouterRules:
		misplaced("to", RouterStatic)
		if len(w.Rules) == 0 {
			l.errorf(r.file, n, "a rules router needs rules")
		}
		if len(w.Rules) > MaxList {
			l.errorf(r.file, n, "more than %d rules", MaxList)
		}
		for i := range w.Rules {
			l.checkRule(r, fmt.Sprintf("%s.rules[%d]", path, i), &w.Rules[i])
		}
	default:
		if !has("type") {
			l.errorf(r.file, n, "this router has no type; give it static or rules")
		}
	}
}

func (l *loader) checkRule(r *routeEntry, path string, rule *writtenRule) {
	n := find(r.node, path)
	if n.Kind != yaml.MappingNode {
		return // reported as no mapping
	}
	if child(n, "when") == nil {
		l.errorf(r.file, n, "this rule has no when; what is always true goes into a static router under fallback")
	} else {
		l.checkExpr(r.file, find(n, "when"), "when", rule.When)
	}
	if child(n, "to") == nil {
		l.errorf(r.file, n, "this rule has no to")
	} else {
		l.checkTargets(r, path+".to", rule.To)
	}
}
