package config

import (
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/setting"
)

// MaxSends is how many sends one message may become, over its whole chain,
// without a warning: ten destinations with the default of five tries, or one with
// fifty. More of them in an outage are a load that nobody planned for.
const MaxSends = 50

// advise warns of what is no mistake in any one value and yet seldom what is
// meant. It looks at what the configuration comes to, and so at one without errors
// alone.
func (l *loader) advise(c *Config) {
	if l.found[Error] > 0 {
		return
	}
	for i := range c.Destinations {
		e, d := &l.destinations[i], &c.Destinations[i]
		l.adviseDeadline(e, d)
		l.adviseRetryAfter(e, d)
		l.adviseHosts(c, e, d)
		l.adviseBudget(e, d)
		l.adviseBatch(e, d)
	}
	l.adviseSends(c)
	l.adviseStores(c)
	l.adviseNotify(c)
	for i := range c.Routes {
		l.adviseRoute(&l.routes[i], &c.Routes[i])
	}
	for i := range c.Sources {
		l.advisePlaces(c, &l.sources[i], &c.Sources[i])
	}
}

// saidOf returns where a destination's setting was said; its name where nobody
// said it.
func (l *loader) saidOf(e *destinationEntry, level, path string) (*file, *yaml.Node) {
	switch level {
	case LevelDestination:
		return e.file, find(e.node, path)
	case LevelDefaults:
		o := l.said["defaults"]
		return o.file, find(o.node, path)
	}
	return e.file, find(e.node, "name")
}

// endpoints is how many sends one try of the destination is at most.
func (d *Destination) endpoints() int {
	if d.Group == nil {
		return 1
	}
	return len(d.Group.Members)
}

// between picks a time out of the window that jitter leaves to a wait.
type between func(shortest, longest time.Duration) time.Duration

func shortest(lo, _ time.Duration) time.Duration { return lo }
func middle(lo, hi time.Duration) time.Duration  { return lo + (hi-lo)/2 }

// triesBefore counts the tries that begin before the destination's deadline where
// each fails at once and nothing else is sent, and says when the last one that
// retry.attempts allows would begin.
func triesBefore(d *Destination, wait between) (fit int, last time.Duration) {
	v := &d.Delivery
	began := time.Unix(0, 0)
	at := began
	var bucket *limit.Bucket
	if v.RateLimit != nil {
		bucket = limit.NewBucket(*v.RateLimit, began)
	}
	for n := 1; n <= v.Retry.Attempts; n++ {
		if n > 1 {
			lo, hi := v.Retry.Schedule.Bounds(n - 1)
			at = at.Add(wait(lo, hi))
		}
		for i := range d.endpoints() {
			if bucket != nil {
				at = bucket.Look(at)
				bucket.Take(at)
			}
			if i == 0 {
				last = at.Sub(began)
			}
		}
		if v.Deadline == 0 || last <= v.Deadline {
			fit = n
		}
	}
	return fit, last
}

// adviseDeadline warns of tries that are allowed and come too late: a wait that
// would end past the deadline is not begun.
func (l *loader) adviseDeadline(e *destinationEntry, d *Destination) {
	v := &d.Delivery
	if v.Deadline < v.Timeout {
		return // none, or said to be too short already
	}
	if fit, last := triesBefore(d, middle); fit < v.Retry.Attempts {
		f, n := l.saidOf(e, v.From["deadline"], "deadline")
		l.warnf(f, n, "the deadline of %s, %s, comes before its retries end: of %d attempts about %d fit, even where each fails at once, and the last would begin after %s; "+
			"raise the deadline, or lower retry.attempts or the waits", d.Name, setting.Duration(v.Deadline), v.Retry.Attempts, fit, setting.Duration(last.Round(time.Millisecond)))
	}
}

// adviseRetryAfter warns of a cap on Retry-After that is shorter than the time in
// which the destination's own rate limit fills up again. The limit is there for
// the quota of the far side, and that many tokens at once say how long its window
// is: asked to wait until a new one begins, pawl would come back before.
func (l *loader) adviseRetryAfter(e *destinationEntry, d *Destination) {
	v := &d.Delivery
	if v.RateLimit == nil || !v.Retry.RespectRetryAfter {
		return
	}
	window := time.Duration(float64(v.RateLimit.Burst) / v.RateLimit.PerSecond * float64(time.Second)).Round(time.Millisecond)
	if v.Retry.MaxRetryAfter >= window {
		return
	}
	// Unless it is said itself, the cap is max_backoff; the remedy is the same.
	f, n := l.saidOf(e, v.From["rate_limit.per_second"], "rate_limit")
	l.warnf(f, n, "the rate limit of %s takes %s to fill up again (%d at %g a second), and a Retry-After is cut to %s: an endpoint that asks for the rest of such a window is asked again too soon; "+
		"set retry.max_retry_after: %s", d.Name, setting.Duration(window), v.RateLimit.Burst, v.RateLimit.PerSecond, setting.Duration(v.Retry.MaxRetryAfter), setting.Duration(window))
}

// adviseSends warns of a chain in which one message becomes more than MaxSends
// sends. A destination with a retry budget counts without its retries, which that
// bounds.
func (l *loader) adviseSends(c *Config) {
	fallback := map[string]struct{}{}
	for i := range c.Destinations {
		for _, name := range c.Destinations[i].Fallback {
			fallback[name] = struct{}{}
		}
	}
	for i := range c.Destinations {
		e, d := &l.destinations[i], &c.Destinations[i]
		if _, is := fallback[d.Name]; is {
			continue // its part is in the chain of who falls back to it
		}
		total := 0
		var parts []string
		for _, on := range l.chain([]string{d.Name}) {
			to, _ := c.Destination(on.Name)
			tries, _ := triesBefore(to, shortest)
			if to.Delivery.RetryBudget != nil {
				tries = 1
			}
			total += tries * to.endpoints()
			part := fmt.Sprintf("%d at %s", tries, to.Name)
			if n := to.endpoints(); n > 1 {
				part = fmt.Sprintf("%d × %d members at %s", tries, n, to.Name)
			}
			parts = append(parts, part)
		}
		if total <= MaxSends {
			continue
		}
		f, n := l.saidOf(e, d.Delivery.Retry.From[retry.FieldAttempts], "retry.attempts")
		l.warnf(f, n, "while everything is away one message for %s becomes %d sends (%s), and so does each of the others; set a retry_budget, or fewer retry.attempts",
			d.Name, total, joined(parts, " + "))
	}
}

// joined joins the parts; of many the first ones say enough.
func joined(parts []string, sep string) string {
	const most = 8
	if len(parts) > most {
		parts = append(slices.Clone(parts[:most]), "…")
	}
	return strings.Join(parts, sep)
}

// adviseHosts warns of a fallback that leads to nowhere but where the destination
// leads itself.
func (l *loader) adviseHosts(c *Config, e *destinationEntry, d *Destination) {
	own := placesOf(d)
	nodes := items(child(e.node, "fallback"))
	for i, name := range d.Fallback {
		to, ok := c.Destination(name)
		if !ok || i >= len(nodes) {
			continue
		}
		others := placesOf(to)
		elsewhere := slices.ContainsFunc(others, func(p string) bool { return p == "" || !slices.Contains(own, p) })
		if elsewhere || len(others) == 0 {
			continue
		}
		l.warnf(e.file, target(nodes[i]), "fallback: %q is on the same host as %q (%s) and away whenever that is; name one elsewhere", name, d.Name, joined(slices.Compact(slices.Sorted(slices.Values(others))), ", "))
	}
}

// placesOf returns where the endpoints of a destination are; "" where that is not
// known.
func placesOf(d *Destination) []string {
	if d.Group == nil {
		return []string{placeOf(d.Settings)}
	}
	var all []string
	for i := range d.Group.Members {
		all = append(all, placeOf(d.Group.Members[i].Settings))
	}
	return all
}

// placeOf returns host:port of settings with a URL; "" for others.
func placeOf(s connector.Settings) string {
	located, ok := s.(connector.Located)
	if !ok {
		return ""
	}
	u, err := url.Parse(located.Where())
	if err != nil || u.Host == "" {
		return ""
	}
	port := u.Port()
	switch {
	case port != "":
	case u.Scheme == "https":
		port = "443"
	case u.Scheme == "http":
		port = "80"
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// The expressions that say the same of every message.
const (
	always = "true"
	never  = "false"
)

// adviseRoute warns of parts of a route that no message reaches.
func (l *loader) adviseRoute(e *routeEntry, r *Route) {
	if strings.TrimSpace(r.Filter) == never {
		l.warnf(e.file, find(e.node, "filter"), "no message takes this route: its filter is always false; take the route out, or say which it is for")
	}
	decided := "" // what decides about every message
	for i := range r.Routers {
		path := "router"
		if i > 0 {
			path = fmt.Sprintf("router.fallback[%d]", i-1)
		}
		if decided != "" {
			l.warnf(e.file, find(e.node, path), "this router is never asked: %s before it decides about every message; put it before that one, or take it out", decided)
			continue
		}
		decided = l.adviseRules(e, path, &r.Routers[i])
	}
}

// adviseRules warns of rules that no message reaches, and returns what decides
// about every message; "" where it may be left to the next router. A rule before
// the one that is always true can fail, which hands over, so only the first of
// all decides for sure.
func (l *loader) adviseRules(e *routeEntry, path string, r *Router) (decided string) {
	if r.Type == RouterStatic {
		return "the static router"
	}
	first := map[string]int{}
	last := -1 // the rule that is always true
	for i, rule := range r.Rules {
		when := strings.TrimSpace(rule.When)
		at := find(e.node, fmt.Sprintf("%s.rules[%d].when", path, i))
		before, twice := first[when]
		switch {
		case when == never:
			l.warnf(e.file, at, "no message takes this rule: it is always false")
		case r.Match != MatchFirst:
		case last >= 0:
			l.warnf(e.file, at, "no message comes to this rule: rule %d before it is always true; put that one last", last+1)
		case twice:
			l.warnf(e.file, at, "no message takes this rule: rule %d before it says the same and the first match wins", before+1)
		case when == always:
			last = i
		}
		if !twice {
			first[when] = i
		}
	}
	if len(r.Rules) > 0 && strings.TrimSpace(r.Rules[0].When) == always {
		return "the first rule of the router"
	}
	return ""
}

// advisePlaces warns of lanes with as many places as a source that sends to others
// too: while such a destination is away its messages take all places of the
// source, and the others get nothing.
func (l *loader) advisePlaces(c *Config, e *sourceEntry, s *Source) {
	ways := l.waysOf(c, s.Name)
	said := child(e.node, "max_in_flight") != nil
	var names []string
	for i := range c.Destinations {
		d := &c.Destinations[i]
		required, avoidable := false, false
		for _, way := range ways {
			at := slices.IndexFunc(way, func(t Target) bool { return t.Destination == d.Name })
			required = required || at >= 0 && way[at].Need == Required
			avoidable = avoidable || at < 0
		}
		if !required || !avoidable || d.Delivery.MaxPending < s.MaxInFlight {
			continue
		}
		if said {
			names = append(names, fmt.Sprintf("%s (%d)", d.Name, d.Delivery.MaxPending))
			continue
		}
		f, n := l.saidOf(&l.destinations[i], d.Delivery.From["max_pending"], "max_pending")
		l.warnf(f, n, "the lane of %s has %d places and the source %s only %d: while %s is away its messages take them all and those for other destinations are refused too; "+
			"set max_pending below the source's max_in_flight", d.Name, d.Delivery.MaxPending, s.Name, s.MaxInFlight, d.Name)
	}
	if len(names) > 0 {
		l.warnf(e.file, find(e.node, "max_in_flight"), "the source %s has %d places, no more than a single lane that it fills: %s; while such a destination is away its messages take them all "+
			"and those for the others are refused too; raise max_in_flight, or set max_pending of the destinations below it", s.Name, s.MaxInFlight, joined(names, ", "))
	}
}

// waysOf returns the lists of destinations that a message of the source can be
// sent to, one for each choice of a route.
func (l *loader) waysOf(c *Config, source string) (ways [][]Target) {
	for i := range c.Routes {
		r := &c.Routes[i]
		if !slices.Contains(r.From, source) {
			continue
		}
		if len(r.To) > 0 {
			ways = append(ways, r.To)
		}
		for j := range r.Routers {
			if to := r.Routers[j].To; len(to) > 0 {
				ways = append(ways, to)
			}
			for _, rule := range r.Routers[j].Rules {
				ways = append(ways, rule.To)
			}
		}
	}
	return ways
}
