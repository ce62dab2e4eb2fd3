package httpapi

// What these tests would catch: a request that makes a handler panic, that is
// answered with something that is no JSON, or with a status that the document
// does not have for its call.

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// offline is the API on a store that does nothing, without a network.
func offline(t testing.TB) (h http.Handler, secret string) {
	t.Helper()
	s := &instant{job: barelyJob()}
	s.job.Content.Payload = []byte(`{"user_id":7,"text":"` + strings.Repeat("x", 200) + `"}`)
	secret, k, err := jobserver.NewKey(jobserver.KeyRequest{Name: "k", Scopes: []store.Scope{store.ScopeAdmin}}, moment)
	if err != nil {
		t.Fatal(err)
	}
	s.key = k
	server, err := jobserver.NewServer(jobserver.Options{Store: s, Config: someConfig})
	if err != nil {
		t.Fatal(err)
	}
	return Handler(Options{Server: server, Store: s}), secret
}

// FuzzBodies sends any body to the calls that take one.
func FuzzBodies(f *testing.F) {
	paths := []string{"/v3/jobs", "/v3/jobs/batch", "/v3/claims", "/v3/reports"}
	for _, seed := range []string{
		aJob, `{"jobs":[` + aJob + `,{"queue":"x","idempotency_key":"k"}]}`, `{"worker":"worker-1","queues":["emails"],"tasks":["a@b","@"],"max":2,"wait":"0s","claim_id":"c"}`,
		`{"worker":"worker-1","reports":[{"lease":"x","type":"fail","error":{"message":"` + "\xff" + `\u0000"},"retry_in":"30s"},{"type":"log","lines":[{"seq":1}]},7]}`,
		`{"queue":"emails","task":"t","payload":{"a":[1,{}]},"retry":{"jitter":2},"tags":["a"],"run_at":"2026-01-01T00:00:00Z","delay":"1d"}`, `[`, ``, `null`,
	} {
		for i := range paths {
			f.Add(uint8(i), "key", []byte(seed))
		}
	}
	h, secret := offline(f)
	f.Fuzz(func(t *testing.T, which uint8, key string, body []byte) {
		path := paths[int(which)%len(paths)]
		req := httptest.NewRequestWithContext(t.Context(), "POST", path, io.NopCloser(bytes.NewReader(body)))
		req.Header.Set("Authorization", "Bearer "+secret)
		req.Header.Set("Content-Type", "application/json")
		if key != "" {
			req.Header.Set(KeyHeader, key)
		}
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		c := &calls[slices.IndexFunc(calls, func(c call) bool { return c.Path == path && c.Method == "POST" })]
		isDocumented(t, c, rec)
	})
}

// FuzzQuery asks for lists with any query.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"", "status=queued&limit=5", "limit=0&limit=1", "created_after=2026-01-01T00:00:00Z", "a=%zz;b", "cursor=x&queue=%00&tag=é"} {
		f.Add(seed)
	}
	h, secret := offline(f)
	f.Fuzz(func(t *testing.T, query string) {
		req := httptest.NewRequestWithContext(t.Context(), "GET", "/v3/jobs", http.NoBody)
		req.URL = &url.URL{Path: "/v3/jobs", RawQuery: query}
		req.Header.Set("Authorization", "Bearer "+secret)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, req)
		isDocumented(t, &calls[slices.IndexFunc(calls, func(c call) bool { return c.id == "listJobs" })], rec)
	})
}

// isDocumented checks that an answer is JSON and its status one of the call's.
func isDocumented(t *testing.T, c *call, rec *httptest.ResponseRecorder) {
	t.Helper()
	good := slices.Contains(c.statuses, rec.Code) || len(c.statuses) == 0 && rec.Code == http.StatusOK
	bad := slices.ContainsFunc(c.problems(), func(p problem.Type) bool { return p.Status() == rec.Code })
	if !good && !bad || rec.Code >= http.StatusInternalServerError {
		t.Fatalf("%s is answered %d: %s", c.id, rec.Code, rec.Body)
	}
	if !jsontext.Value(rec.Body.Bytes()).IsValid() {
		t.Fatalf("%s is answered with no JSON: %q", c.id, rec.Body)
	}
	if bad {
		var d Problem
		if err := json.Unmarshal(rec.Body.Bytes(), &d); err != nil || d.Detail == "" || rec.Body.Len() > 64<<10 {
			t.Fatalf("%s: %v, %d bytes: %.300s", strconv.Itoa(rec.Code), err, rec.Body.Len(), rec.Body)
		}
	}
}

// FuzzSettings reads any body as settings of each kind: whatever is wrong has a
// place in the body.
func FuzzSettings(f *testing.F) {
	for id, body := range wholeExamples {
		if id != "report" {
			f.Add([]byte(body))
		}
	}
	f.Add([]byte(`{"rate":7,"circuit":{"failures":0,"cooldown":""},"filter":{"queue":"` + "\u00e9" + `"},"events":["job.failed",1]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, take := range []func(*wirejson.Reader){
			func(r *wirejson.Reader) { readQueue(r) }, func(r *wirejson.Reader) { readEndpoint(r) }, func(r *wirejson.Reader) { readContract(r) },
			func(r *wirejson.Reader) { readReplay(r) }, func(r *wirejson.Reader) { readSubscription(r) },
		} {
			found, err := wirejson.Read(body, wirejson.Refuse, take)
			if err != nil {
				continue
			}
			for _, p := range found.Problems {
				if p.Message == "" || p.Pointer != "" && p.Pointer[0] != '/' {
					t.Errorf("%+v of %q", p, body)
				}
			}
		}
	})
}
