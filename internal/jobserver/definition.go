package jobserver

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/limit"
)

// The bounds of definitions.
const (
	// MaxConcurrency is how many attempts a queue or an endpoint may be said to
	// run at once.
	MaxConcurrency = 100_000
	// MaxSchema is how many bytes a JSON Schema of a contract may have.
	MaxSchema = 64 << 10
)

// Queue is a queue's settings. Zero fields are defaults.
type Queue struct {
	Lease   time.Duration // MinLease to MaxLease
	Timeout time.Duration // MinTimeout to MaxTimeout
	// Concurrency is how many attempts run at once: up to MaxConcurrency; 0 is any
	// number.
	Concurrency int
	Retry       job.Overlay
}

// orDefaults fills in what is not said.
func (q Queue) orDefaults() Queue {
	q.Lease, q.Timeout = orDefault(q.Lease, DefaultLease), orDefault(q.Timeout, DefaultTimeout)
	return q
}

// Endpoint is the settings of an outside service. Zero fields are defaults.
type Endpoint struct {
	Retry job.Overlay
	// Rate bounds its claims; nil is none. A burst of 0 is a second's worth.
	Rate        *limit.Rate
	Concurrency int // as a queue's
	// Circuit is when its circuit opens; nil, and each zero field, is
	// circuit.Defaults.
	Circuit *circuit.Settings
}

// orDefaults fills in what is not said.
func (e Endpoint) orDefaults() Endpoint {
	if r := e.Rate; r != nil && r.Burst == 0 {
		e.Rate = new(limit.NewRate(r.PerSecond))
		e.Rate.PerSecond = r.PerSecond
	}
	def := circuit.Defaults()
	if c := e.Circuit; c != nil {
		def = circuit.Settings{Failures: c.Failures, Cooldown: orDefault(c.Cooldown, def.Cooldown)}
		if c.Failures == 0 {
			def.Failures = circuit.Defaults().Failures
		}
	}
	e.Circuit = &def
	return e
}

// Task is the contract of one version of a task. Zero fields were not said.
type Task struct {
	Retry    job.Overlay
	Timeout  time.Duration // MinTimeout to MaxTimeout; 0 is the queue's
	Endpoint string        // "" for none
	Repeat   job.Repeat    // "" is job.RepeatSafe
	// Input and Output are JSON Schemas, 2020-12 unless they say otherwise, of
	// payloads and of results: up to MaxSchema bytes; nil for none.
	Input, Output []byte
}

// orDefaults fills in what is not said.
func (t Task) orDefaults() Task {
	if t.Repeat == "" {
		t.Repeat = job.RepeatSafe
	}
	return t
}

// check tells what is wrong with a queue whose defaults are filled in.
func (q Queue) check(c *checker) {
	c.within("/lease", q.Lease, MinLease, MaxLease)
	c.within("/timeout", q.Timeout, MinTimeout, MaxTimeout)
	c.concurrency(q.Concurrency)
	c.retry(q.Retry)
}

func (e Endpoint) check(c *checker) {
	c.concurrency(e.Concurrency)
	if e.Rate != nil {
		for _, p := range e.Rate.Check() {
			c.add("/rate/"+p.Field, "%s", p.Message)
		}
	}
	if n := e.Circuit.Failures; n < 1 || n > circuit.MaxFailures {
		c.add("/circuit/failures", "must be from 1 to %d, not %d", circuit.MaxFailures, n)
	}
	c.within("/circuit/cooldown", e.Circuit.Cooldown, circuit.MinCooldown, circuit.MaxCooldown)
	c.retry(e.Retry)
}

func (t Task) check(c *checker) {
	if t.Timeout != 0 {
		c.within("/timeout", t.Timeout, MinTimeout, MaxTimeout)
	}
	if t.Endpoint != "" {
		c.name("/endpoint", t.Endpoint)
	}
	if t.Repeat != job.RepeatSafe && t.Repeat != job.RepeatUnsafe {
		c.add("/repeat", "must be %s or %s, not %q", job.RepeatSafe, job.RepeatUnsafe, t.Repeat)
	}
	c.retry(t.Retry)
	for _, s := range []struct {
		pointer string
		text    []byte
	}{{"/input_schema", t.Input}, {"/output_schema", t.Output}} {
		switch {
		case s.text == nil:
		case len(s.text) > MaxSchema:
			c.add(s.pointer, "has %d bytes; at most %d are allowed", len(s.text), MaxSchema)
		default:
			if _, err := compileSchema(s.text); err != nil {
				c.add(s.pointer, "%v", err)
			}
		}
	}
}

// queueName tells what is wrong with the name of a queue to define.
func (c *checker) queueName(pointer, name string) {
	if bad := job.BadName(name); bad != "" {
		c.add(pointer, "the name %s", bad)
	} else if job.OfRelay(name) {
		c.add(pointer, "names that begin with %s are the relay's own", job.RelayPrefix)
	}
}

func (c *checker) within(pointer string, d, least, most time.Duration) {
	if d < least || d > most {
		c.add(pointer, "must be from %s to %s, not %s", duration.Text(least), duration.Text(most), duration.Text(d))
	}
}

func (c *checker) concurrency(n int) {
	if n < 0 || n > MaxConcurrency {
		c.add("/concurrency", "must be from 1 to %s, not %d", strconv.Itoa(MaxConcurrency), n)
	}
}

// inFile is a problem as the configuration tells it: "retry: factor must be …".
func (p Problem) inFile() string {
	if p.Pointer == "" {
		return p.Message
	}
	return strings.ReplaceAll(p.Pointer[1:], "/", ": ") + " " + p.Message
}

// differences names the members in which two contracts differ.
func (t Task) differences(other Task) (members []string) {
	add := func(differs bool, member string) {
		if differs {
			members = append(members, member)
		}
	}
	add(!sameOverlay(t.Retry, other.Retry), "retry")
	add(t.Timeout != other.Timeout, "timeout")
	add(t.Endpoint != other.Endpoint, "endpoint")
	add(t.Repeat != other.Repeat, "repeat")
	add(!sameSchema(t.Input, other.Input), "input_schema")
	add(!sameSchema(t.Output, other.Output), "output_schema")
	return members
}

func sameOverlay(a, b job.Overlay) bool {
	return same(a.MaxAttempts, b.MaxAttempts) && same(a.Initial, b.Initial) && same(a.Factor, b.Factor) &&
		same(a.MaxDelay, b.MaxDelay) && same(a.Jitter, b.Jitter)
}

func same[T comparable](a, b *T) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// sameSchema compares schemas as JSON values: spaces and the order of members
// do not matter.
func sameSchema(a, b []byte) bool {
	if (a == nil) != (b == nil) {
		return false
	}
	return bytes.Equal(canonical(a), canonical(b))
}

// member is a member of a contract as a message shows it.
func (t Task) member(name string) string {
	switch name {
	case "timeout":
		if t.Timeout == 0 {
			return "the queue's"
		}
		return duration.Text(t.Timeout)
	case "endpoint":
		return strconv.Quote(t.Endpoint)
	case "repeat":
		return string(t.Repeat)
	case "retry":
		return overlayText(t.Retry)
	case "input_schema":
		return schemaText(t.Input)
	default:
		return schemaText(t.Output)
	}
}

func schemaText(text []byte) string {
	if text == nil {
		return "none"
	}
	hash := hashSchema(text)
	return fmt.Sprintf("the schema %x…", hash[:6])
}

func overlayText(o job.Overlay) string {
	var said []string
	add := func(name string, v any) { said = append(said, fmt.Sprintf("%s %v", name, v)) }
	if o.MaxAttempts != nil {
		add(job.FieldMaxAttempts, *o.MaxAttempts)
	}
	if o.Initial != nil {
		add(job.FieldInitial, duration.Text(*o.Initial))
	}
	if o.Factor != nil {
		add(job.FieldFactor, *o.Factor)
	}
	if o.MaxDelay != nil {
		add(job.FieldMaxDelay, duration.Text(*o.MaxDelay))
	}
	if o.Jitter != nil {
		add(job.FieldJitter, *o.Jitter)
	}
	if len(said) == 0 {
		return "nothing"
	}
	return "(" + strings.Join(said, ", ") + ")"
}
