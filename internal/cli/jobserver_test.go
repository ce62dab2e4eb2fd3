package cli

// These tests catch: a setting that gets lost between a flag and the server, a
// command whose answer is printed as something else's, a state that a command
// does not move, a mistake that is told by the member of a request instead of the
// flag, a follower that misses an event or prints one twice.

import (
	"encoding/json/v2"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/store"
)

// decoded is the JSON that a command prints.
func decoded[T any](t *testing.T, args ...string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, append(args, "--json")...)), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// fails runs a command line that is to fail with a code and a word.
func fails(t *testing.T, code int, word string, args ...string) {
	t.Helper()
	if got, _, errOut := call(t, "", args...); got != code || !strings.Contains(errOut, word) {
		t.Errorf("pawl %s: exit %d, want %d with %q: %s", strings.Join(args, " "), got, code, word, errOut)
	}
}

func TestJobsByHand(t *testing.T) {
	jobs := newAPI(t)
	create := func() string {
		return strings.TrimSpace(must(t, "jobs", "create", "--queue", "emails", "--task", "welcome"))
	}
	id := create()
	if out := must(t, "jobs", "explain", id); !strings.Contains(out, "no_worker") || !strings.Contains(out, "next") {
		t.Errorf("explained: %s", out)
	}
	work(t, jobs, store.Report{Type: store.Fail, Failure: job.Failure{Permanent: true}, Error: &job.Error{Message: "no"}})
	fails(t, exitNo, "failed", "jobs", "cancel", id)
	if j := decoded[httpapi.Job](t, "jobs", "retry", id); j.Status != job.Queued {
		t.Errorf("retried: %s", j.Status)
	}
	if out := must(t, "jobs", "cancel", id); !strings.Contains(out, id+"  cancelled") {
		t.Errorf("cancelled: %s", out)
	}
	if d := decoded[deleted](t, "jobs", "delete", id); d.Deleted != id {
		t.Errorf("deleted %+v", d)
	}
	fails(t, exitNo, "no job", "jobs", "get", id)
}

func TestQueuesCommand(t *testing.T) {
	newAPI(t)
	want := httpapi.Queue{
		Name: "later", Lease: new(httpapi.Duration("1m")), Timeout: new(httpapi.Duration("2m")), Concurrency: new(5),
		Retry: httpapi.Retry{MaxAttempts: new(3), Jitter: new(0.5)},
	}
	made := decoded[httpapi.Queue](t, "queues", "set", "later", "--lease", "1m", "--timeout", "120s", "--concurrency", "5", "--retry", "max_attempts=3,jitter=0.5")
	made.Managed = httpapi.Managed{}
	if d := cmp.Diff(want, made); d != "" {
		t.Errorf("-flags +queue:\n%s", d)
	}
	must(t, "queues", "pause", "later")
	if out := must(t, "queues", "get", "later"); !strings.Contains(out, "paused by") || !strings.Contains(out, "max_attempts=3, jitter=0.5") {
		t.Errorf("shown: %s", out)
	}
	if out := must(t, "queues", "list"); !strings.Contains(out, "emails") || !strings.Contains(out, "paused by") {
		t.Errorf("listed: %s", out)
	}
	must(t, "queues", "resume", "later")
	if q := decoded[httpapi.Queue](t, "queues", "get", "later"); q.Paused != nil {
		t.Errorf("resumed: %+v", q.Paused)
	}
	fails(t, exitUsage, "--concurrency must not be 0", "queues", "set", "later", "--concurrency", "0")
	fails(t, exitUsage, "--timeout must", "queues", "set", "later", "--timeout", "25h")
	fails(t, exitNo, "configuration", "queues", "set", "emails", "--timeout", "1m")
	must(t, "queues", "delete", "later")
	fails(t, exitNo, "later", "queues", "get", "later")
}

func TestEndpointsAndTasks(t *testing.T) {
	jobs := newAPI(t)
	e := decoded[httpapi.Endpoint](t, "endpoints", "set", "mailer", "--rate", "20", "--burst", "30", "--concurrency", "7", "--failures", "3", "--cooldown", "2m")
	if *e.Rate != (httpapi.Rate{PerSecond: 20, Burst: 30}) || *e.Concurrency != 7 || e.CircuitSettings.Failures != 3 || *e.CircuitSettings.Cooldown != "2m" {
		t.Errorf("set: %+v", e)
	}
	for _, word := range []string{"circuit", "reset"} {
		if c := decoded[httpapi.Circuit](t, "endpoints", word, "mailer"); c.Endpoint != "mailer" || c.State != "closed" {
			t.Errorf("%s: %+v", word, c)
		}
	}
	fails(t, exitUsage, "--rate", "endpoints", "set", "mailer", "--burst", "3")
	for _, flag := range []string{"--rate", "--burst", "--concurrency", "--failures"} {
		fails(t, exitUsage, flag+" must not be 0", "endpoints", "set", "mailer", flag, "0")
	}
	fails(t, exitUsage, "--rate must be a number", "endpoints", "set", "mailer", "--rate", "NaN")
	must(t, "endpoints", "set", "mailer", "--failures", "1")
	if out := must(t, "endpoints", "get", "mailer"); !strings.Contains(out, "working") {
		t.Errorf("well: %s", out)
	}
	must(t, "jobs", "create", "--queue", "emails", "--task", "welcome", "--endpoint", "mailer")
	work(t, jobs, store.Report{Type: store.Fail, Error: &job.Error{Message: "no"}})
	for _, words := range [][]string{{"endpoints", "list"}, {"endpoints", "get", "mailer"}} {
		if out := must(t, words...); !strings.Contains(out, "circuit open, tries at ") {
			t.Errorf("%s of an open circuit: %s", words[1], out)
		}
	}
	// It asked to be left alone as well, and somebody paused it: each stands in the way.
	must(t, "endpoints", "set", "slow", "--failures", "1")
	must(t, "jobs", "create", "--queue", "emails", "--task", "welcome", "--endpoint", "slow")
	work(t, jobs, store.Report{Type: store.Fail, Failure: job.Failure{RetryAfter: new(30 * time.Minute), Endpoint: job.EndpointOK}, Error: &job.Error{Message: "no"}})
	if out := must(t, "endpoints", "get", "slow"); !strings.Contains(out, "held until ") || strings.Contains(out, "working") || strings.Contains(out, "circuit open") {
		t.Errorf("one that is held: %s", out)
	}
	must(t, "endpoints", "pause", "mailer")
	if out := must(t, "endpoints", "get", "mailer"); !strings.Contains(out, "paused by ") || !strings.Contains(out, "; circuit open, tries at ") {
		t.Errorf("one that is paused, its circuit open: %s", out)
	}
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	set := []string{"tasks", "set", "welcome@2", "--endpoint", "mailer", "--repeat", "unsafe", "--timeout", "1m", "--input-schema", file}
	task := decoded[httpapi.Task](t, set...)
	if *task.Endpoint != "mailer" || task.Repeat != "unsafe" || *task.Timeout != "1m" || string(task.InputSchema) != `{"type":"object"}` {
		t.Errorf("set: %+v", task)
	}
	fails(t, exitNo, "welcome", "tasks", "set", "welcome@2")
	must(t, "tasks", "set", "welcome@2", "--update")
	fails(t, exitUsage, "welcome@1", "tasks", "get", "welcome")
	if out := must(t, "tasks", "list"); !strings.Contains(out, "welcome@2") {
		t.Errorf("listed: %s", out)
	}
	must(t, "tasks", "delete", "welcome@2")
}

func TestEventsCommand(t *testing.T) {
	jobs := newAPI(t)
	must(t, "events") // from now on they are written
	first := strings.TrimSpace(must(t, "jobs", "create", "--queue", "emails", "--task", "welcome"))
	work(t, jobs, store.Report{Type: store.Fail, Failure: job.Failure{Permanent: true}, Error: &job.Error{Message: "no"}})
	all := must(t, "events", "--json")
	var ids []string
	for line := range strings.Lines(all) {
		var e httpapi.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err)
		}
		if e.Job != first {
			t.Errorf("about %s", line)
		}
		ids = append(ids, e.ID)
	}
	if len(ids) < 2 {
		t.Fatalf("%d events: %s", len(ids), all)
	}
	if out := must(t, "events", "--type", "job.failed"); strings.Count(out, "\n") != 1 || !strings.Contains(out, "job.failed") {
		t.Errorf("failed ones: %s", out)
	}
	if out := must(t, "events", "--queue", "reports"); out != "" {
		t.Errorf("of another queue: %s", out)
	}
	if out := must(t, "events", "--after", ids[0], "--json"); strings.Count(out, "\n") != len(ids)-1 {
		t.Errorf("behind the first: %s", out)
	}
	fails(t, exitUsage, "--type", "events", "--type", "job.faild")
}

func TestReplayCommand(t *testing.T) {
	jobs := newAPI(t)
	for range 2 {
		must(t, "jobs", "create", "--queue", "emails", "--task", "welcome")
		work(t, jobs, store.Report{Type: store.Fail, Failure: job.Failure{Permanent: true}, Error: &job.Error{Message: "no"}})
	}
	flags := []string{"replay", "create", "--queue", "emails", "--reason", "non_retryable"}
	if p := decoded[httpapi.Preview](t, append(flags, "--preview")...); p.Jobs != 2 || p.Tasks["welcome@1"] != 2 {
		t.Errorf("previewed: %+v", p)
	}
	if out := must(t, append(flags, "--preview")...); !strings.Contains(out, "2 jobs, 0 of them") || !strings.Contains(out, "welcome@1") {
		t.Errorf("previewed: %s", out)
	}
	r := decoded[httpapi.Replay](t, append(flags, "--per-second", "5", "--stop-share", "0", "--review")...)
	if r.State != "in_review" || r.PerSecond != 5 || r.StopShare != 0 || r.Total != 2 || r.Filter.Queue != "emails" || r.Filter.Reason != "non_retryable" {
		t.Errorf("created: %+v", r)
	}
	if code, _, _ := call(t, "", "replay", "approve", r.ID); code == exitDone {
		t.Error("the key that made it approved it")
	}
	if out := must(t, "replay", "get", r.ID); !strings.Contains(out, "queue emails, status failed, reason non_retryable") {
		t.Errorf("shown: %s", out)
	}
	if out := must(t, "replay", "list"); !strings.Contains(out, r.ID) || !strings.Contains(out, "in_review") {
		t.Errorf("listed: %s", out)
	}
	if out := must(t, "replay", "cancel", r.ID); !strings.Contains(out, "cancelled") || !strings.Contains(out, "0 of 2 done") {
		t.Errorf("cancelled: %s", out)
	}
	if code, out, _ := call(t, "", "replay", "watch", r.ID); code != exitNo || !strings.Contains(out, "cancelled") {
		t.Errorf("watched: exit %d, %s", code, out)
	}
	// Who waits for one that nobody has approved yet is told which it is.
	ended := make(chan string, 1)
	go func() {
		code, _, errOut := call(t, "", "replay", "create", "--all", "--review", "--wait")
		ended <- fmt.Sprint(code, " ", errOut)
	}()
	var waits httpapi.Replay
	for tick := time.NewTicker(10 * time.Millisecond); waits.State != "in_review"; <-tick.C {
		if err := json.Unmarshal([]byte(strings.SplitN(must(t, "replay", "list", "--json"), "\n", 2)[0]), &waits); err != nil {
			t.Fatal(err)
		}
	}
	must(t, "replay", "cancel", waits.ID)
	if got := <-ended; got != "1 pawl: "+waits.ID+" is in_review, 2 jobs\n" {
		t.Errorf("who waits is told: %s", got)
	}
	fails(t, exitUsage, "--per-second", append(flags, "--per-second", "-1")...)
	for _, flag := range []string{"--per-second", "--stop-share"} {
		fails(t, exitUsage, flag+" must be a number", append(flags, flag, "NaN")...)
		fails(t, exitUsage, flag+" must be a number", append(flags, flag, "Inf")...)
	}
}
