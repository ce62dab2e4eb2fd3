package metamorphic

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// model is what a store should be. Ids and tokens are the store's: it is told
// what they are.
type model struct {
	now    time.Time
	jobs   map[string]*modelJob
	order  []string // ids as they were created
	keys   map[string]modelKey
	tokens map[string]*modelToken
	gates  map[lane.Gate]store.Pause
	rests  map[string]time.Time // endpoints that asked to be left alone, until when
	// What the rules of graces look at: the last sweep, report and grace.
	tick, heard, graced time.Time
	opened              int // leases that were lengthened by an open
	gaps, brakes        int // graces by each rule
}

type modelKey struct {
	id   string
	hash [32]byte
}

type modelJob struct {
	job.Job // as a read returns it
	lease   *modelLease
	logs    map[int]map[int64]job.LogLine // by attempt and seq
	// handBacks are the relay's in a row that one attempt stands for.
	handBacks int
}

type modelLease struct {
	token                   string
	worker, caller, claim   string
	length, timeout         time.Duration
	claimed, started, heard time.Time
	until, deadline         time.Time
}

func (l *modelLease) end() time.Time {
	if l.deadline.Before(l.until) {
		return l.deadline
	}
	return l.until
}

// modelToken is a token that was given out, and what settled it.
type modelToken struct {
	id      string
	attempt int
	settled bool
	hash    [32]byte
	answer  store.Answer
}

func newModel() *model {
	return &model{
		jobs: map[string]*modelJob{}, keys: map[string]modelKey{}, tokens: map[string]*modelToken{},
		gates: map[lane.Gate]store.Pause{}, rests: map[string]time.Time{},
	}
}

func laneOf(j *job.Job) lane.Key {
	return lane.Key{Queue: j.Queue, Task: j.Task, Version: j.Version, Endpoint: j.Endpoint, Priority: j.Priority}
}

// plan says what Create does with each job: an id that is there, the number of an
// earlier job of the call, or a new one; or that it fails.
type plan struct {
	found string
	same  int // −1 for none
}

func (m *model) planCreate(jobs []store.NewJob) ([]plan, *store.ConflictError) {
	plans, first := make([]plan, len(jobs)), map[string]int{}
	for i, n := range jobs {
		plans[i].same = -1
		if n.Key == "" {
			continue
		}
		if k, twice := first[n.Key]; twice {
			if jobs[k].Hash != n.Hash {
				if there := plans[k].found; there != "" {
					return nil, &store.ConflictError{Index: i, Key: n.Key, ID: there}
				}
				return nil, &store.ConflictError{Index: i, Key: n.Key, Twin: &k}
			}
			if plans[i] = plans[k]; plans[k].found == "" {
				plans[i].same = k
			}
			continue
		}
		first[n.Key] = i
		if there, ok := m.keys[n.Key]; ok {
			if there.hash != n.Hash {
				return nil, &store.ConflictError{Index: i, Key: n.Key, ID: there.id}
			}
			plans[i].found = there.id
		}
	}
	return plans, nil
}

// add makes a job under the id that the store gave it.
func (m *model) add(id string, n store.NewJob) *modelJob {
	due := m.now
	if !n.RunAt.IsZero() && n.RunAt.After(due) {
		due = n.RunAt
	} else if n.RunAt.IsZero() {
		due = due.Add(n.Delay)
	}
	j := &modelJob{
		Job: job.Job{
			ID: id, Queue: n.Queue, Task: n.Task, Version: n.Version, Endpoint: n.Endpoint, Priority: n.Priority, Content: n.Content,
			Tags: n.Tags, Trace: n.Trace, Policy: n.Policy, Timeout: n.Timeout, CreatedAt: m.now, RunAt: due, Status: job.Queued,
		},
		logs: map[int]map[int64]job.LogLine{},
	}
	m.jobs[id], m.order = j, append(m.order, id)
	if n.Key != "" {
		m.keys[n.Key] = modelKey{id, n.Hash}
	}
	return j
}

// open says whether the gates of a lane are.
func (m *model) open(k lane.Key) bool {
	_, queue := m.gates[lane.Gate{Kind: lane.QueueGate, Name: k.Queue}]
	_, endpoint := m.gates[lane.Gate{Kind: lane.EndpointGate, Name: k.Endpoint}]
	return !queue && !(k.Endpoint != "" && (endpoint || m.now.Before(m.rests[k.Endpoint])))
}

// claimable are the jobs that a worker can have now.
func (m *model) claimable(w store.Want) (jobs []*modelJob) {
	for _, j := range m.jobs {
		if j.Status == job.Queued && !j.RunAt.After(m.now) && m.open(laneOf(&j.Job)) && wants(w, j) {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// wants says whether a claim may take a job.
func wants(w store.Want, j *modelJob) bool {
	want := lane.Want{Tasks: w.Tasks}
	for _, q := range w.Queues {
		want.Queues = append(want.Queues, q.Queue)
	}
	return want.Wants(laneOf(&j.Job))
}

// held are the leases that a repeated claim gets again.
func (m *model) held(w store.Want) (tokens []string) {
	for _, j := range m.jobs {
		l := j.lease
		if w.ClaimID == "" || l == nil || l.caller != w.Caller || l.worker != w.Worker || l.claim != w.ClaimID {
			continue
		}
		if l.end().After(m.now) && wants(w, j) {
			tokens = append(tokens, l.token)
		}
	}
	slices.Sort(tokens)
	return tokens
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
	j.Attempt++
	j.Attempts = append(j.Attempts, job.Attempt{Number: j.Attempt, Worker: w.Worker, StartedAt: m.now})
	m.tokens[token] = &modelToken{id: j.ID, attempt: j.Attempt}
}

// report takes in one report.
func (m *model) report(r store.Report) store.Answer {
	lost := store.Answer{Status: store.LeaseLost}
	t := m.tokens[r.Lease]
	if t == nil {
		return lost
	}
	final := r.Type == store.Complete || r.Type == store.Fail || r.Type == store.Release
	j := m.jobs[t.id]
	if r.Queues != nil && !slices.Contains(r.Queues, j.Queue) {
		return lost
	}
	if j.lease == nil || j.lease.token != r.Lease {
		if final && t.settled && t.hash == r.Hash {
			return t.answer
		}
		return lost
	}
	m.heard = m.now
	l := j.lease
	switch r.Type {
	case store.Start:
		if l.started.IsZero() {
			l.started, l.deadline = m.now, m.now.Add(l.timeout)
			j.Attempts[len(j.Attempts)-1].StartedAt = m.now
		}
	case store.Heartbeat:
		if until := m.now.Add(l.length); until.After(l.until) {
			l.until = until
		}
	case store.AddLog:
		lines := j.logs[j.Attempt]
		if lines == nil {
			lines = map[int64]job.LogLine{}
			j.logs[j.Attempt] = lines
		}
		for _, line := range r.Lines {
			if _, there := lines[line.Seq]; !there {
				lines[line.Seq] = line
			}
		}
	case store.Complete:
		j.Result = r.Result
		m.end(j, job.OutcomeSucceeded, r)
		m.finish(j, job.Succeeded, "")
	case store.Fail:
		j.LastError = r.Error
		if d := r.Failure.RetryAfter; d != nil && *d > 0 {
			if until := m.now.Add(*d); j.Endpoint != "" && until.After(m.rests[j.Endpoint]) {
				m.rests[j.Endpoint] = until
			}
		}
		m.end(j, job.OutcomeFailed, r)
		switch {
		case r.Failure.Permanent:
			m.finish(j, job.Failed, job.ReasonNonRetryable)
		case j.Counts.Charged >= j.Policy.MaxAttempts:
			m.finish(j, job.Failed, job.ReasonExhausted)
		default:
			wait := delay(j.Policy.Policy, j.Counts.Charged)
			if d := r.Failure.RetryIn; d != nil {
				wait = *d
			}
			if d := r.Failure.RetryAfter; d != nil {
				wait = max(wait, *d)
			}
			m.again(j, wait)
		}
	case store.Release:
		m.end(j, job.OutcomeReleased, r)
		m.again(j, r.After)
	}
	if !final {
		l.heard = m.now
		return store.Answer{Status: store.ReportTaken, JobStatus: job.Running, LeaseUntil: l.until}
	}
	t.settled, t.hash = true, r.Hash
	t.answer = store.Answer{Status: store.ReportTaken, JobStatus: j.Status}
	if j.Status == job.Queued {
		t.answer.RunAt = j.RunAt
	}
	return t.answer
}

// delay is the wait after the n-th charged attempt, without jitter.
func delay(p job.Policy, n int) time.Duration {
	d := float64(p.Initial)
	for range n - 1 {
		d = min(d*p.Factor, float64(p.MaxDelay))
	}
	return time.Duration(min(d, float64(p.MaxDelay)))
}

// handedBack reports whether the relay handed an attempt back.
func handedBack(a job.Attempt) bool {
	return a.Outcome == job.OutcomeReleased && strings.HasPrefix(a.Worker, "relay:")
}

// end ends the running attempt.
func (m *model) end(j *modelJob, o job.Outcome, r store.Report) {
	a := &j.Attempts[len(j.Attempts)-1]
	defer m.join(j)
	a.EndedAt, a.Outcome, a.Error, a.Note = m.now, o, r.Error, r.Note
	switch o {
	case job.OutcomeSucceeded, job.OutcomeFailed, job.OutcomeTimedOut:
		a.Charged = true
		j.Counts.Charged++
		j.Counts.LostInRow = 0
	case job.OutcomeReleased:
		j.Counts.LostInRow = 0
		m.drop(j, a.Number-100)
	case job.OutcomeLost:
		j.Counts.Lost++
		j.Counts.LostInRow++
	case job.OutcomeUnreceived:
		j.Counts.Unreceived++
	}
	j.lease = nil
}

// drop removes an attempt that was handed back long ago.
func (m *model) drop(j *modelJob, number int) {
	i := slices.IndexFunc(j.Attempts, func(a job.Attempt) bool { return a.Number == number && a.Outcome == job.OutcomeReleased })
	if i < 0 {
		return
	}
	j.Attempts = slices.Delete(j.Attempts, i, i+1)
	for _, t := range m.tokens {
		if t.id == j.ID && t.attempt == number {
			t.settled = false
		}
	}
}

// join leaves the newest of two hand-backs in a row, where nothing was logged in
// the older one.
func (m *model) join(j *modelJob) {
	last := len(j.Attempts) - 1
	if !handedBack(j.Attempts[last]) {
		j.handBacks = 0
		return
	}
	j.handBacks++
	if last == 0 || !handedBack(j.Attempts[last-1]) {
		j.handBacks = 1
		return
	}
	before := j.Attempts[last-1].Number
	if len(j.logs[before]) > 0 {
		j.handBacks = 1
		return
	}
	a := &j.Attempts[last]
	if a.Note != "" {
		a.Note = "; " + a.Note
	}
	a.Note = fmt.Sprintf("%d hand-backs in a row%s", j.handBacks, a.Note)
	j.Attempts = slices.Delete(j.Attempts, last-1, last)
	for _, t := range m.tokens {
		if t.id == j.ID && t.attempt == before {
			t.settled = false
		}
	}
}

func (m *model) finish(j *modelJob, s job.Status, why job.Reason) {
	j.Status, j.Reason, j.FinishedAt = s, why, m.now
}

func (m *model) again(j *modelJob, wait time.Duration) {
	j.Status, j.RunAt = job.Queued, m.now.Add(wait)
	j.Attempts[len(j.Attempts)-1].NextRunAt = j.RunAt
}

// running are the jobs under a lease.
func (m *model) running() (jobs []*modelJob) {
	for _, j := range m.jobs {
		if j.lease != nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// grace gives a lease, and its timeout, a full length from now on.
func (m *model) grace(l *modelLease) {
	least := m.now.Add(l.length)
	if l.until.Before(least) {
		l.until = least
	}
	if l.deadline.Before(least) {
		l.deadline = least
	}
}

// sweep ends what is over.
func (m *model) sweep() (s store.Swept) {
	s.Graced, m.opened = m.opened, 0
	gap := m.now.Sub(m.tick)
	m.tick = m.now
	gaps := 0
	for _, j := range m.running() {
		if gap > j.lease.length/3 && gap > 2*time.Second {
			m.grace(j.lease)
			gaps++
		}
	}
	if gaps > 0 {
		m.gaps++
		s.Graced += gaps
		m.graced = m.now
	}
	if m.pathIsDown() {
		m.brakes++
		for _, j := range m.running() {
			m.grace(j.lease)
			s.Graced++
		}
		m.graced = m.now
	}
	for _, j := range m.running() {
		l := j.lease
		if l.end().After(m.now) {
			if s.Next.IsZero() || l.end().Before(s.Next) {
				s.Next = l.end()
			}
			continue
		}
		switch {
		case l.deadline.Before(l.until):
			s.TimedOut++
			m.end(j, job.OutcomeTimedOut, store.Report{})
			if j.Counts.Charged >= j.Policy.MaxAttempts {
				m.finish(j, job.Failed, job.ReasonExhausted)
			} else {
				m.again(j, delay(j.Policy.Policy, j.Counts.Charged))
			}
		case l.heard.IsZero():
			s.Unreceived++
			m.end(j, job.OutcomeUnreceived, store.Report{})
			if j.Counts.Unreceived > 100 {
				m.finish(j, job.Failed, job.ReasonLost)
			} else {
				m.again(j, 0)
			}
		default:
			s.Lost++
			m.end(j, job.OutcomeLost, store.Report{})
			switch {
			case j.Counts.Lost > 5:
				m.finish(j, job.Failed, job.ReasonLost)
			case j.Counts.LostInRow > 1:
				m.again(j, delay(j.Policy.Policy, j.Counts.LostInRow-1))
			default:
				m.again(j, 0)
			}
		}
	}
	return s
}

// pathIsDown says whether it is the way to the workers that is silent.
func (m *model) pathIsDown() bool {
	var ending int
	var longest time.Duration
	for _, j := range m.running() {
		l := j.lease
		if !l.until.After(m.now.Add(l.length / 3)) {
			ending++
		}
		if !l.until.After(m.now) && l.until.Before(l.deadline) {
			longest = max(longest, l.length)
		}
	}
	switch {
	case longest == 0, ending < 10, ending*2 < len(m.running()):
		return false
	case !m.graced.IsZero() && !m.heard.After(m.graced):
		return false
	default:
		return m.heard.IsZero() || m.now.Sub(m.heard) >= longest*2/3
	}
}

// reopen is what a restart does.
func (m *model) reopen() {
	m.tick, m.graced, m.heard, m.opened = m.now, m.now, time.Time{}, 0
	for _, j := range m.running() {
		if strings.HasPrefix(j.lease.worker, "relay:") {
			m.end(j, job.OutcomeReleased, store.Report{Note: "its process ended"})
			m.again(j, 0)
			continue
		}
		m.grace(j.lease)
		m.opened++
	}
}

// retain removes finished jobs that were kept long enough.
func (m *model) retain(r store.Retention) (removed int) {
	for id, j := range m.jobs {
		kept := r.Finished
		if j.Status == job.Failed {
			kept = r.DeadLetters
		}
		if !j.Status.Finished() || j.FinishedAt.After(m.now.Add(-kept)) {
			continue
		}
		removed++
		delete(m.jobs, id)
		m.order = slices.DeleteFunc(m.order, func(o string) bool { return o == id })
		maps.DeleteFunc(m.keys, func(_ string, k modelKey) bool { return k.id == id })
		maps.DeleteFunc(m.tokens, func(_ string, t *modelToken) bool { return t.id == id })
	}
	return removed
}

// counts are what a store keeps of each lane.
func (m *model) counts() map[lane.Key]store.LaneCount {
	counts := map[lane.Key]store.LaneCount{}
	for _, j := range m.jobs {
		c := counts[laneOf(&j.Job)]
		c.Lane = laneOf(&j.Job)
		switch j.Status {
		case job.Queued:
			c.Ready++
		case job.Running:
			c.Running++
		case job.Succeeded:
			c.Succeeded++
		case job.Failed:
			c.Failed++
		case job.Cancelled:
			c.Cancelled++
		}
		counts[c.Lane] = c
	}
	return counts
}
