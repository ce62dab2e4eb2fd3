// These tests catch: an API that a web page reaches, or one without a key; a
// request with a mistake that is answered by half of an answer; a replay, a
// purge or a send whose outcome does not survive the wire; a lever that forgets
// who moved it; a live view that blocks the relay or hides what it left out.
package adminapi

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/relay"
)

// endpoint is a destination that takes everything, or nothing while broken.
type endpoint struct {
	broken atomic.Bool
	taken  atomic.Int64
}

func (e *endpoint) Send(context.Context, *message.Message) (connector.Answer, error) {
	if e.broken.Load() {
		return connector.Answer{}, failure.FromStatus(http.StatusBadRequest, 0)
	}
	e.taken.Add(1)
	return connector.Answer{}, nil
}

func (e *endpoint) Close() error { return nil }

// rig is an API over a relay with the source web and the destination ledger.
type rig struct {
	*testing.T
	opts     Options
	endpoint *endpoint
	server   *httptest.Server
	events   []event.Event
	reload   error
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{T: t, endpoint: &endpoint{}}
	fleet := deliver.NewFleet(deliver.Options{})
	letters, err := deadletter.Open(filepath.Join(t.TempDir(), "dead"), deadletter.Options{
		Free: func(string) (uint64, error) { return 1 << 40, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	re := relay.New(relay.Options{Name: "shop", Fleet: fleet, Letters: letters.Append})
	policy := retry.Resolve()
	policy.Attempts = 1
	guard := breaker.Defaults()
	set, err := fleet.Configure([]deliver.Spec{
		{Name: "ledger", Connector: r.endpoint, Retry: policy, Timeout: time.Second, Workers: 4, MaxPending: 8, Breaker: &guard},
		{Name: "plain", Connector: r.endpoint, Retry: policy, Timeout: time.Second, Workers: 4, MaxPending: 8},
		{Name: "x", Connector: r.endpoint, Retry: policy, Timeout: time.Second, Workers: 4, MaxPending: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := re.Swap(relay.Config{Destinations: set, Sources: []relay.SourceSpec{
		{Name: "web", MaxInFlight: 10, MaxInFlightBytes: 1000}, {Name: "x", MaxInFlight: 10, MaxInFlightBytes: 1000},
	}}); err != nil {
		t.Fatal(err)
	}
	ledger, _ := set.Destination("ledger")
	writer := deadletter.NewWriter(deadletter.WriterOptions{Primary: letters, Retry: policy})
	r.opts = Options{
		RelayName: "shop", Version: "test", PID: 1, Started: time.Now(), Relay: re, Fleet: fleet, Letters: letters,
		Tail: NewTail(), Levers: NewLevers(), Events: func(e event.Event) { r.events = append(r.events, e) },
		Reload:         func(context.Context) (int, error) { return 7, r.reload },
		HasDestination: func(name string) bool { return name == "ledger" },
		Send: func(ctx context.Context, _ string, m *message.Message) (deliver.Result, error) {
			place, err := ledger.EnterWait(ctx)
			if err != nil {
				return deliver.Result{}, err
			}
			return ledger.Deliver(ctx, deliver.Request{Message: m, Place: place}), nil
		},
		WriteLetter: writer.Write,
	}
	r.server = httptest.NewServer(New(r.opts).Handler())
	t.Cleanup(func() {
		r.server.Close()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if err := re.Stop(ctx); err != nil {
			t.Error(err)
		}
		fleet.Close()
		if err := letters.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// letter stores a dead letter of a message that ledger refused.
func (r *rig) letter(id, destination string, at time.Time) {
	r.Helper()
	err := r.opts.Letters.Append(r.Context(), &message.DeadLetter{
		Message: &message.Message{ID: id, Source: "web", Time: at, Body: []byte("body")},
		Death: message.Death{
			Letter: deadletter.NewID(at), Relay: "shop", At: at, Reason: message.ReasonDelivery, Destination: destination, Error: "HTTP 400",
		},
	})
	if err != nil {
		r.Fatal(err)
	}
}

// call makes a request and returns the status and the body.
func (r *rig) call(method, path, body string) (int, string) {
	r.Helper()
	req, err := http.NewRequest(method, r.server.URL+path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		r.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		r.Fatal(err)
	}
	return res.StatusCode, string(text)
}

func TestMistakes(t *testing.T) {
	r := newRig(t)
	r.letter("m1", "ledger", time.Now())
	for _, c := range []struct {
		method, path, body string
		code               int
		want               string
	}{
		{"GET", "/v3/nosuch", "", 404, "there is no GET /v3/nosuch"},
		{"DELETE", "/v3/status", "", 404, "there is no DELETE"},
		{"GET", "/v3/dead-letters//", "", 404, "a part of the path is empty; is a name missing?"},
		{"GET", "/v3/tail?events=some", "", 400, "settled or all"},
		{"GET", "/v3/dead-letters?since=soon", "", 400, "2026-01-02"},
		{"GET", "/v3/dead-letters?reason=nonsense", "", 400, "no reason"},
		{"GET", "/v3/dead-letters?" + strings.Repeat("id=x&", deadletter.MaxIDs+1), "", 400, "1000"},
		{"GET", "/v3/dead-letters?destination=", "", 400, "destination is empty; leave it out"},
		{"GET", "/v3/dead-letters?reason=schema&reason=delivery", "", 400, "reason is there twice"},
		{"GET", "/v3/dead-letters?queue=x", "", 400, `there is no parameter \"queue\"; there are since, reason, destination, id`},
		{"GET", "/v3/dead-letters?id=%zz", "", 400, "the query can't be read"},
		{"GET", "/v3/tail?event=all", "", 400, "there is no parameter"},
		{"GET", "/v3/dead-letters/nosuch", "", 404, "nosuch"},
		{"POST", "/v3/dead-letters/replay", "{", 400, "JSON ends too early"},
		{"POST", "/v3/dead-letters/replay", "{]", 400, "JSON is wrong at byte 1"},
		{"POST", "/v3/dead-letters/replay", `{"all":true}`, 400, "all"},
		{"POST", "/v3/dead-letters/replay", `{"rate":-1}`, 400, "rate"},
		{"POST", "/v3/dead-letters/replay", `{"reason":"nonsense"}`, 400, "no reason"},
		{"POST", "/v3/dead-letters/replay", `{"to":"nosuch"}`, 400, `there is no destination \"nosuch\"`},
		{"POST", "/v3/dead-letters/purge", `{}`, 400, "before is missing"},
		{"POST", "/v3/dead-letters/purge", `{"before":"soon"}`, 400, `"before must be a time like 2026-01-02T15:04:05Z"`},
		{"POST", "/v3/dead-letters/purge", `{"before":7}`, 400, `"before must be a time like 2026-01-02T15:04:05Z"`},
		{"POST", "/v3/dead-letters/purge", `[]`, 400, `"the request must be an object"`},
		{"POST", "/v3/dead-letters/purge", ``, 400, `"the request's JSON ends too early"`},
		{"POST", "/v3/dead-letters/replay", `{"rate":"fast"}`, 400, `"rate must be a number"`},
		{"POST", "/v3/dead-letters/replay", `{"dry_run":"yes"}`, 400, `"dry_run must be true or false"`},
		{"POST", "/v3/dead-letters/replay", `{"reason":7}`, 400, `"reason must be a text"`},
		{"POST", "/v3/dead-letters/replay", `{"ids":"x"}`, 400, `"ids must be a list"`},
		{"POST", "/v3/dead-letters/replay", `{"ids":["x",""]}`, 400, `"ids.1 is empty; leave it out"`},
		{"POST", "/v3/dead-letters/replay", `{"destination":""}`, 400, `"destination is empty; leave it out"`},
		{"POST", "/v3/dead-letters/replay", `{"reason":" "}`, 400, `"reason is empty; leave it out"`},
		{"POST", "/v3/dead-letters/replay", `{"to":""}`, 400, `"to is empty; leave it out"`},
		{"POST", "/v3/dead-letters/replay", `{"ids":[7]}`, 400, `"ids.0 must be a text"`},
		{"POST", "/v3/dead-letters/replay", `{"to":"a","to":"b"}`, 400, `"to is there twice"`},
		{"POST", "/v3/dead-letters/replay", `{"nope":1}`, 400, `"there is no member nope"`},
		{"POST", "/v3/send", `{"to":"ledger","message":{}}`, 400, "message"},
		{"POST", "/v3/send", `{"to":"nosuch","message":{"id":"m","source":"s","time":"2026-01-02T15:04:05Z","body":"x"}}`, 400, "no destination"},
		{"POST", "/v3/pause", `{"name":"nosuch"}`, 400, `no source or destination \"nosuch\"`},
		{"POST", "/v3/resume", `{"nome":"web"}`, 400, "nome"},
		{"POST", "/v3/breaker", `{"name":"nosuch","to":"open"}`, 400, `no destination \"nosuch\"`},
		{"POST", "/v3/breaker", `{"name":"ledger","to":"ajar"}`, 400, "open, close or auto"},
		{"POST", "/v3/breaker", `{"name":"ledger"}`, 400, "open, close or auto"},
		{"POST", "/v3/breaker", `{"name":"plain","to":"open"}`, 400, "no circuit breaker"},
		{"POST", "/v3/hold/clear", `{"name":"nosuch"}`, 400, `no destination \"nosuch\"`},
		{"POST", "/v3/hold/clear", `{"name":"ledger"}`, 400, "not held"},
		{"POST", "/v3/rate", `{"name":"nosuch","per_second":1}`, 400, `no destination \"nosuch\"`},
		{"POST", "/v3/rate", `{"name":"ledger"}`, 400, "per_second must be from"},
		{"POST", "/v3/rate", `{"name":"ledger","per_second":-1}`, 400, "per_second must be from"},
		{"POST", "/v3/rate", `{"name":"ledger","per_second":1,"burst":-1}`, 400, "burst must be from"},
		{"POST", "/v3/rate", `{"name":"ledger","per_second":1,"to":"auto"}`, 400, "auto alone"},
		{"POST", "/v3/rate", `{"name":"ledger","to":"off"}`, 400, "auto alone"},
		{"POST", "/v3/send", strings.Repeat("x", maxRequest+1), 413, "longer than"},
	} {
		code, body := r.call(c.method, c.path, c.body)
		if code != c.code || !strings.Contains(body, c.want) || !strings.Contains(body, "urn:pawl:problem:") {
			t.Errorf("%s %.60s %.60s: %d %.300s, want %d and %q", c.method, c.path, c.body, code, body, c.code, c.want)
		}
	}
	if n := r.opts.Letters.Stats().Open; n != 1 || r.endpoint.taken.Load() != 0 {
		t.Errorf("mistakes did something: %d open letters, %d sends", n, r.endpoint.taken.Load())
	}
}

func TestReloadAnswers(t *testing.T) {
	r := newRig(t)
	if code, body := r.call("POST", "/v3/reload", "{}"); code != 200 || body != "{\"generation\":7}\n" {
		t.Errorf("%d %s", code, body)
	}
	r.reload = fmt.Errorf("pawl.yaml:3:1: error: this\nand that")
	if code, body := r.call("POST", "/v3/reload", "{}"); code != 400 || !strings.Contains(body, `error: this\nand that`) {
		t.Errorf("%d %s", code, body)
	}
}

// lines returns the lines of a stream of objects.
func lines[T any](t *testing.T, text string) (all []T) {
	t.Helper()
	for line := range strings.Lines(text) {
		var v T
		if err := json.Unmarshal([]byte(line), &v, json.RejectUnknownMembers(true)); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		all = append(all, v)
	}
	return all
}

// TestReplayOverTheWire: each way a letter can end reaches the other side, the
// reason of one that was abandoned too.
func TestReplayOverTheWire(t *testing.T) {
	r := newRig(t)
	now := time.Now()
	r.letter("good", "ledger", now)
	r.letter("away", "gone", now)
	code, body := r.call("POST", "/v3/dead-letters/replay", `{"dry_run":true}`)
	if got := lines[ReplayLine](t, body); code != 200 || len(got) != 1 || got[0] != (ReplayLine{Total: 2, Left: 2, Done: true}) {
		t.Errorf("dry run: %d %s", code, body)
	}
	_, body = r.call("POST", "/v3/dead-letters/replay", `{}`)
	got := lines[ReplayLine](t, body)
	last := got[len(got)-1]
	if len(got) != 3 || last.Total != 2 || last.Delivered != 1 || last.Left != 1 || !last.Done || !strings.Contains(last.Error, `no destination "gone"`) {
		t.Errorf("replay: %s", body)
	}
	r.endpoint.broken.Store(true)
	_, body = r.call("POST", "/v3/dead-letters/replay", `{"ids":["away"],"to":"ledger","rate":1000}`)
	got = lines[ReplayLine](t, body)
	if last := got[len(got)-1]; last != (ReplayLine{Total: 1, FailedAgain: 1, Done: true}) {
		t.Errorf("one that failed again: %s", body)
	}
	_, body = r.call("GET", "/v3/dead-letters?id=away", "")
	if got := lines[LetterLine](t, body); len(got) != 1 || got[0].Replays != 1 || got[0].Destination != "ledger" {
		t.Errorf("its new letter: %s", body)
	}
}

func TestListAndGet(t *testing.T) {
	r := newRig(t)
	old := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	r.letter("old", "ledger", old)
	r.letter("young", "ledger", old.Add(48*time.Hour))
	_, body := r.call("GET", "/v3/dead-letters", "")
	if got := lines[LetterLine](t, body); len(got) != 2 || got[0].ID != "old" || !got[0].At.Equal(old) || got[0].Error != "HTTP 400" {
		t.Errorf("all: %s", body)
	}
	for query, want := range map[string]int{
		"since=2026-01-02T00:00:00Z": 1, "reason=delivery": 2, "reason=schema": 0, "destination=ledger": 2, "destination=x": 0, "id=young": 1,
	} {
		_, body := r.call("GET", "/v3/dead-letters?"+query, "")
		if got := lines[LetterLine](t, body); len(got) != want {
			t.Errorf("%s: %d letters, want %d", query, len(got), want)
		}
	}
	code, body := r.call("GET", "/v3/dead-letters/old", "")
	var got []Letter
	if err := json.Unmarshal([]byte(body), &got); err != nil || code != 200 || len(got) != 1 || got[0].State != "open" {
		t.Fatalf("%v: %d %s", err, code, body)
	}
	l, err := message.DecodeLetter(got[0].Envelope)
	if err != nil || l.Message.ID != "old" || string(l.Message.Body) != "body" || !strings.Contains(got[0].Timeline, "HTTP 400") {
		t.Errorf("%v: %+v", err, l)
	}
	code, body = r.call("POST", "/v3/dead-letters/purge", `{"before":"2026-01-02T00:00:00Z"}`)
	if code != 200 || body != "{\"purged\":1}\n" {
		t.Errorf("purge: %d %s", code, body)
	}
	if n := r.opts.Letters.Stats().Open; n != 1 {
		t.Errorf("%d letters are open after the purge", n)
	}
}

func TestSend(t *testing.T) {
	r := newRig(t)
	send := func(more string) Sent {
		t.Helper()
		code, body := r.call("POST", "/v3/send", `{"to":"ledger","message":{"id":"m","source":"send","time":"2026-01-02T15:04:05Z","body":"x"}`+more+`}`)
		var s Sent
		if err := json.Unmarshal([]byte(body), &s); err != nil || code != 200 {
			t.Fatalf("%v: %d %s", err, code, body)
		}
		return s
	}
	if s := send(""); !s.Delivered || s.ID != "m" || s.Endpoint != "ledger" || s.Attempts != 1 || s.Error != "" {
		t.Errorf("%+v", s)
	}
	r.endpoint.broken.Store(true)
	if s := send(""); s.Delivered || s.Error == "" || len(s.Hops) != 1 || s.Letter != "" || r.opts.Letters.Stats().Open != 0 {
		t.Errorf("%+v", s)
	}
	if s := send(`,"dead_letter":true`); s.Delivered || s.Letter == "" || r.opts.Letters.Stats().Open != 1 {
		t.Errorf("%+v", s)
	}
}

// A source and a destination of one name are paused together, and both are named.
func TestAPauseSaysWhatItMoved(t *testing.T) {
	r := newRig(t)
	for name, moved := range map[string]string{"web": `["source"]`, "plain": `["destination"]`, "x": `["source","destination"]`} {
		for _, path := range []string{"/v3/pause", "/v3/resume"} {
			if _, body := r.call("POST", path, `{"name":"`+name+`","by":"ada"}`); !strings.Contains(body, `"moved":`+moved) {
				t.Errorf("%s of %s: %s", path, name, body)
			}
		}
	}
}

func TestLevers(t *testing.T) {
	r := newRig(t)
	paused := func() (source, destination *Pull) {
		s := New(r.opts).Status(t.Context())
		return s.Sources[0].Paused, s.Destinations[0].Paused
	}
	if s, d := paused(); s != nil || d != nil {
		t.Errorf("paused at the start: %v %v", s, d)
	}
	for _, name := range []string{"web", "ledger"} {
		if code, body := r.call("POST", "/v3/pause", `{"name":"`+name+`","by":"ada"}`); code != 200 || !strings.Contains(body, `"by":"ada"`) {
			t.Errorf("pause: %d %s", code, body)
		}
		// The first to pause stands.
		if _, body := r.call("POST", "/v3/pause", `{"name":"`+name+`","by":"bob"}`); !strings.Contains(body, `"by":"ada"`) {
			t.Errorf("a second pause: %s", body)
		}
	}
	if s, d := paused(); s == nil || s.By != "ada" || d == nil || time.Since(d.Since) > time.Minute {
		t.Errorf("status shows %v %v", s, d)
	}
	for _, name := range []string{"web", "ledger"} {
		if code, body := r.call("POST", "/v3/resume", `{"name":"`+name+`","by":"bob"}`); code != 200 {
			t.Errorf("resume: %d %s", code, body)
		}
	}
	if s, d := paused(); s != nil || d != nil {
		t.Errorf("paused after all: %v %v", s, d)
	}
	r.opts.Levers.pull(pauseLever, "gone", "paused", "ada", time.Now())
	r.opts.Levers.pull(pauseLever, "web", "paused", "ada", time.Now())
	r.opts.Levers.Retain(func(name string) bool { return name == "web" })
	if r.opts.Levers.by(pauseLever, "gone") != nil || r.opts.Levers.by(pauseLever, "web") == nil {
		t.Error("the wrong lever was forgotten")
	}
	var told []string
	for _, e := range r.events {
		told = append(told, e.Name+" "+e.Detail)
	}
	want := []string{"web paused by ada", "web paused by bob", "ledger paused by ada", "ledger paused by bob", "web resumed by bob", "ledger resumed by bob"}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Error(diff)
	}
}
