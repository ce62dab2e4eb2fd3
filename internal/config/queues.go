package config

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/job"
)

// queueType is the type of the sources and destinations that stand on a queue
// of the job server.
const queueType = "queue"

// checkQueues looks at what stands on a queue: that the queue is there, that
// nothing goes round in circles, and how often a message is tried.
func (l *loader) checkQueues() {
	var known []string
	for name := range l.written.Jobs.Queues {
		known = append(known, name)
	}
	named := func(o origin, what string, settings any) {
		name, said := textField(settings, "queue")
		n := find(o.node, "queue")
		switch {
		case !l.hasJobs():
			l.errorf(o.file, find(o.node, "type"), "a %s of type queue works on the job server; add `jobs:` with its queue at the top level", what)
		case !said || l.spoiled(o.file, n): // the kind reports one that is missing
		case !slices.Contains(known, name):
			l.suggestf(o.file, n, name, known, "unknown queue %q; list it under jobs.queues", name)
		}
	}
	for i := range l.sources {
		if s := &l.sources[i]; s.Type == queueType && s.settings != nil {
			named(s.origin, "source", s.settings)
			l.tellUnsafe(s)
		}
	}
	for _, d := range l.allEndpoints() {
		if d.typ == queueType && d.settings != nil {
			named(d.origin, "destination", d.settings)
		}
	}
	if !l.hasJobs() {
		return
	}
	ways := l.ways()
	w := loopWalk{l: l, ways: ways, seen: map[*destinationEntry]visited{}}
	for i := range l.destinations {
		w.visit(&l.destinations[i])
	}
	l.checkLetterLoop(ways)
	l.tellTries(ways)
}

// tellUnsafe warns of a source that takes a task which must not be repeated: what
// comes out of a queue is delivered at least once.
func (l *loader) tellUnsafe(s *sourceEntry) {
	nodes := items(find(s.node, "tasks"))
	for i, taken := range textList(s.settings, "tasks") {
		for _, task := range slices.Sorted(maps.Keys(l.written.Jobs.Tasks)) {
			name, _, _ := strings.Cut(task, "@")
			if l.written.Jobs.Tasks[task].Repeat != job.RepeatUnsafe || taken != task && taken != name || i >= len(nodes) {
				continue
			}
			l.warnf(s.file, target(nodes[i]), "the source %q delivers jobs of %s at least once, after a crash or a timeout again, "+
				"and the task says repeat: unsafe; have a worker claim them, or say that it is safe", s.Name, task)
		}
	}
}

// checkLetterLoop warns of dead letters that go into a queue whose messages can
// die again.
func (l *loader) checkLetterLoop(ways map[string][]way) {
	d := l.named(l.written.DeadLetter.Destination)
	if d == nil || l.written.DeadLetter.Type != DeadLetterDestination {
		return
	}
	for i := range l.sources {
		s := &l.sources[i]
		if len(ways[s.Name]) == 0 || !feeds(d, s) {
			continue
		}
		o := l.said["dead_letter"]
		l.warnf(o.file, find(o.node, "destination"), "dead_letter.destination: the source %q takes the letters from their queue, "+
			"and one that dies again goes into it again, for ever", s.Name)
		return
	}
}

// feeds reports whether a source of type queue takes what a destination puts
// into its queue, or what a member of it does.
func feeds(d *destinationEntry, s *sourceEntry) bool {
	return slices.ContainsFunc(d.endpoints(), func(e endpointEntry) bool { return fills(e, s) })
}

// fills is feeds of one endpoint. A task without a version may become any.
func fills(d endpointEntry, s *sourceEntry) bool {
	if d.typ != queueType || s.Type != queueType || d.settings == nil || s.settings == nil {
		return false
	}
	into, said := textField(d.settings, "queue")
	if from, _ := textField(s.settings, "queue"); !said || from != into {
		return false
	}
	tasks := textList(s.settings, "tasks")
	if len(tasks) == 0 {
		return true
	}
	task, _ := textField(d.settings, "task")
	version, pinned := textField(d.settings, "version")
	for _, t := range tasks {
		if name, v, one := strings.Cut(t, "@"); name == task && (!one || !pinned || v == version) {
			return true
		}
	}
	return false
}

// textList returns the texts of a key that holds a list of them.
func textList(settings any, key string) []string {
	v, ok := lookupField(settings, key)
	if !ok || v.Kind() != reflect.Slice || v.Type().Elem().Kind() != reflect.String {
		return nil
	}
	list := make([]string, v.Len())
	for i := range list {
		list[i] = v.Index(i).String()
	}
	return list
}

// way is how a message goes from a source to a destination.
type way struct {
	route *routeEntry
	to    *destinationEntry
}

// ways returns where the messages of each source can go, fallbacks included.
func (l *loader) ways() map[string][]way {
	all := map[string][]way{}
	for i := range l.routes {
		r := &l.routes[i]
		reached := l.chain(targetNames(r.targets()))
		for _, from := range r.From {
			for _, d := range reached {
				all[from] = append(all[from], way{r, d})
			}
		}
	}
	return all
}

// chain returns the destinations of the names and all that they fall back to,
// each once.
func (l *loader) chain(list []string) []*destinationEntry {
	var all []*destinationEntry
	seen := map[*destinationEntry]struct{}{}
	var reach func(list []string)
	reach = func(list []string) {
		for _, name := range list {
			d := l.named(name)
			if _, again := seen[d]; d == nil || again {
				continue
			}
			seen[d] = struct{}{}
			all = append(all, d)
			reach(d.Fallback)
		}
	}
	reach(list)
	return all
}

// loopWalk finds messages that would go round for ever: a destination puts them
// into a queue, a source takes them from it, and a route brings them back.
type loopWalk struct {
	l    *loader
	ways map[string][]way
	seen map[*destinationEntry]visited
	path []*destinationEntry
}

func (w *loopWalk) visit(d *destinationEntry) {
	if w.seen[d].visit != visitNew {
		return
	}
	w.seen[d] = visited{visitOpen, len(w.path)}
	w.path = append(w.path, d)
	for i := range w.l.sources {
		s := &w.l.sources[i]
		if !feeds(d, s) {
			continue
		}
		for _, next := range w.ways[s.Name] {
			if on := w.seen[next.to]; on.visit == visitOpen {
				w.report(d, s, next, w.path[on.depth:])
				continue
			}
			w.visit(next.to)
		}
	}
	w.path = w.path[:len(w.path)-1]
	w.seen[d] = visited{visit: visitDone}
}

// report prints the loop that a way closes.
func (w *loopWalk) report(d *destinationEntry, s *sourceEntry, last way, loop []*destinationEntry) {
	names := make([]string, 0, len(loop)+1)
	for _, on := range loop {
		names = append(names, on.Name)
	}
	names = append(names, last.to.Name)
	const most = 20 // of a longer loop the beginning says enough
	if len(names) > most {
		names = append(names[:most], "…")
	}
	w.l.errorf(d.file, find(d.node, "queue"), "queue: a loop: what goes in is taken by the source %q, and the route %q leads it back (%s)",
		s.Name, last.route.Name, strings.Join(names, " → "))
}

// tellTries says how often a message that a queue feeds is tried: a wait that
// is too long for the relay goes back to the store, and each of the job's
// attempts has the delivery's tries again.
func (l *loader) tellTries(ways map[string][]way) {
	for i := range l.sources {
		s := &l.sources[i]
		at, queue, attempts := l.fedBy(s)
		if attempts == 0 {
			continue
		}
		var most *destinationEntry
		tries, hops := 0, 0
		for _, w := range ways[s.Name] {
			if n, h := l.tries(w.to); n > tries {
				most, tries, hops = w.to, n, h
			}
		}
		if most == nil {
			continue
		}
		tried := "1 try"
		if tries > 1 {
			tried = fmt.Sprintf("%d tries", tries)
		}
		where := fmt.Sprintf("at %q", most.Name)
		if hops > 1 {
			where = fmt.Sprintf("at %q and its fallbacks", most.Name)
		}
		l.infof(s.file, at, "a message of the queue %q is tried up to %s: %s of the job, each with up to %s %s",
			queue, plural(attempts*tries, "time"), plural(attempts, "attempt"), tried, where)
	}
}

// fedBy returns the queue that a source takes from, where it says so, and how
// many attempts a job of it has; 0 for a source that takes from none.
func (l *loader) fedBy(s *sourceEntry) (at *yaml.Node, queue string, attempts int) {
	if s.settings == nil {
		return nil, "", 0
	}
	if s.Ack == AckStored && !s.kind.Pauses {
		return find(s.node, "ack"), RelayQueue(s.Name), RelayAttempts
	}
	queue, _ = textField(s.settings, "queue")
	q, known := l.written.Jobs.Queues[queue]
	if s.Type != queueType || !known {
		return nil, "", 0
	}
	policy := job.Resolve(
		job.Said{Level: job.LevelQueue, Overlay: q.Retry.overlay()},
		job.Said{Level: job.LevelProject, Overlay: l.written.Jobs.Retry.overlay()},
	)
	return find(s.node, "queue"), queue, policy.MaxAttempts
}

// tries returns how many tries one delivery to a destination has, and over how
// many destinations.
func (l *loader) tries(d *destinationEntry) (tries, hops int) {
	for _, on := range l.chain([]string{d.Name}) {
		tries += resolveDelivery(l.levels(on)).Retry.Attempts * len(on.endpoints())
		hops++
	}
	return tries, hops
}
