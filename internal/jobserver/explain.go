package jobserver

import (
	"context"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// CauseKind is one reason why a job is not running.
type CauseKind string

// The causes: first when it is due, then what stands before it, then who would
// work it. A finished job has one, of its status or its dead letter's reason.
const (
	CauseNotDue      CauseKind = "not_due"
	CausePaused      CauseKind = "paused"
	CauseCircuit     CauseKind = "circuit_open"
	CauseProbe       CauseKind = "circuit_half_open"
	CauseHeld        CauseKind = "held"
	CauseRate        CauseKind = "rate"
	CauseConcurrency CauseKind = "concurrency"
	CauseNoQueue     CauseKind = "no_queue"  // nobody can claim: the queue is not defined any more
	CauseNoWorker    CauseKind = "no_worker" // nobody who takes it was heard of within a minute
	CauseTurn        CauseKind = "turn"      // nothing stands before it: it waits for its turn
	CauseRunning     CauseKind = "running"
	CauseSucceeded   CauseKind = "succeeded"
	CauseCancelled   CauseKind = "cancelled"
	// Dead letters, by their reason.
	CauseExhausted    CauseKind = "exhausted"
	CauseNonRetryable CauseKind = "non_retryable"
	CauseOutputSchema CauseKind = "output_schema"
	CauseLost         CauseKind = "lost"
	CauseUncertain    CauseKind = "uncertain"
	CauseCheckFailed  CauseKind = "check_failed" // a synthetic job that failed
)

// Cause is one reason why a job is not running now.
type Cause struct {
	Kind CauseKind
	// Gate is what stands before it; the zero Gate where it is none.
	Gate lane.Gate
	// Since is when it began, zero where that is not known. Until is when it ends
	// by itself at the earliest, zero where nobody can say.
	Since, Until time.Time
	// Text says it for people, and Next what to do.
	Text, Next string
}

// Explanation says why a job is not running now.
type Explanation struct {
	Job    *job.Job
	Now    time.Time
	Causes []Cause
}

// nextSteps says what to do about each cause. It is the one table of them: what
// shows a cause or a reason shows its text.
var nextSteps = map[CauseKind]string{
	CauseNotDue:       "Wait, or cancel it and create one that is due at once.",
	CausePaused:       "Resume it when what it was paused for is over.",
	CauseCircuit:      "The destination is down: wait for the circuit. One job finds out when the cooldown is over; reset the circuit once you know that it is well.",
	CauseProbe:        "Wait for the job that finds out whether the destination is well again.",
	CauseHeld:         "The destination asked to be left alone: wait.",
	CauseRate:         "Wait, or raise the endpoint's rate if the other side bears more.",
	CauseConcurrency:  "Wait for a running job to end, or raise the concurrency.",
	CauseNoQueue:      "Define the queue again, in the configuration or over the API.",
	CauseNoWorker:     "Deploy or start a worker that takes this queue, task and version.",
	CauseTurn:         "Wait for its turn; start more workers if it takes too long.",
	CauseRunning:      "Nothing: its worker has it.",
	CauseSucceeded:    "Nothing.",
	CauseCancelled:    "Look whether its effects happened outside: an attempt may have been under way. Create a new job to do it after all.",
	CauseExhausted:    "Find out why its attempts failed; if its input or a credential is bad, repair that first, then retry it.",
	CauseNonRetryable: "Repair its input or the credentials, then retry it, or create a corrected job.",
	CauseOutputSchema: "Its effect happened, but the result does not fit the task's contract: repair the handler or the schema before you retry it.",
	CauseLost:         "Too many workers fell silent over it: look at their memory and logs before you retry it.",
	CauseUncertain:    "Nobody knows whether its effect happened: reconcile with the other side first, then retry it with accept_uncertain, or leave it.",
	CauseCheckFailed:  "The destination did not pass the check.",
}

// NextStep says what to do about a cause; "" for one that is none.
func NextStep(k CauseKind) string { return nextSteps[k] }

// NextStepOf says what to do about a dead letter.
func NextStepOf(r job.Reason) string { return nextSteps[CauseKind(r)] }

// Explain says why a job is not running now: everything that stands before it,
// not only the first. store.ErrNotFound.
func (s *Server) Explain(ctx context.Context, id string) (Explanation, error) {
	j, err := s.store.Job(ctx, id)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Job: j, Now: s.store.Now()}
	if j.Status != job.Queued {
		e.add(ended(j))
		return e, nil
	}
	if j.RunAt.After(e.Now) {
		e.add(notDue(j))
	}
	k := lane.Key{
		Queue: j.Queue, Task: j.Task, Version: j.Version, Endpoint: j.Endpoint, Priority: j.Priority, Synthetic: j.Kind == job.Synthetic,
	}
	gates, err := s.store.GateStates(ctx, k)
	if err != nil {
		return Explanation{}, err
	}
	for _, g := range gates {
		e.add(atGate(g))
	}
	s.whoWorks(&e, k)
	if len(e.Causes) == 0 {
		e.add(Cause{Kind: CauseTurn, Since: j.RunAt, Text: "nothing stands before it: it is claimed when a worker that takes it asks and no job goes first"})
	}
	return e, nil
}

func (e *Explanation) add(c Cause) {
	c.Next = nextSteps[c.Kind]
	e.Causes = append(e.Causes, c)
}

// ended is the cause of a job that is not queued.
func ended(j *job.Job) Cause {
	switch {
	case j.Status == job.Running:
		c := Cause{Kind: CauseRunning, Text: fmt.Sprintf("attempt %d runs", j.Attempt)}
		if n := len(j.Attempts); n > 0 {
			a := j.Attempts[n-1]
			c.Since, c.Text = a.StartedAt, fmt.Sprintf("attempt %d runs on %s", a.Number, a.Worker)
		}
		return c
	case j.Status == job.Succeeded:
		return Cause{Kind: CauseSucceeded, Since: j.FinishedAt, Text: "it is done"}
	case j.Status == job.Cancelled:
		return Cause{Kind: CauseCancelled, Since: j.FinishedAt, Text: "it was cancelled"}
	case j.Reason == "":
		return Cause{Kind: CauseCheckFailed, Since: j.FinishedAt, Text: "it was a check of its endpoint, and failed"}
	}
	c := Cause{Kind: CauseKind(j.Reason), Since: j.FinishedAt, Text: reasonTexts[j.Reason]}
	if j.LastError != nil {
		c.Text += ": " + j.LastError.Message
	}
	return c
}

// reasonTexts say why a job became a dead letter.
var reasonTexts = map[job.Reason]string{
	job.ReasonExhausted:    "it is a dead letter: its attempts are used up",
	job.ReasonNonRetryable: "it is a dead letter: its worker said that no retry helps",
	job.ReasonOutputSchema: "it is a dead letter: its result does not fit the task's contract",
	job.ReasonLost:         "it is a dead letter: too many workers fell silent over it",
	job.ReasonUncertain:    "it is a dead letter: nobody knows whether its effect happened, and its task must not be repeated blindly",
}

// notDue is the cause of a job whose time has not come.
func notDue(j *job.Job) Cause {
	c := Cause{Kind: CauseNotDue, Since: j.CreatedAt, Until: j.RunAt, Text: "it is not due yet"}
	if n := len(j.Attempts); n > 0 {
		a := j.Attempts[n-1]
		c.Since, c.Text = a.EndedAt, fmt.Sprintf("attempt %d ended (%s); the next one is not due yet", a.Number, a.Outcome)
	}
	return c
}

// atGate is the cause of something that stands before a job.
func atGate(g store.GateState) Cause {
	c := Cause{Kind: CauseKind(g.Barrier), Gate: g.Gate, Since: g.Since, Until: g.Until}
	what := fmt.Sprintf("the %s %q", g.Gate.Kind, g.Gate.Name)
	switch g.Barrier {
	case store.BarrierPause:
		c.Text = fmt.Sprintf("%s was paused by %s", what, g.By)
	case store.BarrierCircuit:
		c.Text = fmt.Sprintf("the circuit of %s is open", what)
	case store.BarrierProbe:
		c.Text = fmt.Sprintf("the circuit of %s is half open: one job finds out whether it is well", what)
	case store.BarrierHold:
		c.Text = fmt.Sprintf("%s asked to be left alone, for at most %s", what, duration.Text(circuit.MaxHold))
	case store.BarrierRate:
		c.Text = fmt.Sprintf("the rate of %s is used up", what)
	case store.BarrierConcurrency:
		c.Text = fmt.Sprintf("%d jobs of %s run, as many as may", g.Running, what)
	}
	return c
}

// whoWorks tells where nobody was heard of who takes the job.
func (s *Server) whoWorks(e *Explanation, k lane.Key) {
	if job.OfRelay(k.Queue) {
		return // the relay itself works it
	}
	if _, bad := s.settings.Load().find(k.Queue, Principal{}); bad != "" {
		e.add(Cause{Kind: CauseNoQueue, Gate: lane.Gate{Kind: lane.QueueGate, Name: k.Queue}, Text: fmt.Sprintf("the queue %q is not defined any more: nobody can claim from it", k.Queue)})
		return
	}
	// What the workers said is the registry's, good until visit returns.
	var seen time.Time // when one that takes it was heard of last
	near, here := "", e.Now.Add(-workerGone)
	s.workers.of(time.Time{}, func(w *Worker) bool {
		switch same := (lane.Want{Queues: w.Queues}).Wants(k); {
		case w.wants(k):
			seen = w.Seen
		case same && near == "" && !w.Seen.Before(here):
			near = w.ID
		}
		return seen.IsZero()
	})
	if !seen.Before(here) {
		return
	}
	what := taskName(lane.Task{Name: k.Task, Version: k.Version})
	c := Cause{Kind: CauseNoWorker, Since: seen, Text: fmt.Sprintf("no worker that takes %s from the queue %q was heard of within %s", what, k.Queue, duration.Text(workerGone))}
	if seen.IsZero() {
		c.Text += ", and pawl remembers none from before"
	}
	if near != "" {
		c.Text += fmt.Sprintf("; %s works the queue, but not this task and version", near)
	}
	e.add(c)
}
