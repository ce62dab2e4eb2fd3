package httpapi

// What these tests would catch: a job that is cancelled, retried or deleted though
// its status or its queue forbids it; an answer that does not say what can be done
// instead; a job whose effect is uncertain that comes back unasked; a worker that
// is not told.

import (
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// failed makes a dead letter.
func (r *rig) failed() string {
	r.Helper()
	r.make(aJob)
	got := r.take()
	r.report(`{"lease":"` + got.Lease + `","type":"fail","retryable":false,"error":{"message":"no"}}`)
	return got.Job.ID
}

func (r *rig) hand(what, id string) answer {
	r.Helper()
	if what == "delete" {
		return r.call("operate", "DELETE", "/v3/jobs/"+id, "")
	}
	return r.call("operate", "POST", "/v3/jobs/"+id+"/"+what, "")
}

// TestWhatCanBeDoneByHand tries everything in every status.
func TestWhatCanBeDoneByHand(t *testing.T) {
	r := newRig(t)
	in := map[job.Status]func() string{
		job.Queued:  func() string { return r.make(`{"queue":"reports","task":"t","payload":1}`).ID },
		job.Running: func() string { r.make(aJob); return r.take().Job.ID },
		job.Failed:  r.failed,
		job.Cancelled: func() string {
			return is[Job](r.hand("cancel", r.make(`{"queue":"reports","task":"t","payload":1}`).ID), 200).ID
		},
		job.Succeeded: func() string {
			r.make(aJob)
			got := r.take()
			r.report(`{"lease":"` + got.Lease + `","type":"complete"}`)
			return got.Job.ID
		},
	}
	const no = ""
	want := map[job.Status]map[string]string{
		job.Queued:    {"cancel": "cancelled", "retry": no, "delete": "gone"},
		job.Running:   {"cancel": "cancelled", "retry": no, "delete": no},
		job.Failed:    {"cancel": no, "retry": "queued", "delete": "gone"},
		job.Cancelled: {"cancel": "cancelled", "retry": no, "delete": "gone"},
		job.Succeeded: {"cancel": no, "retry": no, "delete": "gone"},
	}
	for status, make := range in {
		for what, becomes := range want[status] {
			id := make()
			if at := r.fetch(id).Status; at != status {
				t.Fatalf("the job is %s, not %s", at, status)
			}
			a := r.hand(what, id)
			switch becomes {
			case no:
				d := a.fails(problem.Status)
				if d.Job != id || !strings.HasPrefix(d.Detail, "the job is "+string(status)+" and can't be ") {
					t.Errorf("%s of %s: %s", what, status, d.Detail)
				}
				if at := r.fetch(id).Status; at != status {
					t.Errorf("%s of %s left it %s", what, status, at)
				}
			case "gone":
				if a.status != 204 || len(a.body) != 0 {
					t.Errorf("%s of %s: %d %s", what, status, a.status, a.body)
				}
				r.call("operate", "GET", "/v3/jobs/"+id, "").fails(problem.NotFound)
			default:
				if j := is[Job](a, 200); string(j.Status) != becomes || j.ID != id {
					t.Errorf("%s of %s: %+v", what, status, j)
				}
			}
		}
	}
}

// TestWhatElseIsPossibleIsTold holds what people read.
func TestWhatElseIsPossibleIsTold(t *testing.T) {
	r := newRig(t)
	dead := r.failed()
	goldenProblem(t, "status", r.hand("cancel", dead), dead)
	r.make(aJob)
	running := r.take().Job.ID
	is[Job](r.hand("cancel", running), 200)
	if d := r.hand("delete", running).fails(problem.Status); d.Detail != "the job is cancelled and can't be deleted: a worker has it; cancel it, and delete it once its lease has ended" {
		t.Error(d.Detail)
	}
}

func TestARunningWorkerIsTold(t *testing.T) {
	r := newRig(t)
	r.make(aJob)
	got := r.take()
	if j := is[Job](r.call("produce", "POST", "/v3/jobs/"+got.Job.ID+"/cancel", "{}"), 200); j.Status != job.Cancelled || j.FinishedAt == nil {
		t.Errorf("%+v", j)
	}
	beat := r.report(`{"lease":"` + got.Lease + `","type":"heartbeat"}`)[0]
	if beat.Cancel == nil || !*beat.Cancel || beat.JobStatus != job.Cancelled {
		t.Errorf("%+v", beat)
	}
	if late := r.report(`{"lease":"` + got.Lease + `","type":"complete","result":1}`)[0]; late.Status != "ok" || late.JobStatus != job.Cancelled {
		t.Errorf("%+v", late)
	}
	if j := r.fetch(got.Job.ID); j.Status != job.Cancelled || string(j.Result) != "1" || *j.Attempts[0].Outcome != "cancelled" { // kept, and moves nothing
		t.Errorf("%+v", j)
	}
}

func TestARetriedJobHasAllOfItsAttempts(t *testing.T) {
	r := newRig(t)
	id := r.failed()
	j := is[Job](r.hand("retry", id), 200)
	if j.Status != job.Queued || j.Attempt != 1 || j.AttemptsCharged != 0 || j.DeadLetter {
		t.Errorf("%+v", j)
	}
	if got := r.take(); got.Job.ID != id || got.Attempt != 2 {
		t.Errorf("%+v", got)
	}
}

// TestAnUncertainJobIsNotRetriedUnasked has a job whose effect nobody knows.
func TestAnUncertainJobIsNotRetriedUnasked(t *testing.T) {
	r := newRig(t)
	made, err := r.store.Create(t.Context(), []store.NewJob{{Queue: "emails", Task: "pay", Version: "1", Content: job.Content{Payload: []byte("1")},
		Policy: job.Snapshot{Policy: job.BuiltIn(), From: job.Resolve().From, Repeat: job.RepeatUnsafe}, Timeout: time.Minute}})
	if err != nil {
		t.Fatal(err)
	}
	id := made[0].ID
	got := r.take()
	r.report(`{"lease":"` + got.Lease + `","type":"fail","effect":"unknown"}`)
	if j := r.fetch(id); j.Status != job.Failed || j.Reason == nil || *j.Reason != "uncertain" || j.Repeat != job.RepeatUnsafe {
		t.Fatalf("%+v", j)
	}
	retry := func(body string) answer { return r.call("operate", "POST", "/v3/jobs/"+id+"/retry", body) }
	for _, body := range []string{"", "{}", `{"accept_uncertain":false}`} {
		if d := retry(body).fails(problem.Uncertain); d.Job != id || !strings.Contains(d.Detail, "accept_uncertain") {
			t.Errorf("%+v", d)
		}
	}
	goldenProblem(t, "uncertain", retry(""), id)
	retry(`{"accept_uncertain":1}`).fails(problem.Invalid).faults(t, "/accept_uncertain", "must be true or false, not a number")
	retry(`{"accept":true}`).fails(problem.Invalid)
	if j := is[Job](retry(`{"accept_uncertain":true}`), 200); j.Status != job.Queued {
		t.Errorf("%+v", j)
	}
}

// TestNobodyTouchesTheJobOfAnotherQueue has keys that are not for it.
func TestNobodyTouchesTheJobOfAnotherQueue(t *testing.T) {
	r := newRig(t)
	id := r.make(aReport).ID
	for _, key := range []string{"mail", "mail-two"} {
		for _, what := range []string{"cancel", "retry"} {
			r.call(key, "POST", "/v3/jobs/"+id+"/"+what, "").fails(problem.NotFound)
		}
		r.call(key, "DELETE", "/v3/jobs/"+id, "").fails(problem.NotFound)
	}
	if j := r.fetch(id); j.Status != job.Queued {
		t.Errorf("%+v", j)
	}
	r.call("produce", "POST", "/v3/jobs/"+id+"/retry", "").fails(problem.Forbidden)
	r.call("produce", "DELETE", "/v3/jobs/"+id, "").fails(problem.Forbidden)
	r.call("work", "POST", "/v3/jobs/"+id+"/cancel", "").fails(problem.Forbidden)
}
