package config

import (
	"maps"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/setting"
)

// Endpoint is the settings of an outside service that jobs call.
type Endpoint struct {
	Retry job.Overlay
	// Rate bounds its claims; nil is none.
	Rate        *limit.Rate
	Concurrency int // attempts at once; 0 is any number
	Circuit     circuit.Settings
}

// Task is the contract of one version of a task.
type Task struct {
	Endpoint string // "" for none
	Retry    job.Overlay
	Timeout  time.Duration // 0 is the queue's
	Repeat   job.Repeat
	// Input and Output are the texts of the JSON Schemas of payloads and results;
	// nil for none. They are what the files held when the configuration was read.
	Input, Output []byte
}

// The bounds of endpoints and tasks; the job server's own are the same.
const (
	// MaxConcurrency is how many attempts a queue or an endpoint may be said to run
	// at once.
	MaxConcurrency = 100_000
	// MaxContracts bounds the endpoints, and the tasks.
	MaxContracts = 10_000
	// MaxContractSchema is how many bytes a schema of a contract may have.
	MaxContractSchema = 64 << 10
)

type writtenJobEndpoint struct {
	Concurrency *int               `yaml:"concurrency" doc:"how many attempts may run at once, 1 to 100000; any number unless said"`
	Rate        *writtenJobRate    `yaml:"rate" doc:"how fast its jobs are handed out; as fast as they are asked for unless said"`
	Circuit     writtenJobsCircuit `yaml:"circuit" doc:"when it is left alone"`
	Retry       writtenJobRetry    `yaml:"retry" doc:"how its jobs are retried; what is not said is the queue's"`
}

type writtenJobRate struct {
	PerSecond *float64 `yaml:"per_second" doc:"jobs a second, 0.01 to 100000"`
	Burst     *int     `yaml:"burst" doc:"how many may go at once after a rest; a second's worth unless said"`
}

type writtenJobsCircuit struct {
	Failures *int              `yaml:"failures" default:"5" doc:"how many in a row open it; 1 to 1000"`
	Cooldown *setting.Duration `yaml:"cooldown" default:"60s" doc:"how long it stays open before one job may find out; 1s to 24h"`
}

type writtenTask struct {
	Endpoint     string            `yaml:"endpoint" secret:"never" doc:"the outside service that it calls; one that is not among the endpoints has their defaults"`
	Timeout      *setting.Duration `yaml:"timeout" doc:"how long an attempt may take, 1s to 24h; as its queue says unless said"`
	Repeat       job.Repeat        `yaml:"repeat" enum:"safe,unsafe" default:"safe" doc:"unsafe: an attempt whose effect is not known is not repeated by itself"`
	InputSchema  string            `yaml:"input_schema" path:"read" secret:"never" doc:"a JSON Schema 2020-12 file, up to 64 KiB; a payload that does not fit is refused when its job is created"`
	OutputSchema string            `yaml:"output_schema" path:"read" secret:"never" doc:"a JSON Schema 2020-12 file, up to 64 KiB; a result that does not fit makes its job a dead letter"`
	Retry        writtenJobRetry   `yaml:"retry" doc:"how its jobs are retried; what is not said is the endpoint's"`
}

func buildEndpoints(all map[string]writtenJobEndpoint) map[string]Endpoint {
	built := make(map[string]Endpoint, len(all))
	for name, w := range all {
		def := circuit.Defaults()
		e := Endpoint{Retry: w.Retry.overlay(), Concurrency: said(w.Concurrency, 0), Circuit: circuit.Settings{
			Failures: said(w.Circuit.Failures, def.Failures), Cooldown: said(w.Circuit.Cooldown, setting.Duration(def.Cooldown)).D(),
		}}
		if w.Rate != nil && w.Rate.PerSecond != nil {
			r := w.Rate.rate()
			e.Rate = &r
		}
		built[name] = e
	}
	return built
}

// rate is what is said of it, out of bounds too.
func (w *writtenJobRate) rate() limit.Rate {
	perSecond := said(w.PerSecond, limit.MinPerSecond)
	r := limit.NewRate(perSecond)
	r.PerSecond, r.Burst = perSecond, said(w.Burst, r.Burst)
	return r
}

// buildTasks makes the contracts and reads their schemas.
func (l *loader) buildTasks(o origin, all map[string]writtenTask) map[lane.Task]Task {
	list := child(o.node, "tasks")
	built := make(map[lane.Task]Task, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w, at := all[name], origin{o.file, child(list, name)}
		t := Task{Endpoint: w.Endpoint, Retry: w.Retry.overlay(), Timeout: said(w.Timeout, 0).D(), Repeat: w.Repeat}
		if t.Repeat == "" {
			t.Repeat = job.RepeatSafe
		}
		t.Input = l.contractSchema(at, "input_schema", w.InputSchema)
		t.Output = l.contractSchema(at, "output_schema", w.OutputSchema)
		task, version, _ := strings.Cut(name, "@")
		built[lane.Task{Name: task, Version: version}] = t
	}
	return built
}

// contractSchema reads and checks a schema; nil for none, or none that is right.
func (l *loader) contractSchema(o origin, key, file string) []byte {
	n := find(o.node, key)
	if file == "" || l.spoiled(o.file, n) {
		return nil
	}
	text, err := setting.ReadFile(file, MaxContractSchema)
	if err == nil && l.opts.CheckContract != nil {
		err = l.opts.CheckContract(text)
	}
	if err != nil {
		l.errorf(o.file, n, "%s: %v", key, err)
		return nil
	}
	return text
}

// checkContracts bounds how many there are of what.
func (l *loader) checkContracts(list origin, what string, n int) {
	if n > MaxContracts {
		l.errorf(list.file, list.node, "more than %d %s", MaxContracts, what)
	}
}

func (l *loader) checkEndpoints(list origin, all map[string]writtenJobEndpoint) {
	l.checkContracts(list, "endpoints", len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w, o := all[name], origin{list.file, child(list.node, name)}
		l.checkJobName(list.file, keyNode(list.node, name), "an endpoint", name)
		l.checkConcurrency(o, w.Concurrency)
		l.checkJobRate(o, w.Rate)
		if n := w.Circuit.Failures; n != nil && (*n < 1 || *n > circuit.MaxFailures) {
			l.errorf(o.file, find(o.node, "circuit.failures"), "circuit.failures must be from 1 to %d, not %d", circuit.MaxFailures, *n)
		}
		l.checkSpan(o, "circuit.cooldown", w.Circuit.Cooldown, circuit.MaxCooldown)
		l.checkJobRetry(o.file, child(o.node, "retry"), &w.Retry)
	}
}

// checkJobRate wants a rate where a limit is asked for, within its bounds.
func (l *loader) checkJobRate(o origin, w *writtenJobRate) {
	if w == nil || find(o.node, "rate").Kind != yaml.MappingNode { // reported as no mapping
		return
	}
	if w.PerSecond == nil {
		if n := find(o.node, "rate"); find(o.node, "rate.per_second") == n { // else it was reported as no number
			l.errorf(o.file, n, "rate has no per_second")
		}
		return
	}
	for _, p := range w.rate().Check() {
		l.errorf(o.file, find(o.node, "rate."+p.Field), "rate.%s: %s", p.Field, p.Message)
	}
}

func (l *loader) checkTasks(list origin, all map[string]writtenTask) {
	l.checkContracts(list, "tasks", len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		w, o, key := all[name], origin{list.file, child(list.node, name)}, keyNode(list.node, name)
		task, version, at := strings.Cut(name, "@")
		if !at || job.BadName(task) != "" || job.BadName(version) != "" {
			l.errorf(list.file, key, "bad name %q of a task; write name@version, such as welcome@1, each 1 to %d letters, digits, . _ : and -", name, job.MaxName)
		}
		if w.Endpoint != "" {
			l.checkJobName(o.file, find(o.node, "endpoint"), "an endpoint", w.Endpoint)
		}
		l.checkSpan(o, "timeout", w.Timeout, MaxJobTimeout)
		l.checkJobRetry(o.file, child(o.node, "retry"), &w.Retry)
	}
}

// checkJobName holds a name to what the job server takes.
func (l *loader) checkJobName(f *file, n *yaml.Node, of, name string) {
	if job.BadName(name) != "" {
		l.errorf(f, n, "bad name %q of %s; use 1 to %d letters, digits, . _ : and -", name, of, job.MaxName)
	}
}

// checkSpan looks at a span of the job server: all of them are a second at least.
func (l *loader) checkSpan(o origin, key string, d *setting.Duration, most time.Duration) {
	const least = MinLease
	if d != nil && (d.D() < least || d.D() > most) {
		l.errorf(o.file, find(o.node, key), "%s must be from %s to %s, not %s", key, setting.Duration(least), setting.Duration(most), *d)
	}
}

func (l *loader) checkConcurrency(o origin, n *int) {
	if n != nil && (*n < 1 || *n > MaxConcurrency) {
		l.errorf(o.file, find(o.node, "concurrency"), "concurrency must be from 1 to %d, not %d", MaxConcurrency, *n)
	}
}
