package httpapi

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// rig is the API over HTTP, on a store of its own.
type rig struct {
	testing.TB
	store  *sqlite.Store
	server *jobserver.Server
	api    http.Handler
	url    string
	memory *memory
	secret map[string]string // of the keys, by name
	stop   context.CancelFunc
}

// someQueues are the rig's.
var someQueues = map[string]jobserver.Queue{
	"emails":  {Lease: 10 * time.Second, Timeout: time.Minute, Retry: job.Overlay{Factor: new(3.0)}},
	"reports": {},
}

// someConfig is the rig's configuration.
var someConfig = jobserver.Config{
	Queues:        someQueues,
	Endpoints:     map[string]jobserver.Endpoint{"filed": {Concurrency: 3}},
	Tasks:         map[lane.Task]jobserver.Task{{Name: "filed", Version: "1"}: {Endpoint: "filed"}},
	Subscriptions: map[string]jobserver.Subscription{"filed": {Events: []store.EventType{store.JobFailed}, To: []string{"chat"}}},
}

// someKeys are the rig's, by name.
var someKeys = map[string]jobserver.KeyRequest{
	"admin":    {Scopes: []store.Scope{store.ScopeAdmin}},
	"produce":  {Scopes: []store.Scope{store.ScopeProduce}},
	"work":     {Scopes: []store.Scope{store.ScopeWork}},
	"operate":  {Scopes: []store.Scope{store.ScopeOperate}},
	"mail":     {Scopes: []store.Scope{store.ScopeAdmin}, Queues: []string{"emails"}},
	"mail-two": {Scopes: []store.Scope{store.ScopeAdmin}, Queues: []string{"emails", "nothing"}},
}

func newRig(t testing.TB) *rig {
	t.Helper()
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return rigOn(t, s, s)
}

// rigOn is a rig whose API sees another store than its own: one with faults.
func rigOn(t testing.TB, s *sqlite.Store, seen store.Store) *rig {
	t.Helper()
	server, err := jobserver.NewServer(jobserver.Options{Store: seen, Config: someConfig})
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	stopping, stop := context.WithCancel(context.Background())
	r := &rig{TB: t, store: s, server: server, secret: map[string]string{}, stop: stop}
	r.memory = newMemory(maxLarge, maxShare)
	r.api = handlerIn(Options{Server: server, Store: seen, Version: "1.2.3", Stopping: stopping}, r.memory)
	for name, ask := range someKeys {
		ask.Name = name
		secret, k, err := jobserver.NewKey(ask, s.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.AddKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
		r.secret[name] = secret
	}
	web := httptest.NewServer(r.api)
	t.Cleanup(web.Close)
	t.Cleanup(stop)
	r.url = web.URL
	return r
}

// answer is what came back.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// call makes a call with the key of the name. headers are name, value, …; a
// value of "" takes the header away.
func (r *rig) call(key, method, path, body string, headers ...string) answer {
	r.Helper()
	return r.callCtx(r.Context(), key, method, path, body, headers...)
}

func (r *rig) callCtx(ctx context.Context, key, method, path, body string, headers ...string) answer {
	r.Helper()
	req, err := http.NewRequestWithContext(ctx, method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+r.secret[key])
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
		if headers[i+1] == "" {
			req.Header.Del(headers[i])
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.Fatal(err)
	}
	for _, at := range timeText.FindAllString(string(text), -1) {
		if _, err := time.Parse(`"`+job.TimeForm+`"`, at); err != nil {
			r.Errorf("%s %s: the time %s is not RFC 3339 in UTC with milliseconds", method, path, at)
		}
	}
	return answer{r, resp.StatusCode, resp.Header, text}
}

// timeText is what looks like a time in an answer.
var timeText = regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:[^"\\]*"`)

// is checks that an answer went well and is of the type.
func is[T any](a answer, status int) (v T) {
	a.t.Helper()
	if a.status != status || a.header.Get("Content-Type") != "application/json" {
		a.t.Fatalf("%d %s: %s", a.status, a.header.Get("Content-Type"), a.body)
	}
	if err := json.Unmarshal(a.body, &v, json.RejectUnknownMembers(true)); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
	return v
}

// failure is a problem as it came.
type failure struct{ Problem }

// fails checks that an answer is the problem, and returns it.
func (a answer) fails(t problem.Type) failure {
	a.t.Helper()
	var d failure
	if a.status != t.Status() || a.header.Get("Content-Type") != problem.MediaType {
		a.t.Fatalf("%d %s, not %s: %s", a.status, a.header.Get("Content-Type"), t, a.body)
	}
	if err := json.Unmarshal(a.body, &d.Problem, json.RejectUnknownMembers(true)); err != nil {
		a.t.Fatalf("%v in %s", err, a.body)
	}
	if d.Type != t.URI() || d.Status != a.status || d.Title != http.StatusText(a.status) || d.Detail == "" {
		a.t.Fatalf("%s", a.body)
	}
	return d
}

// faults checks what a problem says is wrong: pointer or parameter, message, ….
func (d failure) faults(t testing.TB, want ...string) {
	t.Helper()
	var got []string
	for _, f := range d.Errors {
		got = append(got, f.Pointer+f.Parameter, f.Message)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

const aJob = `{"queue":"emails","task":"send","payload":{"user_id":7}}`

func (r *rig) make(body string, headers ...string) Job {
	r.Helper()
	return is[Job](r.call("produce", "POST", "/v3/jobs", body, headers...), 201)
}

func (r *rig) claim(body string) Claim {
	r.Helper()
	return is[Claim](r.call("work", "POST", "/v3/claims", body), 200)
}

// take claims one job of the queue emails.
func (r *rig) take() Claimed {
	r.Helper()
	got := r.claim(`{"worker":"worker-1","queues":["emails"],"wait":"5s"}`)
	if len(got.Jobs) != 1 {
		r.Fatalf("%d jobs", len(got.Jobs))
	}
	return got.Jobs[0]
}

func (r *rig) report(reports ...string) []ReportResult {
	r.Helper()
	body := `{"worker":"worker-1","reports":[` + strings.Join(reports, ",") + `]}`
	return is[ReportAnswer](r.call("work", "POST", "/v3/reports", body), 200).Results
}

func (r *rig) fetch(id string) Job {
	r.Helper()
	return is[Job](r.call("produce", "GET", "/v3/jobs/"+id, ""), 200)
}

// compact is JSON without spaces.
func compact(t testing.TB, v Value) string {
	t.Helper()
	return string(bytes.TrimSpace(v))
}

// tryClaim claims and does not care for the answer.
func (r *rig) tryClaim(ctx context.Context) {
	req, err := http.NewRequestWithContext(ctx, "POST", r.url+"/v3/claims", strings.NewReader(`{"worker":"worker-2","queues":["emails"],"wait":"60s"}`))
	if err != nil {
		r.Error(err)
		return
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+r.secret["work"])
	if resp, err := http.DefaultClient.Do(req); err == nil {
		resp.Body.Close()
	}
}

// jobserverConfig has one queue.
func jobserverConfig(queue string) jobserver.Config {
	return jobserver.Config{Queues: map[string]jobserver.Queue{queue: {}}}
}

// serve puts another handler at the rig's URL.
func (r *rig) serve(h http.Handler) {
	r.Helper()
	web := httptest.NewServer(h)
	r.Cleanup(web.Close)
	r.api, r.url = h, web.URL
}

// rigOnServer is a rig with the API of another one's server.
func rigOnServer(t testing.TB, other *rig) *rig {
	t.Helper()
	r := *other
	r.serve(Handler(Options{Server: r.server, Store: r.store}))
	return &r
}
