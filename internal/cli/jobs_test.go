package cli

// These tests catch: a job that is created otherwise than its flags say; a wait
// that ends before the job does, or not at all; an exit code that tells a script
// the wrong thing; a key that is printed where it should not be, or sent to a
// server that it is not for; a backup that overwrites.

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

const jobsYAML = "testdata/jobs.yaml"

// newAPI runs a job API and sets the environment for it.
func newAPI(t *testing.T) *app.LocalJobs {
	t.Helper()
	t.Setenv("PAWL_TEST_STATE", t.TempDir())
	c, report := app.Load([]string{jobsYAML}, builtin.Connectors())
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	jobs, err := app.OpenLocalJobs(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(httpapi.Handler(jobs.API("test")))
	t.Cleanup(func() {
		jobs.Stop()
		server.Close()
		if err := jobs.Close(); err != nil {
			t.Error(err)
		}
	})
	secret, err := jobserver.FirstKey(t.Context(), jobs.Store(), jobs.Store().Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(serverEnv, server.URL)
	t.Setenv(keyEnv, secret)
	return jobs
}

// must runs a command line that is to succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := call(t, "", args...)
	if code != exitDone {
		t.Fatalf("pawl %s: exit %d: %s", strings.Join(args, " "), code, errOut)
	}
	return out
}

// work claims one job of the queue and ends it.
func work(t *testing.T, jobs *app.LocalJobs, end store.Report) {
	t.Helper()
	got, err := jobs.Server().Claim(t.Context(), jobserver.Want{Worker: "worker-1", Queues: []string{"emails"}, Max: 1, Wait: 10 * time.Second})
	if err != nil || len(got.Jobs) != 1 {
		t.Fatalf("%d jobs, %v", len(got.Jobs), err)
	}
	end.Lease = got.Jobs[0].Lease
	if _, err := jobs.Server().Report(t.Context(), "worker-1", []store.Report{end}); err != nil {
		t.Fatal(err)
	}
}

func TestJobsCreate(t *testing.T) {
	newAPI(t)
	id := strings.TrimSpace(must(t, "jobs", "create", "--queue", "emails", "--task", "welcome", "--version", "2", "--endpoint", "mailer",
		"--data", `{"user":7}`, "--priority", "-3", "--delay", "2h", "--timeout", "90s", "--tag", "a", "--tag", "b", "--key", "k/1",
		"--retry", "max_attempts=3,initial=1s,factor=1.5,max_delay=1m,jitter=0.5"))
	var j httpapi.Job
	if err := json.Unmarshal([]byte(must(t, "jobs", "get", id, "--json")), &j); err != nil {
		t.Fatal(err)
	}
	type told struct {
		ID, Queue, Task, Version, Endpoint, Payload string
		Priority                                    int
		Tags                                        []string
		Timeout                                     httpapi.Duration
		Retry                                       httpapi.Policy
	}
	want := told{
		id, "emails", "welcome", "2", "mailer", `{"user":7}`, -3, []string{"a", "b"}, "1m30s",
		httpapi.Policy{MaxAttempts: 3, Initial: "1s", Factor: 1.5, MaxDelay: "1m", Jitter: 0.5},
	}
	if d := cmp.Diff(want, told{j.ID, j.Queue, j.Task, j.Version, *j.Endpoint, string(j.Payload), j.Priority, j.Tags, j.Timeout, j.Retry}); d != "" {
		t.Errorf("-flags +job:\n%s", d)
	}
	created, _ := time.Parse(time.RFC3339, string(j.CreatedAt))
	if due, err := time.Parse(time.RFC3339, string(j.RunAt)); err != nil || due.Sub(created) != 2*time.Hour {
		t.Errorf("created %s, due %s", j.CreatedAt, j.RunAt)
	}
	same := []string{"jobs", "create", "--queue", "reports", "--task", "monthly", "--key", "k/2", "--run-at", time.Now().Add(48 * time.Hour).Format(time.RFC3339)}
	first := must(t, same...)
	if again := must(t, same...); again != first {
		t.Errorf("a repeat is %s, and was %s", again, first)
	}
	if code, _, errOut := call(t, "", append(same, "--data", "8")...); code != exitNo || !strings.Contains(errOut, strings.TrimSpace(first)) {
		t.Errorf("another body under the key: exit %d, %s", code, errOut)
	}
	code, out, _ := call(t, `"from a pipe"`, "jobs", "create", "--queue", "emails", "--task", "t", "--data", "-", "--json")
	if code != exitDone || !strings.Contains(out, `"from a pipe"`) || strings.Count(out, "\n") != 1 {
		t.Errorf("--json: exit %d, %s", code, out)
	}
}

func TestJobsList(t *testing.T) {
	jobs := newAPI(t)
	if out := must(t, "jobs", "list"); out != "no such jobs\n" {
		t.Errorf("an empty list: %q", out)
	}
	bad := strings.TrimSpace(must(t, "jobs", "create", "--queue", "emails", "--task", "bad", "--tag", "t", "--retry", "max_attempts=1"))
	work(t, jobs, store.Report{Type: store.Fail, Error: &storeError})
	for range 5 {
		must(t, "jobs", "create", "--queue", "emails", "--task", "good")
	}
	must(t, "jobs", "create", "--queue", "reports", "--task", "good")
	for flags, want := range map[string]int{
		"": 7, "--limit 3": 3, "--queue emails": 6, "--task bad": 1, "--status failed": 1, "--status queued": 6, "--dead-letter": 1, "--dead-letter=false": 6, "--dead-letter=false --status failed": 0,
		"--reason exhausted": 1, "--tag t": 1, "--since 1h": 7, "--before 1h": 0, "--queue reports --status queued": 1,
	} {
		out := must(t, append([]string{"jobs", "list", "--json"}, strings.Fields(flags)...)...)
		if n := strings.Count(out, "\n"); n != want {
			t.Errorf("%q: %d jobs, want %d", flags, n, want)
		}
	}
	if out := must(t, "jobs", "list", "--status", "failed"); !strings.Contains(out, bad) || !strings.Contains(out, "exhausted: HttpError: 503") {
		t.Errorf("the table is\n%s", out)
	}
}

// A list that stops at the limit that nobody asked for says so, beside what it lists.
func TestAListThatStopsSaysSo(t *testing.T) {
	jobs := newAPI(t)
	all := make([]jobserver.New, defaultJobs)
	for i := range all {
		all[i] = jobserver.New{Queue: "emails", Task: "t", Payload: []byte(`1`)}
	}
	make100 := func() {
		t.Helper()
		if _, err := jobs.Server().Create(t.Context(), jobserver.Principal{}, all); err != nil {
			t.Fatal(err)
		}
	}
	says := func(want bool, flags ...string) {
		t.Helper()
		code, out, errOut := call(t, "", append([]string{"jobs", "list"}, flags...)...)
		if code != exitDone || strings.Contains(errOut, "there are more than these 100") != want || strings.Contains(out, "more than") {
			t.Errorf("%q: exit %d, %s", flags, code, errOut)
		}
	}
	make100()
	says(false)
	make100()
	says(true)
	says(true, "--json")
	says(false, "--limit", "1")
}

var storeError = job.Error{Type: "HttpError", Message: "503"}

func TestJobsWatch(t *testing.T) {
	jobs := newAPI(t)
	watch := func(report store.Report, code int, words ...string) {
		t.Helper()
		id := strings.TrimSpace(must(t, "jobs", "create", "--queue", "emails", "--task", "t", "--retry", "max_attempts=1"))
		done := make(chan struct{})
		var got int
		var out, errOut string
		go func() {
			defer close(done)
			got, out, errOut = call(t, "", "jobs", "watch", id)
		}()
		work(t, jobs, report)
		<-done
		if got != code {
			t.Errorf("exit %d, want %d: %s%s", got, code, out, errOut)
		}
		for _, w := range words {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not in\n%s", w, out)
			}
		}
	}
	watch(store.Report{Type: store.Complete, Result: []byte("1")}, exitDone, "attempt 1  succeeded after", "succeeded")
	watch(store.Report{Type: store.Fail, Error: &storeError}, exitNo, "attempt 1  failed after", "HttpError: 503", "failed  exhausted")
}

// TestJobsWatchOutlastsARestart watches over a server that is away for a while.
func TestJobsWatchOutlastsARestart(t *testing.T) {
	answers := []func(http.ResponseWriter){
		func(w http.ResponseWriter) { writeJob(w, "queued") },
		func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		func(w http.ResponseWriter) { panic(http.ErrAbortHandler) },
		func(w http.ResponseWriter) { writeJob(w, "succeeded") },
	}
	var n atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answers[n.Add(1)-1](w) }))
	t.Cleanup(server.Close)
	code, out, errOut := call(t, "", "jobs", "watch", "job_1", "--server", server.URL, "--key-file", keyIn(t, "pawl_x"))
	if code != exitDone || int(n.Load()) != len(answers) || strings.Count(errOut, "trying again") != 1 || !strings.Contains(out, "succeeded") {
		t.Errorf("exit %d after %d answers: %s%s", code, n.Load(), out, errOut)
	}
}

func writeJob(w http.ResponseWriter, status string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write([]byte(`{"id":"job_1","queue":"q","task":"t","version":"1","status":"` + status + `","run_at":"2026-01-02T03:04:05.000Z","created_at":"2026-01-02T03:04:05.000Z"}`))
}

func keyIn(t *testing.T, key string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestJobsUsage(t *testing.T) {
	newAPI(t)
	file := keyIn(t, "pawl_x y")
	for _, c := range []struct{ args, want string }{
		{"jobs nosuch", "create, list, get, watch, explain, retry, cancel and delete"},
		{"jobs create --queue emails", `"task" not set`},
		{"jobs create --queue emails --task t --data {", "it is not JSON"},
		{"jobs create --queue emails --task t --delay soon", "--delay"},
		{"jobs create --queue emails --task t --run-at tomorrow", "--run-at"},
		{"jobs create --queue emails --task t --retry attempts=3", "max_attempts"},
		{"jobs create --queue emails --task t --retry max_attempts=many", "can't be read"},
		{"jobs create --queue emails --task t --retry factor=NaN", "pawl: --retry: factor=NaN can't be read"},
		{"jobs create --queue emails --task t --retry jitter=+Inf", "pawl: --retry: jitter=+Inf can't be read"},
		{"jobs create --queue emails --task t --delay soon --timeout late --retry a=1,b=2", "pawl: --delay"},
		{"jobs create --queue emails --task t --retry b=2,a=1", `pawl: --retry: there is no "a"`},
		{"explain -c testdata/policies.yaml --task charge", "the configuration has 2 queues: say which with --queue"},
		{"explain -c testdata/policies.yaml --task charge@1 --queue emails", `has the task "charge", but not its version "1"`},
		{"explain -c testdata/policies.yaml --task charge@ --queue emails", "no version after @"},
		{"explain -c testdata/policies.yaml --task charge --queue emial", `unknown queue "emial"; did you mean "emails"?`},
		{"explain -c testdata/policies.yaml --task charge --queue emails --endpoint a/b", "the endpoint may hold"},
		{"explain -c testdata/policies.yaml --task charge --failure 503", "--failure goes with a destination"},
		{"explain -c testdata/shop.yaml --task charge", "the configuration has no jobs"},
		{"explain ledger --queue emails", "go with --task"},
		{"explain", "name one destination, or a --task"},
		{"explain ledger --task charge", "name one destination, or a --task"},
		{"jobs create --queue emails --queue other --task t", "it is there twice; say it once"},
		{"replay create --action delete --queue a --queue b", "it is there twice; say it once"},
		{"replay create --action delete", "pawl: choose jobs by --queue, --task, --endpoint, --status, --reason, --tag, --since, --before, or --all"},
		{"replay create --preview", "or --all"},
		{"replay create --all --queue emails", "pawl: --all goes with no other choice"},
		{"jobs create --queue emals --task t", `pawl: --queue: unknown queue "emals"; did you mean "emails"?`},
		{"jobs create --queue emails --task t --delay 1h --run-at 2100-01-01T00:00:00Z", "pawl: --delay can't be said beside"},
		{"jobs create --queue emails --task a/b --tag x --tag y/z", "pawl: --task may hold A-Z, a-z, 0-9 and . _ : - only\n  --tag, number 2 may hold"},
		{"jobs create --queue emails --task t --retry max_attempts=99", "pawl: --retry max_attempts must be from 1 to 50"},
		{"jobs create --queue emails --task t --key=", "pawl: --key is blank"},
		{"jobs create --queue emails --task t --key a\x01b", "pawl: --key must be UTF-8 without control characters"},
		{"jobs create --queue emails --task t --key " + strings.Repeat("k", 257), "pawl: --key is longer than 256 bytes"},
		{"jobs list --before 0001-01-01T00:00:00Z", `pawl: --before: "0001-01-01T00:00:00Z" is a time that was not set`},
		{"keys create --name= --scope admin -c " + jobsYAML, "pawl: --name is blank"},
		{"keys create --name a --scope admn -c " + jobsYAML, `pawl: --scope, number 1: unknown scope "admn"`},
		{"jobs list --limit 0", "--limit"},
		{"jobs list --since yesterday", "--since"},
		{"jobs list --status odd", "pawl: --status"},
		{"jobs list --server ftp://x", "--server"},
		{"jobs list --server http://x?y=1", "--server"},
		{"jobs list --key-file " + file, "holds no key"},
		{"jobs list --key-file nosuch", "nosuch"},
		{"keys nosuch", "create, list and revoke"},
		{"keys create --scope admin", `"name" not set`},
		{"keys create --name a", `"scope" not set`},
		{"keys create --name a --scope admin --expires never -c " + jobsYAML, "--expires"},
		{"backup", "accepts 1 arg"},
		{"keys list -c testdata/shop.yaml", "the configuration has no jobs"},
	} {
		code, out, errOut := call(t, "", strings.Fields(c.args)...)
		if code != exitUsage || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("pawl %s: exit %d, want 2 and %q on stderr\nstdout: %s\nstderr: %s", c.args, code, c.want, out, errOut)
		}
	}
	for _, name := range []string{keyEnv, serverEnv} {
		was := os.Getenv(name)
		t.Setenv(name, " ")
		if code, _, errOut := call(t, "", "jobs", "list"); code != exitUsage || !strings.Contains(errOut, "pawl: "+name+" is blank") {
			t.Errorf("a blank %s: exit %d, %s", name, code, errOut)
		}
		t.Setenv(name, was)
	}
	t.Setenv(keyEnv, "pawl_wrong")
	if code, _, errOut := call(t, "", "jobs", "list"); code != exitUsage || !strings.Contains(errOut, "key") {
		t.Errorf("a wrong key: exit %d, %s", code, errOut)
	}
}

func TestJobsNothingThere(t *testing.T) {
	newAPI(t)
	if code, _, errOut := call(t, "", "jobs", "get", "job_01k7x0000000000000000000ab"); code != exitNo || errOut == "" {
		t.Errorf("a job that is not there: exit %d, %s", code, errOut)
	}
	if code, _, errOut := call(t, "", "jobs", "get", "../status"); code != exitNo || errOut == "" {
		t.Errorf("a step up: exit %d, %s", code, errOut)
	}
	if code, _, errOut := call(t, "", "jobs", "list", "--server", "http://127.0.0.1:1"); code != exitNo || !strings.Contains(errOut, serverEnv) {
		t.Errorf("no server: exit %d, %s", code, errOut)
	}
	odd := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(odd.Close)
	if code, _, errOut := call(t, "", "jobs", "list", "--server", odd.URL); code != exitNo || !strings.Contains(errOut, "not as pawl does") {
		t.Errorf("another server: exit %d, %s", code, errOut)
	}
}

// TestKeyFile: the key of the state folder goes to this machine and to no other.
func TestKeyFile(t *testing.T) {
	state := t.TempDir()
	t.Setenv("PAWL_TEST_STATE", state)
	file, _ := app.KeyFile(state)
	if err := os.WriteFile(file, []byte("pawl_from-the-state-folder\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var seen string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen = r.Header.Get("Authorization")
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(server.Close)
	call(t, "", "jobs", "list", "-c", jobsYAML, "--server", server.URL)
	if seen != "Bearer pawl_from-the-state-folder" {
		t.Errorf("this machine got %q", seen)
	}
	if code, _, errOut := call(t, "", "jobs", "list", "-c", jobsYAML, "--server", "http://pawl.example.com"); code != exitUsage || !strings.Contains(errOut, "no API key") {
		t.Errorf("another machine: exit %d, %s", code, errOut)
	}
	t.Setenv(keyEnv, "pawl_from-the-environment")
	call(t, "", "jobs", "list", "-c", jobsYAML, "--server", server.URL)
	if seen != "Bearer pawl_from-the-environment" {
		t.Errorf("beside the environment: %q", seen)
	}
}

// TestOwnServer: a command in a folder with a configuration finds its API.
func TestOwnServer(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	for text, want := range map[string]string{
		"jobs: {}": "http://127.0.0.1:7077", "jobs: { listen: '127.0.0.1:7078' }": "http://127.0.0.1:7078",
		"jobs: { listen: ':7078' }": "http://127.0.0.1:7078", "jobs: { listen: '[::]:7078' }": "http://127.0.0.1:7078",
		"jobs: { listen: 'jobs.internal:80' }": "http://jobs.internal:80", "jobs: { listen: '127.0.0.1:0' }": "", "relay: a": "", "nonsense: 1": "",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sh := &shell{paths: []string{file}, kinds: builtin.Connectors()}
		if got := sh.ownServer(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", t.TempDir())
	code, out, errOut := call(t, "", "keys", "create", "-c", jobsYAML, "--name", "shop", "--scope", "produce,work", "--queue", "emails", "--expires", "90d")
	if code != exitDone || !strings.HasPrefix(out, "pawl_") || strings.Count(out, "\n") != 1 || !strings.Contains(errOut, "shown this once") || !strings.Contains(errOut, "made a new job store: ") {
		t.Fatalf("exit %d\nstdout: %s\nstderr: %s", code, out, errOut)
	}
	secret := strings.TrimSpace(out)
	list := must(t, "keys", "list", "-c", jobsYAML)
	for _, want := range []string{"shop", "produce, work", "emails", "good until"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	var one httpapi.Key
	if line := must(t, "keys", "list", "-c", jobsYAML, "--json"); json.Unmarshal([]byte(line), &one) != nil || one.Name != "shop" {
		t.Errorf("one object a line: %s", line)
	}
	if strings.Contains(list, secret) {
		t.Error("the list has the key itself")
	}
	if code, _, errOut := call(t, "", "keys", "create", "-c", jobsYAML, "--name", "shop", "--scope", "admin"); code != exitNo || !strings.Contains(errOut, "shop") || strings.Contains(errOut, "made a new") {
		t.Errorf("the name again: exit %d, %s", code, errOut)
	}
	if code, _, errOut := call(t, "", "keys", "create", "-c", jobsYAML, "--name", "b", "--scope", "admn"); code != exitUsage || !strings.Contains(errOut, `did you mean "admin"?`) {
		t.Errorf("a wrong scope: exit %d, %s", code, errOut)
	}
	must(t, "keys", "revoke", "-c", jobsYAML, "shop")
	if list := must(t, "keys", "list", "-c", jobsYAML); !strings.Contains(list, "revoked ") {
		t.Errorf("after the end of the key:\n%s", list)
	}
	if code, _, _ := call(t, "", "keys", "revoke", "-c", jobsYAML, "nosuch"); code != exitNo {
		t.Errorf("no such key: exit %d", code)
	}
}

// A command that only looks at what there is makes nothing where its folder is
// wrong, and says which place it looked for.
func TestNothingIsMadeToLookAt(t *testing.T) {
	state := filepath.Join(t.TempDir(), "wrong")
	t.Setenv("PAWL_TEST_STATE", state)
	commands := [][]string{
		{"backup", filepath.Join(t.TempDir(), "copy.db")}, {"keys", "list"}, {"keys", "revoke", "shop"},
		{"dlq", "list"}, {"dlq", "inspect", "x"}, {"dlq", "replay", "--all"}, {"dlq", "purge", "--older-than", "1d"},
	}
	refused := func(place string) {
		t.Helper()
		for _, args := range commands {
			code, out, errOut := call(t, "", append(args, "-c", jobsYAML)...)
			if code != exitUsage || out != "" || !strings.Contains(errOut, "there is no "+place) {
				t.Errorf("pawl %s: exit %d, want 2 and the place\nstdout: %s\nstderr: %s", strings.Join(args, " "), code, out, errOut)
			}
		}
	}
	refused("state folder " + state)
	if _, err := os.Stat(state); err == nil {
		t.Error("the state folder was made")
	}
	// Nor does a key that can't be made.
	if code, _, _ := call(t, "", "keys", "create", "-c", jobsYAML, "--name", "a b", "--scope", "admin"); code != exitUsage {
		t.Errorf("a wrong name: exit %d", code)
	}
	if err := os.MkdirAll(state, 0o700); err != nil {
		t.Fatal(err)
	}
	refused("job store " + filepath.Join(state, "pawl.db"))
	if left, err := os.ReadDir(state); err != nil || len(left) != 0 {
		t.Errorf("in the state folder are %v, %v", left, err)
	}
}

// What goes wrong offline is told once, by the command.
func TestNoLogBesideAnError(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", t.TempDir())
	must(t, "keys", "create", "-c", jobsYAML, "--name", "shop", "--scope", "admin")
	code, _, errOut := call(t, "", "backup", "-c", jobsYAML, filepath.Join(t.TempDir(), "nosuch", "copy.db"))
	if code == exitDone || strings.Count(strings.TrimSpace(errOut), "\n") != 0 || !strings.HasPrefix(errOut, "pawl: ") {
		t.Errorf("exit %d, stderr:\n%s", code, errOut)
	}
}

// TestKeysOfARunningPawl: the store has one owner, so its keys are made by it.
func TestKeysOfARunningPawl(t *testing.T) {
	state := t.TempDir()
	t.Setenv("PAWL_TEST_STATE", state)
	kinds := builtin.Connectors()
	a, err := app.New(app.Options{
		Load:     func() (*config.Config, *config.Report) { return app.Load([]string{jobsYAML}, kinds) },
		Registry: kinds, Stderr: io.Discard, Version: version(),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- a.Run(ctx) }()
	must(t, "keys", "create", "--state", state, "--name", "shop", "--scope", "produce")
	if out := must(t, "keys", "list", "--state", state); !strings.Contains(out, "admin") || !strings.Contains(out, "shop") {
		t.Errorf("the list is\n%s", out)
	}
	code, _, errOut := call(t, "", "keys", "create", "--state", state, "--name", "b", "--scope", "admn")
	if code != exitUsage || !strings.Contains(errOut, `did you mean "admin"?`) {
		t.Errorf("a wrong scope: exit %d, %s", code, errOut)
	}
	must(t, "keys", "revoke", "--state", state, "shop")
	if code, _, _ := call(t, "", "keys", "revoke", "--state", state, "nosuch"); code != exitNo {
		t.Errorf("no such key: exit %d", code)
	}
	must(t, "backup", "--state", state, filepath.Join(t.TempDir(), "copy.db"))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestBackup(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", t.TempDir())
	must(t, "keys", "create", "-c", jobsYAML, "--name", "shop", "--scope", "produce")
	file := filepath.Join(t.TempDir(), "copy.db")
	if out := must(t, "backup", "-c", jobsYAML, file); !strings.Contains(out, file) {
		t.Errorf("backup says %s", out)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errOut := call(t, "", "backup", "-c", jobsYAML, file); code != exitUsage || !strings.Contains(errOut, "exists") {
		t.Errorf("a second one: exit %d, %s", code, errOut)
	}
	if after, err := os.ReadFile(file); err != nil || !bytes.Equal(before, after) {
		t.Error("the second one wrote over the first")
	}
	// A copy is a store: the key is in it.
	state := t.TempDir()
	if err := os.Rename(file, filepath.Join(state, "pawl.db")); err != nil {
		t.Fatal(err)
	}
	if out := must(t, "keys", "list", "-c", jobsYAML, "--state", state); !strings.Contains(out, "shop") {
		t.Errorf("the copy has %s", out)
	}
}

func TestJobText(t *testing.T) {
	sh := &shell{out: &bytes.Buffer{}}
	text := func(s string) *string { return &s }
	ms := int64(812)
	j := httpapi.Job{
		ID: "job_01k7x0000000000000000000ab", Queue: "emails", Task: "welcome", Version: "2", Endpoint: text("mailer"), Status: "failed", Priority: 3,
		Payload: httpapi.Value(`{ "user": 7, "note": "` + strings.Repeat("x", 300) + `" }`), Tags: []string{"a", "b"},
		RunAt: "2026-03-01T12:00:00.000Z", CreatedAt: "2026-03-01T11:59:00.000Z", FinishedAt: new(httpapi.Time("2026-03-01T12:21:00.000Z")),
		Attempt: 3, AttemptsCharged: 2, Lost: 1, Retry: httpapi.Policy{MaxAttempts: 2, Initial: "10s", Factor: 2, MaxDelay: "1h", Jitter: 0.25},
		DeadLetter: true, Reason: text("exhausted"), LastError: &httpapi.Error{Type: "HttpError", Message: "503\x1b[2J"},
		Attempts: []httpapi.Attempt{
			{Number: 1, Worker: "worker-1", StartedAt: "2026-03-01T12:00:00.000Z", DurationMS: &ms, Outcome: text("lost"), NextRunAt: new(httpapi.Time("2026-03-01T12:00:31.000Z"))},
			{Number: 2, Worker: "worker-2", StartedAt: "2026-03-01T12:00:31.000Z", DurationMS: &ms, Outcome: text("failed"), Charged: true, Error: &httpapi.Error{Type: "HttpError", Message: "503"}},
			{Number: 3, Worker: "worker-2", StartedAt: "2026-03-01T12:20:00.000Z"},
		},
	}
	golden(t, "jobs-get", sh.jobText(&j))
	golden(t, "jobs-get-queued", sh.jobText(&httpapi.Job{
		ID: "job_2", Queue: "emails", Task: "t", Version: "1", Status: "queued", RunAt: "2026-03-01T12:00:00.000Z", CreatedAt: "2026-03-01T11:59:00.000Z",
	}))
	golden(t, "jobs-get-schema", sh.jobText(&httpapi.Job{
		ID: "job_3", Queue: "emails", Task: "t", Version: "1", Status: "failed", CreatedAt: "2026-03-01T11:59:00.000Z",
		Retry:  httpapi.Policy{MaxAttempts: 1, Initial: "10s", Factor: 2, MaxDelay: "1h"},
		Reason: text("output_schema"), LastError: &httpapi.Error{Type: "output_schema", Message: "/: want string, but got number"},
	}))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	golden(t, "keys-list", sh.keysText([]httpapi.Key{
		{ID: "key_1", Name: "admin", Scopes: []store.Scope{"admin"}, CreatedAt: "2026-01-01T00:00:00.000Z"},
		{ID: "key_2", Name: "shop", Scopes: []store.Scope{"produce", "work"}, Queues: []string{"emails"}, CreatedAt: "2026-01-02T00:00:00.000Z", ExpiresAt: new(httpapi.Time("2026-04-01T00:00:00.000Z"))},
		{ID: "key_3", Name: "old", Scopes: []store.Scope{"work"}, CreatedAt: "2026-01-03T00:00:00.000Z", ExpiresAt: new(httpapi.Time("2026-02-01T00:00:00.000Z"))},
		{ID: "key_4", Name: "gone", Scopes: []store.Scope{"work"}, CreatedAt: "2026-01-03T00:00:00.000Z", RevokedAt: new(httpapi.Time("2026-02-01T00:00:00.000Z"))},
	}, now)+"\n")
}

func TestRefusal(t *testing.T) {
	r := &refusal{}
	if err := json.Unmarshal([]byte(`{"status":422,"title":"Unprocessable Entity","detail":"2 things are wrong","errors":[`+
		`{"pointer":"/queue","message":"unknown queue"},{"parameter":"limit","message":"too\u001b[2J many"}]}`), r); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Error(), "2 things are wrong\n  /queue: unknown queue\n  limit: too\ufffd[2J many"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if (&refusal{Status: http.StatusNotFound}).usage() || !r.usage() {
		t.Error("which refusals are of how it was called")
	}
}

func TestSleepEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := sleep(ctx, time.Hour); err == nil {
		t.Error("an interrupt does not end a wait")
	}
}

// A variable that is not set must not become another call: a list, or a route that
// is not there.
func TestBlankArgumentsAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }))
	t.Cleanup(server.Close)
	key := keyIn(t, "pawl_x")
	for _, args := range [][]string{
		{"jobs", "get", ""}, {"jobs", "watch", " "}, {"jobs", "cancel", ""}, {"queues", "get", ""}, {"tasks", "get", ""},
		{"endpoints", "reset", ""}, {"replay", "get", "\t"},
	} {
		code, out, errOut := call(t, "", append(args, "--server", server.URL, "--key-file", key)...)
		if code != exitUsage || !strings.Contains(errOut, "argument 1 of pawl "+args[0]+" "+args[1]+" is blank") {
			t.Errorf("%q: exit %d: %s%s", args, code, out, errOut)
		}
	}
}

// The same of a flag: replay create --queue "$QUEUE" must not take every queue, nor
// keys create --queue "$QUEUE" open them all.
func TestBlankFlagsAreRefused(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the server was asked") }))
	t.Cleanup(server.Close)
	key := keyIn(t, "pawl_x")
	api := []string{"--server", server.URL, "--key-file", key}
	for _, c := range []struct {
		flag string
		args []string
	}{
		{"queue", slices.Concat([]string{"replay", "create", "--action", "delete", "--queue", ""}, api)},
		{"tag", slices.Concat([]string{"jobs", "list", "--tag", " "}, api)},
		{"type", slices.Concat([]string{"events", "--type", "job.failed,"}, api)},
		{"queue", []string{"keys", "create", "--name", "x", "--scope", "work", "--queue", "", "--state", t.TempDir()}},
		{"server", []string{"jobs", "list", "--server", ""}},
		{"config", []string{"lint", "--config", ""}},
		{"state", []string{"dlq", "list", "--state", ""}},
	} {
		code, out, errOut := call(t, "", c.args...)
		if code != exitUsage || !strings.Contains(errOut, "--"+c.flag+" is blank; is a variable empty?") {
			t.Errorf("%q: exit %d: %s%s", c.args, code, out, errOut)
		}
	}
}

// No flag of any command is left out of that but the bodies, which may be empty.
func TestEveryFlagMustHoldSomething(t *testing.T) {
	tried := 0
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		c.InheritedFlags() // makes them the command's own, too
		c.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.HasPrefix(f.Value.Type(), "string") {
				return // what is no text says itself that blank is none
			}
			tried++
			if err := f.Value.Set(""); err != nil {
				return // names and values say so themselves
			}
			if isBlank(f) == (f.Name == "data") {
				t.Errorf("%s --%s '' counts as blank: %v", c.CommandPath(), f.Name, isBlank(f))
			}
		})
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(Commands())
	if tried < 100 {
		t.Errorf("only %d flags were found", tried)
	}
}

func TestKeysThatCantBeSentAreRefused(t *testing.T) {
	for _, key := range []string{"pawl_a\npawl_b", "pawl_a b", "pawl_\x01", "pawl_ä", "pawl_\x7f"} {
		t.Setenv("PAWL_API_KEY", key)
		for _, more := range [][]string{nil, {"--key-file", keyIn(t, key)}} {
			code, out, errOut := call(t, "", append([]string{"jobs", "list", "--server", "http://127.0.0.1:1"}, more...)...)
			if code != exitUsage || !strings.Contains(errOut, "holds no key, or more than one") || strings.Contains(out+errOut, key) {
				t.Errorf("%q %q: exit %d: %s%s", key, more, code, out, errOut)
			}
		}
	}
}

func TestAnUndefinedQueueSaysSo(t *testing.T) {
	q := httpapi.Queue{Name: "old"}
	if text := queueText(&q); !strings.Contains(text, "not defined: nobody can work its jobs") {
		t.Error(text)
	}
	q.ManagedBy = new("api")
	if text := queueText(&q); !strings.Contains(text, working) {
		t.Error(text)
	}
	if own := (httpapi.Queue{Name: "relay:web"}); queueState(&own) != "" {
		t.Error("the relay's own queue needs no definition")
	}
}
