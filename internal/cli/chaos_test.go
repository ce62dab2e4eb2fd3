// These tests catch: a call of chaos that means nothing and is taken; a message
// that reaches the real endpoint although every attempt was to fail, or does not
// although none was; dead letters or a state folder that end up in the user's;
// a report in another form than was asked for; a command line that does not repeat the run.
package cli

import (
	"encoding/json/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/pawlhq/pawl/internal/chaos"
)

// chaosWorld is a configuration with an endpoint that counts.
func chaosWorld(t *testing.T) (config string, arrived *atomic.Int64) {
	t.Helper()
	arrived = &atomic.Int64{}
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { arrived.Add(1) }))
	t.Cleanup(endpoint.Close)
	folder := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("PAWL_TEST_URL", endpoint.URL)
	t.Setenv("PAWL_TEST_STATE", filepath.Join(folder, "state"))
	config = filepath.Join(folder, "pawl.yaml")
	text := `
state: "{{env.PAWL_TEST_STATE}}"
http: { listen: off }
sources: [ { name: web, type: http, listen: "127.0.0.1:0" } ]
routes: [ { name: all, from: [web], to: [ledger, alone, pair] } ]
destinations:
  - name: ledger
    type: http
    url: "{{env.PAWL_TEST_URL}}/orders"
    retry: { attempts: 2, backoff: 1ms, retry_on: [5xx] }
    circuit_breaker: false
    fallback: [spare]
  - { name: spare, type: http, url: "{{env.PAWL_TEST_URL}}/spare" }
  - { name: alone, type: http, url: "{{env.PAWL_TEST_URL}}/alone", retry: { attempts: 1 }, circuit_breaker: false }
  - name: pair
    type: group
    strategy: failover
    retry: { attempts: 1 }
    circuit_breaker: false
    members:
      - { name: east, type: http, url: "{{env.PAWL_TEST_URL}}/east" }
      - { name: west, type: http, url: "{{env.PAWL_TEST_URL}}/west" }
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config, arrived
}

// chaosReportOf runs chaos and reads its report.
func chaosReportOf(t *testing.T, config string, args ...string) (r struct {
	chaos.Setup
	Messages chaos.Messages `json:"messages"`
	Load     float64        `json:"load"`
	Hedges   []chaos.Count  `json:"hedge_races"`
	At       []struct {
		Name     string         `json:"name"`
		Attempts chaos.Attempts `json:"attempts"`
	} `json:"endpoints"`
	Applied []chaos.Count `json:"faults_applied"`
	By      []chaos.Count `json:"delivered_by"`
}) {
	t.Helper()
	code, out, errOut := call(t, "", append([]string{"chaos", "-c", config, "--data", `{"id":7}`, "--json"}, args...)...)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

func TestChaosHopsToTheFallback(t *testing.T) {
	config, arrived := chaosWorld(t)
	r := chaosReportOf(t, config, "--destination", "ledger", "--fail", "100%", "--count", "20")
	if r.Messages != (chaos.Messages{Sent: 20, Delivered: 20}) || r.Load != 3 || arrived.Load() != 20 || len(r.By) != 1 || r.By[0].Name != "spare" {
		t.Errorf("%+v; %d arrived", r, arrived.Load())
	}
	if r.State != "" {
		t.Errorf("no dead letters, and a folder %s", r.State)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func TestChaosKeepsDeadLettersApart(t *testing.T) {
	config, arrived := chaosWorld(t)
	r := chaosReportOf(t, config, "--destination", "alone", "--reset", "1", "--count", "5")
	if r.Messages != (chaos.Messages{Sent: 5, DeadLettered: 5}) || arrived.Load() != 0 {
		t.Errorf("%+v; %d arrived", r, arrived.Load())
	}
	if _, err := os.Stat(os.Getenv("PAWL_TEST_STATE")); err == nil {
		t.Error("the configuration's own state folder was made")
	}
	code, out, errOut := call(t, "", "dlq", "list", "-c", config, "--state", r.State, "--json")
	if code != exitDone || strings.Count(out, `"destination":"alone"`) != 5 {
		t.Errorf("pawl dlq list: exit %d\n%s%s", code, out, errOut)
	}
}

func TestChaosSameSeedSameFaults(t *testing.T) {
	config, _ := chaosWorld(t)
	args := []string{"--destination", "alone", "--fail", "40%", "--seed", "11", "--count", "50"}
	first, again := chaosReportOf(t, config, args...), chaosReportOf(t, config, args...)
	if first.Messages != again.Messages || first.Messages.Delivered == 0 || first.Messages.DeadLettered == 0 {
		t.Errorf("one seed, two runs: %+v, %+v", first.Messages, again.Messages)
	}
	if other := chaosReportOf(t, config, "--destination", "alone", "--fail", "40%", "--count", "50"); other.Seed == 11 || other.Seed == first.Seed {
		t.Errorf("a new seed is %d", other.Seed)
	}
}

// A member's name disturbs that one alone, a group's all.
func TestChaosOfGroupsAndMembers(t *testing.T) {
	config, _ := chaosWorld(t)
	r := chaosReportOf(t, config, "--destination", "east", "--fail", "1", "--count", "10")
	if r.Messages.Delivered != 10 || len(r.Applied) != 1 || r.Applied[0] != (chaos.Count{Name: "fail", Count: 10}) {
		t.Errorf("a member: %+v", r)
	}
	r = chaosReportOf(t, config, "--destination", "pair", "--fail", "1", "--count", "10")
	if r.Messages.DeadLettered != 10 || len(r.Applied) != 1 || r.Applied[0] != (chaos.Count{Name: "fail", Count: 20}) {
		t.Errorf("a group: %+v", r)
	}
}

func TestChaosTextAndPage(t *testing.T) {
	config, _ := chaosWorld(t)
	page := filepath.Join(t.TempDir(), "page.html")
	code, out, errOut := call(t, "", "chaos", "-c", config, "--destination", "ledger", "--fail", "100%", "--retry-after", "1ms", "--count", "3", "--seed", "5", "--data", "it's", "--html", page)
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	for _, want := range []string{"ledger: 3 messages in ", "delivered           3  spare 3", "ledger -> spare (exhausted)", "lost                0", `--data 'it'\''s'`, "--seed 5"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
	for _, want := range []string{"100% answered 503 with Retry-After 1ms; seed 5", "spare (http, http://127.0.0.1"} {
		if !strings.Contains(errOut, want) {
			t.Errorf("stderr lacks %q:\n%s", want, errOut)
		}
	}
	if strings.Contains(errOut, "is delivered to ledger") {
		t.Error("nothing gets through, and the endpoint is named as if it did")
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "Nothing was lost: each of the 3 messages") {
		t.Errorf("the page: %v\n%.200s", err, text)
	}
}

func TestChaosUsage(t *testing.T) {
	config, arrived := chaosWorld(t)
	for args, want := range map[string]string{
		"":                                 `"destination" not set`,
		"--destination ledger":             "no fault is asked for",
		"--destination ledger --fail x":    "--fail: bad ratio",
		"--destination ledger --hang 101%": "--hang: bad ratio",
		"--destination ledger --fail 60% --reset 50%":                         "more than 100% together",
		"--destination ledger --fail 1 --status 200":                          "--status: status 200 is no failure",
		"--destination ledger --reset 1 --status 500":                         "say how many there are with --fail",
		"--destination ledger --reset 1 --retry-after 1s":                     "say how many there are with --fail",
		"--destination ledger --fail 1 --retry-after soon":                    "--retry-after",
		"--destination ledger --latency 2s-1s":                                "--latency: bad latency",
		"--destination ledger --fail 1 --count 5":                             "--count goes with --data",
		"--destination ledger --fail 1 --rate 5/s":                            "--rate goes with --data",
		"--destination ledger --fail 1 --data x --count 0":                    "--count 0: it can be 1 to 1000000",
		"--destination ledger --fail 1 --data x --count 2000000":              "--count 2000000: it can be 1 to 1000000",
		"--destination ledger --fail 1 --data x --rate fast":                  "--rate",
		"--destination nosuch --fail 1 --data x":                              `no destination or member "nosuch"`,
		"--destination ledger --fail 1 --data @nosuch.json":                   "nosuch.json",
		"--destination ledger --fail 1 --data x --html /nosuch/folder/x.html": "--html",
	} {
		code, out, errOut := call(t, "", append(strings.Fields("chaos "+args), "-c", config)...)
		if code != exitUsage || !strings.Contains(errOut, want) || out != "" {
			t.Errorf("pawl chaos %s: exit %d, want 2 and %q\nstdout: %s\nstderr: %s", args, code, want, out, errOut)
		}
	}
	if arrived.Load() != 0 {
		t.Errorf("%d messages were sent all the same", arrived.Load())
	}
}

// The example in the repository is one that shows something.
func TestChaosExample(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	code, out, errOut := call(t, "", "chaos", "-c", "../../examples/chaos/pawl.yaml", "--destination", "ledger", "--fail", "50%", "--hang", "10%",
		"--count", "100", "--seed", "7", "--data", "@../../examples/chaos/order.json")
	if code != exitDone {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	for _, want := range []string{"lost                0", "ledger -> spare (breaker_open)", "spare -> dead letters (permanent)", "opened 1 time"} {
		if !strings.Contains(out, want) {
			t.Errorf("the report lacks %q:\n%s", want, out)
		}
	}
}

func TestShellWord(t *testing.T) {
	for word, want := range map[string]string{"": "''", "plain-1.2": "plain-1.2", "{}": "'{}'", "a b": "'a b'", "it's": `'it'\''s'`, "$(rm)": "'$(rm)'"} {
		if got := shellWord(word); got != want {
			t.Errorf("%q is quoted %s, want %s", word, got, want)
		}
	}
}

// Files that the run wrote, and the flags that only show it, are not repeated.
func TestChaosCommandLine(t *testing.T) {
	c := chaosCommand(&shell{})
	if err := c.ParseFlags([]string{"--destination", "a b", "--fail", "0.5", "--header", "X-A: 1", "--header", "X-B: 2", "--html", "x", "--yes"}); err != nil {
		t.Fatal(err)
	}
	got := chaosCommandLine([]string{"my file.yaml"}, c, 9)
	if want := `pawl chaos -c 'my file.yaml' --destination 'a b' --fail 0.5 --header 'X-A: 1' --header 'X-B: 2' --seed 9`; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
