// These tests catch: a chaos run over the configuration's own sources that does not
// start, takes no fault, or claims more than it can know; an interrupt that is no
// end; a question that is not asked, or whose no is not heard; batches and hedges that
// faults lose; a text report that changes unnoticed.
package cli

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/chaos"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/testbed"
)

// output is a command's, read while it runs.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// interruptible runs a command line until its end; interrupt is Ctrl-C.
func interruptible(t *testing.T, in io.Reader, args ...string) (out, errOut *output, interrupt context.CancelFunc, exit <-chan int) {
	t.Helper()
	ctx, interrupt := context.WithCancel(t.Context())
	out, errOut = &output{}, &output{}
	done := make(chan int, 1)
	sh := &shell{in: in, out: out, err: errOut, kinds: builtin.Connectors()}
	root := newRoot(sh)
	root.SetArgs(args)
	go func() { done <- sh.exitCode(root.ExecuteContext(ctx)) }()
	return out, errOut, interrupt, done
}

// soon waits until something is so.
func soon(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not in time: %s", what)
		}
		<-time.After(2 * time.Millisecond)
	}
}

// sourced is a configuration with a source at address: one destination is required,
// one is best effort.
func sourced(t *testing.T, address, url string) (config, state string) {
	t.Helper()
	folder := t.TempDir()
	config, state = filepath.Join(folder, "pawl.yaml"), filepath.Join(folder, "state")
	t.Setenv("PAWL_TEST_URL", url)
	t.Setenv("PAWL_TEST_ADDRESS", address)
	t.Setenv("PAWL_TEST_STATE", state)
	text := `
state: "{{env.PAWL_TEST_STATE}}"
http: { listen: off }
sources: [ { name: web, type: http, listen: "{{env.PAWL_TEST_ADDRESS}}" } ]
routes:
  - { name: all, from: [web], to: [ledger] }
  - { name: some, from: [web], to: [ { destination: news, required: false } ] }
destinations:
  - { name: ledger, type: http, url: "{{env.PAWL_TEST_URL}}", retry: { attempts: 1 }, circuit_breaker: false, fallback: [spare] }
  - { name: spare, type: http, url: "{{env.PAWL_TEST_URL}}/spare", retry: { attempts: 1 }, success: 'false', circuit_breaker: false }
  - { name: news, type: http, url: "{{env.PAWL_TEST_URL}}", retry: { attempts: 1 }, circuit_breaker: false }
`
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config, state
}

func post(t *testing.T, address string) (status int) {
	t.Helper()
	res, err := http.Post("http://"+address+"/", "application/json", strings.NewReader("{}"))
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Fatal(err)
	}
	return res.StatusCode
}

func TestChaosRunsTheRelay(t *testing.T) {
	for _, test := range []struct{ destination, delivered, letters, unkept string }{
		{"ledger", "delivered           0", "dead letters       12", "no letter           0"},
		{"news", "delivered           0", "dead letters        0", "no letter          12"},
	} {
		t.Run(test.destination, func(t *testing.T) {
			endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
			t.Cleanup(endpoint.Close)
			address := testbed.FreeAddress(t)
			config, state := sourced(t, address, endpoint.URL)
			page := filepath.Join(t.TempDir(), "page.html")
			out, errOut, interrupt, exit := interruptible(t, strings.NewReader(""), "chaos", "-c", config, "--destination", test.destination, "--fail", "1", "--html", page)
			soon(t, "the first message is taken", func() bool { return post(t, address) == http.StatusOK })
			for range 11 {
				if code := post(t, address); code != http.StatusOK {
					t.Errorf("answered %d", code)
				}
			}
			interrupt()
			if code := <-exit; code != exitDone {
				t.Errorf("exit %d: %s", code, errOut)
			}
			for _, want := range []string{test.delivered, test.letters, test.unkept, "no proof that none was lost"} {
				if !strings.Contains(out.String(), want) {
					t.Errorf("the report lacks %q:\n%s", want, out)
				}
			}
			if strings.Contains(out.String(), "\nlost") {
				t.Errorf("it claims to know what was lost:\n%s", out)
			}
			if _, err := os.Stat(filepath.Join(state, "pawl.lock")); err != nil {
				t.Errorf("it ran elsewhere than in the configuration's state folder: %v", err)
			}
			if text, err := os.ReadFile(page); err != nil || !bytes.Contains(text, []byte("Sources brought these 12 messages")) {
				t.Errorf("the page: %v", err)
			}
		})
	}
}

// A configuration that can't run is no run: no report, and exit 2.
func TestChaosRunThatCanNotBegin(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config, _ := sourced(t, l.Addr().String(), "http://127.0.0.1:1")
	code, out, errOut := call(t, "", "chaos", "-c", config, "--destination", "ledger", "--fail", "1")
	if code != exitUsage || out != "" || !strings.Contains(errOut, "address already in use") {
		t.Errorf("exit %d\n%s\n%s", code, out, errOut)
	}
}

func TestChaosIsInterrupted(t *testing.T) {
	config, arrived := chaosWorld(t)
	out, errOut, interrupt, exit := interruptible(t, strings.NewReader(""),
		"chaos", "-c", config, "--destination", "alone", "--latency", "1ms", "--count", "1000000", "--rate", "200/s", "--data", "{}")
	soon(t, "some arrived", func() bool { return arrived.Load() > 5 })
	interrupt()
	if code := <-exit; code != exitNo || !strings.Contains(errOut.String(), "interrupted") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	if !strings.Contains(out.String(), "lost                0") || !strings.Contains(out.String(), "again: pawl chaos") {
		t.Errorf("no whole report:\n%s", out)
	}
	if left, err := os.ReadDir(os.TempDir()); err != nil || len(left) > 0 && !strings.Contains(out.String(), left[0].Name()) {
		t.Errorf("left in the temporary folder and not named: %v, %v", left, err)
	}
}

func TestChaosAsks(t *testing.T) {
	for answer, want := range map[string]struct{ code, arrived int }{
		"y\n": {exitDone, 2}, "YES\n": {exitDone, 2}, "n\n": {exitNo, 0}, "\n": {exitNo, 0}, "": {exitNo, 0}, "yesterday\n": {exitNo, 0}, "n y\n": {exitNo, 0},
	} {
		config, arrived := chaosWorld(t)
		var out, errOut bytes.Buffer
		sh := &shell{in: person{strings.NewReader(answer)}, out: &out, err: &errOut, kinds: builtin.Connectors()}
		root := newRoot(sh)
		root.SetArgs([]string{"chaos", "-c", config, "--destination", "alone", "--latency", "1ms", "--count", "2", "--data", "{}"})
		code := sh.exitCode(root.ExecuteContext(t.Context()))
		if code != want.code || int(arrived.Load()) != want.arrived || !strings.Contains(errOut.String(), "send 2 messages? [y/N] ") {
			t.Errorf("%q: exit %d, %d arrived; want %d, %d\n%s", answer, code, arrived.Load(), want.code, want.arrived, &errOut)
		}
		if code == exitNo && (out.Len() > 0 || !strings.Contains(errOut.String(), "nothing was sent")) {
			t.Errorf("%q: after a no\n%s\n%s", answer, &out, &errOut)
		}
	}
}

// Ids and bodies: what a bulk endpoint got, one request a batch, one line a message.
func TestChaosOfBatches(t *testing.T) {
	var mu sync.Mutex
	requests, lines := 0, 0
	endpoint := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(r.Body)
		if err != nil {
			return // it broke off, and is not counted
		}
		mu.Lock()
		defer mu.Unlock()
		requests++
		lines += bytes.Count(bytes.TrimSpace(text), []byte("\n")) + 1
	}))
	t.Cleanup(endpoint.Close)
	config := chaosOf(t, endpoint.URL, `{ name: bulk, type: http, url: "{{env.PAWL_TEST_URL}}", retry: { attempts: 6, backoff: 1ms }, circuit_breaker: false, batch: { max_messages: 10, max_wait: 20ms } }`)
	r := chaosReportOf(t, config, "--destination", "bulk", "--fail", "30%", "--reset", "10%", "--seed", "4", "--count", "100")
	mu.Lock()
	defer mu.Unlock()
	if r.Messages.Lost != 0 || r.Messages.Delivered+r.Messages.DeadLettered != 100 || r.Messages.Delivered < 90 || lines != r.Messages.Delivered {
		t.Errorf("%+v; %d lines arrived", r.Messages, lines)
	}
	if requests >= lines/2 {
		t.Errorf("%d requests for %d messages: they went alone", requests, lines)
	}
}

// A group that hedges while one of its members hangs: the hedges win, and nothing
// is lost or dead.
func TestChaosOfAHedgedGroup(t *testing.T) {
	endpoint := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(endpoint.Close)
	config := chaosOf(t, endpoint.URL, `{ name: pair, type: group, strategy: round_robin, idempotent: true, timeout: 2s, hedge: { after: 20ms }, circuit_breaker: false,
    members: [ { name: east, type: http, url: "{{env.PAWL_TEST_URL}}/east" }, { name: west, type: http, url: "{{env.PAWL_TEST_URL}}/west" } ] }`)
	r := chaosReportOf(t, config, "--destination", "east", "--hang", "1", "--count", "20")
	if r.Messages != (chaos.Messages{Sent: 20, Delivered: 20}) || len(r.By) != 1 || r.By[0].Name != "west" {
		t.Errorf("%+v by %v", r.Messages, r.By)
	}
	// On a busy machine a first attempt at west may take longer than the hedge waits, and win all the same.
	if i := slices.IndexFunc(r.Hedges, func(h chaos.Count) bool { return h.Name == "hedge" }); i < 0 || r.Hedges[i].Count < 5 {
		t.Errorf("races: %v", r.Hedges)
	}
	for _, e := range r.At {
		if e.Name == "east" && (len(r.Applied) != 1 || e.Attempts.Total != r.Applied[0].Count) {
			t.Errorf("%d attempts at east ended, of %v that began", e.Attempts.Total, r.Applied)
		}
	}
}

// chaosOf is a configuration with one destination.
func chaosOf(t *testing.T, url, destination string) string {
	t.Helper()
	folder := t.TempDir()
	t.Setenv("TMPDIR", t.TempDir())
	t.Setenv("PAWL_TEST_URL", url)
	config := filepath.Join(folder, "pawl.yaml")
	name := strings.Fields(destination)[2]
	text := "http: { listen: off }\nsources: [ { name: web, type: http, listen: \"127.0.0.1:0\" } ]\nroutes: [ { name: all, from: [web], to: [" +
		strings.TrimSuffix(name, ",") + "] } ]\ndestinations:\n  - " + destination + "\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return config
}

func TestChaosText(t *testing.T) {
	const ms = chaos.Millis(time.Millisecond)
	r := chaos.Report{
		Setup: chaos.Setup{Destination: "ledger", Traffic: chaos.Made, Command: "pawl chaos --destination ledger --fail 50% --seed 7", State: "/tmp/pawl-chaos-1"},
		Took:  4000 * ms, Messages: chaos.Messages{Sent: 200, Delivered: 183, DeadLettered: 2, Lost: 12, Interrupted: 3},
		DeliveredBy: []chaos.Count{{Name: "spare", Count: 173}, {Name: "ledger", Count: 10}},
		Deaths:      []chaos.Count{{Name: "permanent", Count: 2}},
		Attempts:    chaos.Attempts{Total: 229, OK: 183, Failed: 29, Permanent: 14, Cancelled: 3, Retries: 11, Hedges: 1}, Load: 1.145,
		Hedges:  []chaos.Count{{Name: "hedge", Count: 2}, {Name: "first", Count: 1}, {Name: "none", Count: 1}},
		Applied: []chaos.Count{{Name: "slow_body", Count: 25}, {Name: "none", Count: 10}},
		Hops: []chaos.HopCount{
			{From: "ledger", To: "spare", Reason: message.HopBreakerOpen, Count: 190}, {From: "spare", Reason: message.HopCancelled, Count: 3},
			{From: "spare", Reason: message.HopPermanent, Count: 2},
		},
		Latency: chaos.Latency{Count: 183, P50: 12 * ms, P99: 544 * ms, Max: 560 * ms}, Late: 1500 * ms,
		Endpoints: []chaos.Endpoint{
			{Name: "ledger", Destination: "ledger", Attempts: chaos.Attempts{Total: 39, OK: 10}, Latency: chaos.Latency{P50: ms, P99: 501 * ms, Max: 501 * ms}, Opened: 1, Shut: 3810 * ms, Holds: 2},
			{Name: "spare\x1b[2J", Destination: "spare", Attempts: chaos.Attempts{Total: 190, OK: 173}},
		},
	}
	for range 12 {
		r.Lost = append(r.Lost, "chaos-x\n")
	}
	sh := &shell{out: &bytes.Buffer{}, paths: []string{"my file.yaml"}}
	golden(t, "chaos", sh.chaosText(r))
	r.Traffic, r.Lost, r.Late = chaos.Received, nil, 0
	r.Messages = chaos.Messages{Sent: 200, Delivered: 183, DeadLettered: 2, Unkept: 15}
	golden(t, "chaos-received", sh.chaosText(r))
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"traffic":"received"`) || !strings.Contains(string(text), `"unkept":15`) {
		t.Errorf("as JSON: %v\n%s", err, text)
	}
}
