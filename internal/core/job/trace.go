package job

import "strings"

// Trace is the W3C trace context of a job: a traceparent and, behind a space, its
// tracestate where there is one; "" for none. It is kept with the job, so what its
// attempts are part of outlives the server.
type Trace string

// MaxTraceState is the longest tracestate that is kept, in bytes: what the standard
// asks everybody to pass on at least.
const MaxTraceState = 512

// ParseTrace returns the trace context of two headers. One that is none is left
// out, as the standard wants it, and so is a tracestate without a traceparent.
func ParseTrace(parent, state string) Trace {
	if !isTraceparent(parent) {
		return ""
	}
	if state == "" || len(state) > MaxTraceState || strings.ContainsFunc(state, func(r rune) bool { return r < ' ' || r > '~' }) {
		return Trace(parent)
	}
	return Trace(parent + " " + state)
}

// Parent is the traceparent, "" for none.
func (t Trace) Parent() string {
	parent, _, _ := strings.Cut(string(t), " ")
	return parent
}

// State is the tracestate, "" for none.
func (t Trace) State() string {
	_, state, _ := strings.Cut(string(t), " ")
	return state
}

// Sampled reports whether whoever began the trace records it.
func (t Trace) Sampled() bool {
	const last = traceparentLen - 1
	return len(t) > last && strings.IndexByte("13579bdf", t[last]) >= 0
}

// Where a traceparent has its parts: version-trace-span-flags.
const (
	traceparentLen        = 55
	traceAt, spanAt, flag = 3, 36, 53
)

// isTraceparent reports whether the text is one, in lower-case hex as the standard
// has it. Ids of zeros alone are none, and neither is the version ff.
func isTraceparent(s string) bool {
	if len(s) != traceparentLen || s[:2] == "ff" {
		return false
	}
	for i := range traceparentLen {
		c := s[i]
		if i == traceAt-1 || i == spanAt-1 || i == flag-1 {
			if c != '-' {
				return false
			}
		} else if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return strings.Trim(s[traceAt:spanAt-1], "0") != "" && strings.Trim(s[spanAt:flag-1], "0") != ""
}
