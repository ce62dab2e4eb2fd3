// These tests catch: a command without help or an example; an exit code that is
// not 0 done, 1 no, 2 usage or configuration; a text for people that changed
// unnoticed (golden files; go test -update writes them anew); a name from
// outside that steers a terminal; a time or a rate that is read wrongly.
package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	time.Local = time.UTC
	os.Exit(m.Run())
}

// golden compares got with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; go test -update writes it anew):\n%s", file, diff)
	}
}

// call runs a command line.
func call(t *testing.T, stdin string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = Main(args, strings.NewReader(stdin), &o, &e)
	return code, o.String(), e.String()
}

// letters makes a state folder with fixed dead letters and returns it.
func letters(t *testing.T) string {
	t.Helper()
	state := t.TempDir()
	store, err := deadletter.Open(filepath.Join(state, "dead"), deadletter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, l := range []*message.DeadLetter{
		{
			Message: &message.Message{ID: "order-7", Source: "web", Time: at, ContentType: "application/json", Body: []byte(`{"id":7}`)},
			Death: message.Death{
				Letter: "01JN8XQ5W0AAAAAAAAAAAAAAAA", Relay: "shop", At: at.Add(3 * time.Second), Reason: message.ReasonDelivery,
				Destination: "ledger", Route: "orders", Attempts: 2, Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503 Service Unavailable",
				Hops: []message.Hop{{
					Destination: "ledger", At: at.Add(1015 * time.Millisecond), Reason: message.HopExhausted, Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503 Service Unavailable",
					Attempts: []message.Attempt{
						{Number: 1, Endpoint: "ledger", At: at, Duration: 20 * time.Millisecond, Outcome: message.OutcomeRetry, Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503 Service Unavailable"},
						{Number: 2, Endpoint: "ledger", At: at.Add(time.Second), Waited: time.Second, Duration: 15 * time.Millisecond, Outcome: message.OutcomeRetry, Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503 Service Unavailable"},
					},
				}},
			},
		},
		{
			Message: &message.Message{ID: "evil \u202e id", Source: "web", Time: at, Body: []byte("\xff\x00")},
			Death: message.Death{
				Letter: "01JN8XQ5W0BBBBBBBBBBBBBBBB", Relay: "shop", At: at.Add(time.Minute), Reason: message.ReasonSchema, Route: "orders",
				Error: "the body\x1b[31m is not JSON: " + strings.Repeat("x", 80),
			},
		},
	} {
		if err := store.Append(t.Context(), l); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return state
}

func TestGoldenCommands(t *testing.T) {
	state := letters(t)
	t.Setenv("PAWL_TEST_STATE", state)
	for name, c := range map[string]struct {
		args []string
		code int
	}{
		"lint":          {[]string{"lint", "-c", "testdata/shop.yaml"}, 0},
		"lint-json":     {[]string{"lint", "-c", "testdata/shop.yaml", "--json"}, 0},
		"lint-warned":   {[]string{"lint", "-c", "testdata/warned.yaml"}, 0},
		"lint-bad":      {[]string{"lint", "-c", "testdata/bad.yaml"}, 1},
		"lint-bad-json": {[]string{"lint", "-c", "testdata/bad.yaml", "--json"}, 1},
		"try":           {[]string{"try", "-c", "testdata/shop.yaml", "--id", "m1", "--data", `{"type":"order.created","order":{"id":7,"total":12}}`}, 0},
		"try-json":      {[]string{"try", "-c", "testdata/shop.yaml", "--id", "m1", "--json", "--data", `{"type":"order.created","order":{"id":7,"total":12}}`}, 0},
		"try-unrouted":  {[]string{"try", "-c", "testdata/shop.yaml", "--id", "m1", "--data", `{"type":"other"}`}, 1},
		"try-dead":      {[]string{"try", "-c", "testdata/shop.yaml", "--id", "m1", "--data", `no JSON`}, 1},
		"try-request": {[]string{
			"try", "-c", "testdata/hooks.yaml", "--data", `a=1`, "--content-type", "application/x-www-form-urlencoded",
			"--header", "X-Kind: push", "--header", "Idempotency-Key: key-7", "--header", "Authorization: secret", "--method", "PUT", "--path", "/hooks?team=a&team=b",
		}, 0},
		"explain":         {[]string{"explain", "-c", "testdata/shop.yaml", "ledger"}, 0},
		"explain-503":     {[]string{"explain", "-c", "testdata/shop.yaml", "ledger", "--failure", "503,retry-after=120"}, 0},
		"explain-404":     {[]string{"explain", "-c", "testdata/shop.yaml", "ledger", "--failure", "404"}, 0},
		"explain-json":    {[]string{"explain", "-c", "testdata/shop.yaml", "ledger", "--json"}, 0},
		"explain-limited": {[]string{"explain", "-c", "testdata/limited.yaml", "api"}, 0},
		"explain-group":   {[]string{"explain", "-c", "testdata/group.yaml", "tickets"}, 0},
		"explain-tls":     {[]string{"explain", "-c", "testdata/group.yaml", "tickets", "--failure", "tls"}, 0},
		"explain-mail":    {[]string{"explain", "-c", "testdata/group.yaml", "mail"}, 0},
		"explain-job":     {[]string{"explain", "-c", "testdata/policies.yaml", "--task", "send-welcome", "--queue", "emails"}, 0},
		"explain-unsafe":  {[]string{"explain", "-c", "testdata/policies.yaml", "--task", "charge@3", "--queue", "payments"}, 0},
		"explain-unknown": {[]string{"explain", "-c", "testdata/policies.yaml", "--task", "chrage", "--queue", "payments", "--json"}, 0},
		"explain-all":     {[]string{"explain", "-c", "testdata/group.yaml", "tickets", "--json"}, 0},
		"dlq-list":        {[]string{"dlq", "list", "-c", "testdata/shop.yaml"}, 0},
		"dlq-list-json":   {[]string{"dlq", "list", "-c", "testdata/shop.yaml", "--json"}, 0},
		"dlq-list-none":   {[]string{"dlq", "list", "-c", "testdata/shop.yaml", "--reason", "transform"}, 0},
		"dlq-inspect":     {[]string{"dlq", "inspect", "-c", "testdata/shop.yaml", "order-7"}, 0},
		"dlq-inspect-odd": {[]string{"dlq", "inspect", "-c", "testdata/shop.yaml", "01JN8XQ5W0BBBBBBBBBBBBBBBB"}, 0},
		"dlq-dry-run":     {[]string{"dlq", "replay", "-c", "testdata/shop.yaml", "--all", "--dry-run"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errOut := call(t, "", c.args...)
			if code != c.code || errOut != "" {
				t.Errorf("exit %d, want %d; %s", code, c.code, errOut)
			}
			if strings.ContainsAny(out, "\x1b\x00") {
				t.Errorf("a control character reaches the terminal: %q", out)
			}
			golden(t, name, strings.ReplaceAll(out, state, "$STATE"))
		})
	}
}

func TestUsage(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", filepath.Join(t.TempDir(), "state"))
	for _, c := range []struct {
		args string
		want string
	}{
		{"nosuch", "unknown command"},
		{"run extra", "unknown command"},
		{"run --state x", "unknown flag"}, // not parsed and ignored
		{"run --json", "unknown flag"},
		{"lint --state x", "unknown flag"},
		{"lint --nosuch", "unknown flag"},
		{"send --to ledger", `"data" not set`},
		{"try", `"data" not set`},
		{"explain", "name one destination, or a --task"},
		{"pause", "accepts 1 arg"},
		{"breaker ledger", "accepts 2 arg"},
		{"breaker ledger ajar", `"ajar" is no position`},
		{"hold ledger", "accepts 2 arg"},
		{"hold ledger drop", "pawl hold ledger clear"},
		{"rate ledger fast", `RATE: "fast" is no rate`},
		{"rate ledger 0/s", `"0/s" is no rate`},
		{"rate ledger auto --burst 5", "--burst goes with a rate"},
		{"rate ledger 20/s --burst 0", "--burst must be at least 1"},
		{"dlq nosuch", "list, inspect, replay and purge"},
		{"dlq inspect", "accepts 1 arg"},
		{"dlq list extra", "unknown command"},
		{"dlq list --reason nonsense", "no reason"},
		{"dlq list --since soon", "--since"},
		{"dlq replay", "--since TIME, --id ID, or --all"},
		{"dlq replay --all --since 1h", "--all goes with"},
		{"dlq replay --all --rate fast", "--rate"},
		{"dlq purge", `"older-than" not set`},
		{"dlq purge --older-than yesterday", "--older-than"},
		{"try --data @testdata/nosuch.json", "nosuch.json"},
		{"try --data {} --source nosuch", `no source "nosuch"`},
		{"try --data {} --header secret", "--header, number 1"},
		{"try --data {} --header X-A:1 --header bad(name:1", "--header, number 2"},
		{"try --data {} --path nosuch", "--path"},
		{"try --data {} --path /%zz", "--path"},
		{"try --data {} --path /?a=%zz", "a source would refuse this"},
		{"try --data {} --method a(b", "--method"},
		{"try --data x --content-type multipart/form-data", "a source would refuse this"},
		{"send --to ledger --data {} --header nothing", "--header, number 1"},
		{"explain nosuch", "nosuch"},
		{"explain ledger --failure b@d", "--failure"},
		{"send --to nosuch --data {}", `there is no destination "nosuch"`},
		{"dlq replay --all --to nosuch", `there is no destination "nosuch"`},
	} {
		code, out, errOut := call(t, "", append(strings.Fields(c.args), "-c", "testdata/shop.yaml")...)
		if code != exitUsage || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("pawl %s: exit %d, want 2 and %q on stderr\nstdout: %s\nstderr: %s", c.args, code, c.want, out, errOut)
		}
	}
	// A mistake in the call is found before the state folder is touched.
	if _, err := os.Stat(os.Getenv("PAWL_TEST_STATE")); err == nil {
		if err := os.RemoveAll(os.Getenv("PAWL_TEST_STATE")); err != nil {
			t.Fatal(err)
		}
	}
	call(t, "", "dlq", "list", "--since", "soon", "-c", "testdata/shop.yaml")
	if _, err := os.Stat(os.Getenv("PAWL_TEST_STATE")); err == nil {
		t.Error("a wrong flag made a state folder")
	}
}

// A script that names a letter is told where there is none, as by inspect.
func TestUnknownLetter(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", letters(t))
	for _, args := range []string{"inspect nope", "replay --id nope", "replay --id order-7 --id nope", "replay --dry-run --id nope"} {
		code, out, errOut := call(t, "", append(strings.Fields("dlq "+args), "-c", "testdata/shop.yaml")...)
		if code != exitNo || out != "" || errOut != "pawl: no dead letter has this id: \"nope\"\n" {
			t.Errorf("pawl dlq %s: exit %d\nstdout: %s\nstderr: %s", args, code, out, errOut)
		}
	}
	if code, out, errOut := call(t, "", "dlq", "replay", "--dry-run", "--id", "order-7", "-c", "testdata/shop.yaml"); code != exitDone || !strings.Contains(out, "would be replayed") {
		t.Errorf("a known one: exit %d\nstdout: %s\nstderr: %s", code, out, errOut)
	}
}

func TestNothingToTalkTo(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", t.TempDir())
	for _, args := range []string{"status", "tail", "reload", "pause ledger", "resume ledger", "breaker ledger open", "hold ledger clear", "rate ledger 20/s"} {
		code, _, errOut := call(t, "", append(strings.Fields(args), "-c", "testdata/shop.yaml")...)
		if code != exitNo || !strings.Contains(errOut, "pawl is not running") {
			t.Errorf("pawl %s: exit %d, %s", args, code, errOut)
		}
	}
	if code, _, errOut := call(t, "", "status", "-c", "testdata/nosuch.yaml"); code != exitUsage || !strings.Contains(errOut, "--state") {
		t.Errorf("without a configuration: exit %d, %s", code, errOut)
	}
}

// TestBrokenConfiguration: the folder is found although the file is wrong.
func TestBrokenConfiguration(t *testing.T) {
	t.Setenv("PAWL_TEST_STATE", t.TempDir())
	if code, _, errOut := call(t, "", "status", "-c", "testdata/bad.yaml"); code != exitNo || !strings.Contains(errOut, "pawl is not running") {
		t.Errorf("status: exit %d, %s", code, errOut)
	}
	code, _, errOut := call(t, "", "dlq", "list", "-c", "testdata/bad.yaml")
	if code != exitUsage || !strings.Contains(errOut, "bad.yaml:") {
		t.Errorf("dlq list: exit %d, %s", code, errOut)
	}
}

// TestTree: every command can be learned from its own help.
func TestTree(t *testing.T) {
	root := newRoot(&shell{in: strings.NewReader(""), out: &bytes.Buffer{}, err: &bytes.Buffer{}, kinds: builtin.Connectors()})
	n := 0
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		n++
		if c.Short == "" || strings.HasSuffix(c.Short, ".") {
			t.Errorf("%s: Short is %q", c.CommandPath(), c.Short)
		}
		if c.Example == "" || !strings.Contains(c.Example, "pawl") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.Args == nil && c.HasParent() && c.Runnable() {
			t.Errorf("%s takes any arguments", c.CommandPath())
		}
		for line := range strings.Lines(c.Long + "\n" + c.Example) {
			if len([]rune(strings.TrimRight(line, "\n"))) > 100 && c.Parent() != nil && c.Parent().Name() != "completion" {
				t.Errorf("%s: a line of its help is longer than 100 characters: %s", c.CommandPath(), line)
			}
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	if n < 20 {
		t.Errorf("only %d commands: the test looks at nothing", n)
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if code, out, errOut := call(t, "", "completion", shell); code != exitDone || !strings.Contains(out, "pawl") {
			t.Errorf("completion %s: exit %d, %s", shell, code, errOut)
		}
	}
}

func TestStatusText(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	before := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	after := func(d time.Duration) *time.Time { at := now.Add(d); return &at }
	sh := &shell{out: &bytes.Buffer{}}
	s := adminapi.Status{
		Relay: "shop", Version: "v1.2.3", PID: 4711, Started: now.Add(-26 * time.Hour), Generation: 3, Draining: 2, InFlight: 12,
		Sources: []adminapi.SourceStatus{
			{Name: "web", InFlight: 12, MaxInFlight: 4096, Bytes: 12288},
			{Name: "forms", MaxInFlight: 100, Paused: &adminapi.Pull{By: "ada", Since: now.Add(-90 * time.Second)}},
		},
		Destinations: []adminapi.DestinationStatus{
			{Name: "ledger", Pending: 5, MaxPending: 512, Busy: 3, Workers: 64, Waiting: 2, Breaker: "open", OpenUntil: after(4200 * time.Millisecond)},
			{Name: "news", MaxPending: 512, Workers: 64, Breaker: "closed", HeldUntil: after(30 * time.Second)},
			{Name: "old", MaxPending: 512, Workers: 64, Breaker: "half_open", OpenUntil: before(time.Second), HeldUntil: before(time.Second), Ramp: 4},
			{Name: "disk", MaxPending: 512, Workers: 64, Breaker: "off", Paused: &adminapi.Pull{By: "ada", Since: now.Add(-time.Hour)}},
			{Name: "forced", MaxPending: 512, Workers: 64, Breaker: "open", Forced: &adminapi.Pull{By: "bob", Since: now.Add(-time.Minute)}, RetriesLeft: new(0)},
			{Name: "slowed", MaxPending: 512, Workers: 64, Breaker: "closed", RateLimit: &adminapi.RateStatus{PerSecond: 0.5, Burst: 1}, RateSet: &adminapi.Pull{By: "bob", Since: now.Add(-time.Minute)}, RetriesLeft: new(3)},
			{Name: "limited", MaxPending: 512, Workers: 64, Waiting: 7, Breaker: "closed", RateLimit: &adminapi.RateStatus{PerSecond: 20, Burst: 20, NextAt: after(time.Second)}},
			{Name: "unlimited", MaxPending: 512, Workers: 64, Breaker: "closed", RateLimit: &adminapi.RateStatus{PerSecond: 20, Burst: 20}},
		},
		DeadLetters: adminapi.DeadLetterStatus{Open: 2, Oldest: before(3 * time.Hour), Damaged: 1, Problem: "dead letters can't be written: no space left on device"},
	}
	golden(t, "status", sh.statusText(s, now))
	grouped := s
	grouped.Destinations = []adminapi.DestinationStatus{
		{Name: "ledger", MaxPending: 512, Workers: 64, Breaker: "closed"},
		{Name: "tickets", Pending: 40, MaxPending: 512, Busy: 34, Workers: 64, Waiting: 6, Breaker: "closed", Members: []adminapi.MemberStatus{
			{Name: "east", Busy: 22, Limit: 22, Breaker: "closed", Health: "healthy"},
			{Name: "tickets/2", Limit: 22, Breaker: "open", OpenUntil: after(4 * time.Second), Health: "unhealthy"},
			{Name: "west", Busy: 2, Limit: 22, Breaker: "half_open", Ramp: 2, HeldUntil: before(time.Second)},
			{Name: "held", Limit: 22, Breaker: "closed", HeldUntil: after(30 * time.Second), Health: "healthy"},
			{Name: "off", Limit: 22, Breaker: "off", Paused: &adminapi.Pull{By: "ada", Since: now.Add(-time.Hour)}},
			{Name: "forced", Limit: 22, Breaker: "closed", Forced: &adminapi.Pull{By: "bob", Since: now.Add(-time.Minute)}},
		}},
	}
	golden(t, "status-group", sh.statusText(grouped, now))
	s.Queues = []adminapi.QueueStatus{
		{Name: "emails", Queued: 12, Running: 3, Failed: 1}, {Name: "relay:web", Paused: &adminapi.Pull{By: "ada", Since: now.Add(-time.Minute)}},
		{Name: "taken-away", Queued: 2, Undefined: true},
	}
	s.Circuits, s.CircuitsLeft = []adminapi.CircuitStatus{
		{Endpoint: "asked", State: "closed", HeldUntil: now.Add(time.Minute)},
		{Endpoint: "mailer", State: "open", OpenedAt: now.Add(-time.Minute), RetryAt: now.Add(20 * time.Second)},
		{Endpoint: "probed\x1b", State: "half_open", OpenedAt: now.Add(-time.Hour), RetryAt: now.Add(-time.Minute), HeldUntil: now.Add(-time.Second)},
	}, 3
	golden(t, "status-jobs", sh.statusText(s, now))
	quiet := adminapi.Status{QueueProblem: "the disk\x1b is gone", Relay: "shop", Version: "dev", PID: 1, Started: now, Stopping: true,
		Sources: []adminapi.SourceStatus{{Name: "web", InFlight: 1, MaxInFlight: 4096, Bytes: 2}}}
	golden(t, "status-quiet", sh.statusText(quiet, now))
}

func TestLineText(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 123e6, time.UTC)
	var b strings.Builder
	for _, l := range []adminapi.Line{
		{At: at, Event: "settled", ID: "order-7", Source: "web", Route: "orders", Destination: "ledger", Status: "delivered", Attempts: 2, Millis: 12.34},
		{At: at, Event: "settled", ID: "a\x1b[2Jb", Source: "web", Status: "refused", Error: "no room\nat all", Missed: 7},
		{At: at, Event: "hop", ID: "order-7", Destination: "ledger", To: "disk", Status: "exhausted"},
		{At: at, Event: "source_up", Source: "web"},
		{At: at, Event: "lever", Destination: "ledger", Status: "paused by ada"},
	} {
		b.WriteString(lineText(l) + "\n")
	}
	golden(t, "tail", b.String())
}

func TestReplayText(t *testing.T) {
	golden(t, "replay", replayText(adminapi.ReplayLine{Total: 1}, true)+
		replayText(adminapi.ReplayLine{Total: 9, Delivered: 5, FailedAgain: 1, Left: 3, Busy: 2, Error: "pawl is\x07 stopping"}, false))
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]float64{"": 0, "10/s": 10, "0.5/s": 0.5, "600/m": 10, "3600/h": 1, "7": 7} {
		if got, err := parseRate("--rate", text); err != nil || got != want {
			t.Errorf("%q = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0/s", "-1/s", "10/x", "fast", "/s", "NaN", "inf/s", "1e9/s", "10/s/s"} {
		if got, err := parseRate("--rate", text); err == nil {
			t.Errorf("%q = %v", text, got)
		}
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"", "10/s", "0.5/m", "1e3/h", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := parseRate("--rate", s); err == nil && (got < 0 || got > 1e6 || got != got) {
			t.Errorf("%q = %v", s, got)
		}
	})
}

func TestMoment(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for text, want := range map[string]time.Time{
		"1h": now.Add(-time.Hour), "7d": now.Add(-7 * 24 * time.Hour), "0s": now,
		"2026-01-02T15:04:05Z": time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC),
	} {
		if got, err := moment(text, now); err != nil || !got.Equal(want) {
			t.Errorf("%q = %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "soon", "-1h", "2026-01-02"} {
		if got, err := moment(text, now); err == nil {
			t.Errorf("%q = %v", text, got)
		}
	}
}

func TestRound(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 1500 * time.Microsecond: "2ms", 999 * time.Microsecond: "999µs", 1234 * time.Millisecond: "1.23s",
		12345 * time.Millisecond: "12.3s", 61500 * time.Millisecond: "1m2s", 2*time.Hour + 3*time.Minute + 31*time.Second: "2h4m", -time.Second: "0s",
	} {
		if got := round(d); got != want {
			t.Errorf("%v is written %q, want %q", d, got, want)
		}
	}
}

func TestData(t *testing.T) {
	sh := &shell{in: strings.NewReader("from stdin")}
	file := filepath.Join(t.TempDir(), "m.json")
	if err := os.WriteFile(file, []byte("from a file"), 0o600); err != nil {
		t.Fatal(err)
	}
	for arg, want := range map[string]string{"-": "from stdin", "@" + file: "from a file", "literal": "literal", "": ""} {
		if got, err := sh.data(arg); err != nil || string(got) != want {
			t.Errorf("--data %q = %q, %v", arg, got, err)
		}
	}
	sh.in = bytes.NewReader(make([]byte, maxData+1))
	if _, err := sh.data("-"); err == nil || !strings.Contains(err.Error(), "longer than") {
		t.Errorf("too much data: %v", err)
	}
}
