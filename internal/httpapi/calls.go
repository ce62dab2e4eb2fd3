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
	// seeTasks is who may look at contracts: who registers them too.
	seeTasks = []store.Scope{store.ScopeWork, store.ScopeOperate}
)

// calls is the table.
var calls = []call{
	{
		Call: Call{http.MethodPost, "/v3/jobs", produce, "Create a job"}, id: "createJob", serve: (*api).create,
		takes: typeOf[NewJob](), answers: typeOf[Job](), statuses: []int{http.StatusCreated, http.StatusOK},
		params: []param{keyHeader, traceHeader, stateHeader}, fails: []problem.Type{problem.Conflict},
	},
	{
		Call: Call{http.MethodPost, "/v3/jobs/batch", produce, "Create up to 1,000 jobs, all or none"}, id: "createJobs", serve: (*api).createBatch,
		takes: typeOf[Batch](), answers: typeOf[BatchAnswer](), statuses: []int{http.StatusCreated, http.StatusOK},
		params: []param{traceHeader, stateHeader}, fails: []problem.Type{problem.Conflict},
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
		Call: Call{http.MethodGet, "/v3/jobs/{id}/explain", watch, "Say why a job is not running now, and what to do"}, id: "explainJob", serve: (*api).explainJob,
		answers: typeOf[Explanation](), params: []param{idPath}, fails: []problem.Type{problem.NotFound},
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
		Call: Call{http.MethodGet, "/v3/queues", operate, "List queues with their settings and counts"}, id: "listQueues", serve: (*api).listQueues,
		answers: typeOf[Queues](), params: sliceParams,
	},
	{
		Call: Call{http.MethodGet, "/v3/queues/{queue}", operate, "Get a queue with its settings and counts"}, id: "getQueue", serve: (*api).getQueue,
		answers: typeOf[Queue](), params: []param{queuePath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPut, "/v3/queues/{queue}", admin, "Define a queue, in place of what was said of it"}, id: "putQueue", serve: (*api).putQueue,
		takes: typeOf[QueueSettings](), answers: typeOf[Queue](), params: []param{queuePath}, fails: []problem.Type{problem.ManagedByFile},
	},
	{
		Call: Call{http.MethodDelete, "/v3/queues/{queue}", admin, "Forget a queue that has no unfinished jobs"}, id: "deleteQueue", serve: (*api).deleteQueue,
		statuses: []int{http.StatusNoContent}, params: []param{queuePath}, fails: []problem.Type{problem.NotFound, problem.ManagedByFile, problem.InUse},
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
		Call: Call{http.MethodGet, "/v3/tasks", seeTasks, "List the versions of tasks with their contracts and counts"}, id: "listTasks", serve: (*api).listTasks,
		answers: typeOf[Tasks](), params: sliceParams,
	},
	{
		Call: Call{http.MethodGet, "/v3/tasks/{task}/{version}", seeTasks, "Get the contract of a task's version"}, id: "getTask", serve: (*api).getTask,
		answers: typeOf[Task](), params: taskPath, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPut, "/v3/tasks/{task}/{version}", work, "Register the contract of a task's version"}, id: "putTask", serve: (*api).putTask,
		takes: typeOf[TaskSettings](), answers: typeOf[Task](), params: taskPath, fails: []problem.Type{problem.ManagedByFile, problem.Differs},
	},
	{
		Call: Call{http.MethodDelete, "/v3/tasks/{task}/{version}", admin, "Forget a contract that no unfinished job has"}, id: "deleteTask", serve: (*api).deleteTask,
		statuses: []int{http.StatusNoContent}, params: taskPath, fails: []problem.Type{problem.NotFound, problem.ManagedByFile, problem.InUse},
	},
	{
		Call: Call{http.MethodGet, "/v3/endpoints", operate, "List endpoints with their settings, circuits and counts"}, id: "listEndpoints", serve: (*api).listEndpoints,
		answers: typeOf[Endpoints](), params: sliceParams,
	},
	{
		Call: Call{http.MethodGet, "/v3/endpoints/{endpoint}", operate, "Get an endpoint with its settings, circuit and counts"}, id: "getEndpoint", serve: (*api).getEndpoint,
		answers: typeOf[Endpoint](), params: []param{endpointPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPut, "/v3/endpoints/{endpoint}", admin, "Say how an endpoint is called, in place of what was said"}, id: "putEndpoint", serve: (*api).putEndpoint,
		takes: typeOf[EndpointSettings](), answers: typeOf[Endpoint](), params: []param{endpointPath}, fails: []problem.Type{problem.NotFound, problem.ManagedByFile},
	},
	{
		Call: Call{http.MethodDelete, "/v3/endpoints/{endpoint}", admin, "Forget what was said of an endpoint that has no unfinished jobs"}, id: "deleteEndpoint", serve: (*api).deleteEndpoint,
		statuses: []int{http.StatusNoContent}, params: []param{endpointPath}, fails: []problem.Type{problem.NotFound, problem.ManagedByFile, problem.InUse},
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
		Call: Call{http.MethodGet, "/v3/endpoints/{endpoint}/circuit", operate, "Get how the circuit of an endpoint stands"}, id: "getCircuit", serve: (*api).circuit,
		answers: typeOf[Circuit](), params: []param{endpointPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/endpoints/{endpoint}/circuit/reset", operate, "Close the circuit of an endpoint and end its hold"}, id: "resetCircuit", serve: (*api).resetCircuit,
		answers: typeOf[Circuit](), params: []param{endpointPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/replays/preview", operate, "Count what a replay would do"}, id: "previewReplay", serve: (*api).preview,
		takes: typeOf[ReplayRequest](), answers: typeOf[Preview](),
	},
	{
		Call: Call{http.MethodPost, "/v3/replays", operate, "Retry, cancel or delete many jobs, in small steps"}, id: "createReplay", serve: (*api).createReplay,
		takes: typeOf[ReplayRequest](), answers: typeOf[Replay](), statuses: []int{http.StatusCreated},
	},
	{
		Call: Call{http.MethodGet, "/v3/replays", operate, "List replays, newest first"}, id: "listReplays", serve: (*api).listReplays,
		answers: typeOf[Replays](), params: pageParams,
	},
	{
		Call: Call{http.MethodGet, "/v3/replays/{replay}", operate, "Get a replay with its progress"}, id: "getReplay", serve: (*api).getReplay,
		answers: typeOf[Replay](), params: []param{replayPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/replays/{replay}/approve", operate, "Let a replay begin that another key handed in for review"}, id: "approveReplay", serve: (*api).approveReplay,
		answers: typeOf[Replay](), params: []param{replayPath}, fails: []problem.Type{problem.NotFound, problem.Status},
	},
	{
		Call: Call{http.MethodPost, "/v3/replays/{replay}/pause", operate, "Rest a replay"}, id: "pauseReplay", serve: (*api).pauseReplay,
		answers: typeOf[Replay](), params: []param{replayPath}, fails: []problem.Type{problem.NotFound, problem.Status},
	},
	{
		Call: Call{http.MethodPost, "/v3/replays/{replay}/resume", operate, "Let a replay go on that rests or stopped by itself"}, id: "resumeReplay", serve: (*api).resumeReplay,
		answers: typeOf[Replay](), params: []param{replayPath}, fails: []problem.Type{problem.NotFound, problem.Status},
	},
	{
		Call: Call{http.MethodPost, "/v3/replays/{replay}/cancel", operate, "End a replay; what it has done stays done"}, id: "cancelReplay", serve: (*api).cancelReplay,
		answers: typeOf[Replay](), params: []param{replayPath}, fails: []problem.Type{problem.NotFound, problem.Status},
	},
	{
		Call: Call{http.MethodPost, "/v3/subscriptions", admin, "Send events to a webhook"}, id: "createSubscription", serve: (*api).subscribe,
		takes: typeOf[SubscriptionRequest](), answers: typeOf[Subscription](), statuses: []int{http.StatusCreated},
		fails: []problem.Type{problem.Exists, problem.ManagedByFile},
	},
	{
		Call: Call{http.MethodGet, "/v3/subscriptions", operate, "List subscriptions"}, id: "listSubscriptions", serve: (*api).listSubscriptions,
		answers: typeOf[Subscriptions](),
	},
	{
		Call: Call{http.MethodGet, "/v3/subscriptions/{subscription}", operate, "Get a subscription"}, id: "getSubscription", serve: (*api).getSubscription,
		answers: typeOf[Subscription](), params: []param{subscriptionPath}, fails: []problem.Type{problem.NotFound},
	},
	{
		Call: Call{http.MethodPost, "/v3/subscriptions/{subscription}/resume", admin, "Let a subscription go on that was disabled, from where it stood"}, id: "resumeSubscription", serve: (*api).resumeSubscription,
		answers: typeOf[Subscription](), params: []param{subscriptionPath}, fails: []problem.Type{problem.NotFound, problem.ManagedByFile},
	},
	{
		Call: Call{http.MethodDelete, "/v3/subscriptions/{subscription}", admin, "End a subscription"}, id: "deleteSubscription", serve: (*api).unsubscribe,
		statuses: []int{http.StatusNoContent}, params: []param{subscriptionPath}, fails: []problem.Type{problem.NotFound, problem.ManagedByFile},
	},
	{
		Call: Call{http.MethodGet, "/v3/events", operate, "Read what happened, oldest first, or follow it as server-sent events"}, id: "listEvents", serve: (*api).events,
		answers: typeOf[Events](), streams: streaming, params: eventParams,
	},
	{
		Call: Call{http.MethodGet, "/v3/stats", operate, "Get counts by queue, circuits that are not closed, and totals"}, id: "getStats", serve: (*api).stats,
		answers: typeOf[Stats](),
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
