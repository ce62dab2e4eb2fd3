package config

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// good loads testdata/good and fails where anything is reported.
func good(t *testing.T) *Config {
	t.Helper()
	c, report := Load([]string{filepath.Join("testdata", "good", "pawl.yaml")}, testOptions())
	if len(report.Problems) > 0 {
		t.Fatalf("unexpected problems: %v", report.Problems)
	}
	return c
}

func TestGoodTopLevel(t *testing.T) {
	c := good(t)
	base := filepath.Join("testdata", "good")
	if c.Relay != "shop" || c.State != filepath.Join(base, "pawl-data") || c.ShutdownTimeout != 10*time.Second {
		t.Errorf("top level: %q %q %v", c.Relay, c.State, c.ShutdownTimeout)
	}
	if c.HTTP.Listen != "127.0.0.1:7077" {
		t.Errorf("admin address %q", c.HTTP.Listen)
	}
	if want := (Log{Level: slog.LevelDebug, Format: LogJSON, Access: AccessOn}); c.Log != want {
		t.Errorf("log %+v", c.Log)
	}
	if c.Traces.Endpoint != "http://127.0.0.1:4318" || c.Traces.SampleRatio != 0.5 || c.Traces.Headers["authorization"].Reveal() != testSecret {
		t.Errorf("traces %+v", c.Traces)
	}
	want := []string{
		"pawl.yaml", "destinations/ledger.yaml", "routes.d/10-orders.yml", "routes.d/20-support.yaml", "routes.d/30-tickets.yml",
	}
	for i := range want {
		want[i] = filepath.Join(base, want[i])
	}
	if diff := cmp.Diff(want, c.Files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestGoodSources(t *testing.T) {
	c := good(t)
	web, _ := c.Source("web")
	if web.MaxInFlight != 4096 || web.MaxInFlightBytes != 64<<20 || web.Unrouted != UnroutedDeadLetter {
		t.Errorf("web: %+v", web)
	}
	s := web.Settings.(*testSource)
	if s.Listen != "0.0.0.0:8080" || s.Path != "/events" || s.MaxBody != 1<<20 || s.Methods[0] != "POST" {
		t.Errorf("settings: %+v", s)
	}
	if a := s.Auth.Bearer; a[0].Reveal() != testSecret || a[1].Reveal() != "token-from-a-file" {
		t.Error("the tokens are not those of the environment and the folder")
	}
	web2, _ := c.Source("web2")
	if web2.MaxInFlight != 8 || web2.MaxInFlightBytes != 1_000_000 || web2.Unrouted != UnroutedAck {
		t.Errorf("web2: %+v", web2)
	}
}

func TestGoodRoutes(t *testing.T) {
	c := good(t)
	orders, support := c.Routes[0], c.Routes[1]
	if orders.Schema != filepath.Join("testdata", "good", "schemas", "order.json") {
		t.Errorf("schema %q", orders.Schema)
	}
	at := func(to []Target) []string {
		var all []string
		for _, x := range to {
			all = append(all, fmt.Sprintf("%s:%s", x.Destination, x.Need))
		}
		return all
	}
	if diff := cmp.Diff([]string{"ledger:required", "newsletter:best_effort"}, at(orders.To)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"newsletter:required", "ledger-b:required", "ledger-disk:required"}, at(support.Targets())); diff != "" {
		t.Error(diff)
	}
	if len(support.Routers) != 2 || support.Routers[0].Match != MatchAll || support.Routers[0].Rules[1].When != ".urgent" ||
		support.Routers[1].Type != RouterStatic || support.To != nil {
		t.Errorf("routers: %+v", support.Routers)
	}
	if p := support.Routers[1].At; filepath.Base(p.File) != "20-support.yaml" || p.Line != 12 {
		t.Errorf("the fallback router stands at %+v", p)
	}
}

func TestGoodDelivery(t *testing.T) {
	c := good(t)
	ledger, _ := c.Destination("ledger")
	d := ledger.Delivery
	if d.Timeout != 5*time.Second || d.Deadline != 0 || d.Workers != DefaultWorkers || d.MaxPending != DefaultMaxPending {
		t.Errorf("ledger: %+v", d)
	}
	if d.Retry.Attempts != 1 || d.Retry.Schedule.Max != 30*time.Second || d.Retry.Schedule.Jitter != backoff.Equal || d.Retry.RespectRetryAfter {
		t.Errorf("retry: %+v", d.Retry)
	}
	// The nearer list wins for a tag that both levels name.
	if !d.Retry.RetryOn.Has("404") || d.Retry.NeverOn.Has("404") {
		t.Errorf("tags: %v never %v", d.Retry.RetryOn, d.Retry.NeverOn)
	}
	// open_for alone, of defaults: not doubled; min_requests of its own.
	want := breaker.Settings{FailureRatio: 0.5, MinRequests: 5, Window: time.Minute, OpenFor: 3 * time.Second, MaxOpenFor: 3 * time.Second, HalfOpenMax: 5}
	if d.Breaker == nil || *d.Breaker != want {
		t.Errorf("breaker: %+v", d.Breaker)
	}
	if d.ForwardHeaders == nil || len(d.ForwardHeaders) != 0 {
		t.Errorf("an empty list did not replace the inherited one: %v", d.ForwardHeaders)
	}
	if diff := cmp.Diff(failure.Tags{"409"}, d.DeliveredOn); diff != "" {
		t.Error(diff)
	}
	for name, level := range map[string]string{
		"timeout": LevelDefaults, "deadline": LevelDestination, "workers": LevelBuiltIn,
		"circuit_breaker.open_for": LevelDefaults, "circuit_breaker.min_requests": LevelDestination,
		"circuit_breaker.window": LevelBuiltIn, "forward_headers": LevelDestination,
	} {
		if d.From[name] != level {
			t.Errorf("%s is said to come from %q, not %q", name, d.From[name], level)
		}
	}
	if len(d.Transforms) != 3 || d.Transforms[0].JQ != "{id}" || d.Transforms[1].SetHeaders["x-from"] != "pawl" || d.Transforms[2].DropHeaders[0] != "x-internal-*" {
		t.Errorf("transforms: %+v", d.Transforms)
	}
	s := ledger.Settings.(*testDestination)
	if s.URL != "https://ledger.internal/orders/{{ .id }}" || s.Headers["authorization"].Reveal() != "Bearer "+testSecret || s.Retries == nil || *s.Retries {
		t.Errorf("settings: %+v", s)
	}

	b, _ := c.Destination("ledger-b")
	if b.Delivery.Breaker != nil || b.Delivery.Retry.Attempts != 3 || b.Delivery.Deadline != time.Minute {
		t.Errorf("ledger-b: %+v", b.Delivery)
	}
	disk, _ := c.Destination("ledger-disk")
	if disk.Delivery.WhenOpen != WhenOpenFail || disk.Delivery.TTL != 36*time.Hour ||
		disk.Settings.(*testFile).Path != filepath.Join("testdata", "good", "out", "ledger.ndjson") {
		t.Errorf("ledger-disk: %+v %+v", disk.Delivery, disk.Settings)
	}
	if dl := c.DeadLetter; dl.Origin != Said || dl.Retry.Attempts != 4 || dl.Path != filepath.Join("testdata", "good", "letters") || dl.Fallback[0] != "ledger-disk" {
		t.Errorf("dead letters: %+v", dl)
	}
}

// TestNothingSaid loads the least that is a configuration.
func TestNothingSaid(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "pawl.yaml"), "sources:\nroutes:\n")
	t.Chdir(dir)
	c, report := Load(nil, testOptions())
	if c == nil || len(report.Problems) > 0 {
		t.Fatalf("problems: %v", report.Problems)
	}
	if c.Relay != "pawl" || c.State != "pawl-data" || c.HTTP.Listen != "127.0.0.1:7077" || c.ShutdownTimeout != 25*time.Second {
		t.Errorf("defaults: %+v", c)
	}
	d := c.DeadLetter
	if d.Origin != Default || d.Path != filepath.Join("pawl-data", "dead") || d.Type != DeadLetterFile || d.Retry.Attempts != 3 {
		t.Errorf("dead letters: %+v", d)
	}
}

func TestBreakerLevels(t *testing.T) {
	on, off := writtenBreaker{state: switchedOn}, writtenBreaker{state: switchedOff}
	silent := writtenBreaker{}
	for _, c := range []struct {
		name          string
		defaults, own writtenBreaker
		want          bool
		from          string
	}{
		{"nothing said", silent, silent, true, LevelBuiltIn},
		{"removed for all", off, silent, false, LevelDefaults},
		{"removed for one", on, off, false, LevelDestination},
		{"brought back", off, on, true, LevelDestination},
	} {
		from := map[string]string{}
		got := resolver{inherited(&writtenDelivery{writtenEndpoint: writtenEndpoint{CircuitBreaker: c.defaults}},
			&writtenDelivery{writtenEndpoint: writtenEndpoint{CircuitBreaker: c.own}}), from}.breaker()
		if (got != nil) != c.want || from["circuit_breaker"] != c.from {
			t.Errorf("%s: %v from %q", c.name, got, from["circuit_breaker"])
		}
	}
}

func TestFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yaml"), "relay: shop\n")
	write(t, filepath.Join(dir, "a.yml"), "include: [b.yaml, sub/../a.yml]\n")
	write(t, filepath.Join(dir, ".hidden.yaml"), "nonsense: 1\n")
	write(t, filepath.Join(dir, "notes.txt"), "nonsense: 1\n")
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sub", "c.yaml"), "nonsense: 1\n")
	c, report := Load([]string{dir, filepath.Join(dir, "b.yaml")}, testOptions())
	if c == nil || len(c.Files) != 2 || c.Relay != "shop" {
		t.Errorf("%v, problems %v", c, report.Problems)
	}
	if _, report := Load([]string{t.TempDir()}, testOptions()); report.Errors() != 1 {
		t.Errorf("an empty folder: %v", report.Problems)
	}
	if _, report := Load([]string{filepath.Join(dir, "absent.yaml")}, testOptions()); report.Errors() != 1 {
		t.Errorf("an absent file: %v", report.Problems)
	}
}

// TestBounds holds the loader to its limits and to saying so.
func TestBounds(t *testing.T) {
	dir := t.TempDir()
	main := filepath.Join(dir, "pawl.yaml")
	for _, c := range []struct {
		name, text, want string
	}{
		{"a large file", "# " + strings.Repeat("x", MaxFileBytes), "larger than 4096 KiB"},
		{"deep", "x: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000), "levels deep"},
		{"deeper than the parser goes", "x: " + strings.Repeat("[", 100_000), ""},
	} {
		write(t, main, c.text)
		_, report := Load([]string{main}, testOptions())
		if report.Errors() == 0 || !strings.Contains(report.Problems[0].Message, c.want) {
			t.Errorf("%s: %v", c.name, report.Problems)
		}
	}

	for i := range MaxFiles + 1 {
		write(t, filepath.Join(dir, "many", fmt.Sprintf("%04d.yaml", i)), "sources: []\n")
	}
	for i := range 5 {
		write(t, filepath.Join(dir, "many", fmt.Sprintf("more%d.yaml", i)), "sources: []\n")
	}
	l, paths := newLoader([]string{filepath.Join(dir, "many")}, testOptions())
	l.load(paths)
	report := l.finish()
	if report.Errors() != 1 || !strings.Contains(report.Problems[0].Message, "more than 1000 files") || len(l.files) != MaxFiles {
		t.Errorf("%d files were read: %v", len(l.files), report.Problems)
	}
}

func TestManyProblems(t *testing.T) {
	dir := t.TempDir()
	var b strings.Builder
	for i := range MaxProblems + 50 {
		fmt.Fprintf(&b, "zzz%d: 1\n", i)
	}
	write(t, filepath.Join(dir, "pawl.yaml"), b.String())
	_, report := Load([]string{filepath.Join(dir, "pawl.yaml")}, testOptions())
	if len(report.Problems) != MaxProblems || report.Left != 50 {
		t.Errorf("%d problems and %d left", len(report.Problems), report.Left)
	}
	var out bytes.Buffer
	if err := report.Write(&out, Plain); err != nil || !strings.Contains(out.String(), "and 50 problems more") {
		t.Errorf("the rest is not told of: %v", err)
	}
	if err := report.Err(); err == nil || !strings.Contains(err.Error(), "(and 549 more)") {
		t.Errorf("Err: %v", err)
	}
}

func TestColour(t *testing.T) {
	r := Report{Problems: []Problem{{File: "a.yaml", Line: 3, Column: 5, Severity: Error, Message: "no", Suggestion: "yes", Excerpt: "\tab x", caret: 4}}}
	var out bytes.Buffer
	if err := r.Write(&out, Coloured); err != nil {
		t.Fatal(err)
	}
	want := "\x1b[1ma.yaml:3:5:\x1b[0m \x1b[31merror:\x1b[0m no; did you mean \"yes\"?\n" +
		"    3 | \tab x\n      | \t   \x1b[31m^\x1b[0m\n1 error, 0 warnings\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func write(t testing.TB, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestWarningsHideNoError has more warnings than are kept, and one error.
func TestWarningsHideNoError(t *testing.T) {
	l, _ := newLoader(nil, testOptions())
	f := &file{path: "pawl.yaml"}
	for i := range maxFound + 10 {
		l.warnf(f, nil, "warning %d", i)
	}
	l.errorf(f, nil, "the error")
	report := l.finish()
	if report.Errors() != 1 || report.Problems[0].Severity != Error || report.Left != maxFound+11-MaxProblems {
		t.Errorf("%d errors, %d left", report.Errors(), report.Left)
	}
}

// TestFindState finds the state folder of configurations that do not load.
func TestFindState(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "pawl.yaml")
	for text, want := range map[string]string{
		"state: ./kept\nnonsense: 1\n": filepath.Join(dir, "kept"),
		"nonsense: 1\n":                filepath.Join(dir, "pawl-data"),
	} {
		write(t, path, text)
		if got, err := FindState([]string{path}); err != nil || got != want {
			t.Errorf("%q: %s, %v", text, got, err)
		}
	}
	if got, err := FindState([]string{filepath.Join(dir, "absent.yaml")}); err == nil {
		t.Errorf("no configuration has its state in %s", got)
	}
}

// TestLongChain has a cycle over many destinations and an edge back to each:
// the loader must stay quick and its messages short.
func TestLongChain(t *testing.T) {
	const n = 5000
	var b strings.Builder
	b.WriteString("destinations:\n")
	for i := range n {
		fmt.Fprintf(&b, "  - { name: d%d, type: stdout, fallback: [d%d, d%d, d%d] }\n", i, (i+1)%n, i/2, i/3)
	}
	c, report := loadText(t, b.String())
	if c != nil || report.Left == 0 {
		t.Errorf("a configuration full of cycles loads: %v", report.Err())
	}
	for _, p := range report.Problems {
		if len(p.Message) > 400 {
			t.Fatalf("a message of %d bytes", len(p.Message))
		}
	}
}

// TestLines holds our counting of lines to the parser's.
func TestLines(t *testing.T) {
	for name, text := range map[string]string{
		"unix": "# a\n# b\nzzz: 1\n", "windows": "# a\r\n# b\r\nzzz: 1\r\n", "old mac": "# a\r# b\rzzz: 1\r",
		"next line": "# a\u0085# b\u0085zzz: 1", "separators": "# a\u2028# b\u2029zzz: 1", "byte order mark": "\ufeff# a\n# b\nzzz: 1",
	} {
		_, report := loadText(t, text)
		if len(report.Problems) != 1 {
			t.Errorf("%s: %v", name, report.Problems)
			continue
		}
		if p := report.Problems[0]; p.Line != 3 || p.Column != 1 || strings.Trim(p.Excerpt, "\r") != "zzz: 1" {
			t.Errorf("%s: %d:%d %q", name, p.Line, p.Column, p.Excerpt)
		}
	}
}

// Would catch: a command that takes one state folder and works on the dead
// letters of another.
func TestInState(t *testing.T) {
	for _, tt := range []struct{ dead, want string }{
		{"", filepath.Join("elsewhere", "dead")},
		{"dead_letter: { path: /var/letters }", "/var/letters"},
		{"dead_letter: { type: destination, destination: a }", ""},
		{"jobs: {}\ndead_letter: { type: store }", ""},
	} {
		path := filepath.Join(t.TempDir(), "pawl.yaml")
		text := "destinations: [ { name: a, type: https, url: https://a } ]\n" + tt.dead
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, report := Load([]string{path}, testOptions())
		if err := report.Err(); err != nil {
			t.Fatal(err)
		}
		moved := c.InState("elsewhere")
		if moved.State != "elsewhere" || moved.DeadLetter.Path != tt.want || c.State == "elsewhere" {
			t.Errorf("%s: state %s, letters %s; the configuration itself says %s", tt.dead, moved.State, moved.DeadLetter.Path, c.State)
		}
	}
}
