package e2e

import (
	"fmt"
	"net/http"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// TestSend brings one message over a destination's whole path, beside a running
// pawl and without one.
func TestSend(t *testing.T) {
	for _, way := range []string{"beside", "without"} {
		t.Run(way, func(t *testing.T) {
			s := newSite(t)
			ep := newEndpoint(t)
			s.write(oneEndpoint(ep))
			if way == "beside" {
				defer s.start().stop()
			}
			out := s.must(0, "send", "--to", "ep", "--id", "m1", "--data", bodyOf("m1"))
			has(t, out, "m1 delivered to ep, 1 attempt")
			r := s.runWith(bodyOf("m2"), "send", "--to", "ep", "--id", "m2", "--data", "-", "--json")
			sent := decode[struct {
				ID        string `json:"id"`
				Delivered bool   `json:"delivered"`
				Attempts  int    `json:"attempts"`
			}](t, r.out)
			if r.code != 0 || !sent.Delivered || sent.ID != "m2" || sent.Attempts != 1 || ep.got("m2") != 1 {
				t.Errorf("exit %d, %+v", r.code, sent)
			}
			ep.answers(func(string) int { return http.StatusBadRequest })
			out = s.must(1, "send", "--to", "ep", "--id", "m3", "--data", bodyOf("m3"))
			has(t, out, "m3 not delivered", "HTTP 400")
			if left := s.letters(); len(left) != 0 {
				t.Errorf("a letter was kept without --dead-letter: %v", left)
			}
			out = s.must(1, "send", "--to", "ep", "--id", "m4", "--data", bodyOf("m4"), "--dead-letter")
			left := s.letters()
			if len(left) != 1 || left[0].ID != "m4" || left[0].Destination != "ep" || !strings.Contains(out, left[0].Letter) {
				t.Errorf("with --dead-letter: %v and\n%s", left, out)
			}
			for _, args := range [][]string{
				{"send", "--to", "nosuch", "--data", "{}"},
				{"send", "--to", "ep"},
				{"send", "--to", "ep", "--data", "@nosuch.json"},
				{"send", "--to", "ep", "--data", "{}", "--id", "a\nb"},
			} {
				if r := s.run(args...); r.code != 2 || r.errOut == "" {
					t.Errorf("%q: exit %d, %s", args, r.code, r.errOut)
				}
			}
		})
	}
}

// TestPause pauses a source (503) and a destination (its messages wait).
func TestPause(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	p := s.start()
	if out := s.must(0, "pause", "web"); out != "paused the source web\n" {
		t.Errorf("pause says %q", out)
	}
	if a := send(s.url(), "m1"); a.code != http.StatusServiceUnavailable || a.retryAfter == "" || ep.tries("m1") != 0 {
		t.Errorf("a paused source answers %+v", a)
	}
	has(t, s.must(0, "status"), "paused by")
	s.must(0, "resume", "web")
	if a := send(s.url(), "m1"); a.status != "delivered" {
		t.Errorf("a resumed source answers %+v", a)
	}
	s.must(0, "pause", "ep", "--json")
	told := make(chan answer, 1)
	go func() { told <- send(s.url(), "m2") }()
	eventually(t, "the message waits", func() bool {
		st := decode[struct {
			Destinations []struct {
				Pending int `json:"pending"`
				Waiting int `json:"waiting"`
				Paused  *struct {
					By    string `json:"by"`
					Since string `json:"since"`
				} `json:"paused"`
			} `json:"destinations"`
		}](t, s.must(0, "status", "--json"))
		if len(st.Destinations) != 1 {
			t.Fatalf("status shows %+v", st)
		}
		d := st.Destinations[0]
		return d.Pending == 1 && d.Waiting == 1 && d.Paused != nil && d.Paused.By != "" && d.Paused.Since != ""
	})
	if ep.tries("m2") != 0 {
		t.Error("a paused destination was sent to")
	}
	s.must(0, "resume", "ep")
	if a := <-told; a.status != "delivered" {
		t.Errorf("after the pause: %+v", a)
	}
	for _, verb := range []string{"pause", "resume"} {
		if r := s.run(verb, "nosuch"); r.code != 2 || !strings.Contains(r.errOut, `no source or destination "nosuch"`) {
			t.Errorf("%s of nothing: exit %d, %s", verb, r.code, r.errOut)
		}
	}
	p.stop()
}

// TestTail sees a line for each settled message, and with --all more.
func TestTail(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	p := s.start()
	tails := map[string]*process{}
	for _, args := range [][]string{{"tail"}, {"tail", "--json"}, {"tail", "--all", "--json"}} {
		tails[strings.Join(args, " ")] = s.launchCmd(exec.Command(binary, append(args, "-c", s.path("pawl.yaml"))...))
	}
	n := 0
	eventually(t, "all tails see a message", func() bool {
		n++
		send(s.url(), fmt.Sprintf("m-%d", n))
		for _, tail := range tails {
			if !strings.Contains(tail.out.String(), "m-") {
				return false
			}
		}
		return true
	})
	die(s, ep, "bad", 1)
	eventually(t, "the tails see the end of a bad one", func() bool {
		return strings.Contains(tails["tail"].out.String(), "dead_lettered") &&
			strings.Contains(tails["tail --all --json"].out.String(), `"event":"dead_letter"`)
	})
	has(t, tails["tail --all --json"].out.String(), `"event":"attempt"`, `"event":"hop"`)
	if text := tails["tail --json"].out.String(); strings.Contains(text, `"event":"attempt"`) {
		t.Errorf("attempts without --all:\n%s", text)
	}
	tails["tail"].signal(syscall.SIGINT)
	if code := tails["tail"].wait(); code != 0 {
		t.Errorf("Ctrl-C ends tail with %d", code)
	}
	p.stop()
	if code := tails["tail --json"].wait(); code != 0 && code != 1 {
		t.Errorf("the end of pawl ends tail with %d", code)
	}
}

// TestNothingRuns: commands for a running pawl say so.
func TestNothingRuns(t *testing.T) {
	s := newSite(t)
	s.write(oneEndpoint(newEndpoint(t)))
	for _, args := range [][]string{{"status"}, {"tail"}, {"reload"}, {"pause", "web"}, {"resume", "web"}, {"breaker", "ep", "open"}, {"hold", "ep", "clear"}, {"rate", "ep", "1/s"}} {
		if r := s.run(args...); r.code != 1 || !strings.Contains(r.errOut, "pawl is not running") {
			t.Errorf("%q: exit %d, %s", args, r.code, r.errOut)
		}
	}
}

// TestAdmin looks at the admin listener as a prober and a scraper do.
func TestAdmin(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	p := s.start()
	send(s.url(), "m")
	die(s, ep, "bad", 1)
	if code, body := s.get("/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("/healthz: %d %q", code, body)
	}
	if code, body := s.get("/readyz"); code != http.StatusOK || body != "{\"ready\":true}\n" {
		t.Errorf("/readyz: %d %q", code, body)
	}
	_, metrics := s.get("/metrics")
	has(t, metrics,
		`pawl_source_messages_total{outcome="delivered",source="web"} 1`,
		`pawl_source_messages_total{outcome="dead_lettered",source="web"} 1`,
		`pawl_delivery_attempts_total{destination="ep",endpoint="ep",outcome="ok"} 1`,
		`pawl_dlq_total{outcome="stored",reason="delivery"} 1`)
	if code, body := s.get("/v3/status"); code != http.StatusOK || !strings.Contains(body, `"relay":"e2e"`) {
		t.Errorf("/v3/status: %d %s", code, body)
	}
	for header, value := range map[string]string{"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "cross-site", "Host": "pawl.example.com"} {
		r, err := http.NewRequest(http.MethodPost, "http://"+s.admin+"/v3/reload", nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Header.Set(header, value); header == "Host" {
			r.Host = value
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != http.StatusForbidden {
			t.Errorf("with %s: %s the API answers %d", header, value, res.StatusCode)
		}
	}
	p.stop()
}

// TestOffline runs the commands that look at a configuration alone.
func TestOffline(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	has(t, s.must(0, "lint"), "ok: 1 source, 1 route, 1 destination")
	has(t, s.must(0, "try", "--data", "{}"), "route all: takes it", "-> ep, then dead letters")
	has(t, s.must(0, "try", "--data", "{}", "--json"), `"route":"all"`, `"taken":true`)
	s.must(2, "try", "--data", "{}", "--source", "nosuch")
	has(t, s.must(0, "explain", "ep", "--failure", "503"), "ATTEMPT", "dead letters")
	s.must(0, "explain", "ep", "--json")
	s.must(2, "explain", "nosuch")
	s.must(2, "explain", "ep", "--failure", "nonsense!")
	has(t, s.must(0, "schema"), `"$schema"`)
	has(t, s.must(0, "version", "--json"), `"version":`)
	s.rewrite("from: [web]", "from: [web], filter: '.a == 1'")
	has(t, s.must(1, "try", "--data", "{}"), "no", "unrouted")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if out := s.must(0, "completion", shell); !strings.Contains(out, "pawl") {
			t.Errorf("no completion for %s", shell)
		}
	}
}
