package httpapi

// What this test would catch: bad data that opens the circuit of an endpoint which
// is well, and so holds up what is good.

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
)

// TestABadBatchOpensNoCircuit lets a worker send a batch to a far side that answers
// 400 to two in five, and to many of those in a row.
func TestABadBatchOpensNoCircuit(t *testing.T) {
	r := newRig(t)
	const all, bad = 1000, 400
	far := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, "/bad") {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	t.Cleanup(far.Close)
	var jobs []string
	for n := range all {
		kind := "good"
		if n%500 < bad/2 {
			kind = "bad"
		}
		jobs = append(jobs, fmt.Sprintf(`{"queue":"emails","task":"send","endpoint":"far","payload":%q}`, kind))
	}
	r.call("produce", "POST", "/v3/jobs/batch", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
	got := r.claim(`{"worker":"worker-1","queues":["emails"],"max":1000}`).Jobs
	if len(got) != all {
		t.Fatalf("%d claimed", len(got))
	}
	var reports []string
	for _, c := range got {
		resp, err := http.Post(far.URL+"/"+strings.Trim(compact(t, c.Job.Payload), `"`), "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		report := `"complete"`
		if resp.StatusCode == http.StatusBadRequest { // as the SDKs report it
			report = `"fail","error":{"type":"HttpError","message":"400"},"retryable":false,"endpoint":"ok"`
		}
		reports = append(reports, `{"lease":"`+c.Lease+`","type":`+report+`}`)
	}
	for i, result := range r.report(reports...) {
		if result.Status != "ok" {
			t.Fatalf("report %d: %+v", i, result)
		}
	}
	e := is[Endpoint](r.call("admin", "GET", "/v3/endpoints/far", ""), 200)
	if e.Counts != (Counts{Succeeded: all - bad, Failed: bad}) || e.Circuit.State != string(circuit.Closed) || e.Circuit.Failures != 0 || e.Circuit.Generation != 0 {
		t.Errorf("%+v", e)
	}
	dead := 0
	for cursor := ""; ; {
		page := is[Jobs](r.call("operate", "GET", "/v3/jobs?dead_letter=true&reason=non_retryable&limit=300"+cursor, ""), 200)
		for _, j := range page.Jobs {
			if dead++; j.Status != job.Failed || *j.Reason != string(job.ReasonNonRetryable) || j.AttemptsCharged != 1 {
				t.Errorf("%+v", j)
			}
		}
		if page.NextCursor == nil {
			break
		}
		cursor = "&cursor=" + *page.NextCursor
	}
	if dead != bad {
		t.Errorf("%d dead letters, not %d", dead, bad)
	}
}
