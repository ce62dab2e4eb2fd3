// These tests catch a problem document that clients could not rely on: a
// status that differs from the one in the body, a type that changed its name, a
// Retry-After that is zero or rounds down.
package problem

import (
	"encoding/json/v2"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDocumentsAreWhatClientsRelyOn(t *testing.T) {
	want := map[Type]int{
		"bad-request": 400, "unauthenticated": 401, "forbidden": 403, "not-found": 404, "method-not-allowed": 405,
		"request-timeout": 408, "key-conflict": 409, "exists": 409, "managed_by_file": 409, "status": 409, "uncertain": 409, "differs": 409, "in-use": 409, "too-large": 413, "unsupported-media-type": 415,
		"invalid": 422, "internal": 500, "unavailable": 503, "still-working": 504, "no such type": 500,
	}
	for typ, status := range want {
		rec := httptest.NewRecorder()
		Document{Type: typ, Detail: "why \xff", ID: "m<1>"}.Write(rec)
		if rec.Code != status || rec.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: status %d, type %q; want %d", typ, rec.Code, rec.Header().Get("Content-Type"), status)
		}
		var got map[string]any
		if err := json.Unmarshal(rec.Body.Bytes(), &got); err != nil {
			t.Fatalf("%s: %v in %s", typ, err, rec.Body)
		}
		if diff := cmp.Diff(map[string]any{
			"type": "urn:pawl:problem:" + string(typ), "title": http.StatusText(status),
			"status": float64(status), "detail": "why \ufffd", "id": "m<1>",
		}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", typ, diff)
		}
	}
}

func TestEveryFaultIsNamed(t *testing.T) {
	got := string(Document{Type: Invalid, Detail: "two things are wrong", Job: "job_1", Errors: []Fault{
		{Pointer: "/jobs/3/queue", Message: "unknown"}, {Parameter: "limit", Message: "too large"}, {Offset: new(int64(0)), Message: "no JSON"},
	}}.Encode())
	const want = `{"type":"urn:pawl:problem:invalid","title":"Unprocessable Entity","status":422,"detail":"two things are wrong","job":"job_1",` +
		`"errors":[{"pointer":"/jobs/3/queue","message":"unknown"},{"parameter":"limit","message":"too large"},{"offset":0,"message":"no JSON"}]}`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestRetryAfterRoundsUp(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second: "1", 0: "1", time.Millisecond: "1", time.Second: "1",
		time.Second + 1: "2", time.Minute: "60",
	} {
		if got := RetryAfter(d); got != want {
			t.Errorf("RetryAfter(%v) = %s, want %s", d, got, want)
		}
	}
}
