package httpapi

import (
	"net/http"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// explainJob says why a job is not running now.
func (a *api) explainJob(q *request) error {
	j, err := a.job(q)
	if err != nil {
		return err
	}
	e, err := a.server.Explain(q.Context(), j.ID)
	if err != nil {
		return err
	}
	answer := Explanation{ID: e.Job.ID, Status: e.Job.Status, Now: wireTime(e.Now), Causes: make([]Cause, 0, len(e.Causes))}
	for i := range e.Causes {
		answer.Causes = append(answer.Causes, wireCause(&e.Causes[i]))
	}
	return q.marshal(http.StatusOK, answer)
}

func wireCause(c *jobserver.Cause) Cause {
	w := Cause{Kind: string(c.Kind), Since: wireTimeOrNull(c.Since), Until: wireTimeOrNull(c.Until), Text: c.Text, Next: c.Next}
	switch c.Gate.Kind {
	case lane.QueueGate:
		w.Queue = textOrNull(c.Gate.Name)
	case lane.EndpointGate, lane.SyntheticGate:
		w.Endpoint = textOrNull(c.Gate.Name)
	}
	return w
}

// stats says how the job server is.
func (a *api) stats(q *request) error {
	s, err := a.server.Stats(q.Context(), q.who)
	if err != nil {
		return err
	}
	answer := Stats{Now: wireTime(s.Now), Counts: Counts(s.Counts), Queues: make([]QueueStats, 0, len(s.Queues))}
	for _, of := range s.Queues {
		answer.Queues = append(answer.Queues, QueueStats{Name: of.Name, Counts: Counts(of.Counts), OldestMS: of.Oldest.Milliseconds(), Paused: wirePaused(of.Paused)})
	}
	if len(q.who.Queues) == 0 {
		answer.All = &AllStats{
			Circuits: make([]Circuit, 0, len(s.Circuits)), Workers: s.Workers, Since: wireTime(s.Since), Totals: wireTotals(&s.Totals), Store: wireVitals(&s.Vitals),
		}
		for _, c := range s.Circuits {
			answer.All.Circuits = append(answer.All.Circuits, wireCircuit(c, s.Now))
		}
	}
	return q.marshal(http.StatusOK, answer)
}

func wireTotals(t *jobserver.Totals) Totals {
	return Totals{
		Created: t.Created, Found: t.Found, Claimed: t.Claimed, Succeeded: t.Succeeded, Failed: t.Failed, Released: t.Released,
		LeaseLost: t.LeaseLost, Invalid: t.Invalid, TimedOut: t.TimedOut, Lost: t.Lost, Unreceived: t.Unreceived, Graced: t.Graced,
	}
}

func wireVitals(v *store.Vitals) Vitals {
	return Vitals{Bytes: v.Bytes, Commits: v.Commits, Operations: v.Operations, LastCommitMS: v.LastCommit.Milliseconds(), WaitingClaims: v.Parked}
}
