package explain

import (
	"encoding/json/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/setting"
)

// These tests would catch an explanation that is not what the engine does: a
// failure of another class, a schedule with other waits, a path with another
// order.

func load(t *testing.T, text string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "pawl.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	c, report := config.Load([]string{path}, config.Options{Registry: builtin.Connectors()})
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

func TestParseFailure(t *testing.T) {
	sick, neutral, alive, suspect := failure.Sick, failure.Neutral, failure.Alive, failure.Suspect
	for text, want := range map[string]failure.Error{
		"503":                   {Tags: failure.Tags{"5xx", "503"}, Verdict: sick},
		"503,retry-after=120":   {Tags: failure.Tags{"5xx", "503"}, Verdict: neutral, RetryAfter: 2 * time.Minute},
		"429, retry-after=1m":   {Tags: failure.Tags{"4xx", "429"}, Verdict: neutral, RetryAfter: time.Minute, Throttled: true},
		"404":                   {Tags: failure.Tags{"4xx", "404"}, Class: failure.Permanent, Verdict: suspect},
		"4xx,404":               {Tags: failure.Tags{"4xx", "404"}, Class: failure.Permanent, Verdict: suspect},
		"408":                   {Tags: failure.Tags{"4xx", "timeout", "408"}, Verdict: neutral},
		"302":                   {Tags: failure.Tags{"3xx", "302"}, Class: failure.Permanent, Verdict: alive},
		"4xx":                   {Tags: failure.Tags{"4xx"}, Class: failure.Permanent, Verdict: alive},
		"5xx":                   {Tags: failure.Tags{"5xx"}, Verdict: sick},
		"timeout":               {Tags: failure.Tags{"timeout"}, Verdict: sick},
		"connect":               {Tags: failure.Tags{"connect"}, Verdict: sick},
		"dns":                   {Tags: failure.Tags{"connect", "dns"}, Verdict: sick},
		"dns,connect":           {Tags: failure.Tags{"connect", "dns"}, Verdict: sick},
		"tls":                   {Tags: failure.Tags{"tls"}, Class: failure.Permanent, Verdict: suspect},
		"expired":               {Tags: failure.Tags{"expired"}, Class: failure.Permanent, Verdict: neutral},
		"transform":             {Tags: failure.Tags{"transform"}, Class: failure.Permanent, Verdict: neutral},
		"refused,200":           {Tags: failure.Tags{"refused", "200"}, Verdict: alive},
		"cancelled":             {Tags: failure.Tags{"cancelled"}, Verdict: neutral},
		"file:ENOSPC":           {Tags: failure.Tags{"file:ENOSPC"}, Verdict: sick},
		"timeout,retry-after=5": {Tags: failure.Tags{"timeout"}, Verdict: sick, RetryAfter: 5 * time.Second},
	} {
		got, err := ParseFailure(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, *got, cmpopts.IgnoreFields(failure.Error{}, "Message")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for _, bad := range []string{"", "banana", "retry-after=5", "503,retry-after=soon", "503,,", "999", "503,retry-after=-1"} {
		if f, err := ParseFailure(bad); err == nil {
			t.Errorf("%q is taken: %+v", bad, f)
		}
	}
}

// Catches: a schedule whose retries come sooner than the rate limit lets them, a
// limit that slows one down which it has tokens for, and a budget that is told
// otherwise than it counts.
func TestLimits(t *testing.T) {
	c := load(t, `
sources: [ { name: web, type: http, listen: "127.0.0.1:8080" } ]
routes: [ { name: all, from: [web], to: [slow, roomy] } ]
defaults: { retry: { attempts: 4, backoff: 1s, jitter: none } }
destinations:
  - { name: slow, type: https, url: "https://a", deadline: 7s, rate_limit: { per_second: 0.5, burst: 1 }, retry_budget: { ratio: 10%, min_per_second: 2, window: 1m } }
  - { name: roomy, type: https, url: "https://b", rate_limit: { per_second: 0.5, burst: 4 } }
`)
	waits := func(name string) (all []time.Duration, e Explanation) {
		e, err := Destination(c, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range e.Attempts {
			if a.Wait.Earliest != a.Wait.Latest {
				t.Errorf("%s: a wait moves without jitter: %+v", name, a)
			}
			all = append(all, a.Wait.Earliest.D())
		}
		return all, e
	}
	// 1, 2 and 4 s of backoff: the first is less than the 2 s of a token, and the
	// third would end past the deadline.
	got, e := waits("slow")
	if diff := cmp.Diff([]time.Duration{0, 2 * time.Second, 2 * time.Second}, got); diff != "" || e.Reason != "deadline" {
		t.Errorf("slow ends with %s:\n%s", e.Reason, diff)
	}
	if want := (&Budget{Ratio: 0.1, Floor: 120, Window: setting.Duration(time.Minute)}); e.Budget == nil || *e.Budget != *want {
		t.Errorf("budget %+v", e.Budget)
	}
	// Jitter moves when the first retry fails, not when the token comes.
	jittered := load(t, `
sources: [ { name: web, type: http, listen: "127.0.0.1:8080" } ]
routes: [ { name: all, from: [web], to: [a] } ]
destinations:
  - { name: a, type: https, url: "https://a", retry: { attempts: 3, backoff: 1s }, rate_limit: { per_second: 0.25, burst: 2 } }
`)
	j, err := Destination(jittered, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	window := func(a Window) [2]time.Duration {
		return [2]time.Duration{a.Earliest.D().Round(time.Microsecond), a.Latest.D().Round(time.Microsecond)}
	}
	if second, third := j.Attempts[1], j.Attempts[2]; window(second.Wait) != [2]time.Duration{0, time.Second} ||
		window(third.Wait) != [2]time.Duration{3 * time.Second, 4 * time.Second} || window(third.Since) != [2]time.Duration{4 * time.Second, 4 * time.Second} {
		t.Errorf("%+v", j.Attempts)
	}
	got, e = waits("roomy")
	if diff := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second, 4 * time.Second}, got); diff != "" || e.Budget != nil {
		t.Errorf("roomy, budget %v:\n%s", e.Budget, diff)
	}
}

const fallingBack = `
sources: [ { name: web, type: http, listen: "127.0.0.1:8080" } ]
routes: [ { name: all, from: [web], to: [a] } ]
destinations:
  - { name: a, type: https, url: "https://a", fallback: [b, d], retry: { attempts: 3, backoff: 1s, jitter: none }, timeout: 2s, delivered_on: [409] }
  - { name: b, type: https, url: "https://b", fallback: [c, d], deadline: 1s, retry: { jitter: none } }
  - { name: c, type: https, url: "https://c", circuit_breaker: false }
  - { name: d, type: https, url: "https://d" }
`

func TestDestination(t *testing.T) {
	c := load(t, fallingBack)
	e, err := Destination(c, "a", nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) Window { return Window{setting.Duration(d), setting.Duration(d)} }
	want := []Attempt{
		{Number: 1, Sends: 1},
		{Number: 2, Sends: 1, Wait: at(time.Second), Since: at(time.Second), Slowest: at(3 * time.Second).Latest},
		{Number: 3, Sends: 1, Wait: at(2 * time.Second), Since: at(3 * time.Second), Slowest: at(7 * time.Second).Latest},
	}
	if diff := cmp.Diff(want, e.Attempts); diff != "" {
		t.Error(diff)
	}
	if e.Reason != "exhausted" || e.GivenUpAfter != (Window{setting.Duration(3 * time.Second), setting.Duration(9 * time.Second)}) {
		t.Errorf("%s after %+v", e.Reason, e.GivenUpAfter)
	}
	// Depth first, and what was left is not entered again.
	last := "dead letters (" + c.DeadLetter.Path + ")"
	if diff := cmp.Diff([]string{"b", "c", "d", last}, e.Path); diff != "" {
		t.Error(diff)
	}
	if e, err = Destination(c, "b", nil); err != nil || e.Reason != "deadline" || len(e.Attempts) != 3 {
		t.Errorf("b: %+v, %v", e, err)
	}
	conflict, _ := ParseFailure("409")
	if e, err = Destination(c, "a", conflict); err != nil || !e.Failure.Delivered || len(e.Path) != 0 || len(e.Attempts) != 1 {
		t.Errorf("delivered_on: %+v, %v", e, err)
	}
	if e, err = Destination(c, "c", conflict); err != nil || e.Failure.Breaker != "off" || e.Reason != "permanent" {
		t.Errorf("c: %+v, %v", e, err)
	}
	if _, err := Destination(c, "nobody", nil); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("an unknown destination: %v", err)
	}
}

// Each wait that the engine may choose lies in the window that is told.
func TestWaitsLieInTheirWindows(t *testing.T) {
	c := load(t, fallingBack)
	d, _ := c.Destination("d")
	rapid.Check(t, func(t *rapid.T) {
		f, err := ParseFailure(rapid.SampledFrom([]string{"503", "503,retry-after=3", "timeout", "429,retry-after=60", "404"}).Draw(t, "failure"))
		if err != nil {
			t.Fatal(err)
		}
		e, err := Destination(c, "d", f)
		if err != nil {
			t.Fatal(err)
		}
		for i, a := range e.Attempts[1:] {
			got := d.Delivery.Retry.Decide(f, i+1, rapid.Float64Range(0, 0.999).Draw(t, "u"))
			if got.Verdict != retry.Again || got.Wait < a.Wait.Earliest.D() || got.Wait > a.Wait.Latest.D() {
				t.Fatalf("attempt %d waits %v (%v), the window is %+v", a.Number, got.Wait, got.Verdict, a.Wait)
			}
		}
		if last := d.Delivery.Retry.Decide(f, len(e.Attempts), 0); last.Verdict.String() != e.Reason {
			t.Fatalf("the engine says %v, the explanation %s", last.Verdict, e.Reason)
		}
	})
}

const onQueues = `
jobs: { queues: { emails: {} } }
sources:
  - { name: web, type: http, listen: "127.0.0.1:8080" }
  - { name: hook, type: http, listen: "127.0.0.1:8081", ack: stored }
  - { name: work, type: queue, queue: emails }
routes:
  - { name: in, from: [web], to: [into] }
  - { name: out, from: [work, hook], to: [a, { destination: log, required: false }] }
  - { name: all, from: [hook], to: [c] }
destinations:
  - { name: into, type: queue, queue: emails, task: t }
  - { name: a, type: https, url: "https://a", fallback: [b] }
  - { name: b, type: https, url: "https://b", retry: { attempts: 9, max_backoff: 1h, jitter: none, backoff: 1s, max_retry_after: 1h } }
  - { name: c, type: https, url: "https://c", deadline: 1m }
  - { name: log, type: https, url: "https://log" }
`

// TestQueue: what the last of a chain does with long waits, and nobody else.
func TestQueue(t *testing.T) {
	c := load(t, onQueues)
	asks, _ := ParseFailure("503,retry-after=3600")
	max := setting.Duration(10 * time.Second)
	for _, test := range []struct {
		name string
		with *failure.Error
		want *Queue
	}{
		{"into", nil, nil}, // web keeps nothing
		{"a", nil, nil},    // it goes on to b
		{"log", nil, nil},  // nobody waits for it
		{"b", nil, &Queue{[]string{"work", "hook"}, max, 6}}, // 1, 2, 4, 8, 16 s
		{"b", asks, &Queue{[]string{"work", "hook"}, max, 2}},
		{"c", nil, &Queue{[]string{"hook"}, max, 0}},
	} {
		e, err := Destination(c, test.name, test.with)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(test.want, e.Queue); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
}

func TestAMemberLeadsToItsGroup(t *testing.T) {
	c := load(t, `
sources: [ { name: web, type: http, listen: "127.0.0.1:8080" } ]
routes: [ { name: all, from: [web], to: [pair] } ]
destinations:
  - { name: pair, type: group, members: [ { name: east, type: https, url: "https://e.example.com" }, { type: https, url: "https://w.example.com" } ] }
`)
	for name, want := range map[string]string{"east": "name the group pair", "pair/2": "name the group pair", "west": `no destination "west"`} {
		if _, err := Destination(c, name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
}

// No place that a destination leads to shows a secret.
func TestPlacesHaveNoSecrets(t *testing.T) {
	t.Setenv("PAWL_TEST_PLACE", "hidden-place")
	c := load(t, `
secrets: { env: true }
sources: [ { name: web, type: http, listen: "127.0.0.1:1" } ]
routes: [ { name: all, from: [web], to: [ledger] } ]
destinations:
  - { name: ledger, type: file, path: "/out/{{secrets.PAWL_TEST_PLACE}}.ndjson", fallback: [pair] }
  - name: pair
    type: group
    members: [ { name: one, type: http, url: "http://{{secrets.PAWL_TEST_PLACE}}/in" }, { name: two, type: http, url: "http://127.0.0.1:1/in" } ]
`)
	for _, name := range []string{"ledger", "pair"} {
		e, err := Destination(c, name, nil)
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "hidden-place") || !strings.Contains(string(text), "***") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// What one member takes for delivered is.
func TestDeliveredOnOfAMember(t *testing.T) {
	c := load(t, `
sources: [ { name: web, type: http, listen: "127.0.0.1:1" } ]
routes: [ { name: all, from: [web], to: [pair] } ]
destinations:
  - name: pair
    type: group
    members:
      - { name: one, type: http, url: "http://127.0.0.1:1/in", timeout: 1s }
      - { name: two, type: http, url: "http://127.0.0.1:2/in", timeout: 2s, delivered_on: ["409"] }
`)
	f, err := ParseFailure("409")
	if err != nil {
		t.Fatal(err)
	}
	e, err := Destination(c, "pair", f)
	if err != nil {
		t.Fatal(err)
	}
	if !e.Failure.Delivered || e.Path != nil || len(e.Attempts) != 1 || e.Attempts[0].Sends != 2 {
		t.Errorf("%+v, path %v, attempts %+v", e.Failure, e.Path, e.Attempts)
	}
}
