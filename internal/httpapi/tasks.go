package httpapi

import (
	"errors"
	"net/http"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// schemas says whether a task is told with its schemas.
type schemas int

const (
	withoutSchemas schemas = iota
	withSchemas
)

// wireTask is a task's version as the wire has it.
func wireTask(s *jobserver.TaskState, of schemas) Task {
	w := Task{
		Name: s.Name.Name, Version: s.Name.Version, Managed: wireManaged(&s.Managed), Endpoint: textOrNull(s.Endpoint),
		Repeat: string(s.Repeat), Retry: wireRetry(&s.Retry), Counts: Counts(s.Counts),
	}
	if s.Timeout != 0 {
		w.Timeout = text(&s.Timeout)
	}
	if of == withSchemas {
		w.InputSchema, w.OutputSchema = Value(s.Input), Value(s.Output)
	}
	return w
}

// listTasks returns the versions of tasks that are registered or have jobs.
func (a *api) listTasks(q *request) error {
	part, err := q.slice()
	if err != nil {
		return err
	}
	states, next, err := a.server.TaskStates(q.Context(), q.who, part)
	if err != nil {
		return err
	}
	answer := Tasks{Tasks: make([]Task, 0, len(states)), NextCursor: textOrNull(next)}
	for i := range states {
		answer.Tasks = append(answer.Tasks, wireTask(&states[i], withoutSchemas))
	}
	return q.marshal(http.StatusOK, answer)
}

// task is the one that a request names.
func (q *request) task() lane.Task {
	return lane.Task{Name: q.PathValue("task"), Version: q.PathValue("version")}
}

func (a *api) getTask(q *request) error {
	s, err := a.server.TaskState(q.Context(), q.who, q.task())
	if errors.Is(err, store.ErrNotFound) && len(q.who.Queues) > 0 {
		return notFound("there is no task %q of the version %q", cut(q.task().Name), cut(q.task().Version))
	}
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireTask(&s, withSchemas))
}

// putTask registers the contract of a task's version: a worker does when it
// starts.
func (a *api) putTask(q *request) error {
	var (
		contract jobserver.Task
		update   jobserver.Update
	)
	if err := q.read(wirejson.Refuse, func(r *wirejson.Reader) { contract, update = readContract(r) }); err != nil {
		return err
	}
	err := a.server.PutTask(q.Context(), q.who, q.task(), contract, update)
	if differs, ok := errors.AsType[*jobserver.ContractError](err); ok {
		doc := problem.Document{Type: problem.Differs, Detail: differs.Error()}
		for _, member := range differs.Members {
			doc.Errors = append(doc.Errors, problem.Fault{Pointer: "/" + member, Message: "differs from what is stored"})
		}
		return &refusal{doc}
	}
	if err != nil {
		return tooMany(err, errDefinitions)
	}
	return a.getTask(q)
}

// deleteTask forgets a contract.
func (a *api) deleteTask(q *request) error {
	if len(q.who.Queues) > 0 {
		return forbidden("the key %q is limited to queues; a task may have jobs in any", q.who.Name)
	}
	if err := q.nothing(); err != nil {
		return err
	}
	if err := a.server.RemoveTask(q.Context(), q.task()); err != nil {
		return inUse(err)
	}
	return q.done()
}
