package config

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/job"
)

// PrivateWebhooks says whether a webhook may be at an address that is not on
// the public internet: whoever subscribes could reach what only this machine can.
type PrivateWebhooks string

// The answers.
const (
	PrivateWebhooksRefused PrivateWebhooks = "refused"
	PrivateWebhooksAllowed PrivateWebhooks = "allowed"
)

// Subscription says which events go to which destinations.
type Subscription struct {
	// Name keeps its place among the events over restarts.
	Name   string
	Events []string
	Queues []string // events of these alone; empty for every queue
	To     []string
}

// The bounds of subscriptions; the job server's own are the same.
const (
	MaxSubscriptions = 100 // each has a worker of its own
	MaxSubscribed    = 10  // destinations of one
	// MaxSubscriptionName is shorter than other names: the name of a queue has it in
	// it.
	MaxSubscriptionName = 64
)

type writtenSubscription struct {
	Name   string   `yaml:"name" secret:"never" doc:"keeps its place among the events over restarts; the names of its destinations, joined by a dot, unless said"`
	Events []string `yaml:"events" secret:"never" doc:"types of event, such as job.failed"`
	Queues []string `yaml:"queues" secret:"never" doc:"events about jobs of these queues alone; of every queue unless said"`
	To     []string `yaml:"to" secret:"never" doc:"names of destinations"`
}

func (w *writtenSubscription) name() string {
	if w.Name == "" {
		return strings.Join(w.To, ".")
	}
	return w.Name
}

func buildSubscriptions(all []writtenSubscription) []Subscription {
	var built []Subscription
	for i := range all {
		built = append(built, Subscription{Name: all[i].name(), Events: all[i].Events, Queues: all[i].Queues, To: all[i].To})
	}
	return built
}

func (l *loader) checkSubscriptions(list origin, all []writtenSubscription) {
	if len(all) > MaxSubscriptions {
		l.errorf(list.file, list.node, "more than %d subscriptions", MaxSubscriptions)
	}
	names := map[string]origin{}
	for i, n := range items(list.node) {
		if i >= len(all) {
			break
		}
		w, o := &all[i], origin{list.file, target(n)}
		if o.node.Kind != yaml.MappingNode {
			continue // reported as no mapping
		}
		l.checkSubscribed(o, w)
		name, at := w.name(), find(o.node, "name")
		before, twice := names[name]
		switch {
		case len(w.To) == 0 && w.Name == "": // what it lacks is said already
		case len(name) > MaxSubscriptionName:
			l.errorf(o.file, at, "the name of the subscription, %q, is longer than %d bytes; give it a shorter name", name, MaxSubscriptionName)
		case job.BadName(name) != "":
			l.errorf(o.file, at, "bad name %q of a subscription; use letters, digits, . _ : and -", name)
		case twice:
			l.errorf(o.file, at, "the subscription %q is there twice, first in %s; give each a name of its own", name, before.place())
		default:
			names[name] = o
		}
	}
}

// checkSubscribed looks at what goes where.
func (l *loader) checkSubscribed(o origin, w *writtenSubscription) {
	// What is no list was reported as that.
	empty := func(key string) bool {
		n := child(o.node, key)
		return n == nil || n.Kind == yaml.SequenceNode && len(n.Content) == 0
	}
	events := items(child(o.node, "events"))
	if empty("events") {
		l.errorf(o.file, find(o.node, "events"), "this subscription names no events, such as job.failed")
	}
	for i, e := range w.Events {
		switch {
		case i >= len(events):
		case slices.Contains(w.Events[:i], e):
			l.errorf(o.file, target(events[i]), "the event %q is there twice", e)
		case l.opts.EventTypes != nil && !slices.Contains(l.opts.EventTypes, e):
			l.suggestf(o.file, target(events[i]), e, l.opts.EventTypes, "unknown type of event %q", e)
		}
	}
	if queues := child(o.node, "queues"); queues != nil && empty("queues") {
		l.errorf(o.file, queues, "an empty list is about no queue; name queues, or leave it out for every queue")
	}
	if len(w.Queues) > MaxQueues {
		l.errorf(o.file, find(o.node, "queues"), "more than %d queues", MaxQueues)
	}
	for i, n := range items(child(o.node, "queues")) {
		if i < len(w.Queues) {
			l.checkJobName(o.file, target(n), "a queue", w.Queues[i])
		}
	}
	switch {
	case empty("to"):
		l.errorf(o.file, find(o.node, "to"), "this subscription leads nowhere; name destinations in to")
	case len(w.To) > MaxSubscribed:
		l.errorf(o.file, find(o.node, "to"), "more than %d destinations", MaxSubscribed)
	}
	l.checkList(o.file, items(child(o.node, "to")), w.To, "to", "destination", l.destinationNames)
}
