package e2e

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"
)

// jobServer is the job API of a site, as a program meets it. Safe for
// concurrent use.
type jobServer struct {
	testing.TB
	url string
}

func (s *site) jobs() *jobServer { return &jobServer{s.TB, "http://" + s.admin} }

// call sends one request. A code of 0 is a connection that broke.
func (j *jobServer) call(method, path, key string, body any) (code int, text []byte) {
	var in io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			j.Fatal(err)
		}
		in = bytes.NewReader(b)
	}
	r, err := http.NewRequest(method, j.url+path, in)
	if err != nil {
		j.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+adminKey)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := client.Do(r)
	if err != nil {
		return 0, []byte(err.Error())
	}
	defer res.Body.Close()
	text, err = io.ReadAll(res.Body)
	if err != nil {
		return 0, []byte(err.Error())
	}
	return res.StatusCode, text
}

// jobView is a job as the API shows it, as far as tests look.
type jobView struct {
	ID         string         `json:"id"`
	Queue      string         `json:"queue"`
	Endpoint   *string        `json:"endpoint"`
	Status     string         `json:"status"`
	Attempt    int            `json:"attempt"`
	Payload    jsontext.Value `json:"payload"`
	Result     jsontext.Value `json:"result"`
	DeadLetter bool           `json:"dead_letter"`
	Reason     *string        `json:"reason"`
	Attempts   []attemptView  `json:"attempts"`
}

type attemptView struct {
	Number     int        `json:"number"`
	Worker     string     `json:"worker"`
	StartedAt  time.Time  `json:"started_at"`
	DurationMS *int64     `json:"duration_ms"`
	Outcome    *string    `json:"outcome"`
	Error      *errorTold `json:"error"`
}

// errorTold is what a worker said of a failure.
type errorTold struct {
	Type    string `json:"type"`
	Message string `json:"message"`
}

func (a attemptView) String() string {
	return fmt.Sprintf("attempt %d of %s, %s from %s to %s", a.Number, a.Worker, a.outcome(), a.StartedAt.Format("15:04:05.000"), a.ended().Format("15:04:05.000"))
}

// over reports whether the job is finished, and nobody works on it any more.
func (v jobView) over() bool {
	for _, a := range v.Attempts {
		if a.outcome() == "running" {
			return false
		}
	}
	return v.Status == "succeeded" || v.Status == "failed" || v.Status == "cancelled"
}

// ended is when the attempt was over.
func (a attemptView) ended() time.Time {
	if a.DurationMS == nil {
		return time.Time{}
	}
	return a.StartedAt.Add(time.Duration(*a.DurationMS) * time.Millisecond)
}

func (a attemptView) outcome() string {
	if a.Outcome == nil {
		return "running"
	}
	return *a.Outcome
}

// create makes a job with the key as its payload's n, and returns its id.
func (j *jobServer) create(queue, key string) (code int, id string) {
	return j.createFor(queue, "", key)
}

// createFor makes a job that calls an endpoint; "" is none.
func (j *jobServer) createFor(queue, endpoint, key string) (code int, id string) {
	body := map[string]any{"queue": queue, "task": "work", "payload": map[string]any{"n": key}}
	if endpoint != "" {
		body["endpoint"] = endpoint
	}
	code, text := j.call(http.MethodPost, "/v3/jobs", key, body)
	if code != http.StatusCreated && code != http.StatusOK {
		return code, string(text)
	}
	var v jobView
	if err := json.Unmarshal(text, &v); err != nil {
		j.Errorf("create answered %d with %s: %v", code, text, err)
	}
	return code, v.ID
}

func (j *jobServer) get(id string) (code int, v jobView) {
	code, text := j.call(http.MethodGet, "/v3/jobs/"+id, "", nil)
	if code == http.StatusOK {
		if err := json.Unmarshal(text, &v); err != nil {
			j.Errorf("job %s: %v in %s", id, err, text)
		}
	}
	return code, v
}

// leased is a job that a worker has.
type leased struct {
	Job     jobView `json:"job"`
	Attempt int     `json:"attempt"`
	Lease   string  `json:"lease"`
}

func (j *jobServer) claim(worker, queue, claimID string, most int, wait time.Duration) (code int, got []leased) {
	body := map[string]any{"worker": worker, "queues": []string{queue}, "max": most, "wait": wait.String()}
	if claimID != "" {
		body["claim_id"] = claimID
	}
	code, text := j.call(http.MethodPost, "/v3/claims", "", body)
	if code != http.StatusOK {
		return code, nil
	}
	var answer struct {
		Jobs []leased `json:"jobs"`
	}
	if err := json.Unmarshal(text, &answer); err != nil {
		j.Errorf("a claim answered %s: %v", text, err)
	}
	return code, answer.Jobs
}

// report is one report of a request, and told what the server said of it.
type report struct {
	Lease      string         `json:"lease"`
	Type       string         `json:"type"`
	Result     map[string]any `json:"result,omitzero"`
	Error      map[string]any `json:"error,omitzero"`
	Retryable  *bool          `json:"retryable,omitzero"`
	RetryAfter string         `json:"retry_after,omitzero"`
	Endpoint   string         `json:"endpoint,omitzero"`
}

type told struct {
	Status    string `json:"status"`
	JobStatus string `json:"job_status"`
}

func (j *jobServer) report(worker string, reports ...report) (code int, results []told) {
	code, text := j.call(http.MethodPost, "/v3/reports", "", map[string]any{"worker": worker, "reports": reports})
	if code != http.StatusOK {
		return code, nil
	}
	var answer struct {
		Results []told `json:"results"`
	}
	if err := json.Unmarshal(text, &answer); err != nil || len(answer.Results) != len(reports) {
		j.Errorf("%d reports were answered %s: %v", len(reports), text, err)
		return 0, nil
	}
	return code, answer.Results
}

// diary is what producers and workers were told, by the server's own word.
type diary struct {
	mu       sync.Mutex
	created  map[string]string  // key to id, where 201 or 200 was answered
	ids      map[string]bool    // of those
	leases   map[string]string  // job/attempt to the worker's claim
	outcomes map[string]outcome // job/attempt to what was answered ok
	count    map[string]int     // of each kind of answer
	problems []string
}

type outcome struct{ kind, mark string }

func newDiary() *diary {
	return &diary{created: map[string]string{}, ids: map[string]bool{}, leases: map[string]string{}, outcomes: map[string]outcome{}, count: map[string]int{}}
}

func (d *diary) noteCreated(key, id string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count["created"]++
	if before, twice := d.created[key]; twice && before != id {
		d.problems = append(d.problems, fmt.Sprintf("key %s was answered %s and %s", key, before, id))
	}
	d.created[key], d.ids[id] = id, true
}

// knows reports whether whoever made the job was answered.
func (d *diary) knows(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.ids[id]
}

// noteLease checks that no attempt is handed to two claims.
func (d *diary) noteLease(l leased, claim string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count["claimed"]++
	at := place(l.Job.ID, l.Attempt)
	if before, twice := d.leases[at]; twice && before != claim {
		d.problems = append(d.problems, fmt.Sprintf("attempt %s was handed to claims %s and %s", at, before, claim))
	}
	d.leases[at] = claim
}

func (d *diary) noteOutcome(l leased, o outcome) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[o.kind]++
	d.outcomes[place(l.Job.ID, l.Attempt)] = o
}

func (d *diary) tally() map[string]int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := map[string]int{}
	for k, v := range d.count {
		n[k] = v
	}
	return n
}

func place(id string, attempt int) string { return fmt.Sprintf("%s/%d", id, attempt) }
