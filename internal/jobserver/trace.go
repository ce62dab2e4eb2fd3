package jobserver

import (
	"context"
	"strings"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

// Tracer follows jobs. What it is told of the end of an attempt comes from the
// store. It is safe for concurrent use.
type Tracer interface {
	// Create begins the span of a job that is about to be made, below its Trace, and
	// returns the trace context that the job keeps. end is called once.
	Create(n *store.NewJob) (kept job.Trace, end func(store.Created, error))
	// Attempt returns the trace context that the worker of an attempt goes on from;
	// of one attempt always the same.
	Attempt(j *job.Job) job.Trace
}

// traceNew begins the spans of jobs that are about to be made; the function that
// it returns ends them.
func (s *Server) traceNew(asked []store.NewJob) func([]store.Created, error) {
	if s.trace == nil {
		return traceNone
	}
	ends := make([]func(store.Created, error), len(asked))
	for i := range asked {
		asked[i].Trace, ends[i] = s.trace.Create(&asked[i])
	}
	return func(made []store.Created, err error) {
		for i, end := range ends {
			var one store.Created
			if err == nil {
				one = made[i]
			}
			end(one, err)
		}
	}
}

func traceNone([]store.Created, error) {}

// traceOf returns the trace context that a message goes into a queue with: of the
// attempt that puts it there, else what it came with.
func traceOf(ctx context.Context, m *message.Message) job.Trace {
	if own := connector.TraceOf(ctx); own.Parent != "" {
		return job.ParseTrace(own.Parent, own.State)
	}
	if v := m.Headers["traceparent"]; len(v) == 1 {
		return job.ParseTrace(v[0], strings.Join(m.Headers["tracestate"], ","))
	}
	return ""
}

// putTrace gives a message the trace context of its job, in place of the one that
// it came with: it was in a queue since.
func putTrace(m *message.Message, t job.Trace) {
	if t == "" {
		return
	}
	if m.Headers == nil {
		m.Headers = map[string][]string{}
	}
	m.Headers["traceparent"] = []string{t.Parent()}
	delete(m.Headers, "tracestate")
	if state := t.State(); state != "" {
		m.Headers["tracestate"] = []string{state}
	}
}
