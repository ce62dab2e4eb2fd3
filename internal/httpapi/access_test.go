package httpapi

// What these tests would catch: a key that is limited to queues and gets, ends,
// names or stops what is in another; a key's worker that another key can take the
// jobs of.

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	aReport    = `{"queue":"reports","task":"build","payload":{"secret":"of reports"}}`
	namedClaim = `{"worker":"worker-1","queues":["reports"],"wait":"0s","claim_id":"c-1"}`
)

// TestAClaimIDIsItsKeys has another key, limited or not, say a worker and a claim
// id that it saw somewhere: it gets nothing of what was claimed under them.
func TestAClaimIDIsItsKeys(t *testing.T) {
	r := newRig(t)
	made := r.make(aReport)
	first := r.claim(namedClaim)
	if len(first.Jobs) != 1 {
		t.Fatalf("%+v", first)
	}
	for key, body := range map[string]string{
		"mail": strings.Replace(namedClaim, "reports", "emails", 1), "admin": namedClaim,
	} {
		if a := r.call(key, "POST", "/v3/claims", body); len(is[Claim](a, 200).Jobs) != 0 {
			t.Errorf("the key %s gets %s", key, a.body)
		}
	}
	if again := r.claim(namedClaim); len(again.Jobs) != 1 || again.Jobs[0].Job.ID != made.ID || again.Jobs[0].Lease != first.Jobs[0].Lease {
		t.Errorf("its own repeat gets %+v", again.Jobs)
	}
}

// TestNobodyEndsTheWaitOfAnothersClaim has another key ask under the claim id of a
// claim that waits.
func TestNobodyEndsTheWaitOfAnothersClaim(t *testing.T) {
	r := newRig(t)
	ended := make(chan answer, 1)
	go func() {
		ended <- r.call("work", "POST", "/v3/claims", strings.Replace(namedClaim, "0s", "30s", 1))
	}()
	r.until("the claim waits", func() bool { return r.store.Vitals().Parked == 1 })
	is[Claim](r.call("mail", "POST", "/v3/claims", strings.Replace(namedClaim, "reports", "emails", 1)), 200)
	is[Claim](r.call("admin", "POST", "/v3/claims", namedClaim), 200)
	made := r.make(aReport)
	if got := is[Claim](<-ended, 200); len(got.Jobs) != 1 || got.Jobs[0].Job.ID != made.ID {
		t.Errorf("the wait ended with %+v", got)
	}
}

// TestAKeyReportsOnItsQueues gives a limited key the lease of another queue's job.
func TestAKeyReportsOnItsQueues(t *testing.T) {
	r := newRig(t)
	made := r.make(aReport)
	lease := r.claim(namedClaim).Jobs[0].Lease
	for _, key := range []string{"mail", "mail-two"} {
		for _, rest := range []string{`"start"}`, `"heartbeat"}`, `"log","lines":[{"seq":1}]}`, `"complete"}`, `"fail"}`, `"release"}`} {
			a := r.call(key, "POST", "/v3/reports", `{"worker":"worker-1","reports":[{"lease":"`+lease+`","type":`+rest+`]}`)
			if got := is[ReportAnswer](a, 200).Results[0]; got.Status != "lease_lost" || got.JobStatus != "" {
				t.Errorf("the key %s reports %s: %+v", key, rest, got)
			}
		}
	}
	if got := r.fetch(made.ID); got.Status != job.Running || len(got.Attempts) != 1 {
		t.Errorf("%+v", got)
	}
	if got := r.report(`{"lease":"` + lease + `","type":"complete"}`); got[0].Status != "ok" {
		t.Errorf("%+v", got)
	}
}

// TestAConflictNamesNoJobOfAnotherQueue uses an idempotency key that another queue
// has: that is a conflict, since keys are one space, and no more is told.
func TestAConflictNamesNoJobOfAnotherQueue(t *testing.T) {
	r := newRig(t)
	hidden := r.make(aReport, KeyHeader, "k-1").ID
	seen := r.make(aJob, KeyHeader, "k-2").ID
	single := func(caller, key string) answer {
		return r.call(caller, "POST", "/v3/jobs", `{"queue":"emails","task":"other","payload":1}`, KeyHeader, key)
	}
	batch := func(caller, key string) answer {
		return r.call(caller, "POST", "/v3/jobs/batch", `{"jobs":[{"queue":"emails","task":"other","payload":1,"idempotency_key":"`+key+`"}]}`)
	}
	for name, call := range map[string]func(caller, key string) answer{"single": single, "batch": batch} {
		if a := call("mail", "k-1"); a.fails(problem.Conflict).Job != "" || strings.Contains(string(a.body), hidden) {
			t.Errorf("%s: %s", name, a.body)
		}
		if d := call("mail", "k-2").fails(problem.Conflict); d.Job != seen || !strings.Contains(d.Detail, seen) {
			t.Errorf("%s: %+v", name, d)
		}
		if d := call("produce", "k-1").fails(problem.Conflict); d.Job != hidden {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

// TestWhatIsWrongNamesNoOtherQueue makes mistakes with a limited key, near a queue
// that it does not see.
func TestWhatIsWrongNamesNoOtherQueue(t *testing.T) {
	r := newRig(t)
	for what, c := range map[string]struct{ method, path, body string }{
		"a create":           {"POST", "/v3/jobs", `{"queue":"report","task":"t","payload":1}`},
		"a create, and more": {"POST", "/v3/jobs", `{"queue":"report","task":"t","payload":1,"bogus":1}`},
		"a batch":            {"POST", "/v3/jobs/batch", `{"jobs":[` + aJob + `,{"queue":"report","task":"t","payload":1}]}`},
		"a batch, and more":  {"POST", "/v3/jobs/batch", `{"jobs":[{"queue":"report","task":"t","payload":1,"bogus":1}]}`},
		"a claim":            {"POST", "/v3/claims", `{"worker":"worker-1","queues":["report"],"wait":"0s"}`},
		"a pause":            {"POST", "/v3/queues/report/pause", ""},
		"a list":             {"GET", "/v3/jobs?queue=report", ""},
		"a queue far away":   {"POST", "/v3/jobs", `{"queue":"zzz","task":"t","payload":1}`},
	} {
		a := r.call("mail", c.method, c.path, c.body)
		if a.fails(problem.Forbidden); strings.Contains(string(a.body), "reports") {
			t.Errorf("%s: %s", what, a.body)
		}
	}
	// The queue nothing is the key's and is not configured.
	a := r.call("mail-two", "POST", "/v3/jobs", `{"queue":"nothing","task":"t","payload":1}`)
	a.fails(problem.Invalid).faults(t, "/queue", `unknown queue "nothing"`)
	// No queue at all is what is wrong with the request, not with the key.
	r.call("mail", "POST", "/v3/jobs", `{"task":"t","payload":1}`).fails(problem.Invalid).faults(t, "/queue", "is missing")
}

// TestABoundOfTheStoreIsTold has a store that holds as much as it keeps.
func TestABoundOfTheStoreIsTold(t *testing.T) {
	base := newRig(t)
	broken := &failing{Store: base.store, err: store.ErrTooMany}
	r := rigWith(t, base, broken)
	for what, c := range map[string]struct{ path, body, says string }{
		"create": {"/v3/jobs", aJob, "kinds of jobs"}, "batch": {"/v3/jobs/batch", `{"jobs":[` + aJob + `]}`, "kinds of jobs"},
		"pause": {"/v3/endpoints/mailer/pause", "", "resume some"},
	} {
		if d := r.call("admin", "POST", c.path, c.body).fails(problem.Invalid); !strings.Contains(d.Detail, c.says) {
			t.Errorf("%s: %s", what, d.Detail)
		}
	}
}

// TestAClaimThatMayNotWaitIsTold has a key with as many claims that wait as may.
func TestAClaimThatMayNotWaitIsTold(t *testing.T) {
	base := newRig(t)
	r := rigWith(t, base, &failing{Store: base.store, err: store.ErrBusy})
	a := r.call("work", "POST", "/v3/claims", namedClaim)
	if d := a.fails(problem.Unavailable); a.header.Get("Retry-After") != "2" || !strings.Contains(d.Detail, "too many claims wait") {
		t.Errorf("Retry-After %q: %s", a.header.Get("Retry-After"), d.Detail)
	}
}

// rigWith is the rig with an API that sees another store.
func rigWith(t *testing.T, base *rig, seen store.Store) *rig {
	t.Helper()
	r := *base
	server, err := jobserver.NewServer(jobserver.Options{Store: seen, Config: someConfig})
	if err != nil {
		t.Fatal(err)
	}
	r.server = server
	r.serve(handlerIn(Options{Server: server, Store: seen}, r.memory))
	return &r
}
