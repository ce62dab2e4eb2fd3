package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// KeyHeader is the header that makes a repeat of a create known.
const KeyHeader = "Idempotency-Key"

// The members of requests, in the order in which errors list them.
var (
	newMembers   = []string{"queue", "task", "version", "endpoint", "payload", "priority", "run_at", "delay", "timeout", "retry", "tags", "unique", "synthetic"}
	itemMembers  = append(newMembers[:len(newMembers):len(newMembers)], "idempotency_key")
	retryMembers = []string{job.FieldMaxAttempts, job.FieldInitial, job.FieldFactor, job.FieldMaxDelay, job.FieldJitter}
	batchMembers = []string{"jobs"}
)

// readNew reads a job to create.
func readNew(r *wirejson.Reader, members []string) jobserver.New {
	var n jobserver.New
	r.Object(members, func(member string) {
		switch member {
		case "queue":
			n.Queue = r.Text()
		case "task":
			n.Task = r.Text()
		case "version":
			n.Version = said(r)
		case "endpoint":
			n.Endpoint = said(r)
		case "payload":
			n.Payload = r.Value(jobserver.MaxPayload)
		case "priority":
			n.Priority = int(r.Int(-job.MaxPriority, job.MaxPriority))
		case "run_at":
			n.RunAt = r.Time()
		case "delay":
			n.Delay = r.Duration()
		case "timeout":
			n.Timeout = r.Duration()
		case "retry":
			n.Retry = readRetry(r)
		case "tags":
			r.Array(jobserver.MaxTags, "tags", func(int) { n.Tags = append(n.Tags, r.Text()) })
		case "unique":
			n.Unique = said(r)
		case "synthetic":
			if r.Flag() {
				n.Kind = job.Synthetic
			}
		case "idempotency_key":
			n.Key = said(r)
		}
	})
	return n
}

// said reads a text that means something by being there: empty, it is most
// probably a variable that was not set.
func said(r *wirejson.Reader) string {
	before := r.Problems()
	s := r.Text()
	if s == "" && r.Problems() == before {
		r.Wrong("is empty; leave it out instead")
	}
	return s
}

func readRetry(r *wirejson.Reader) (o job.Overlay) {
	r.Object(retryMembers, func(member string) {
		switch member {
		case job.FieldMaxAttempts:
			o.MaxAttempts = new(int(r.Int(1, job.MaxAttempts)))
		case job.FieldInitial:
			o.Initial = r.Duration()
		case job.FieldFactor:
			o.Factor = new(r.Number())
		case job.FieldMaxDelay:
			o.MaxDelay = r.Duration()
		case job.FieldJitter:
			o.Jitter = new(r.Number())
		}
	})
	return o
}

// key returns the idempotency key of the request's header.
func (q *request) key() (string, error) {
	keys, ok := q.Header[KeyHeader]
	switch {
	case !ok:
		return "", nil
	case len(keys) > 1:
		return "", invalid(KeyHeader, "is there %d times; say it once", len(keys))
	case keys[0] == "":
		return "", invalid(KeyHeader, "is empty; leave it out for a job without a key")
	}
	return keys[0], nil
}

// trace is the trace context that the producer sent; a header that is there twice
// is none.
func (q *request) trace() job.Trace {
	parent := q.Header["Traceparent"]
	if len(parent) != 1 {
		return ""
	}
	return job.ParseTrace(parent[0], strings.Join(q.Header["Tracestate"], ","))
}

// mayCreate refuses a job that is not the key's to create.
func (q *request) mayCreate(n *jobserver.New) error {
	if n.Kind == job.Synthetic && !q.who.Has(store.ScopeOperate) {
		return forbidden("the key %q has the scope %s; a synthetic job passes an open circuit and needs %s too", q.who.Name, scopeList(q.who.Scopes, "and"), store.ScopeOperate)
	}
	return q.sees(n.Queue)
}

// errRemoved: the job that a key named was removed before it was read.
var errRemoved = errors.New("the job that the idempotency key named was just removed; a repeat makes a new one")

// create makes one job, or finds it.
func (a *api) create(q *request) error {
	key, err := q.key()
	if err != nil {
		return err
	}
	var n jobserver.New
	err = q.read(wirejson.Refuse, func(r *wirejson.Reader) { n = readNew(r, newMembers) })
	if refused := q.mayCreate(&n); refused != nil {
		return refused
	}
	if err != nil {
		return withMore(err, a.server.Check(q.who, []jobserver.New{n}))
	}
	n.Key, n.Trace = key, q.trace()
	if len(n.Payload) > small { // the answer has it again: room is found before the job is made
		if err := q.hold.grow(q.Context(), q.hold.bytes+int64(len(n.Payload))); err != nil {
			return err
		}
	}
	made, err := a.server.Create(q.Context(), q.who, []jobserver.New{n})
	if err != nil {
		return inHeader(a.told(q, err))
	}
	status, j := http.StatusCreated, made[0].Job
	if made[0].Found {
		status = http.StatusOK
		j, err = a.readJob(q, made[0].ID)
		if errors.Is(err, store.ErrNotFound) { // between the two calls; its key went with it
			err = errRemoved
		}
		if err != nil {
			return err
		}
	}
	q.w.Header()["Location"] = []string{"/v3/jobs/" + made[0].ID}
	return q.answer(status, a.appendJob(make([]byte, 0, jobSize(j)), j, withoutAttempts))
}

// told is the error of a create as the key may know it. A conflict's job is left
// out where the key does not see it: idempotency keys are one space for all.
func (a *api) told(q *request, err error) error {
	if errors.Is(err, store.ErrTooMany) {
		return errKinds
	}
	conflict, ok := errors.AsType[*store.ConflictError](err)
	if !ok || len(q.who.Queues) == 0 {
		return err
	}
	if j, err := a.readJob(q, conflict.ID); err == nil && q.who.Sees(j.Queue) {
		return conflict
	}
	hidden := *conflict
	hidden.ID = ""
	return &hidden
}

// inHeader says of a fault of the key that it is the header's.
func inHeader(err error) error {
	wrong, ok := errors.AsType[*jobserver.InvalidError](err)
	if !ok || len(wrong.Problems) != 1 || wrong.Problems[0].Pointer != "/idempotency_key" {
		return err
	}
	return invalid(KeyHeader, "%s", wrong.Problems[0].Message)
}

// inBatch says of a fault which job of n has it.
func inBatch(err error, n int) error {
	if wrong, ok := errors.AsType[*jobserver.InvalidError](err); ok && n > 0 {
		return wrong.InBatch()
	}
	if conflict, ok := errors.AsType[*store.ConflictError](err); ok {
		doc, _ := explain(conflict)
		pointer, message := "/jobs/"+strconv.Itoa(conflict.Index)+"/idempotency_key", "was used for another request"
		if conflict.Twin != nil {
			message = fmt.Sprintf("is that of /jobs/%d too, which is another request", *conflict.Twin)
			doc.Detail = fmt.Sprintf("two jobs of the batch, /jobs/%d and /jobs/%d, have the idempotency key %q and differ; each job needs its own key",
				*conflict.Twin, conflict.Index, conflict.Key)
		}
		doc.Errors = []problem.Fault{{Pointer: pointer, Message: message}}
		return &refusal{doc}
	}
	return err
}

// withMore adds to what is wrong with a request as it is written what is wrong
// with what it says, so that both are told at once. Where something is wrong
// already, what it says is not known: nothing is added there.
func withMore(err, more error) error {
	written, ok := errors.AsType[*jobserver.InvalidError](err)
	if !ok {
		return err
	}
	said, ok := errors.AsType[*jobserver.InvalidError](more)
	if !ok {
		return err
	}
	both := &jobserver.InvalidError{Problems: slices.Clone(written.Problems), More: written.More + said.More}
	for _, p := range said.Problems {
		if slices.ContainsFunc(written.Problems, func(w jobserver.Problem) bool { return overlap(w.Pointer, p.Pointer) }) {
			continue
		}
		if len(both.Problems) == jobserver.MaxProblems {
			both.More++
			continue
		}
		both.Problems = append(both.Problems, p)
	}
	return both
}

// overlap reports whether one of two pointers is, or is in, the other.
func overlap(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	rest, ok := strings.CutPrefix(b, a)
	return ok && (rest == "" || rest[0] == '/')
}

// createBatch makes all of the jobs, or none.
func (a *api) createBatch(q *request) error {
	if _, ok := q.Header[KeyHeader]; ok {
		return invalid(KeyHeader, "is for single jobs; the jobs of a batch may each have an idempotency_key")
	}
	var jobs []jobserver.New
	err := q.read(wirejson.Refuse, func(r *wirejson.Reader) {
		r.Object(batchMembers, func(string) {
			r.Array(jobserver.MaxBatch, "jobs", func(int) { jobs = append(jobs, readNew(r, itemMembers)) })
		})
	})
	trace := q.trace()
	for i := range jobs {
		jobs[i].Trace = trace
		if refused := q.mayCreate(&jobs[i]); refused != nil {
			return refused
		}
	}
	if err != nil {
		return withMore(err, inBatch(a.server.Check(q.who, jobs), len(jobs)))
	}
	made, err := a.server.Create(q.Context(), q.who, jobs)
	if err != nil {
		return inBatch(a.told(q, err), len(jobs))
	}
	const row = len(`{"id":"job_01k00000000000000000000000","found":false},`)
	status := http.StatusOK
	b := append(make([]byte, 0, 16+row*len(made)), `{"jobs":[`...)
	for i, m := range made {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(append(b, `{"id":`...), m.ID)
		b = append(appendFlag(append(b, `,"found":`...), m.Found), '}')
		if !m.Found {
			status = http.StatusCreated
		}
	}
	return q.answer(status, append(b, `]}`...))
}
