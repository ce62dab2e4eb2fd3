package config

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/setting"
)

// Would catch: a queue's setting that gets lost on its way, a level that says
// what another one said, a file that is looked for beside the wrong folder.
func TestJobs(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.yaml")
	write(t, path, `
jobs:
  listen: 127.0.0.1:7078
  store: sqlite:kept/jobs.db
  allow_network_filesystem: true
  retention: { dead_letters: 60d, finished: 1d, events: 36h }
  retry: { max_attempts: 3, jitter: 10% }
  queues:
    emails: { lease: 1m, timeout: 2h, concurrency: 50, retry: { max_attempts: 1, initial: 0s, factor: 1.5, max_delay: 0s } }
    "a.b:c": {}
`)
	c, report := Load([]string{path}, testOptions())
	if len(report.Problems) > 0 {
		t.Fatal(report.Problems)
	}
	want := &Jobs{
		Listen: "127.0.0.1:7078", File: filepath.Join(dir, "kept", "jobs.db"), NetworkFilesystem: NetworkFilesystemAllowed,
		KeepFinished: 24 * time.Hour, KeepDeadLetters: 60 * 24 * time.Hour, KeepEvents: 36 * time.Hour,
		Retry: job.Overlay{MaxAttempts: new(3), Jitter: new(0.1)},
		Queues: map[string]Queue{
			"emails": {Lease: time.Minute, Timeout: 2 * time.Hour, Concurrency: 50, Retry: job.Overlay{
				MaxAttempts: new(1), Initial: new(time.Duration(0)), Factor: new(1.5), MaxDelay: new(time.Duration(0)),
			}},
			"a.b:c": {Lease: DefaultLease, Timeout: DefaultJobTimeout},
		},
		Endpoints: map[string]Endpoint{}, Tasks: map[lane.Task]Task{}, PrivateWebhooks: PrivateWebhooksRefused,
		At: Place{File: path, Line: 3, Column: 3},
	}
	if d := cmp.Diff(want, c.Jobs, cmp.Comparer(func(a, b setting.Secret) bool { return a == b })); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if c.Jobs.Shares(c.HTTP) || !c.Jobs.Local() {
		t.Errorf("the API of %s shares %s, or is not local", c.Jobs.Listen, c.HTTP.Listen)
	}
	if moved := c.InState("elsewhere"); moved.Jobs.File != c.Jobs.File {
		t.Errorf("a file that was named moved along to %s", moved.Jobs.File)
	}
}

// Would catch: a setting of an endpoint, a task or a subscription that gets lost
// on its way, a schema that is looked for beside the wrong folder or that a reload
// does not read again, a default that the job server does not have.
func TestContracts(t *testing.T) {
	dir := t.TempDir()
	path, input := filepath.Join(dir, "pawl.yaml"), filepath.Join(dir, "schemas", "in.json")
	write(t, input, `{"type":"object"}`)
	write(t, filepath.Join(dir, "schemas", "out.json"), `true`)
	write(t, path, `
jobs:
  allow_private_webhooks: true
  endpoints:
    mailer: { rate: { per_second: 20 }, concurrency: 7, circuit: { failures: 3, cooldown: 2m }, retry: { max_attempts: 4 } }
    crm: { rate: { per_second: 0.5, burst: 9 } }
    plain: {}
  tasks:
    "welcome@1": { endpoint: mailer, timeout: 1m, repeat: unsafe, retry: { factor: 3 }, input_schema: schemas/in.json, output_schema: schemas/out.json }
    "plain@2026-01": {}
  subscriptions:
    - { events: [job.failed], to: [chat, log] }
    - { name: circuits, events: [circuit.opened, job.created], queues: [emails], to: [chat] }
destinations: [ { name: chat, type: stdout }, { name: log, type: stdout } ]
`)
	c, report := Load([]string{path}, testOptions())
	if len(report.Problems) > 0 {
		t.Fatal(report.Problems)
	}
	type part struct {
		Endpoints     map[string]Endpoint
		Tasks         map[lane.Task]Task
		Subscriptions []Subscription
		Private       PrivateWebhooks
	}
	want := part{
		map[string]Endpoint{
			"mailer": {
				Rate: &limit.Rate{PerSecond: 20, Burst: 20}, Concurrency: 7, Circuit: circuit.Settings{Failures: 3, Cooldown: 2 * time.Minute},
				Retry: job.Overlay{MaxAttempts: new(4)},
			},
			"crm":   {Rate: &limit.Rate{PerSecond: 0.5, Burst: 9}, Circuit: circuit.Defaults()},
			"plain": {Circuit: circuit.Defaults()},
		},
		map[lane.Task]Task{
			{Name: "welcome", Version: "1"}: {
				Endpoint: "mailer", Timeout: time.Minute, Repeat: job.RepeatUnsafe, Retry: job.Overlay{Factor: new(3.0)},
				Input: []byte(`{"type":"object"}`), Output: []byte("true"),
			},
			{Name: "plain", Version: "2026-01"}: {Repeat: job.RepeatSafe},
		},
		[]Subscription{
			{Name: "chat.log", Events: []string{"job.failed"}, To: []string{"chat", "log"}},
			{Name: "circuits", Events: []string{"circuit.opened", "job.created"}, Queues: []string{"emails"}, To: []string{"chat"}},
		},
		PrivateWebhooksAllowed,
	}
	if d := cmp.Diff(want, part{c.Jobs.Endpoints, c.Jobs.Tasks, c.Jobs.Subscriptions, c.Jobs.PrivateWebhooks}); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	write(t, input, `{"type":"array"}`)
	again, _ := Load([]string{path}, testOptions())
	if got := string(again.Jobs.Tasks[lane.Task{Name: "welcome", Version: "1"}].Input); got != `{"type":"array"}` {
		t.Errorf("after the file has changed the schema is %s", got)
	}
}

// Would catch: a job server that is on without being asked for, or off although
// its key stands there.
func TestJobsAreOnWhereTheyAreSaid(t *testing.T) {
	for text, on := range map[string]bool{"relay: a": false, "jobs:": true, "jobs: {}": true, "jobs: null": true} {
		c, report := loadText(t, text)
		if err := report.Err(); err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if (c.Jobs != nil) != on {
			t.Errorf("%q: on is %v", text, c.Jobs != nil)
		}
		if !on {
			continue
		}
		if !c.Jobs.Shares(c.HTTP) || !strings.HasSuffix(c.Jobs.File, filepath.Join("pawl-data", "pawl.db")) {
			t.Errorf("%q: %+v", text, c.Jobs)
		}
		if moved := c.InState("elsewhere"); moved.Jobs.File != filepath.Join("elsewhere", "pawl.db") || c.Jobs.File == moved.Jobs.File {
			t.Errorf("%q: the store did not move along: %s", text, moved.Jobs.File)
		}
	}
}

// Would catch: a source whose word on ack is not passed on.
func TestAck(t *testing.T) {
	c, report := loadText(t, `
jobs: {}
sources: [ { name: web, type: http, listen: "127.0.0.1:8080", ack: stored }, { name: other, type: http, listen: "127.0.0.1:8081" } ]
routes: [ { name: r, from: [web, other], to: [out] } ]
destinations: [ { name: out, type: stdout } ]
dead_letter: { type: store }
`)
	if len(report.Problems) != 1 || report.Problems[0].Severity != Info {
		t.Fatal(report.Problems)
	}
	if c.Sources[0].Ack != AckStored || c.Sources[1].Ack != AckDelivered || c.DeadLetter.Type != DeadLetterStore {
		t.Errorf("%s, %s, %s", c.Sources[0].Ack, c.Sources[1].Ack, c.DeadLetter.Type)
	}
}

// Would catch: an admin key that is looked for elsewhere than the secrets are,
// that is printed, or that somebody can guess.
func TestAdminKey(t *testing.T) {
	dir := t.TempDir()
	const fromFile, fromEnv = "pawl_key-from-a-file-of-32-characters-", "pawl_key-from-the-environment-of-32-ch"
	write(t, filepath.Join(dir, "secrets", AdminKeyName), fromFile+"\n")
	path := filepath.Join(dir, "pawl.yaml")
	opts := testOptions()
	env := map[string]string{}
	opts.LookupEnv = func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	load := func(text string) (*Config, *Report) {
		write(t, path, text)
		return Load([]string{path}, opts)
	}
	for text, want := range map[string]string{
		"jobs:": "", "jobs:\nsecrets: { dir: secrets }": fromFile, "secrets: { dir: secrets }": "none",
	} {
		c, report := load(text)
		if err := report.Err(); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		got := "none"
		if c.Jobs != nil {
			got = c.Jobs.AdminKey.Reveal()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	env[AdminKeyName] = fromEnv
	c, _ := load("jobs:\nsecrets: { dir: secrets }")
	if got := c.Jobs.AdminKey.Reveal(); got != fromEnv {
		t.Errorf("beside the environment: %q", got)
	}
	if got := c.Secrets.Redact("x " + fromEnv); strings.Contains(got, fromEnv) {
		t.Errorf("the admin key is printed: %q", got)
	}
	for _, bad := range []string{"guessed", strings.TrimPrefix(fromEnv, "pawl_") + "xxxxx", "pawl_" + strings.Repeat("x", 31), fromEnv + " "} {
		env[AdminKeyName] = bad
		if _, report := load("jobs:"); report.Err() == nil || !strings.Contains(report.Err().Error(), "at least 32 letters") {
			t.Errorf("%q: %v", bad, report.Err())
		}
	}
	// A word that is no key is not torn out of what is said about it.
	env[AdminKeyName] = "secret"
	if _, report := load("jobs:"); report.Err() == nil || !strings.Contains(report.Err().Error(), "the secret PAWL_ADMIN_KEY must be") {
		t.Errorf("a key that is a word: %v", report.Err())
	}
}
