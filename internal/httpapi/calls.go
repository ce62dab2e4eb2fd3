package httpapi

import (
	"net/http"
	"reflect"
	"slices"

	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// Call is a row of the table of calls.
type Call struct {
	Method, Path string
	// Scopes are those of which a key needs one; admin includes each. None: the
	// call needs no key.
	Scopes  []store.Scope
	Summary string
}

// call is a row with what serves it and what the document says of it.
type call struct {
	Call
	// ID names it in the document, for generated clients.
	id string
	// takes is the type of the request's body; nil for none. answers is the
	// type of the answer's.
	takes, answers reflect.Type
	// body says whether takes has to come.
	body presence
	// streams says that the answer may be server-sent events.
	streams shape
	// statuses are those of a call that went well.
	statuses []int
	params   []param
	// fails are the problems that it answers beside those of every call.
	fails []problem.Type
	serve func(*api, *request) error
}

// presence says whether a request has to have its body.
type presence int

const (
	required presence = iota
	optional
)

// shape is what an answer may be.
type shape int

const (
	whole shape = iota
	streaming
)

var (
	produce = []store.Scope{store.ScopeProduce}
	work    = []store.Scope{store.ScopeWork}
	operate = []store.Scope{store.ScopeOperate}
	// watch is who may look at a job whose id is known: who made it, who works
	// it, who looks after all. Ids are not guessed.
	watch = []store.Scope{store.ScopeProduce, store.ScopeWork, store.ScopeOperate}
	// stop is who may cancel a job whose id is known.
	stop  = []store.Scope{store.ScopeProduce, store.ScopeOperate}
	admin = []store.Scope{store.ScopeAdmin}
)

// calls is the table.
var calls = []call{
	{
		Call: Call{http.MethodPost, "/v3/jobs", produce, "Create a job"}, id: "createJob", serve: (*api).create,
		takes: typeOf[NewJob](), answers: typeOf[Job](), statuses: []int{http.StatusCreated, http.StatusOK},
		params: []param{keyHeader, traceHeader}, fails: []problem.Type{problem.Conflict},
	},
	{
		Call: Call{http.MethodPost, "/v3/jobs/batch", produce, "Create up to 1,000 jobs, all or none"}, id: "createJobs", serve: (*api).createBatch,
		takes: typeOf[Batch](), answers: typeOf[BatchAnswer](), statuses: []int{http.StatusCreated, http.StatusOK},
		params: []param{traceHeader}, fails: []problem.Type{problem.Conflict},
	},
	{
		Call: Call{http.MethodGet, "/v3/jobs", operate, "List jobs, newest first"}, id: "listJobs", serve: (*api).list,
		answers: typeOf[Jobs](), params: listParams,
	},
	{
		Call: Call{http.MethodGet, "/v3/jobs/{id}", watch, "Get a job with every attempt"}, id: "getJob", serve: (*api).get,
		answers: typeOf[Job](), params: []param{idPath, waitQuery}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodGet, "/v3/jobs/{id}/attempts/{n}/logs", watch, "Get what was logged in an attempt"}, id: "getLogs", serve: (*api).logs,
		answers: typeOf[Logs](), params: []param{idPath, attemptPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/jobs/{id}/cancel", stop, "Cancel a queued or running job, at once and for good"}, id: "cancelJob", serve: (*api).cancel,
		answers: typeOf[Job](), params: []param{idPath}, fails: []problem.Type{problem.NotFound, problem.Status},
	},
	{
		Call: Call{http.MethodPost, "/v3/jobs/{id}/retry", operate, "Queue a failed job again, with all of its attempts ahead"}, id: "retryJob", serve: (*api).retry,
		takes: typeOf[RetryRequest](), body: optional, answers: typeOf[Job](), params: []param{idPath},
		fails: []problem.Type{problem.NotFound, problem.Status, problem.Uncertain},
	},
	{
		Call: Call{http.MethodDelete, "/v3/jobs/{id}", operate, "Delete a job that is not running, with its attempts and its idempotency key"}, id: "deleteJob", serve: (*api).remove,
		statuses: []int{http.StatusNoContent}, params: []param{idPath}, fails: []problem.Type{problem.NotFound, problem.Status},
	},
	{
		Call: Call{http.MethodPost, "/v3/claims", work, "Take jobs under leases, waiting for some"}, id: "claimJobs", serve: (*api).claim,
		takes: typeOf[ClaimRequest](), answers: typeOf[Claim](),
	},
	{
		Call: Call{http.MethodPost, "/v3/reports", work, "Report on leases, each by itself"}, id: "report", serve: (*api).report,
		takes: typeOf[ReportRequest](), answers: typeOf[ReportAnswer](),
	},
	{
		Call: Call{http.MethodGet, "/v3/queues", operate, "List queues with their settings and counts"}, id: "listQueues", serve: (*api).queues,
		answers: typeOf[Queues](),
	},
	{
		Call: Call{http.MethodPost, "/v3/queues/{queue}/pause", operate, "Hand out no job of a queue"}, id: "pauseQueue", serve: (*api).pauseQueue,
		answers: typeOf[Gate](), params: []param{queuePath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/queues/{queue}/resume", operate, "Hand out the jobs of a queue again"}, id: "resumeQueue", serve: (*api).resumeQueue,
		answers: typeOf[Gate](), params: []param{queuePath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/endpoints/{endpoint}/pause", operate, "Hand out no job of an endpoint"}, id: "pauseEndpoint", serve: (*api).pauseEndpoint,
		answers: typeOf[Gate](), params: []param{endpointPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/endpoints/{endpoint}/resume", operate, "Hand out the jobs of an endpoint again"}, id: "resumeEndpoint", serve: (*api).resumeEndpoint,
		answers: typeOf[Gate](), params: []param{endpointPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodGet, "/v3/events", operate, "Read what happened, oldest first, or follow it as server-sent events"}, id: "listEvents", serve: (*api).events,
		answers: typeOf[Events](), streams: streaming, params: eventParams,
	},
	{
		Call: Call{http.MethodGet, "/v3/openapi.json", nil, "Get this document"}, id: "getDocument", serve: (*api).openAPI,
	},
}

// asks reports whether the call has parameters in its query.
func (c *call) asks() bool {
	return slices.ContainsFunc(c.params, func(p param) bool { return p.in == "query" })
}

func typeOf[T any]() reflect.Type { return reflect.TypeFor[T]() }

// Calls returns the table of calls, in the order of the reference.
func Calls() []Call {
	rows := make([]Call, len(calls))
	for i := range calls {
		rows[i] = calls[i].Call
	}
	return rows
}

// openAPI returns the document.
func (a *api) openAPI(q *request) error { return q.answer(http.StatusOK, a.document) }
