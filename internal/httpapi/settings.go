package httpapi

import (
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
)

// The members of what is said of a queue, a task and an endpoint.
var (
	queueMembers    = []string{"lease", "timeout", "concurrency", "retry"}
	taskMembers     = []string{"endpoint", "timeout", "repeat", "retry", "input_schema", "output_schema", "update"}
	endpointMembers = []string{"concurrency", "rate", "circuit", "retry"}
	rateMembers     = []string{"per_second", "burst"}
	circuitMembers  = []string{"failures", "cooldown"}
)

// length reads a length of time where none would be the default.
func length(r *wirejson.Reader) time.Duration {
	d := r.Duration()
	if d == nil {
		return 0
	}
	if *d == 0 {
		r.Wrong("must not be 0s; leave it out for the default")
	}
	return *d
}

// oneOf reads a text that is one of a few words.
func oneOf[T ~string](r *wirejson.Reader, words ...T) T {
	before := r.Problems()
	t := T(r.Text())
	if slices.Contains(words, t) || r.Problems() > before {
		return t
	}
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	if near := nearest.To(string(t), texts); near != "" {
		r.Wrong("unknown; did you mean %q?", near)
	} else {
		r.Wrong("unknown; known are %s", strings.Join(texts, ", "))
	}
	return t
}

// readQueue reads what is said of a queue.
func readQueue(r *wirejson.Reader) (s jobserver.Queue) {
	r.Object(queueMembers, func(member string) {
		switch member {
		case "lease":
			s.Lease = length(r)
		case "timeout":
			s.Timeout = length(r)
		case "concurrency":
			s.Concurrency = int(r.Int(1, jobserver.MaxConcurrency))
		case "retry":
			s.Retry = readRetry(r)
		}
	})
	return s
}

// readContract reads a task's contract, and whether it may replace another.
func readContract(r *wirejson.Reader) (s jobserver.Task, update jobserver.Update) {
	r.Object(taskMembers, func(member string) {
		switch member {
		case "endpoint":
			s.Endpoint = said(r)
		case "timeout":
			s.Timeout = length(r)
		case "repeat":
			s.Repeat = oneOf(r, job.RepeatSafe, job.RepeatUnsafe)
		case "retry":
			s.Retry = readRetry(r)
		case "input_schema":
			s.Input = r.Value(jobserver.MaxSchema)
		case "output_schema":
			s.Output = r.Value(jobserver.MaxSchema)
		case "update":
			update = jobserver.Update(r.Flag())
		}
	})
	return s, update
}

// readEndpoint reads what is said of an endpoint.
func readEndpoint(r *wirejson.Reader) (s jobserver.Endpoint) {
	r.Object(endpointMembers, func(member string) {
		switch member {
		case "concurrency":
			s.Concurrency = int(r.Int(1, jobserver.MaxConcurrency))
		case "rate":
			s.Rate = readRate(r)
		case "circuit":
			s.Circuit = readCircuit(r)
		case "retry":
			s.Retry = readRetry(r)
		}
	})
	return s
}

func readRate(r *wirejson.Reader) *limit.Rate {
	var rate limit.Rate
	seen := r.Object(rateMembers, func(member string) {
		switch member {
		case "per_second":
			rate.PerSecond = r.Number()
		case "burst":
			rate.Burst = int(r.Int(1, limit.MaxBurst))
		}
	})
	if !seen.Has(0) {
		r.WrongMember("per_second", "is missing")
	}
	return &rate
}

func readCircuit(r *wirejson.Reader) *circuit.Settings {
	var s circuit.Settings
	r.Object(circuitMembers, func(member string) {
		switch member {
		case "failures":
			s.Failures = int(r.Int(1, circuit.MaxFailures))
		case "cooldown":
			s.Cooldown = length(r)
		}
	})
	return &s
}
