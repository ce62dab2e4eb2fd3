package config

import (
	"fmt"
	"maps"
	"net/textproto"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

// MaxName is the longest name of a source, route, destination or relay, in
// bytes: names are labels of metrics.
const MaxName = 64

// check reports what is wrong beyond single values, over all files.
func (l *loader) check(c *Config) {
	l.collectNames()
	l.checkTop(c)
	l.checkSources()
	l.checkDestinations(c)
	l.checkRoutes()
	l.checkDeadLetter()
	l.checkStores(c)
	l.checkNotify()
	l.checkFallbacks()
	l.checkUse()
	l.checkQueues()
	l.checkListeners()
	l.checkShared()
	l.checkSharing()
	l.advise(c)
}

// key returns where a top-level key was said.
func (l *loader) key(name string) (*file, *yaml.Node) {
	o := l.said[name]
	if o.file == nil && len(l.files) > 0 {
		return l.files[0], nil
	}
	if o.file == nil {
		return &file{}, nil
	}
	return o.file, o.node
}

func (l *loader) checkTop(c *Config) {
	f, n := l.key("relay")
	l.checkName(f, n, "relay", c.Relay)
	f, n = l.key("shutdown_timeout")
	if d := c.ShutdownTimeout; d < 0 || d > time.Hour {
		l.errorf(f, n, "shutdown_timeout must be from 0s to 1h, not %s", setting.Duration(d))
	}
	l.checkAdmin(&c.HTTP)
	l.checkJobs()
	f, n = l.key("telemetry")
	if e := c.Traces.Endpoint; e != "" {
		if u, err := url.Parse(e); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			l.errorf(f, find(n, "traces.endpoint"), "telemetry.traces.endpoint must be a URL such as http://127.0.0.1:4318")
		}
	}
	if o, ok := l.said["defaults"]; ok {
		l.checkDelivery(o.file, o.node, &l.written.Defaults)
	}
}

const (
	// minKey is the shortest key, in bytes: half of what `openssl rand -hex 16`
	// prints, and still beyond guessing over a network.
	minKey = 16
	// maxKeys bounds the keys: each is compared on every call.
	maxKeys = 16
)

// checkAdmin looks at the admin listener.
func (l *loader) checkAdmin(h *HTTP) {
	f, n := l.key("http")
	l.checkTLS(f, find(n, "tls"), h.TLS)
	for i, key := range h.Keys {
		if len(key.Reveal()) < minKey {
			l.errorf(f, find(n, fmt.Sprintf("keys.%d", i)), "the key is shorter than %d bytes; make one with `openssl rand -hex 32`", minKey)
		}
	}
	if len(h.Keys) > maxKeys {
		l.errorf(f, find(n, "keys"), "%d keys; at most %d", len(h.Keys), maxKeys)
	}
	if h.Listen == "" {
		return
	}
	switch _, _, err := splitAddress(h.Listen); {
	case err != nil:
		l.errorf(f, find(n, "listen"), "http.listen: %v", err)
	case h.Local():
	case l.jobsShare(): // checkJobs has its own word
	case len(h.Keys) == 0:
		l.warnf(f, find(n, "listen"), "other machines reach %s, so only health and metrics are served there; set http.keys to serve the API too", h.Listen)
	case h.TLS == nil:
		l.warnf(f, find(n, "listen"), "the keys travel to %s in plain text; set http.tls", h.Listen)
	}
}

// checkName holds names to what works as a label, a file name and a word of a
// command line.
func (l *loader) checkName(f *file, n *yaml.Node, what, name string) {
	switch {
	case name == "" && l.spoiled(f, n):
	case name == "":
		l.errorf(f, n, "%s has no name", what)
	case len(name) > MaxName:
		l.errorf(f, n, "the name is longer than %d bytes", MaxName)
	case strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" ||
		strings.HasPrefix(name, "-") || strings.HasPrefix(name, "."):
		l.errorf(f, n, "bad name %q; use letters, digits, - _ and ., not beginning with - or .", name)
	}
}

// unique remembers where names stand and reports the second of each.
func (l *loader) unique(seen map[string]origin, o origin, what, name string) {
	n := find(o.node, "name")
	if before, twice := seen[name]; twice && name != "" {
		l.errorf(o.file, n, "the %s %q is there twice, first in %s", what, name, before.place())
		return
	}
	seen[name] = origin{o.file, n}
}

func (l *loader) checkSources() {
	seen := map[string]origin{}
	for i := range l.sources {
		s := &l.sources[i]
		if s.node.Kind != yaml.MappingNode {
			continue // reported as no mapping
		}
		l.checkName(s.file, find(s.node, "name"), "this source", s.Name)
		l.unique(seen, s.origin, "source", s.Name)
		if v := s.MaxInFlight; v < 1 || v > MaxPlaces {
			l.errorf(s.file, find(s.node, "max_in_flight"), "max_in_flight must be from 1 to %d, not %d", MaxPlaces, v)
		}
		const least, most = setting.Size(1 << 10), setting.Size(1 << 40)
		if v := s.MaxInFlightBytes; v < least || v > most {
			l.errorf(s.file, find(s.node, "max_in_flight_bytes"), "max_in_flight_bytes must be from %s to %s, not %s", least, most, v)
		}
		l.checkSettings(s.origin, s.settings)
		l.checkAck(s)
		l.checkDedupe(s)
	}
}

func (l *loader) checkDestinations(c *Config) {
	seen := map[string]origin{}
	for i := range l.destinations {
		e := &l.destinations[i]
		if e.node.Kind != yaml.MappingNode {
			continue // reported as no mapping
		}
		l.checkName(e.file, find(e.node, "name"), "this destination", e.Name)
		l.unique(seen, e.origin, "destination", e.Name)
		d := &c.Destinations[i]
		l.checkDelivery(e.file, e.node, &e.writtenDelivery)
		l.checkResolved(e, &d.Delivery)
		l.checkBatch(e, &d.Delivery)
		if e.group != nil {
			l.checkGroup(e, d, seen)
			continue
		}
		l.checkBreaker(&d.Delivery, l.standing(e, nil))
		l.checkSettings(e.origin, e.settings)
		l.checkKeyHeader(e.endpoints()[0], d.Delivery.IdempotencyHeader)
	}
}

// checkResolved looks at values that come from different levels.
func (l *loader) checkResolved(e *destinationEntry, d *Delivery) {
	l.checkRateLimit(d, e)
	// The warning belongs where one of the two was said last.
	place := func(a, b string) (*file, *yaml.Node) {
		for _, key := range []string{a, b} {
			if d.From[key] == LevelDestination {
				return e.file, find(e.node, key)
			}
		}
		o := l.said["defaults"]
		if d.From[a] == LevelDefaults {
			return o.file, find(o.node, a)
		}
		return o.file, find(o.node, b)
	}
	if d.Deadline > 0 && d.Deadline < d.Timeout {
		f, n := place("deadline", "timeout")
		l.warnf(f, n, "the deadline %s is shorter than the timeout of one attempt, %s", setting.Duration(d.Deadline), setting.Duration(d.Timeout))
	}
	if d.From["workers"] != LevelBuiltIn && d.Workers > d.MaxPending {
		f, n := place("workers", "max_pending")
		l.warnf(f, n, "only %d of the %d workers can be busy: max_pending is %d", d.MaxPending, d.Workers, d.MaxPending)
	}
}

// checkSettings asks a kind what is wrong with its settings, and looks at the
// TLS files of a listener.
func (l *loader) checkSettings(o origin, s connector.Settings) {
	if s == nil {
		return
	}
	l.checkProblems(o, s.Check())
	if v, ok := lookupField(s, "tls"); ok {
		if t, ok := v.Interface().(*setting.ServerTLS); ok {
			l.checkTLS(o.file, find(o.node, "tls"), t)
		}
	}
}

// checkProblems reports what a kind says of its settings, which stand at o.
func (l *loader) checkProblems(o origin, found []connector.Problem) {
	for _, p := range found {
		n := find(o.node, p.Field)
		if n != o.node && l.spoiled(o.file, n) {
			continue
		}
		message := p.Message
		if p.Field != "" && !strings.HasPrefix(message, p.Field+" ") { // which says it by itself
			message = p.Field + ": " + message
		}
		if p.Warning {
			l.warnf(o.file, n, "%s", message)
		} else {
			l.errorf(o.file, n, "%s", message)
		}
	}
}

// checkTLS reads a listener's certificate. Files that can't be read are
// reported by the decoder already.
func (l *loader) checkTLS(f *file, n *yaml.Node, t *setting.ServerTLS) {
	if t == nil {
		return
	}
	if t.Cert == "" || t.Key == "" {
		l.errorf(f, n, "tls needs cert and key")
		return
	}
	for _, name := range []string{t.Cert, t.Key, t.ClientCA} {
		if name != "" && readable(name) != nil {
			return
		}
	}
	if _, err := t.Config(); err != nil {
		l.errorf(f, n, "%v", err)
	}
}

// checkExpr reports what is wrong with a jq expression.
func (l *loader) checkExpr(f *file, n *yaml.Node, key, src string) {
	if l.spoiled(f, n) {
		return
	}
	if strings.TrimSpace(src) == "" {
		l.errorf(f, n, "%s is empty", key)
		return
	}
	if l.opts.CheckExpr == nil {
		return
	}
	if err := l.opts.CheckExpr(src); err != nil {
		l.errorf(f, n, "%s: %v", key, err)
	}
}

// checkTransforms holds each step to one thing it does.
func (l *loader) checkTransforms(f *file, list *yaml.Node, steps []writtenTransform) {
	if len(steps) > MaxList {
		l.errorf(f, list, "more than %d transforms", MaxList)
	}
	for i, n := range items(list) {
		if n = target(n); n.Kind != yaml.MappingNode {
			continue // reported as no mapping
		}
		t := &steps[i]
		said := 0
		for _, is := range []bool{t.JQ != nil, t.SetHeaders != nil, t.DropHeaders != nil} {
			if is {
				said++
			}
		}
		if keys := len(entries(n)); said != 1 && keys == said {
			l.errorf(f, n, "a transform has exactly one of jq, set_headers and drop_headers; write several as several steps")
		}
		if t.JQ != nil {
			l.checkExpr(f, find(n, "jq"), "jq", *t.JQ)
		}
		if t.SetHeaders != nil {
			l.checkSetHeaders(f, child(n, "set_headers"), *t.SetHeaders)
		}
		if t.DropHeaders != nil {
			l.checkPatterns(f, find(n, "drop_headers"), "drop_headers", *t.DropHeaders)
		}
	}
}

// checkPatterns reports what is no glob.
func (l *loader) checkPatterns(f *file, list *yaml.Node, key string, patterns []string) {
	if len(patterns) > MaxList {
		l.errorf(f, list, "more than %d patterns in %s", MaxList, key)
	}
	for i, n := range items(list) {
		if _, err := path.Match(patterns[i], ""); err != nil || patterns[i] == "" {
			l.errorf(f, target(n), "%s: bad pattern %q", key, patterns[i])
		}
	}
}

// checkSetHeaders holds the headers that a transform sets to what a request can
// carry. Their templates are the decoder's to check.
func (l *loader) checkSetHeaders(f *file, n *yaml.Node, headers map[string]string) {
	if len(headers) > MaxList {
		l.errorf(f, n, "more than %d headers in set_headers", MaxList)
	}
	first := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		at := keyNode(n, name)
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		before, twice := first[canonical]
		first[canonical] = name
		switch {
		case twice:
			l.errorf(f, at, "set_headers: %q and %q are one header", before, name)
		case !headerName(name):
			l.errorf(f, at, "set_headers: %q is no header name", name)
		case connector.IsConnectionField(name):
			l.errorf(f, at, "set_headers: the connection sets %s, a message can't", name)
		case strings.ContainsAny(headers[name], "\r\n\x00"):
			l.errorf(f, child(n, name), "set_headers: the value of %s has a line break", name)
		}
	}
}

// headerName reports whether s can be the name of a header.
func headerName(s string) bool { return len(s) <= MaxList && connector.IsToken(s) }

// checkShared warns of routes that can send one message to one destination
// with different bodies under the same idempotency key. Routes with filters
// that differ are taken to part the messages among them.
func (l *loader) checkShared() {
	type pair struct{ from, to string }
	first := map[pair]*routeEntry{}
	for i := range l.routes {
		b := &l.routes[i]
		warned := map[*routeEntry]struct{}{}
		for _, from := range b.From {
			for _, to := range targetNames(b.targets()) {
				a, both := first[pair{from, to}]
				if !both {
					first[pair{from, to}] = b
					continue
				}
				if _, again := warned[a]; again || a == b || parted(a, b) || reflect.DeepEqual(transforms(a.Transforms), transforms(b.Transforms)) {
					continue
				}
				warned[a] = struct{}{}
				l.warnf(b.file, find(b.node, "name"), "a message of %q that this route and %q (%s) both take goes to %q twice, "+
					"with different bodies and one idempotency key", from, a.Name, a.place(), to)
			}
		}
	}
}

func parted(a, b *routeEntry) bool {
	return a.Filter != "" && b.Filter != "" && a.Filter != b.Filter
}

func targetNames(targets []Target) []string {
	all := make([]string, len(targets))
	for i, t := range targets {
		all[i] = t.Destination
	}
	return all
}

func (e *routeEntry) targets() []Target {
	r := buildRoute(e)
	return r.Targets()
}
