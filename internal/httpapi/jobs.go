package httpapi

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// defaultLimit is a page that a person reads and a program does not wait for.
const defaultLimit = 50

// listParameters are the query parameters of the list of jobs.
var listParameters = []string{"queue", "task", "endpoint", "status", "dead_letter", "reason", "tag", "created_after", "created_before", "limit", "cursor"}

// letters says whether a list is of dead letters alone, or of all but them. A check of an endpoint
// that failed is none, which no filter of the store says.
type letters int

const (
	everyJob letters = iota
	deadLetters
	noLetters
)

// passes reports whether the list has the job.
func (l letters) passes(j *job.Job) bool {
	return l == everyJob || (l == deadLetters) == (j.Reason != "")
}

// filter reads which jobs are wanted.
func (q *request) filter() (store.Filter, letters, error) {
	p := q.query(listParameters...)
	f := store.Filter{
		Queue: p.name("queue"), Task: p.name("task"), Endpoint: p.name("endpoint"), Tag: p.name("tag"),
		Status: word(p, "status", job.Statuses()), Reason: word(p, "reason", job.Reasons()),
		CreatedAfter: p.time("created_after"), CreatedBefore: p.time("created_before"),
		Limit: p.limit(defaultLimit), Cursor: p.text("cursor"),
	}
	of := everyJob
	switch s := p.text("dead_letter"); {
	case s == "":
	case s == "false" && f.Reason != "":
		p.add("dead_letter", "a job with a reason is a dead letter")
	case s == "false":
		of = noLetters
	case s != "true":
		p.add("dead_letter", "must be true or false; leave it out for every job")
	case f.Status != "" && f.Status != job.Failed:
		p.add("dead_letter", "a job that is %s is no dead letter", f.Status)
	default:
		f.Status, of = job.Failed, deadLetters
	}
	return f, of, p.err()
}

// list returns a page of the jobs that the key sees.
func (a *api) list(q *request) error {
	f, of, err := q.filter()
	if err != nil {
		return err
	}
	switch {
	case f.Queue != "":
		if err := q.sees(f.Queue); err != nil {
			return err
		}
	case len(q.who.Queues) == 1:
		f.Queue = q.who.Queues[0]
	}
	// What a page carries is not known before it is read: as much as it may be.
	asked := q.hold.bytes
	if err := q.hold.grow(q.Context(), asked+min(int64(f.Limit)*jobRoom, 2*jobserver.MaxAnswer)); err != nil {
		return err
	}
	page, err := a.server.List(q.Context(), f)
	if errors.Is(err, store.ErrBadCursor) {
		return noCursor
	}
	if err != nil {
		return err
	}
	size := 64
	for _, j := range page.Jobs {
		size += jobSize(j)
	}
	if err := q.hold.fit(q.Context(), asked+2*int64(size)); err != nil {
		return err
	}
	b := append(make([]byte, 0, size), `{"jobs":[`...)
	first := true
	for _, j := range page.Jobs {
		if !q.who.Sees(j.Queue) || !of.passes(j) {
			continue // the page is shorter: a key of several queues and no filter, or a check of an endpoint
		}
		if !first {
			b = append(b, ',')
		}
		b, first = a.appendJob(b, j, withoutAttempts), false
	}
	b = appendTextOrNull(append(b, `],"next_cursor":`...), page.Next)
	return q.answer(http.StatusOK, append(b, '}'))
}

// jobRoom is what a job and its JSON fill that carries as much as one may: a
// payload, a result, and both again. A message of the relay may be larger.
const jobRoom = 2 * (jobserver.MaxPayload + jobserver.MaxPayload)

// readJob reads a job, with room for it and for its JSON.
func (a *api) readJob(q *request, id string) (*job.Job, error) {
	ctx, asked := q.Context(), q.hold.bytes
	if err := q.hold.grow(ctx, asked+jobRoom); err != nil {
		return nil, err
	}
	j, err := a.server.Job(ctx, id)
	if err != nil {
		return nil, err
	}
	return j, q.hold.fit(ctx, asked+2*int64(jobSize(j)))
}

// job returns a job that the key sees. One of another queue is not there: that
// it exists is nobody else's.
func (a *api) job(q *request) (*job.Job, error) {
	id := q.PathValue("id")
	j, err := a.readJob(q, id)
	if errors.Is(err, store.ErrNotFound) || err == nil && !q.who.Sees(j.Queue) {
		return nil, notFound("there is no job %s, or not any more", cut(id))
	}
	return j, err
}

// get returns a job with every attempt, now or once it is finished.
func (a *api) get(q *request) error {
	p := q.query("wait")
	wait := p.wait("wait")
	if err := p.err(); err != nil {
		return err
	}
	j, err := a.job(q)
	if err != nil {
		return err
	}
	if wait > 0 && !j.Status.Finished() {
		if a.stopping.Err() != nil {
			return errStopping
		}
		q.hold.shrink(0) // it is read anew
		if err := a.awaitEnd(q, wait); err != nil {
			return err
		}
		if err := a.good(q.Context(), q); err != nil {
			return err
		}
		if j, err = a.job(q); err != nil {
			return err
		}
	}
	return q.answer(http.StatusOK, a.appendJob(make([]byte, 0, jobSize(j)), j, withAttempts))
}

// awaitEnd returns when the job is finished, the wait is over or the server
// stops.
func (a *api) awaitEnd(q *request, wait time.Duration) error {
	ctx, end := a.polling(q, wait)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	err := a.server.AwaitEnd(ctx, q.PathValue("id"))
	if isDone(err) && q.Context().Err() == nil {
		return nil
	}
	return err
}

// isDone reports whether a context's end is all that went wrong.
func isDone(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// logs returns what was logged in one attempt.
func (a *api) logs(q *request) error {
	if _, err := a.job(q); err != nil {
		return err
	}
	number, err := strconv.Atoi(q.PathValue("n"))
	var log store.Log
	if err == nil {
		log, err = a.server.Logs(q.Context(), q.PathValue("id"), number)
	} else {
		err = store.ErrNotFound
	}
	if errors.Is(err, store.ErrNotFound) {
		return notFound("the job has no attempt %s", cut(q.PathValue("n")))
	}
	if err != nil {
		return err
	}
	b := append(make([]byte, 0, 1024), `{"lines":[`...)
	for i := range log.Lines {
		line := &log.Lines[i]
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"seq":`...), line.Seq, 10)
		b = appendTime(append(b, `,"at":`...), line.At)
		b = appendText(append(b, `,"level":`...), line.Level)
		b = append(appendText(append(b, `,"message":`...), line.Message), '}')
	}
	b = appendFlag(append(b, `],"cut":`...), log.Cut)
	return q.answer(http.StatusOK, append(b, '}'))
}
