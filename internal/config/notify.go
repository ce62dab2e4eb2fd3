package config

import (
	"reflect"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/setting"
)

// Defaults and bounds of notify.
const (
	// DefaultNotifyEvery is often enough for whoever is called at night.
	DefaultNotifyEvery = time.Minute
	// MinNotifyEvery keeps a storm of events from becoming one of alerts.
	MinNotifyEvery = time.Second
	MaxNotifyEvery = 24 * time.Hour
	// MaxNotices bounds the entries: each looks at every event.
	MaxNotices = 64
)

// writtenNotice says who is told of what.
type writtenNotice struct {
	On    []AlertEvent      `yaml:"on" enum:"dead_letter,circuit_open,circuit_closed,unrouted,dead_letter_failed,source_down" default:"[dead_letter, circuit_open]" doc:"what is told of"`
	To    []string          `yaml:"to" secret:"never" doc:"names of destinations that are told"`
	Every *setting.Duration `yaml:"every" default:"1m" doc:"after an alert, how long further events of the kind are counted for the next one, from 1s to 24h"`
}

// noticeEntry is a notice as it was read.
type noticeEntry struct {
	origin
	writtenNotice
}

func (d decoder) notices(list *yaml.Node) {
	for _, n := range items(list) {
		n = target(n)
		e := noticeEntry{origin: origin{d.f, n}}
		d.mapping(n, "a notice", reflect.ValueOf(&e.writtenNotice).Elem())
		d.l.notices = append(d.l.notices, e)
	}
}

func buildNotice(e *noticeEntry) Notice {
	n := Notice{On: e.On, To: e.To, Every: said(e.Every, setting.Duration(DefaultNotifyEvery)).D(), At: e.at()}
	if child(e.node, "on") == nil {
		n.On = []AlertEvent{AlertDeadLetter, AlertCircuitOpen}
	}
	return n
}

func (l *loader) checkNotify() {
	if n := len(l.notices); n > MaxNotices {
		e := &l.notices[MaxNotices]
		l.errorf(e.file, e.node, "%d entries in notify; at most %d", n, MaxNotices)
	}
	for i := range l.notices {
		e := &l.notices[i]
		if e.node.Kind != yaml.MappingNode {
			continue // reported as no mapping
		}
		on, to := child(e.node, "on"), child(e.node, "to")
		if on != nil && on.Kind == yaml.SequenceNode && len(on.Content) == 0 {
			l.errorf(e.file, on, "notify.on: an empty list tells of nothing; list events, or leave it out for dead_letter and circuit_open")
		}
		l.checkEvents(e, items(on))
		if len(e.To) == 0 && (to == nil || to.Kind == yaml.SequenceNode) {
			l.errorf(e.file, find(e.node, "to"), "notify needs to: the names of destinations that are told")
		}
		l.checkList(e.file, items(to), e.To, "notify.to", "destination", l.destinationNames)
		if v := e.Every; v != nil && (v.D() < MinNotifyEvery || v.D() > MaxNotifyEvery) {
			l.errorf(e.file, find(e.node, "every"), "notify.every must be from %s to %s, not %s",
				setting.Duration(MinNotifyEvery), setting.Duration(MaxNotifyEvery), *v)
		}
	}
}

// checkEvents reports events that are there twice. Unknown ones the decoder has
// reported.
func (l *loader) checkEvents(e *noticeEntry, nodes []*yaml.Node) {
	seen := map[string]struct{}{}
	for _, n := range nodes {
		n = target(n)
		if _, twice := seen[n.Value]; twice && n.Value != "" {
			l.errorf(e.file, n, "notify.on: %q is there twice", n.Value)
		}
		seen[n.Value] = struct{}{}
	}
}
