package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
)

// TestSuccess looks at answers with jq: what is JSON as JSON, other text as a
// string, header names in lower case.
func TestSuccess(t *testing.T) {
	answer := func(body string) connector.Answer {
		return connector.Answer{Status: 200, Header: http.Header{"X-Result": {"fine", "two"}}, Body: []byte(body)}
	}
	for _, c := range []struct {
		src, body string
		want      bool
	}{
		{".status == 200", "", true},
		{".status == 201", "", false},
		{`.headers["x-result"][1] == "two"`, "", true},
		{".body.ok", `{"ok":true}`, true},
		{".body.ok", `{"ok":false}`, false},
		{`.body == "OK"`, "OK", true},
		{`.body | startswith("O")`, "O\xff", true},
		{`.body == ""`, "", true},
	} {
		check, err := success(c.src)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := check(t.Context(), answer(c.body)); err != nil || got != c.want {
			t.Errorf("%s of %q = %v, %v; want %v", c.src, c.body, got, err, c.want)
		}
	}
	check, err := success(".body.ok.deeper")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := check(t.Context(), answer(`{"ok":1}`)); err == nil {
		t.Error("an expression that fails is a success")
	}
	if check, err := success(""); check != nil || err != nil {
		t.Error("no expression makes a check")
	}
	if _, err := success("= ="); err == nil {
		t.Error("a broken expression compiles")
	}
}

func loadText(t *testing.T, text string) *config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "pawl.yaml")
	must(t, os.WriteFile(file, []byte(text), 0o600))
	c, report := Load([]string{file}, kinds())
	if report.Errors() > 0 {
		t.Fatal(report.Err())
	}
	return c
}

const routed = `
sources:
  - { name: web, type: http, listen: "127.0.0.1:1" }
  - { name: other, type: http, listen: "127.0.0.1:3" }
routes:
  - name: chosen
    from: [web]
    router:
      type: rules
      match: all
      rules:
        - { when: '.n > 1', to: [many] }
        - { when: '.n > 0', to: [ some, { destination: news, required: false } ] }
      fallback: [ { type: static, to: [rest] } ]
  - name: strict
    from: [web, other]
    filter: '.strict'
    transforms: [ { jq: '{n: (.n | tonumber)}' }, { drop_headers: [x-*] } ]
    to: [some]
destinations:
  - { name: many, type: stdout }
  - { name: some, type: stdout, transforms: [ { jq: '.n / 0' } ] }
  - { name: news, type: stdout, fallback: [rest] }
  - { name: rest, type: stdout }
`

// TestTry: what try says is what the relay would do, router and all.
func TestTry(t *testing.T) {
	c := loadText(t, routed)
	try := func(source, body string) map[string]RouteTrial {
		t.Helper()
		trial, err := Try(t.Context(), c, &message.Message{
			ID: "m", Source: source, Time: time.Now(), Body: []byte(body), Headers: map[string][]string{"x-a": {"1"}, "y": {"2"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		routes := map[string]RouteTrial{}
		for _, r := range trial.Routes {
			routes[r.Route] = r
		}
		return routes
	}
	destinations := func(r RouteTrial) (all []string) {
		for _, to := range r.To {
			name := to.Destination
			if !to.Required {
				name += "?"
			}
			all = append(all, name)
		}
		return all
	}
	for body, want := range map[string][]string{`{"n":2}`: {"many", "some", "news?"}, `{"n":1}`: {"some", "news?"}, `{"n":0}`: {"rest"}} {
		r := try("web", body)["chosen"]
		if diff := cmp.Diff(want, destinations(r)); diff != "" || !r.Taken {
			t.Errorf("%s: %s", body, diff)
		}
	}
	r := try("web", `{"n":1}`)["chosen"]
	if why := r.To[0].Why; !strings.Contains(why, "divide") {
		t.Errorf("a destination's transform that fails: %q", why)
	}
	if diff := cmp.Diff([]string{"rest"}, r.To[1].Path); diff != "" {
		t.Errorf("a best-effort leg ends in no dead letters: %s", diff)
	}
	if r := try("web", `no json`)["chosen"]; r.Taken && len(r.To) == 0 && r.DeadLetter == "" {
		t.Errorf("a body that no rule can look at: %+v", r)
	}
	all := try("other", `{"strict":true,"n":"7"}`)
	if len(all) != 1 {
		t.Errorf("routes of another source: %v", all)
	}
	strict := all["strict"]
	if len(strict.Steps) != 2 || string(strict.Steps[0].Body) != `{"n":7}` || len(strict.Steps[1].Headers) != 1 {
		t.Errorf("steps: %+v", strict.Steps)
	}
	if r := try("other", `{"strict":true,"n":"x"}`)["strict"]; r.DeadLetter != message.ReasonTransform || r.Why == "" {
		t.Errorf("a transform that fails: %+v", r)
	}
	if r := try("other", `{}`)["strict"]; r.Taken || !strings.Contains(r.Why, ".strict") {
		t.Errorf("a filter that is not true: %+v", r)
	}
}

// TestTryShowsAnyBody: what is no JSON and what is no text is shown too.
func TestTryShowsAnyBody(t *testing.T) {
	for body, want := range map[string]string{
		`{"a":1}`: `{"a":1}`, "text": `"text"`, "": `""`, "\xff\xfe\x00": `"(3 bytes that are no text)"`, "a\nb": `"a\nb"`,
	} {
		if got := string(shown([]byte(body))); got != want {
			t.Errorf("%q is shown as %s, want %s", body, got, want)
		}
	}
}

// TestLetterChain: dead letters go to a destination, to its fallback when it
// refuses them, and the message is nacked when nothing takes it.
func TestLetterChain(t *testing.T) {
	w := newWorld(t)
	ep, keeper := newEndpoint(t), newEndpoint(t)
	ep.answer(http.StatusBadRequest)
	keeper.answer(http.StatusInternalServerError)
	conf := w.conf(ep.URL, "") + `
  - { name: keeper, type: http, url: "` + keeper.URL + `", retry: { attempts: 1 }, circuit_breaker: false }
  - { name: disk, type: file, path: "` + w.folder + `/letters.ndjson" }
dead_letter: { type: destination, destination: keeper, retry: { attempts: 2, backoff: 1ms } }
`
	w.write(conf)
	a := w.start()
	var body string
	eventually(t, "it runs", func() (up bool) {
		var code int
		code, body = w.send("127.0.0.1:1", "m1")
		return code == http.StatusServiceUnavailable && strings.Contains(body, "neither")
	})
	if !strings.Contains(body, `"id":"m1"`) {
		t.Errorf("a nack: %s", body)
	}
	w.write(strings.Replace(conf, "backoff: 1ms }", "backoff: 1ms }, fallback: [disk]", 1))
	if _, err := a.Reload(t.Context()); err != nil {
		t.Fatal(err)
	}
	tried := keeper.count()
	if code, body := w.send("127.0.0.1:1", "m2"); code != http.StatusOK || !strings.Contains(body, "dead_lettered") {
		t.Errorf("with a fallback: %d %s", code, body)
	}
	if n := keeper.count() - tried; n != 2 {
		t.Errorf("the first place was tried %d times, want 2", n)
	}
	text, err := os.ReadFile(w.folder + "/letters.ndjson")
	must(t, err)
	l, err := message.DecodeLetter(text[:len(text)-1])
	if err != nil || l.Message.ID != "m2" || l.Destination != "ep" || l.Reason != message.ReasonDelivery || l.Relay != "pawl" {
		t.Errorf("the letter in the fallback: %+v, %v", l, err)
	}
	keeper.answer(http.StatusOK)
	if code, body := w.send("127.0.0.1:1", "m3"); code != http.StatusOK || !strings.Contains(body, "dead_lettered") {
		t.Errorf("once the first place works: %d %s", code, body)
	}
	if again, err := os.ReadFile(w.folder + "/letters.ndjson"); err != nil || len(again) != len(text) {
		t.Errorf("the fallback got a letter that its elder took: %v", err)
	}
	a.end()
}
