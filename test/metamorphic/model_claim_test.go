package metamorphic

import (
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// full says whether as many attempts run behind a gate as may. One of a job that
// was cancelled keeps its place; a check has none at its endpoint.
func (m *model) full(g lane.Gate) bool {
	most, running := m.limits[g].Concurrency, 0
	for _, j := range m.running() {
		if g.Kind == lane.QueueGate && g.Name == j.Queue || g.Kind == lane.EndpointGate && g.Name == j.Endpoint && j.Kind == job.Ordinary {
			running++
		}
	}
	return most > 0 && running >= most
}

func (m *model) queueOpen(queue string) bool {
	g := lane.Gate{Kind: lane.QueueGate, Name: queue}
	_, paused := m.gates[g]
	return !paused && !m.full(g)
}

// endpointOpen says whether the gate of a job's endpoint lets it through. A check
// passes all but a pause.
func (m *model) endpointOpen(j *modelJob) bool {
	g := lane.Gate{Kind: lane.EndpointGate, Name: j.Endpoint}
	_, paused := m.gates[g]
	switch {
	case j.Endpoint == "":
		return true
	case paused:
		return false
	case j.Kind == job.Synthetic:
		return true
	}
	passes, _ := m.probes(j.Endpoint)
	return passes && !m.full(g) && !m.avoided(j)
}

// open says whether the gates of a job are.
func (m *model) open(j *modelJob) bool { return m.queueOpen(j.Queue) && m.endpointOpen(j) }

// claimable are the jobs that a worker can have now, each for itself: what one
// takes may shut a gate before the next.
func (m *model) claimable(w store.Want) []*modelJob {
	return m.inOrder(func(j *modelJob) bool { return m.claims(w, j) })
}

// claims says whether a worker can have a job now.
func (m *model) claims(w store.Want, j *modelJob) bool {
	return j.Status == job.Queued && !j.RunAt.After(m.now) && wants(w, j) && m.open(j)
}

// whyNot says why a job can't be claimed.
func (m *model) whyNot(j *modelJob) string {
	if j == nil {
		return "there is none"
	}
	return fmt.Sprintf("%s, due %v, queue open %t, endpoint open %t, avoided %t, %+v", j.Status, j.RunAt, m.queueOpen(j.Queue),
		m.endpointOpen(j), m.avoided(j), m.circuitOf(j.Endpoint))
}

// wants says whether a claim may take a job.
func wants(w store.Want, j *modelJob) bool {
	want := lane.Want{Tasks: w.Tasks}
	for _, q := range w.Queues {
		want.Queues = append(want.Queues, q.Queue)
	}
	return want.Wants(laneOf(&j.Job))
}

// held are the leases that a repeated claim gets again: those that still hold, of
// jobs that were not cancelled.
func (m *model) held(w store.Want) (tokens []string) {
	for _, j := range m.ofClaim(w) {
		if !j.lease.end().After(m.now) || !wants(w, j) {
			continue
		}
		if j.Status == job.Cancelled {
			m.met["claims again of a cancelled job"]++
			continue
		}
		tokens = append(tokens, j.lease.token)
	}
	slices.Sort(tokens)
	return tokens
}

// ofClaim are the jobs under the leases of a claim.
func (m *model) ofClaim(w store.Want) []*modelJob {
	return m.inOrder(func(j *modelJob) bool {
		l := j.lease
		return w.ClaimID != "" && l != nil && l.caller == w.Caller && l.worker == w.Worker && l.claim == w.ClaimID
	})
}

// lend puts a job under a lease.
func (m *model) lend(j *modelJob, w store.Want, token string) {
	l := &modelLease{token: token, worker: w.Worker, caller: w.Caller, claim: w.ClaimID, claimed: m.now, timeout: j.Timeout}
	if w.Timeout > 0 {
		l.timeout = w.Timeout
	}
	for _, q := range w.Queues {
		if q.Queue == j.Queue {
			l.length = q.Lease
		}
	}
	l.until, l.deadline = m.now.Add(l.length), m.now.Add(l.timeout)
	j.lease, j.Status = l, job.Running
	m.admit(j)
	j.Attempt++
	j.Attempts = append(j.Attempts, job.Attempt{Number: j.Attempt, Worker: w.Worker, StartedAt: m.now})
	m.tokens[token] = &modelToken{id: j.ID, attempt: j.Attempt}
}
