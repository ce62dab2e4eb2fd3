package config

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/setting"
)

// checkGroup reports what is wrong with a group beyond its delivery settings.
// d is what became of it.
func (l *loader) checkGroup(e *destinationEntry, d *Destination, seen map[string]origin) {
	g := e.group
	list := child(e.node, "members")
	switch n := len(g.Members); {
	case list == nil:
		l.errorf(e.file, e.node, "this group has no members; list some in members")
	case n == 0 && list.Kind == yaml.SequenceNode:
		l.errorf(e.file, list, "this group has no members; list at least one")
	case n > MaxMembers:
		l.errorf(e.file, list, "%d members; at most %d", n, MaxMembers)
	}
	for i := range g.Members {
		l.checkMember(e, i, d, seen)
	}
	l.checkHealth(e, d)
	l.checkHedge(e, d)
	if len(g.Members) > 0 && e.group.Strategy != balance.Failover && g.HealthCheck == nil && l.checkable(e) {
		l.warnf(e.file, find(e.node, "strategy"), "the group %s has no health_check: one in so many messages finds out by itself that a member is away; "+
			"add health_check", e.Name)
	}
}

// checkable reports whether a member of the group can be asked whether it is
// well.
func (l *loader) checkable(e *destinationEntry) bool {
	return slices.ContainsFunc(e.group.Members, func(m memberEntry) bool { return m.kind.Checks })
}

// checkMember reports what is wrong with the i-th member.
func (l *loader) checkMember(e *destinationEntry, i int, d *Destination, seen map[string]origin) {
	m := &e.group.Members[i]
	if m.node.Kind != yaml.MappingNode {
		return // reported as no mapping
	}
	if child(m.node, "name") != nil {
		l.checkName(m.file, find(m.node, "name"), "this member", m.Name)
		l.unique(seen, m.origin, "destination or member", m.Name)
	}
	if w := m.Weight; w != nil {
		n := find(m.node, "weight")
		switch {
		case *w < 1 || *w > balance.MaxWeight:
			l.errorf(m.file, n, "weight must be from 1 to %d, not %d; leave a member out that is to get nothing", balance.MaxWeight, *w)
		case e.group.Strategy != balance.Weighted:
			l.errorf(m.file, n, "weight counts with strategy: weighted alone, and this group is %s", e.group.Strategy)
		}
	}
	l.checkEndpoint(m.file, m.node, &m.writtenEndpoint)
	l.checkSettings(m.origin, m.settings)
	if i >= len(d.Group.Members) {
		return
	}
	v := &d.Group.Members[i].Delivery
	l.checkBreaker(v, l.standing(e, m))
	l.checkKeyHeader(endpointEntry{m.origin, d.Group.Members[i].Name, m.Type, m.settings, m.kind}, v.IdempotencyHeader)
}

// checkHealth reports what is wrong with a group's health check.
func (l *loader) checkHealth(e *destinationEntry, d *Destination) {
	w := e.group.HealthCheck
	if w == nil {
		return
	}
	at := func(key string) *yaml.Node { return find(e.node, "health_check."+key) }
	v := d.Group.Health
	if v.Interval < MinCheckInterval || v.Interval > MaxCheckInterval {
		l.errorf(e.file, at("interval"), "health_check.interval must be from %s to %s, not %s",
			setting.Duration(MinCheckInterval), setting.Duration(MaxCheckInterval), setting.Duration(v.Interval))
	} else if v.Timeout < time.Millisecond || v.Timeout > v.Interval {
		l.errorf(e.file, at("timeout"), "health_check.timeout must be from 1ms to the interval, %s, not %s", setting.Duration(v.Interval), setting.Duration(v.Timeout))
	}
	for key, n := range map[string]int{"unhealthy_after": v.UnhealthyAfter, "healthy_after": v.HealthyAfter} {
		if n < 1 || n > MaxChecks {
			l.errorf(e.file, at(key), "health_check.%s must be from 1 to %d, not %d", key, MaxChecks, n)
		}
	}
	l.checkHealthPath(e, w, at("path"))
	for i := range e.group.Members {
		if m := &e.group.Members[i]; m.settings != nil && !m.kind.Checks {
			l.warnf(m.file, find(m.node, "type"), "a member of type %s can't be asked whether it is well; it always counts as healthy", m.Type)
		}
	}
}

// checkHealthPath wants a path where a member needs one, and none elsewhere.
func (l *loader) checkHealthPath(e *destinationEntry, w *writtenHealth, n *yaml.Node) {
	if l.spoiled(e.file, n) {
		return
	}
	asks := slices.IndexFunc(e.group.Members, func(m memberEntry) bool { return m.kind.ChecksPath })
	known := !slices.ContainsFunc(e.group.Members, func(m memberEntry) bool { return m.settings == nil })
	said := child(child(e.node, "health_check"), "path") != nil
	switch {
	case !said && asks >= 0:
		l.errorf(e.file, find(e.node, "health_check"), "health_check needs path: what members of type %s are asked for, such as /ready", e.group.Members[asks].Type)
	case said && asks < 0 && known:
		l.errorf(e.file, n, "health_check.path: no member of this group is asked for a path; leave it out")
	case said && (!strings.HasPrefix(w.Path, "/") || strings.HasPrefix(w.Path, "//")):
		l.errorf(e.file, n, "health_check.path must begin with one /, such as /ready")
	case said && strings.ContainsFunc(w.Path, func(r rune) bool { return r <= ' ' || r == 0x7f || r == '#' }):
		l.errorf(e.file, n, "health_check.path must hold no space, no control character and no #")
	case said && !pathOfURL(w.Path):
		l.errorf(e.file, n, "health_check.path is no path of a URL: a %% stands before two hex digits")
	case len(w.Path) > maxHealthPath:
		l.errorf(e.file, n, "health_check.path is longer than %d bytes", maxHealthPath)
	}
}

// pathOfURL reports whether a text that begins with / can be asked for.
func pathOfURL(path string) bool {
	_, err := url.Parse(path)
	return err == nil
}

// maxHealthPath is what every server takes of a request line.
const maxHealthPath = 2048

// checkHedge reports what is wrong with a group's hedging.
func (l *loader) checkHedge(e *destinationEntry, d *Destination) {
	w := e.group.Hedge
	if w == nil {
		return
	}
	v, f := &d.Delivery, e.file
	at := func(key string) *yaml.Node { return find(e.node, key) }
	if !v.Idempotent {
		l.errorf(f, at("hedge"), "hedge sends a message twice on purpose, so it needs idempotent: true, which says that %s takes that without harm", e.Name)
	}
	if v.Batch != nil {
		l.errorf(f, at("hedge"), "hedge and batch can't go together: leave one, or say batch: false")
	}
	members := len(e.group.Members)
	switch {
	case members == 1:
		l.errorf(f, at("hedge"), "hedge needs another member to go to, and this group has one")
	case w.Max != nil && members > 1 && (*w.Max < 1 || *w.Max >= members):
		l.errorf(f, at("hedge.max"), "hedge.max must be from 1 to %d, one less than there are members, not %d", members-1, *w.Max)
	}
	n := at("hedge.after")
	switch {
	case w.After.state == hedgeUnsaid && n.Kind == yaml.MappingNode:
		l.errorf(f, n, "hedge needs after: how long an answer may take before, such as 800ms, or p95")
	case w.After.state != hedgeSpan:
	case w.After.span.D() < MinHedgeAfter:
		l.errorf(f, n, "hedge.after must be at least %s, or p95, not %s", setting.Duration(MinHedgeAfter), w.After.span)
	default:
		shortest := v.Timeout
		for i := range d.Group.Members {
			shortest = min(shortest, d.Group.Members[i].Delivery.Timeout)
		}
		if w.After.span.D() >= shortest {
			l.warnf(f, n, "hedge.after is not shorter than the timeout of an attempt, %s: the attempt ends before a hedge begins", setting.Duration(shortest))
		}
	}
}

// checkBatch wants kinds that can send several messages in one request, and
// settings of theirs that fit it, or its absence.
func (l *loader) checkBatch(e *destinationEntry, d *Delivery) {
	load := connector.OneMessage
	if d.Batch != nil {
		load = connector.ManyMessages
	}
	for _, on := range e.endpoints() {
		if s, ok := on.settings.(connector.Batching); ok {
			l.checkProblems(on.origin, s.CheckBatch(load))
		}
	}
	if d.Batch == nil {
		return
	}
	where := l.standing(e, nil)[d.From["batch"]]
	hint := "leave it out"
	if d.From["batch"] == LevelDefaults {
		hint = fmt.Sprintf("say batch: false at %q", e.Name)
	}
	told := map[string]struct{}{}
	for _, on := range e.endpoints() {
		if _, again := told[on.typ]; again || on.settings == nil || on.kind.Batches {
			continue
		}
		told[on.typ] = struct{}{}
		l.errorf(where.file, find(where.node, "batch"), "batch: the type %s can't send several messages in one request; %s", on.typ, hint)
	}
}

// standing says where each level of an endpoint's settings stands.
func (l *loader) standing(e *destinationEntry, m *memberEntry) map[string]origin {
	at := map[string]origin{LevelDefaults: l.said["defaults"], LevelDestination: e.origin, LevelBuiltIn: e.origin}
	if m != nil {
		at[LevelMember] = m.origin
	}
	return at
}

// memberWord says what to do about the name of a member where that of a
// destination is wanted, and whether it is one.
func (l *loader) memberWord(name string) (string, bool) {
	g := l.memberOf(name)
	if g == nil {
		return "", false
	}
	return fmt.Sprintf("%q is a member of the group %q, and takes messages through it alone; name the group", name, g.Name), true
}
