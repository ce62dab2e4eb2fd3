package config

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/setting"
)

// Defaults and bounds of groups.
const (
	// MaxMembers bounds a group: every pick looks at each of them.
	MaxMembers = 64
	// DefaultCheckInterval notices a member that is gone before its next
	// hundred messages at most rates, and is no load for anybody.
	DefaultCheckInterval = 10 * time.Second
	// DefaultCheckTimeout is long for a check, which does no work.
	DefaultCheckTimeout = 2 * time.Second
	// DefaultUnhealthyAfter lets one check, or two, be lost on the way.
	DefaultUnhealthyAfter = 3
	// DefaultHealthyAfter trusts the first good word: the ramp is careful.
	DefaultHealthyAfter = 1
	// MinCheckInterval and MaxCheckInterval bound the interval: a check is no
	// load test, and one an hour is none.
	MinCheckInterval = 100 * time.Millisecond
	MaxCheckInterval = time.Hour
	// MaxChecks bounds how many checks in a row move a member.
	MaxChecks = 100
	// DefaultHedges is how many more members a message may go to in one race.
	DefaultHedges = 1
	// MinHedgeAfter: an answer that took less was no slow one.
	MinHedgeAfter = time.Millisecond
)

// writtenGroup is what a destination of type group has for itself.
type writtenGroup struct {
	Strategy    balance.Strategy `yaml:"strategy" enum:"failover,round_robin,weighted,least_latency" default:"failover" doc:"who gets a message first: the first in the list that is well, each in turn, each as often as its weight says, or the fastest; all go on to the next on error"`
	Members     memberList       `yaml:"members" doc:"from 1 to 64 destinations, each written here"`
	HealthCheck *writtenHealth   `yaml:"health_check" doc:"asks the members whether they are well; off unless said"`
	Hedge       *writtenHedge    `yaml:"hedge" doc:"sends a message to another member too where an answer is slow; needs idempotent: true; off unless said"`
}

// defaultGroup holds the defaults that the tags of writtenGroup tell of.
func defaultGroup() writtenGroup { return writtenGroup{Strategy: balance.Failover} }

// groupDoc is what the reference says of the type.
const groupDoc = "Several endpoints that take the same messages."

// writtenHealth says how members are asked.
type writtenHealth struct {
	Path           string            `yaml:"path" secret:"never" doc:"what is asked for at the origin of HTTP members, such as /ready; must be said where there are some"`
	Interval       *setting.Duration `yaml:"interval" default:"10s" doc:"how often, from 100ms to 1h"`
	Timeout        *setting.Duration `yaml:"timeout" default:"2s" doc:"how long an answer may take, at most interval; interval where that is shorter"`
	UnhealthyAfter *int              `yaml:"unhealthy_after" default:"3" doc:"failures in a row that take a member out, from 1 to 100"`
	HealthyAfter   *int              `yaml:"healthy_after" default:"1" doc:"passes in a row that bring it back, from 1 to 100"`
}

// writtenHedge says when a message goes to another member too.
type writtenHedge struct {
	After hedgeAfter `yaml:"after" doc:"how long an answer may take before, or p95: longer than 95% of the last minute's answers"`
	Max   *int       `yaml:"max" default:"1" doc:"how many more members a message may go to in one race; fewer than there are members"`
}

// hedgeAfter is a duration or the word p95, which is 0.
type hedgeAfter struct {
	span  setting.Duration
	state hedgeState
}

// hedgeState is what was said of the time of a hedge.
type hedgeState uint8

const (
	hedgeUnsaid hedgeState = iota
	hedgeSpan              // a duration
	hedgeP95
)

const wordP95 = "p95"

func (h *hedgeAfter) decode(d decoder, n *yaml.Node) {
	if n.Kind == yaml.ScalarNode && n.Value == wordP95 {
		h.state = hedgeP95
		return
	}
	h.state = hedgeSpan
	before := len(d.l.problems)
	if d.own(n, reflect.ValueOf(&h.span).Elem(), "after", func() error { return h.span.UnmarshalYAML(d.plain(n)) }); len(d.l.problems) > before {
		h.span = setting.Duration(MinHedgeAfter) // said already
	}
}

// writtenMember is what all kinds of member have; the other keys belong to the
// kind.
type writtenMember struct {
	Name            string `yaml:"name" secret:"never" default:"<group>/<n>" doc:"unique among the destinations and the members of all groups"`
	Type            string `yaml:"type" secret:"never" doc:"the kind of destination; no group"`
	Weight          *int   `yaml:"weight" default:"1" doc:"weighted: its share, from 1 to 1000"`
	writtenEndpoint `yaml:",inline"`
}

// memberEntry is a member as it was read.
type memberEntry struct {
	origin
	writtenMember
	settings connector.Settings // nil where its type is unknown
	kind     connector.DestinationKind
}

// memberList reads the members of a group.
type memberList []memberEntry

func (m *memberList) decode(d decoder, n *yaml.Node) {
	if n.Kind != yaml.SequenceNode {
		d.wanted(n, "members", "a list")
		return
	}
	types := d.l.opts.Registry.DestinationTypes()
	for _, n := range items(n) {
		n = target(n)
		e := memberEntry{origin: origin{d.f, n}}
		if typ := child(n, "type"); typ != nil && typ.Value == TypeGroup {
			d.l.errorf(d.f, typ, "a group can't be a member of a group; list its members here, or name it as a fallback")
			d.item(n, "a member", nil, reflect.ValueOf(&e.writtenMember).Elem(), reflect.Value{})
			*m = append(*m, e)
			continue
		}
		var own reflect.Value
		if typ, ok := d.typeOf(n, "member", types); ok {
			e.kind, _ = d.l.opts.Registry.Destination(typ)
			e.settings = e.kind.New()
			own = reflect.ValueOf(e.settings).Elem()
		}
		d.item(n, "a member", ofTheGroup(), reflect.ValueOf(&e.writtenMember).Elem(), own)
		*m = append(*m, e)
	}
}

// ofTheGroup says of each key that a group has and a member has not where to
// put it.
func ofTheGroup() map[string]string {
	hints := map[string]string{}
	for _, t := range []reflect.Type{reflect.TypeFor[writtenDestination](), reflect.TypeFor[writtenGroup]()} {
		for _, f := range fieldsOf(t) {
			hints[f.key] = fmt.Sprintf("%s belongs to the group: it holds for all of its members; say it beside members", f.key)
		}
	}
	hints["members"] = "a group can't be a member of a group; list its members here, or name it as a fallback"
	hints["strategy"] = hints["members"]
	return hints // those that a member has are known, and not looked up here
}

// ofGroupsAlone says of each key that only a group has what to do.
func ofGroupsAlone() map[string]string {
	hints := map[string]string{}
	for _, f := range fieldsOf(reflect.TypeFor[writtenGroup]()) {
		hints[f.key] = fmt.Sprintf("%s belongs to a destination of type group, which has members", f.key)
	}
	hints["weight"] = "weight belongs to the members of a group with strategy: weighted"
	return hints
}

// endpointEntry is what a connector is opened for: a plain destination, or a
// member of a group.
type endpointEntry struct {
	origin
	name, typ string
	settings  connector.Settings
	kind      connector.DestinationKind
}

// endpoints returns the destination itself, or the members of a group.
func (e *destinationEntry) endpoints() []endpointEntry {
	if e.group == nil {
		return []endpointEntry{{e.origin, e.Name, e.Type, e.settings, e.kind}}
	}
	all := make([]endpointEntry, len(e.group.Members))
	for i := range e.group.Members {
		m := &e.group.Members[i]
		all[i] = endpointEntry{m.origin, e.memberName(i), m.Type, m.settings, m.kind}
	}
	return all
}

// allEndpoints returns those of all destinations.
func (l *loader) allEndpoints() []endpointEntry {
	var all []endpointEntry
	for i := range l.destinations {
		all = append(all, l.destinations[i].endpoints()...)
	}
	return all
}

// memberName returns the name of the i-th member.
func (e *destinationEntry) memberName(i int) string {
	if name := e.group.Members[i].Name; name != "" {
		return name
	}
	return fmt.Sprintf("%s/%d", e.Name, i+1)
}

// levels are those that the destination's settings are inherited through.
func (l *loader) levels(e *destinationEntry) levels {
	return inherited(&l.written.Defaults, &e.writtenDelivery)
}

func (l *loader) buildDestination(e *destinationEntry) Destination {
	ls := l.levels(e)
	d := Destination{
		Name: e.Name, Type: e.Type, Fallback: e.Fallback, Settings: e.settings, Digest: digest(e.settings), At: e.at(),
		Delivery: resolveDelivery(ls),
	}
	if e.group == nil {
		return d
	}
	g := e.group
	d.Delivery.Hedge = g.Hedge.resolve(d.Delivery.From)
	d.Group = &Group{Strategy: g.Strategy, Health: g.HealthCheck.resolve()}
	for i := range g.Members {
		m := &g.Members[i]
		member := Member{
			Name: e.memberName(i), Type: m.Type, Weight: said(m.Weight, 1), Delivery: resolveDelivery(ls.and(&m.writtenEndpoint)),
			Settings: m.settings, Digest: digest(m.settings), At: m.at(),
		}
		member.Delivery.Hedge = d.Delivery.Hedge
		for key, level := range d.Delivery.From {
			if _, own := member.Delivery.From[key]; !own {
				member.Delivery.From[key] = level
			}
		}
		d.Group.Members = append(d.Group.Members, member)
	}
	return d
}

// resolve fills in the defaults; nil stays nil.
func (w *writtenHealth) resolve() *HealthCheck {
	if w == nil {
		return nil
	}
	interval := said(w.Interval, setting.Duration(DefaultCheckInterval)).D()
	return &HealthCheck{
		Path: w.Path, Interval: interval,
		Timeout:        said(w.Timeout, setting.Duration(min(DefaultCheckTimeout, interval))).D(),
		UnhealthyAfter: said(w.UnhealthyAfter, DefaultUnhealthyAfter),
		HealthyAfter:   said(w.HealthyAfter, DefaultHealthyAfter),
	}
}

// resolve fills in the defaults and notes the levels; nil stays nil.
func (w *writtenHedge) resolve(from map[string]string) *Hedge {
	if w == nil {
		return nil
	}
	from["hedge"], from["hedge.after"], from["hedge.max"] = LevelDestination, LevelDestination, LevelBuiltIn
	if w.Max != nil {
		from["hedge.max"] = LevelDestination
	}
	return &Hedge{After: w.After.span.D(), Max: said(w.Max, DefaultHedges)}
}

// groupTypes are the types of destination that there are, group among them.
func groupTypes(reg *connector.Registry) []string {
	types := append(reg.DestinationTypes(), TypeGroup)
	slices.Sort(types)
	return types
}

// memberOf returns the group that has a member of the name; nil for none.
func (l *loader) memberOf(name string) *destinationEntry {
	if i, ok := l.memberNames.has[name]; ok {
		return &l.destinations[i]
	}
	return nil
}
