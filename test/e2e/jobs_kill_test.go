package e2e

import (
	"encoding/json/v2"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// jobsConfig has one queue with short leases and quick retries.
const jobsConfig = `relay: e2e
state: $STATE
http: { listen: "$ADMIN" }
shutdown_timeout: 10s
jobs:
  retry: { max_attempts: 50, initial: 10ms, factor: 1, max_delay: 10ms }
  queues:
    work: { lease: 1s, timeout: 1m }
`

// crew creates, claims and reports until it is stopped.
type crew struct {
	api    *jobServer
	diary  *diary
	stop   chan struct{}
	all    sync.WaitGroup
	prefix string
	next   atomic.Int64
	// drain makes no new jobs and lets every attempt succeed.
	drain bool
	// says is what a worker reports of a job; false is nothing at all.
	says func(l leased, random *rand.Rand) (report, bool)
	// endpoints are given to jobs in turn, "" for none; pace is how long each
	// producer rests after one.
	endpoints []string
	pace      time.Duration
}

func (j *jobServer) crew(d *diary, prefix string, seed uint64, drain bool) *crew {
	c := &crew{api: j, diary: d, stop: make(chan struct{}), prefix: prefix, drain: drain, says: someFail, endpoints: []string{""}, pace: time.Microsecond}
	return c.begin(seed)
}

func (c *crew) begin(seed uint64) *crew {
	for n := range 4 {
		random := rand.New(rand.NewPCG(seed, uint64(n)))
		if !c.drain {
			c.all.Go(c.produce)
		}
		c.all.Go(func() { c.work(fmt.Sprintf("worker-%s-%d", c.prefix, n), random) })
	}
	return c
}

func (c *crew) end() {
	close(c.stop)
	c.all.Wait()
}

func (c *crew) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

func (c *crew) produce() {
	pace := time.NewTicker(c.pace)
	defer pace.Stop()
	for ; !c.stopped(); <-pace.C {
		n := c.next.Add(1)
		key := fmt.Sprintf("%s-%06d", c.prefix, n)
		code, id := c.api.createFor("work", c.endpoints[n%int64(len(c.endpoints))], key)
		switch code {
		case http.StatusCreated, http.StatusOK:
			c.diary.noteCreated(key, id)
		case 0, http.StatusServiceUnavailable:
		default:
			c.api.Errorf("create %s was answered %d: %s", key, code, id)
		}
	}
}

// work claims and reports. Some jobs it fails, hands back or forgets.
func (c *crew) work(worker string, random *rand.Rand) {
	for n := 0; !c.stopped(); n++ {
		claim := fmt.Sprintf("%s-%d", worker, n)
		code, got := c.api.claim(worker, "work", claim, 1+random.IntN(16), 100*time.Millisecond)
		if code == 0 && random.IntN(2) == 0 { // the answer may be lost: ask again
			code, got = c.api.claim(worker, "work", claim, 16, 0)
		}
		if code != 0 && code != http.StatusOK && code != http.StatusServiceUnavailable {
			c.api.Errorf("a claim was answered %d", code)
		}
		var reports []report
		var whose []leased
		for _, l := range got {
			c.diary.noteLease(l, claim)
			r, ok := success(l), true
			if !c.drain {
				r, ok = c.says(l, random)
			}
			if ok {
				reports, whose = append(reports, r), append(whose, l)
			}
		}
		if len(reports) > 0 {
			c.send(worker, reports, whose)
		}
	}
}

func success(l leased) report {
	return report{Lease: l.Lease, Type: "complete", Result: map[string]any{"mark": place(l.Job.ID, l.Attempt)}}
}

// failed is a failure of the kind.
func failed(l leased, kind string) report {
	return report{Lease: l.Lease, Type: "fail", Error: map[string]any{"type": kind, "message": place(l.Job.ID, l.Attempt)}}
}

// someFail lets most jobs succeed.
func someFail(l leased, random *rand.Rand) (report, bool) {
	switch kind := random.IntN(20); {
	case kind < 14:
		return success(l), true
	case kind < 17:
		return failed(l, "sick"), true
	case kind < 19:
		return report{Lease: l.Lease, Type: "release"}, true
	}
	return report{}, false
}

// send reports, and asks again where the answer did not come.
func (c *crew) send(worker string, reports []report, whose []leased) {
	code, results := c.api.report(worker, reports...)
	if code != http.StatusOK {
		code, results = c.api.report(worker, reports...)
	}
	if code != http.StatusOK {
		if code != 0 && code != http.StatusServiceUnavailable {
			c.api.Errorf("reports were answered %d", code)
		}
		return
	}
	for i, r := range results {
		switch {
		case r.JobStatus == "cancelled": // what is reported of it is kept, and moves nothing
		case r.Status == "ok":
			c.diary.noteOutcome(whose[i], outcome{reports[i].Type, place(whose[i].Job.ID, whose[i].Attempt)})
		case r.Status == "lease_lost":
		default:
			c.api.Errorf("a %s was answered %+v", reports[i].Type, r)
		}
	}
}

// TestKillJobs kills pawl at random moments under creates, claims and reports,
// and starts it again on the same store.
func TestKillJobs(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 3))
	s := newSite(t)
	s.writeRaw(jobsConfig)
	d := newDiary()
	n := rounds(t)
	for round := range n {
		p := s.start()
		before := d.tally()
		c := s.jobs().crew(d, fmt.Sprintf("r%03d", round), random.Uint64(), false)
		eventually(t, "jobs are created and completed", func() bool {
			now := d.tally()
			return now["created"] >= before["created"]+20 && now["complete"] >= before["complete"]+10
		})
		<-time.After(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		p.kill()
		c.end()
	}
	p := s.start()
	finishAll(t, s, d)
	checkJobs(t, s, d)
	p.stop()
	if k := d.tally(); k["created"] < 20*n || k["complete"] < 10*n {
		t.Errorf("only %v: the test looks at nothing", k)
	} else {
		t.Logf("%d rounds: %v", n, k)
	}
}

// finishAll works what is left until every job that was answered is finished.
func finishAll(t *testing.T, s *site, d *diary) {
	t.Helper()
	c := s.jobs().crew(d, "drain", 1, true)
	defer c.end()
	left := map[string]bool{}
	for _, id := range d.created {
		left[id] = true
	}
	eventually(t, "every job is finished", func() bool {
		for id := range left {
			code, v := s.jobs().get(id)
			if code != http.StatusOK {
				t.Errorf("job %s was answered and is not there: %d", id, code)
			} else if !v.over() {
				return false
			}
			delete(left, id)
		}
		return true
	})
	eventually(t, "those are finished too whose makers had no answer", func() bool {
		code, text := s.jobs().call(http.MethodGet, "/v3/queues/work", "", nil)
		var queue struct {
			Counts struct {
				Queued  int `json:"queued"`
				Running int `json:"running"`
			} `json:"counts"`
		}
		if err := json.Unmarshal(text, &queue); err != nil || code != http.StatusOK {
			t.Fatalf("the queue is answered %d %s: %v", code, text, err)
		}
		return queue.Counts.Queued == 0 && queue.Counts.Running == 0
	})
}

// checkJobs is the oracle: what was answered is what is there. It returns it, by
// the jobs' ids.
func checkJobs(t *testing.T, s *site, d *diary) map[string]jobView {
	t.Helper()
	views := map[string]jobView{}
	for _, p := range d.problems {
		t.Error(p)
	}
	for key, id := range d.created {
		code, v := s.jobs().get(id)
		if code != http.StatusOK {
			t.Errorf("job %s (key %s) was answered and is not there: %d", id, key, code)
			continue
		}
		var payload struct {
			N string `json:"n"`
		}
		if err := json.Unmarshal(v.Payload, &payload); err != nil || payload.N != key {
			t.Errorf("job %s has the payload %s, want that of %s", id, v.Payload, key)
		}
		checkAttempts(t, v, d)
		views[id] = v
	}
	return views
}

// checkAttempts compares a job's attempts with what workers were told of them.
func checkAttempts(t *testing.T, v jobView, d *diary) {
	t.Helper()
	for i, a := range v.Attempts {
		at := place(v.ID, a.Number)
		last := i == len(v.Attempts)-1
		if a.Number != i+1 {
			t.Errorf("job %s: attempt %d stands at %d", v.ID, a.Number, i+1)
		}
		if o := a.outcome(); (o == "succeeded") != (last && v.Status == "succeeded") || o == "running" {
			t.Errorf("job %s is %s, its attempt %d of %d is %s", v.ID, v.Status, a.Number, len(v.Attempts), o)
		}
		said, ok := d.outcomes[at]
		if !ok {
			continue
		}
		want := map[string]string{"complete": "succeeded", "fail": "failed", "release": "released"}[said.kind]
		switch {
		case a.outcome() != want:
			t.Errorf("%s was reported %s and answered ok, and is %s", at, said.kind, a.outcome())
		case said.kind == "fail" && (a.Error == nil || a.Error.Message != said.mark):
			t.Errorf("%s lost its error: %+v", at, a.Error)
		case said.kind == "complete":
			var result struct {
				Mark string `json:"mark"`
			}
			if err := json.Unmarshal(v.Result, &result); err != nil || result.Mark != said.mark {
				t.Errorf("job %s has the result %s, want that of %s", v.ID, v.Result, said.mark)
			}
		}
	}
	if len(v.Attempts) != v.Attempt {
		t.Errorf("job %s counts %d attempts and shows %d", v.ID, v.Attempt, len(v.Attempts))
	}
}
