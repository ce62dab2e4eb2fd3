package config

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/setting"
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
		l.destinationNames.add(l.destinations[i].Name, i)
	}
}

// named returns the destination with the name, the first of several.
func (l *loader) named(name string) *destinationEntry {
	if i, ok := l.destinationNames.has[name]; ok {
		return &l.destinations[i]
	}
	return nil
}

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
		if i >= len(nodes) || name == "" {
			continue
		}
		n := target(nodes[i])
		if _, twice := seen[name]; twice {
			l.errorf(f, n, "%s: %q is there twice", key, name)
		} else if _, ok := known.has[name]; !ok {
			l.suggestf(f, n, name, known.list, "%s: unknown %s %q", key, what, name)
		}
		seen[name] = struct{}{}
	}
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
	switch w.Type {
	case DeadLetterFile:
		if has("destination") {
			l.errorf(o.file, child(o.node, "destination"), "destination belongs to type destination, and this one is file")
		}
	case DeadLetterDestination:
		if has("path") {
			l.errorf(o.file, child(o.node, "path"), "path belongs to type file, and this one is destination")
		}
		n := find(o.node, "destination")
		switch {
		case w.Destination == "":
			l.errorf(o.file, n, "dead_letter of type destination needs destination: the name of one")
		case l.named(w.Destination) == nil:
			l.suggestf(o.file, n, w.Destination, l.destinationNames.list, "dead_letter.destination: unknown destination %q", w.Destination)
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
	if d != nil && d.kind.Pipe || d == nil && (name == FallbackStdout || name == FallbackStderr) {
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
	reach(l.written.DeadLetter.Destination)
	for _, name := range l.written.DeadLetter.Fallback {
		reach(name)
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

// listener is an address that something listens at.
type listener struct {
	origin
	what       string // for messages
	host, port string
	path       string // "" takes the whole address
	tls        *setting.ServerTLS
}

// checkListeners reports addresses that two want, and paths that two want.
func (l *loader) checkListeners() {
	var all []listener
	add := func(o origin, what, address, path string, tls *setting.ServerTLS) {
		host, port, err := splitAddress(address)
		if err == nil && port != "0" { // 0 is any free port
			all = append(all, listener{o, what, host, port, path, tls})
		}
	}
	if at := l.written.HTTP.Listen; at != "off" {
		f, n := l.key("http")
		if n != nil {
			n = find(n, "listen")
		}
		add(origin{f, n}, "the admin listener (http.listen)", at, "", l.written.HTTP.TLS)
	}
	for i := range l.sources {
		s := &l.sources[i]
		if s.settings == nil {
			continue
		}
		address, ok := textField(s.settings, "listen")
		if !ok {
			continue
		}
		path, _ := textField(s.settings, "path")
		var tls *setting.ServerTLS
		if v, ok := lookupField(s.settings, "tls"); ok {
			tls, _ = v.Interface().(*setting.ServerTLS)
		}
		add(origin{s.file, find(s.node, "listen")}, fmt.Sprintf("the source %q", s.Name), address, cmp.Or(path, "/"), tls)
	}
	ports := map[string][]listener{}
	for _, b := range all {
		for _, a := range ports[b.port] {
			if l.checkPair(a, b) == clashing {
				break // one word about each is enough
			}
		}
		ports[b.port] = append(ports[b.port], b)
	}
}

func textField(settings any, key string) (string, bool) {
	v, ok := lookupField(settings, key)
	if !ok {
		return "", false
	}
	s, ok := v.Interface().(string)
	return s, ok && s != ""
}

// clash says whether two listeners can both be there.
type clash string

const (
	peaceful clash = "peaceful"
	clashing clash = "clashing"
)

// checkPair compares two listeners of one port; b is the later one.
func (l *loader) checkPair(a, b listener) clash {
	if a.host != b.host && a.host != "" && b.host != "" {
		return peaceful
	}
	switch {
	case a.host != b.host:
		l.errorf(b.file, b.node, "%s has port %s on every address, %s on one: only one of them can have it",
			wide(a, b).what, b.port, narrow(a, b).what)
	case a.path == "" || b.path == "":
		l.errorf(b.file, b.node, "%s listens at this address already; give one of them another port", a.what)
	case a.path == b.path:
		l.errorf(b.file, b.node, "%s has the path %s at this address already; give one of them another path", a.what, a.path)
	case !sameTLS(a.tls, b.tls):
		l.errorf(b.file, b.node, "%s shares this address and has another tls; say the same for both", a.what)
	default:
		return peaceful
	}
	return clashing
}

func wide(a, b listener) listener {
	if a.host == "" {
		return a
	}
	return b
}

func narrow(a, b listener) listener {
	if a.host == "" {
		return b
	}
	return a
}

func sameTLS(a, b *setting.ServerTLS) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// splitAddress reads host:port. The host is "" for every address.
func splitAddress(address string) (host, port string, err error) {
	host, port, err = net.SplitHostPort(address)
	if err != nil {
		return "", "", fmt.Errorf("bad address %q; write it like 127.0.0.1:8080", address)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return "", "", fmt.Errorf("bad port %q; it is a number from 0 to 65535", port)
	}
	if host == "0.0.0.0" || host == "::" {
		host = ""
	}
	return strings.ToLower(host), strconv.FormatUint(n, 10), nil
}
