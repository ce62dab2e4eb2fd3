package app

// Catches: alerts that are not wired to what happens, or lose what was counted
// at a stop; a secret in an alert; a drill that alerts; an event that configurations, alerts and
// metrics name differently; a reload that is not heeded.

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pawlhq/pawl/internal/alert"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
)

// pager keeps the alerts that it gets.
type pager struct {
	*httptest.Server
	mu  sync.Mutex
	got []string
}

func newPager(t *testing.T) *pager {
	p := &pager{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(io.LimitReader(r.Body, 1<<16))
		if err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got = append(p.got, string(text))
	}))
	t.Cleanup(p.Close)
	return p
}

func (p *pager) alerts() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.got...)
}

// paging is a configuration whose ep fails, with somebody to tell.
func (w *world) paging(ep, pager, notify string) string {
	return w.conf(ep, "") + fmt.Sprintf("  - { name: ops, type: http, url: %q, transforms: [ { jq: '{text: .event, all: .}' } ] }\n%s", pager, notify)
}

func TestAlerts(t *testing.T) {
	w := newWorld(t)
	ep, ops := newEndpoint(t), newPager(t)
	ep.answer(http.StatusBadRequest)
	w.write(w.paging(ep.URL, ops.URL, "notify: [ { to: [ops], every: 1h } ]\n"))
	r := w.start()
	for _, key := range []string{"a", "b", "c"} {
		if status, text := w.send("127.0.0.1:1", key); status != http.StatusOK {
			t.Fatalf("%d %s", status, text)
		}
	}
	eventually(t, "the first alert arrives", func() bool { return len(ops.alerts()) == 1 })
	r.end()
	got := ops.alerts()
	if len(got) != 2 {
		t.Fatalf("%d alerts, want the first and at the stop one of the two others:\n%s", len(got), strings.Join(got, "\n"))
	}
	for i, want := range []string{`"count":1`, `"count":2`} {
		for _, part := range []string{want, `"text":"dead_letter"`, `"destination":"ep"`, `"route":"all"`, `"reason":"delivery"`, `"error":"HTTP 400`} {
			if !strings.Contains(got[i], part) {
				t.Errorf("alert %d has no %s: %s", i, part, got[i])
			}
		}
	}
}

// TestNoSecretInAnAlert has an endpoint that tells its password in its error.
func TestNoSecretInAnAlert(t *testing.T) {
	t.Setenv("APP_LEAKY_SECRET", leakedSecret)
	w := newWorld(t)
	ops := newPager(t)
	w.write(w.conf("http://127.0.0.1:9", `  - { name: other, type: http, listen: "127.0.0.1:3", auth: { bearer: { token: "{{secrets.APP_LEAKY_SECRET}}" } } }`) +
		fmt.Sprintf("  - { name: ops, type: http, url: %q }\nnotify: [ { to: [ops] } ]\n", ops.URL))
	o := w.options()
	o.Wrap = func(destination, _ string, d connector.Destination) connector.Destination {
		if destination == "ep" {
			return leaky{d}
		}
		return d
	}
	r := w.startWith(o)
	defer r.end()
	if status, text := w.send("127.0.0.1:1", "a"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	eventually(t, "the alert arrives", func() bool { return len(ops.alerts()) == 1 })
	if got := ops.alerts()[0]; strings.Contains(got, leakedSecret[:4]) || !strings.Contains(got, "login with ") {
		t.Errorf("the alert has the secret, or no error: %s", got)
	}
}

func TestAlertRulesAreReloaded(t *testing.T) {
	w := newWorld(t)
	ep, ops := newEndpoint(t), newPager(t)
	ep.answer(http.StatusBadRequest)
	w.write(w.paging(ep.URL, ops.URL, ""))
	r := w.start()
	defer r.end()
	if status, text := w.send("127.0.0.1:1", "a"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	w.write(w.paging(ep.URL, ops.URL, "notify: [ { to: [ops] } ]\n"))
	if _, err := r.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	if status, text := w.send("127.0.0.1:1", "b"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	eventually(t, "an alert arrives", func() bool { return len(ops.alerts()) > 0 })
	if got := ops.alerts(); len(got) != 1 || !strings.Contains(got[0], `"message_id":"b"`) {
		t.Errorf("alerts: %s", strings.Join(got, "\n"))
	}
}

func TestADrillAlertsNobody(t *testing.T) {
	w := newWorld(t)
	ep, ops := newEndpoint(t), newPager(t)
	ep.answer(http.StatusBadRequest)
	w.write(w.paging(ep.URL, ops.URL, "notify: [ { to: [ops] } ]\n"))
	o := w.options()
	o.Alerts = AlertNobody
	r := w.startWith(o)
	if status, text := w.send("127.0.0.1:1", "a"); status != http.StatusOK {
		t.Fatalf("%d %s", status, text)
	}
	r.end() // sends what is left
	if got := ops.alerts(); len(got) != 0 {
		t.Errorf("alerts: %s", strings.Join(got, "\n"))
	}
}

// TestAlertEventsHaveOneName compares the names in configurations with those in
// alerts, and looks for each in the metrics.
func TestAlertEventsHaveOneName(t *testing.T) {
	of := []config.AlertEvent{
		config.AlertDeadLetter, config.AlertDeadLetterFailed, config.AlertCircuitOpen,
		config.AlertCircuitClosed, config.AlertUnrouted, config.AlertSourceDown,
	}
	all := alert.Events()
	if len(all) != len(of) {
		t.Fatalf("%d events are configurable, %d are told of", len(of), len(all))
	}
	w := newWorld(t)
	w.write(w.conf("http://127.0.0.1:9", ""))
	r := w.start()
	defer r.end()
	res := httptest.NewRecorder()
	r.metrics.Handler().ServeHTTP(res, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	for i, e := range all {
		if string(of[i]) != string(e) {
			t.Errorf("%s in configurations is %s in alerts", of[i], e)
		}
		if !strings.Contains(res.Body.String(), fmt.Sprintf(`pawl_notifications_total{event=%q,outcome="sent"}`, e)) {
			t.Errorf("no metric of %s", e)
		}
	}
}
