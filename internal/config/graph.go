package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// names are the names of a kind of thing, to look up and to suggest.
type names struct {
	list []string
	has  map[string]int // to the place of the first with the name
}

func (ns *names) add(name string, at int) {
	if ns.has == nil {
		ns.has = map[string]int{}
	}
	if _, twice := ns.has[name]; !twice && name != "" {
		ns.has[name] = at
		ns.list = append(ns.list, name)
	}
}

// collectNames makes the lists that references are looked up in.
func (l *loader) collectNames() {
	for i := range l.sources {
		l.sourceNames.add(l.sources[i].Name, i)
	}
	for i := range l.destinations {
		e := &l.destinations[i]
		l.destinationNames.add(e.Name, i)
		if e.group != nil {
			for j := range e.group.Members {
				l.memberNames.add(e.memberName(j), i)
			}
		}
	}
	for i := range l.stores {
		l.storeNames.add(l.stores[i].Name, i)
	}
}

// named returns the destination with the name, the first of several.
func (l *loader) named(name string) *destinationEntry {
	if i, ok := l.destinationNames.has[name]; ok {
		return &l.destinations[i]
	}
	return nil
}

// The words that dead_letter.fallback takes beside names of destinations. A
// destination of that name goes before.
const (
	FallbackStdout = "stdout"
	FallbackStderr = "stderr"
)

func (l *loader) checkDeadLetter() {
	o, said := l.said["dead_letter"]
	if !said || o.node.Kind != yaml.MappingNode {
		return
	}
	w := &l.written.DeadLetter
	has := func(key string) bool { return child(o.node, key) != nil }
	l.checkRetry(o.file, o.node, &w.Retry)
	misplaced := func(key string, belongs DeadLetterType) {
		if has(key) && w.Type != belongs {
			l.errorf(o.file, child(o.node, key), "%s belongs to type %s, and this one is %s", key, belongs, w.Type)
		}
	}
	misplaced("path", DeadLetterFile)
	misplaced("destination", DeadLetterDestination)
	switch w.Type {
	case DeadLetterFile:
	case DeadLetterStore:
		if !l.hasJobs() {
			l.errorf(o.file, find(o.node, "type"), "type store keeps dead letters beside the jobs; add `jobs: {}` at the top level, or use type file")
		}
	case DeadLetterDestination:
		n := find(o.node, "destination")
		switch {
		case w.Destination == "":
			l.errorf(o.file, n, "dead_letter of type destination needs destination: the name of one")
		case l.named(w.Destination) == nil:
			l.unknownName(o.file, n, w.Destination, "dead_letter.destination", "destination", l.destinationNames)
		default:
			l.warnPipe(o.file, n, w.Destination)
		}
	}
	var known names
	for i, name := range append(slices.Clone(l.destinationNames.list), FallbackStdout, FallbackStderr) {
		known.add(name, i)
	}
	nodes := items(child(o.node, "fallback"))
	l.checkList(o.file, nodes, w.Fallback, "dead_letter.fallback", "destination", known)
	for i, name := range w.Fallback {
		if i < len(nodes) {
			l.warnPipe(o.file, target(nodes[i]), name)
		}
	}
}

// warnPipe warns of dead letters that go to where nothing is stored.
func (l *loader) warnPipe(f *file, n *yaml.Node, name string) {
	d := l.named(name)
	pipe := d != nil && slices.ContainsFunc(d.endpoints(), func(e endpointEntry) bool { return e.kind.Pipe })
	if pipe || d == nil && (name == FallbackStdout || name == FallbackStderr) {
		l.warnf(f, n, "dead letters that go to %s are kept by nobody: a pipe is no store", name)
	}
}

// checkFallbacks reports unknown fallbacks, and every cycle once.
func (l *loader) checkFallbacks() {
	for i := range l.destinations {
		d := &l.destinations[i]
		nodes := items(child(d.node, "fallback"))
		l.checkList(d.file, nodes, d.Fallback, "fallback", "destination", l.destinationNames)
	}
	w := cycleWalk{l: l, seen: map[*destinationEntry]visited{}}
	for i := range l.destinations {
		w.visit(&l.destinations[i])
	}
}

// visit is how far a depth-first walk is with a destination.
type visit uint8

const (
	visitNew visit = iota
	visitOpen
	visitDone
)

// visited is a destination's state in the walk, and its place on the path
// while it is open.
type visited struct {
	visit visit
	depth int
}

type cycleWalk struct {
	l    *loader
	seen map[*destinationEntry]visited
	path []*destinationEntry
}

func (w *cycleWalk) visit(d *destinationEntry) {
	if w.seen[d].visit != visitNew {
		return
	}
	w.seen[d] = visited{visitOpen, len(w.path)}
	w.path = append(w.path, d)
	nodes := items(child(d.node, "fallback"))
	for i, name := range d.Fallback {
		next := w.l.named(name)
		if next == nil || i >= len(nodes) {
			continue
		}
		if on := w.seen[next]; on.visit == visitOpen {
			w.report(d, target(nodes[i]), w.path[on.depth:])
			continue
		}
		w.visit(next)
	}
	w.path = w.path[:len(w.path)-1]
	w.seen[d] = visited{visit: visitDone}
}

// report prints the cycle that the fallback at n closes.
func (w *cycleWalk) report(d *destinationEntry, n *yaml.Node, cycle []*destinationEntry) {
	if len(cycle) == 1 {
		w.l.errorf(d.file, n, "fallback: %q falls back to itself", d.Name)
		return
	}
	const most = 20 // of a longer cycle the ends say enough
	var steps []string
	add := func(part []*destinationEntry) {
		for _, on := range part {
			steps = append(steps, on.Name)
		}
	}
	if len(cycle) <= most {
		add(cycle)
	} else {
		add(cycle[:most/2])
		steps = append(steps, "…")
		add(cycle[len(cycle)-most/2:])
	}
	add(cycle[:1])
	w.l.errorf(d.file, n, "fallback: a cycle: %s", strings.Join(steps, " → "))
}

// checkUse warns of what no message can reach.
func (l *loader) checkUse() {
	used := map[string]struct{}{}
	var reach func(name string)
	reach = func(name string) {
		if _, again := used[name]; again {
			return
		}
		used[name] = struct{}{}
		if d := l.named(name); d != nil {
			for _, next := range d.Fallback {
				reach(next)
			}
		}
	}
	routed := map[string]struct{}{}
	for i := range l.routes {
		for _, name := range l.routes[i].From {
			routed[name] = struct{}{}
		}
		for _, t := range l.routes[i].targets() {
			reach(t.Destination)
		}
	}
	for i := range l.notices {
		for _, name := range l.notices[i].To {
			reach(name)
		}
	}
	reach(l.written.DeadLetter.Destination)
	for _, name := range l.written.DeadLetter.Fallback {
		reach(name)
	}
	for _, s := range l.written.Jobs.Subscriptions {
		for _, name := range s.To {
			reach(name)
		}
	}
	for i := range l.sources {
		s := &l.sources[i]
		if _, ok := routed[s.Name]; !ok && s.Name != "" {
			l.warnf(s.file, find(s.node, "name"), "no route takes from the source %q", s.Name)
		}
	}
	for i := range l.destinations {
		d := &l.destinations[i]
		if _, ok := used[d.Name]; !ok && d.Name != "" {
			l.warnf(d.file, find(d.node, "name"), "nothing leads to the destination %q", d.Name)
		}
	}
}
