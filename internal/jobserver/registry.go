package jobserver

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/store"
)

// settings are what is worked with: what the configuration says, and where it
// says nothing what was said over the API. They are never changed.
type settings struct {
	project   job.Overlay
	queues    map[string]*queue
	names     []string // of the queues, sorted
	endpoints map[string]*endpoint
	tasks     map[lane.Task]*task
	latest    map[string]string // the version of a task where a job says none
	leaving   map[string]*queue
	relay     *queue // what every queue of the relay is like
	events    *queue // what every queue of deliveries of events is like
	subs      map[string]*subscription
	retention store.Retention
}

// queue is a queue and what a job in it gets that says nothing itself.
type queue struct {
	Queue
	Managed
	policy job.Snapshot
	left   atomic.Bool // a job in it, which is leaving, was told of
}

type endpoint struct {
	Endpoint
	Managed
}

type task struct {
	Task
	Managed
	created       time.Time // zero for the file's
	input, output job.SchemaHash
}

// Manager is who said the settings of something.
type Manager string

// The managers.
const (
	ByNobody Manager = ""     // it has the defaults, and is there because jobs name it
	ByFile   Manager = "file" // the configuration; read-only over the API
	ByAPI    Manager = "api"
)

// Managed says who said the settings of something.
type Managed struct {
	By Manager
	// UpdatedAt is when, and UpdatedBy whose key it was, over the API.
	UpdatedAt time.Time
	UpdatedBy string
}

var fromFile = Managed{By: ByFile}

// checked checks a configuration and returns it with its defaults. The error
// tells every problem at once.
func (c Config) checked() (Config, error) {
	var found []error
	tell := func(what string, check func(*checker)) {
		var one checker
		check(&one)
		for _, p := range one.found.Problems {
			if what != "" {
				found = append(found, fmt.Errorf("%s: %s", what, p.inFile()))
				continue
			}
			found = append(found, errors.New(p.inFile()))
		}
	}
	c.Retention = store.Retention{
		Finished:    orDefault(c.Retention.Finished, DefaultFinished),
		DeadLetters: orDefault(c.Retention.DeadLetters, DefaultDeadLetters),
		Events:      orDefault(c.Retention.Events, DefaultEvents),
	}
	tell("retention", func(k *checker) {
		k.within("/finished", c.Retention.Finished, MinRetention, MaxRetention)
		k.within("/dead_letters", c.Retention.DeadLetters, MinRetention, MaxRetention)
		k.within("/events", c.Retention.Events, MinRetention, MaxRetention)
	})
	tell("", func(k *checker) { k.retry(c.Project) })
	queues := make(map[string]Queue, len(c.Queues))
	for _, name := range slices.Sorted(maps.Keys(c.Queues)) {
		queues[name] = c.Queues[name].orDefaults()
		tell(fmt.Sprintf("queue %q", name), func(k *checker) { k.queueName("", name); queues[name].check(k) })
	}
	endpoints := make(map[string]Endpoint, len(c.Endpoints))
	for _, name := range slices.Sorted(maps.Keys(c.Endpoints)) {
		endpoints[name] = c.Endpoints[name].orDefaults()
		tell(fmt.Sprintf("endpoint %q", name), func(k *checker) { k.theName(name); endpoints[name].check(k) })
	}
	tasks := make(map[lane.Task]Task, len(c.Tasks))
	for _, name := range slices.SortedFunc(maps.Keys(c.Tasks), compareTasks) {
		tasks[name] = c.Tasks[name].orDefaults()
		tell(fmt.Sprintf("task %q", taskName(name)), func(k *checker) { k.taskName(name); tasks[name].check(k) })
	}
	subs := make(map[string]Subscription, len(c.Subscriptions))
	for _, name := range slices.Sorted(maps.Keys(c.Subscriptions)) {
		subs[name] = c.Subscriptions[name]
		tell(fmt.Sprintf("subscription %q", name), func(k *checker) { subs[name].check(k, name) })
	}
	c.Queues, c.Endpoints, c.Tasks, c.Subscriptions = queues, endpoints, tasks, subs
	if len(found) > 0 {
		return c, fmt.Errorf("jobs: %w", errors.Join(found...))
	}
	return c, nil
}

// taskName is a task as people write it: name@version.
func taskName(t lane.Task) string {
	if t.Version == "" {
		return t.Name
	}
	return t.Name + "@" + t.Version
}

func compareTasks(a, b lane.Task) int {
	if c := compareVersions(a.Name, b.Name); c != 0 {
		return c
	}
	return compareVersions(a.Version, b.Version)
}

// theName tells what is wrong with the name of what is looked at.
func (c *checker) theName(name string) {
	if bad := job.BadName(name); bad != "" {
		c.add("", "the name %s", bad)
	}
}

func (c *checker) taskName(t lane.Task) {
	c.theName(t.Name)
	if bad := job.BadName(t.Version); bad != "" {
		c.add("", "the version %s", bad)
	}
}

// build makes the settings of a configuration that was checked and of what was
// said over the API.
func build(c Config, d definitions) *settings {
	s := &settings{
		project: c.Project, retention: c.Retention, latest: map[string]string{},
		queues:    make(map[string]*queue, len(c.Queues)+len(d.queues)),
		endpoints: make(map[string]*endpoint, len(c.Endpoints)+len(d.endpoints)),
		tasks:     make(map[lane.Task]*task, len(c.Tasks)+len(d.tasks)),
		leaving:   make(map[string]*queue, len(c.Leaving)),
		subs:      make(map[string]*subscription, len(c.Subscriptions)+len(d.subs)),
	}
	for name, q := range d.queues {
		s.queues[name] = s.queue(q.value, q.Managed)
	}
	for name, q := range c.Queues {
		s.queues[name] = s.queue(q, fromFile)
	}
	s.names = slices.Sorted(maps.Keys(s.queues))
	for name, e := range d.endpoints {
		s.endpoints[name] = &endpoint{e.value, e.Managed}
	}
	for name, e := range c.Endpoints {
		s.endpoints[name] = &endpoint{e, fromFile}
	}
	for name, t := range d.tasks {
		s.tasks[name] = newTask(t.value, t.Managed, t.created)
	}
	for name, t := range c.Tasks {
		s.tasks[name] = newTask(t, fromFile, time.Time{})
	}
	for name, t := range d.subs {
		s.subs[name] = &subscription{Subscription: t.value, Managed: t.Managed, name: name}
	}
	for name, t := range c.Subscriptions {
		s.subs[name] = &subscription{Subscription: t, Managed: fromFile, name: name}
	}
	for name, q := range c.Leaving {
		s.leaving[name] = s.queue(q.orDefaults(), fromFile)
	}
	s.relay = s.queue(relayQueue(), fromFile)
	s.events = s.queue(eventQueue(), fromFile)
	s.findLatest()
	return s
}

func newTask(t Task, m Managed, created time.Time) *task {
	return &task{Task: t, Managed: m, created: created, input: hashSchema(t.Input), output: hashSchema(t.Output)}
}

// findLatest finds the version of each task that was registered last: of those of
// the API the newest, unless the file names a greater one.
func (s *settings) findLatest() {
	made := map[string]time.Time{}
	for name, t := range s.tasks {
		if t.By != ByAPI {
			continue
		}
		was, there := s.latest[name.Name]
		if c := t.created.Compare(made[name.Name]); !there || c > 0 || c == 0 && laterVersion(name.Version, was) {
			s.latest[name.Name], made[name.Name] = name.Version, t.created
		}
	}
	for name, t := range s.tasks {
		if was, there := s.latest[name.Name]; t.By != ByAPI && (!there || laterVersion(name.Version, was)) {
			s.latest[name.Name] = name.Version
		}
	}
}

// laterVersion orders versions, also those that people take for one: 1 and 01.
func laterVersion(a, b string) bool {
	return cmp.Or(compareVersions(a, b), strings.Compare(a, b)) > 0
}

// compareVersions compares texts as people order them: numbers by their value.
func compareVersions(a, b string) int {
	for a != "" && b != "" {
		x, y := digits(a), digits(b)
		if x > 0 && y > 0 {
			m, n := trimZeros(a[:x]), trimZeros(b[:y])
			if len(m) != len(n) {
				return len(m) - len(n)
			}
			if m != n {
				if m < n {
					return -1
				}
				return 1
			}
			a, b = a[x:], b[y:]
			continue
		}
		if a[0] != b[0] {
			return int(a[0]) - int(b[0])
		}
		a, b = a[1:], b[1:]
	}
	return len(a) - len(b)
}

// digits is how many digits a text begins with.
func digits(s string) (n int) {
	for n < len(s) && s[n] >= '0' && s[n] <= '9' {
		n++
	}
	return n
}

func trimZeros(s string) string {
	for len(s) > 1 && s[0] == '0' {
		s = s[1:]
	}
	return s
}

// queue resolves what a job gets that says nothing itself.
func (s *settings) queue(q Queue, m Managed) *queue {
	return &queue{Queue: q, Managed: m, policy: s.policy(&queue{Queue: q}, nil, nil, job.Overlay{})}
}

// policy resolves the policy of a job in a queue, value by value. A nil task or
// endpoint says nothing.
func (s *settings) policy(q *queue, t *task, e *endpoint, own job.Overlay) job.Snapshot {
	said := append(make([]job.Said, 0, 5), job.Said{Level: job.LevelJob, Overlay: own})
	if t != nil {
		said = append(said, job.Said{Level: job.LevelTask, Overlay: t.Retry})
	}
	if e != nil {
		said = append(said, job.Said{Level: job.LevelEndpoint, Overlay: e.Retry})
	}
	said = append(said, job.Said{Level: job.LevelQueue, Overlay: q.Retry}, job.Said{Level: job.LevelProject, Overlay: s.project})
	snapshot := job.Resolve(said...)
	if t != nil {
		snapshot.Repeat, snapshot.Input, snapshot.Output = t.Repeat, t.input, t.output
		if t.Repeat == job.RepeatSafe {
			snapshot.Repeat = "" // as for a task without a contract: one policy for both
		}
	}
	return snapshot
}

// limits are the numbers of every gate.
func (s *settings) limits() map[lane.Gate]store.Limits {
	all := map[lane.Gate]store.Limits{}
	for name, q := range s.queues {
		if q.Concurrency > 0 {
			all[lane.Gate{Kind: lane.QueueGate, Name: name}] = store.Limits{Concurrency: q.Concurrency}
		}
	}
	for name, e := range s.endpoints {
		all[lane.Gate{Kind: lane.EndpointGate, Name: name}] = store.Limits{Concurrency: e.Concurrency, Rate: e.Rate, Circuit: e.Circuit}
	}
	return all
}

// find returns a queue that producers and workers may name, or a text that says
// what is wrong. It proposes no queue that the key is not for.
func (s *settings) find(name string, by Principal) (*queue, string) {
	if q, ok := s.queues[name]; ok {
		return q, ""
	}
	if bad := job.BadName(name); bad != "" {
		return nil, bad
	}
	if job.OfRelay(name) {
		return nil, `can't begin with "` + job.RelayPrefix + `"; such queues are the relay's own`
	}
	text := fmt.Sprintf("unknown queue %q", name)
	if len(s.names) == 0 {
		return nil, text + "; no queue is configured, jobs.queues names them"
	}
	seen := s.names
	if len(by.Queues) > 0 {
		seen = slices.DeleteFunc(slices.Clone(seen), func(name string) bool { return !by.Sees(name) })
	}
	if near := nearest.To(name, seen); near != "" {
		text += fmt.Sprintf("; did you mean %q?", near)
	}
	return nil, text
}

// orDefault returns def where nothing was said.
func orDefault(d, def time.Duration) time.Duration {
	if d == 0 {
		return def
	}
	return d
}
