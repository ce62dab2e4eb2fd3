package config

import (
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/setting"
)

// Jobs is what the job server works with.
type Jobs struct {
	// Listen is the host:port of the API of producers and workers. It is
	// http.listen where the two share it.
	Listen string
	TLS    *setting.ServerTLS // nil for plain HTTP
	// File is the SQLite store, as a path that works from the working folder.
	File string
	// NetworkFilesystem says whether File may stand on one.
	NetworkFilesystem NetworkFilesystem
	// KeepFinished and KeepDeadLetters are how long jobs that ended are kept.
	KeepFinished, KeepDeadLetters time.Duration
	// KeepEvents is how long events can be read.
	KeepEvents time.Duration
	// Retry is the project's level of every job's policy.
	Retry     job.Overlay
	Queues    map[string]Queue
	Endpoints map[string]Endpoint
	Tasks     map[lane.Task]Task
	// Subscriptions send events to destinations of the relay.
	Subscriptions []Subscription
	// PrivateWebhooks says whether webhooks that are subscribed over the API may
	// be at addresses that are not on the public internet.
	PrivateWebhooks PrivateWebhooks
	// AdminKey is a key with scope admin that is good from the start: the
	// secret PAWL_ADMIN_KEY. Empty for none.
	AdminKey setting.Secret
	At       Place
}

// AdminKeyName is the secret that is Jobs.AdminKey. It is looked for where
// {{secrets.NAME}} looks.
const AdminKeyName = "PAWL_ADMIN_KEY"

// minAdminKey is the shortest admin key, in bytes after pawl_: what `openssl
// rand -hex 16` prints. It opens everything, and is good for ever.
const minAdminKey = 32

// Shares reports whether the API is served by the admin listener.
func (j *Jobs) Shares(h HTTP) bool { return j.Listen == h.Listen }

// Local reports whether only this machine reaches the API.
func (j *Jobs) Local() bool { return localAddress(j.Listen) }

// NetworkFilesystem says whether the store may be on a network file system,
// whose locks and flushes may not be what SQLite needs them to be.
type NetworkFilesystem string

// The answers.
const (
	NetworkFilesystemRefused NetworkFilesystem = "refused"
	NetworkFilesystemAllowed NetworkFilesystem = "allowed"
)

// Queue is a queue's settings.
type Queue struct {
	// Lease is how long a worker may be silent.
	Lease time.Duration
	// Timeout bounds an attempt.
	Timeout time.Duration
	// Concurrency is how many attempts run at once; 0 is any number.
	Concurrency int
	Retry       job.Overlay
}

// The bounds of a queue's settings and of retention; the job server's own are
// the same.
const (
	MinLease, DefaultLease, MaxLease                = time.Second, 30 * time.Second, time.Hour
	MinJobTimeout, DefaultJobTimeout, MaxJobTimeout = time.Second, 5 * time.Minute, 24 * time.Hour
	// MinKeep is how long idempotency keys are good for at least, and they live
	// as long as their jobs.
	MinKeep = 24 * time.Hour
	// MaxKeep is ten years: what must be kept for longer belongs in an archive.
	MaxKeep = 3650 * 24 * time.Hour
	// DefaultKeepDeadLetters leaves a month to find out and to repair,
	// DefaultKeepFinished a week to look back at what went well.
	DefaultKeepDeadLetters = 30 * 24 * time.Hour
	DefaultKeepFinished    = 7 * 24 * time.Hour
	// DefaultKeepEvents leaves a reader that was away a week to come back.
	DefaultKeepEvents = 7 * 24 * time.Hour
	// MaxQueues bounds the queues: each is a label of metrics.
	MaxQueues = 1000
)

// RelayQueue is the name of the queue that the relay makes for a source with
// ack: stored. Names that begin like it are not the configuration's to give.
func RelayQueue(source string) string { return job.RelayPrefix + source }

// RelayAttempts is how many attempts a job of such a queue has, whatever the
// configuration says of other queues.
const RelayAttempts = job.MaxAttempts

// The words of jobs.store.
const (
	storeSQLite   = "sqlite"
	storePostgres = "postgres"
)

type writtenJobs struct {
	Listen          string                        `yaml:"listen" secret:"never" default:"http.listen" doc:"host:port of the API of producers and workers; it shares http.listen unless set"`
	TLS             *setting.ServerTLS            `yaml:"tls" doc:"files that make jobs.listen speak TLS; where http.listen is shared, http.tls counts"`
	Store           string                        `yaml:"store" default:"sqlite" doc:"where jobs are kept: sqlite is the file pawl.db in the state folder, sqlite:PATH another file"`
	NetworkFS       bool                          `yaml:"allow_network_filesystem" default:"false" doc:"let the store be on a network file system, whose locks and flushes may lose jobs"`
	Retention       writtenRetention              `yaml:"retention" doc:"how long jobs that ended are kept, with their attempts, logs and idempotency keys; 24h to 3650d"`
	Retry           writtenJobRetry               `yaml:"retry" doc:"how jobs are retried, unless their queue or they themselves say otherwise"`
	Queues          map[string]writtenQueue       `yaml:"queues" doc:"the queues by name: letters, digits and . _ : - , not beginning with relay:"`
	Endpoints       map[string]writtenJobEndpoint `yaml:"endpoints" doc:"the outside services that jobs call, by name; one that is not here is made when a job names it"`
	Tasks           map[string]writtenTask        `yaml:"tasks" doc:"the contracts of tasks, by name@version; a task that is not here has none, and needs none"`
	Subscriptions   []writtenSubscription         `yaml:"subscriptions" doc:"which events go to which destinations"`
	PrivateWebhooks bool                          `yaml:"allow_private_webhooks" default:"false" doc:"let webhooks that are subscribed over the API be at private, loopback and link-local addresses"`
}

type writtenRetention struct {
	DeadLetters setting.Duration `yaml:"dead_letters" default:"30d" doc:"jobs that failed for good"`
	Finished    setting.Duration `yaml:"finished" default:"7d" doc:"jobs that succeeded or were cancelled"`
	Events      setting.Duration `yaml:"events" default:"7d" doc:"events, for who reads them late"`
}

type writtenQueue struct {
	Lease       *setting.Duration `yaml:"lease" default:"30s" doc:"how long a worker may be silent before its job goes to another; 1s to 1h"`
	Timeout     *setting.Duration `yaml:"timeout" default:"5m" doc:"how long an attempt may take; 1s to 24h"`
	Concurrency *int              `yaml:"concurrency" doc:"how many attempts may run at once, 1 to 100000; any number unless said"`
	Retry       writtenJobRetry   `yaml:"retry" doc:"how its jobs are retried; what is not said is jobs.retry's"`
}

// writtenJobRetry is one level of a job's policy. nil says nothing.
type writtenJobRetry struct {
	MaxAttempts *int              `yaml:"max_attempts" default:"8" doc:"attempts, the first included; 1 is no retry, 50 the most"`
	Initial     *setting.Duration `yaml:"initial" default:"10s" doc:"the wait before the first retry; 0s to 24h"`
	Factor      *float64          `yaml:"factor" default:"2" doc:"how much longer each next wait is; 1 to 100"`
	MaxDelay    *setting.Duration `yaml:"max_delay" default:"1h" doc:"the longest wait; up to 30d"`
	Jitter      *setting.Ratio    `yaml:"jitter" default:"0.25" doc:"the share by which a wait is spread up and down; 0 to 1"`
}

func (w *writtenJobRetry) overlay() job.Overlay {
	o := job.Overlay{MaxAttempts: w.MaxAttempts, Initial: span(w.Initial), Factor: w.Factor, MaxDelay: span(w.MaxDelay)}
	if w.Jitter != nil {
		o.Jitter = new(float64(*w.Jitter))
	}
	return o
}

// hasJobs reports whether the job server is on.
func (l *loader) hasJobs() bool {
	_, said := l.said["jobs"]
	return said
}

// jobsShare reports whether the job API is served by the admin listener.
func (l *loader) jobsShare() bool {
	at := l.written.Jobs.Listen
	return l.hasJobs() && (at == "" || at == l.written.HTTP.Listen)
}

// storeIn is where the store is in a state folder, unless told.
func storeIn(state string) string { return filepath.Join(state, "pawl.db") }

// storeFile returns what jobs.store says of a file; "" for the default one.
func storeFile(store string) string {
	file, _ := strings.CutPrefix(store, storeSQLite+":")
	if file == store {
		return ""
	}
	return file
}

func (l *loader) buildJobs(state string) *Jobs {
	o, on := l.said["jobs"]
	if !on {
		return nil
	}
	w := &l.written.Jobs
	j := &Jobs{
		Listen: w.Listen, TLS: w.TLS, File: o.file.resolve(storeFile(w.Store)), NetworkFilesystem: NetworkFilesystemRefused,
		KeepFinished: w.Retention.Finished.D(), KeepDeadLetters: w.Retention.DeadLetters.D(), KeepEvents: w.Retention.Events.D(),
		Retry: w.Retry.overlay(), Queues: map[string]Queue{}, Endpoints: buildEndpoints(w.Endpoints), Tasks: l.buildTasks(o, w.Tasks),
		Subscriptions: buildSubscriptions(w.Subscriptions), PrivateWebhooks: PrivateWebhooksRefused, At: o.at(),
	}
	if w.PrivateWebhooks {
		j.PrivateWebhooks = PrivateWebhooksAllowed
	}
	if j.File == "" {
		j.File = storeIn(state)
	}
	if w.NetworkFS {
		j.NetworkFilesystem = NetworkFilesystemAllowed
	}
	j.AdminKey = l.adminKey
	if l.jobsShare() {
		j.Listen, j.TLS = l.written.HTTP.Listen, l.written.HTTP.TLS
	}
	for name, q := range w.Queues {
		built := Queue{Lease: DefaultLease, Timeout: DefaultJobTimeout, Concurrency: said(q.Concurrency, 0), Retry: q.Retry.overlay()}
		if q.Lease != nil {
			built.Lease = q.Lease.D()
		}
		if q.Timeout != nil {
			built.Timeout = q.Timeout.D()
		}
		j.Queues[name] = built
	}
	return j
}

// findAdminKey looks for the secret that is an admin key. It may be missing.
func (l *loader) findAdminKey() {
	o, said := l.said["jobs"]
	if !said {
		return
	}
	value, err := l.secret(AdminKeyName)
	if _, missing := errors.AsType[missingSecret](err); missing {
		return
	}
	if err != nil {
		l.errorf(o.file, o.node, "%v", err)
		return
	}
	// What is too short to be a key may be a word: redacted, it would be torn out
	// of what is said about it.
	if len(value) >= minAdminKey {
		l.secrets.add(value)
	}
	rest, ok := strings.CutPrefix(value, "pawl_")
	if !ok || len(rest) < minAdminKey || strings.Trim(rest, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
		l.errorf(o.file, o.node, "the secret %s must be pawl_ and at least %d letters, digits, _ or -; make one with `echo pawl_$(openssl rand -hex 32)`",
			AdminKeyName, minAdminKey)
		return
	}
	l.adminKey = setting.NewSecret(value)
}

// checkJobs looks at the job server's part.
func (l *loader) checkJobs() {
	o, said := l.said["jobs"]
	if !said {
		return
	}
	w := &l.written.Jobs
	l.checkJobsAddress(o, w)
	l.checkStore(o, w.Store)
	keep := func(key string, d setting.Duration) {
		if d.D() < MinKeep || d.D() > MaxKeep {
			l.errorf(o.file, find(o.node, "retention."+key), "retention.%s must be from %s (idempotency keys are good for that long) to %s, not %s",
				key, setting.Duration(MinKeep), setting.Duration(MaxKeep), d)
		}
	}
	keep("dead_letters", w.Retention.DeadLetters)
	keep("finished", w.Retention.Finished)
	keep("events", w.Retention.Events)
	l.checkJobRetry(o.file, child(o.node, "retry"), &w.Retry)
	list := child(o.node, "queues")
	if len(w.Queues) > MaxQueues {
		l.errorf(o.file, list, "more than %d queues", MaxQueues)
	}
	for _, name := range slices.Sorted(maps.Keys(w.Queues)) {
		q := w.Queues[name]
		l.checkQueue(origin{o.file, child(list, name)}, keyNode(list, name), name, &q)
	}
	l.checkEndpoints(origin{o.file, child(o.node, "endpoints")}, w.Endpoints)
	l.checkTasks(origin{o.file, child(o.node, "tasks")}, w.Tasks)
	l.checkSubscriptions(origin{o.file, child(o.node, "subscriptions")}, w.Subscriptions)
}

// checkJobsAddress looks at where the job API listens.
func (l *loader) checkJobsAddress(o origin, w *writtenJobs) {
	at, tls, address := find(o.node, "listen"), find(o.node, "tls"), w.Listen
	if o.node.Kind != yaml.MappingNode {
		at, tls = o.node, o.node
	}
	l.checkTLS(o.file, tls, w.TLS)
	secure := w.TLS != nil
	if l.jobsShare() {
		if w.TLS != nil {
			l.errorf(o.file, tls, "jobs.tls is for jobs.listen, which is not set: the job API is served on http.listen, with http.tls")
		}
		if address = l.written.HTTP.Listen; address == "off" {
			l.errorf(o.file, at, "the job API has no address: http.listen is off; set jobs.listen, such as 127.0.0.1:7078")
			return
		}
		secure = l.written.HTTP.TLS != nil
	} else if _, _, err := splitAddress(address); err != nil {
		l.errorf(o.file, at, "jobs.listen: %v", err)
		return
	}
	if !secure && !localAddress(address) {
		key := "jobs.tls"
		if l.jobsShare() {
			key = "http.tls"
		}
		l.warnf(o.file, at, "the API keys travel to %s in plain text; set %s", address, key)
	}
}

// checkStore holds jobs.store to what this build can open. No message quotes
// it: the URL of a database holds a password.
func (l *loader) checkStore(o origin, store string) {
	n := find(o.node, "store")
	kind, file, named := strings.Cut(store, ":")
	switch {
	case l.spoiled(o.file, n):
	case kind == storePostgres || kind == "postgresql":
		l.errorf(o.file, n, "jobs.store: this build keeps jobs in SQLite only; write sqlite, or sqlite:PATH")
	case kind != storeSQLite:
		l.errorf(o.file, n, "jobs.store must be sqlite or sqlite:PATH")
	case named && (file == "" || strings.HasPrefix(file, ":") || strings.HasPrefix(file, "file:") || strings.ContainsRune(file, 0)):
		l.errorf(o.file, n, "jobs.store: sqlite: takes the name of a file, such as sqlite:/var/lib/pawl/jobs.db")
	}
}

func (l *loader) checkQueue(o origin, key *yaml.Node, name string, q *writtenQueue) {
	switch {
	case job.OfRelay(name):
		l.errorf(o.file, key, "the queue %q: names that begin with %s are for the relay's own queues", name, job.RelayPrefix)
	case job.BadName(name) != "":
		l.errorf(o.file, key, "bad name %q of a queue; use 1 to %d letters, digits, . _ : and -", name, job.MaxName)
	}
	l.checkSpan(o, "lease", q.Lease, MaxLease)
	l.checkSpan(o, "timeout", q.Timeout, MaxJobTimeout)
	l.checkConcurrency(o, q.Concurrency)
	l.checkJobRetry(o.file, child(o.node, "retry"), &q.Retry)
}

// checkJobRetry reports what is wrong with one level of a job's policy; n is
// its mapping.
func (l *loader) checkJobRetry(f *file, n *yaml.Node, w *writtenJobRetry) {
	for _, p := range w.overlay().Check() {
		at := find(n, p.Field)
		if !l.spoiled(f, at) {
			l.errorf(f, at, "retry.%s: %s", p.Field, p.Message)
		}
	}
}

// checkAck looks at when a source's senders are answered.
func (l *loader) checkAck(s *sourceEntry) {
	if s.Ack != AckStored {
		return
	}
	n := find(s.node, "ack")
	switch {
	case s.kind.Pauses:
		l.errorf(s.file, n, "ack: stored is for sources that listen; this one can wait, and nothing of it is lost meanwhile: leave ack out")
	case !l.hasJobs():
		l.errorf(s.file, n, "ack: stored keeps messages in a durable queue; add `jobs: {}` at the top level")
	}
}
