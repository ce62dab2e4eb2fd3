package e2e

import (
	"net/http"
	"strings"
	"testing"
)

// TestBreakerRateAndHold moves the levers of a destination, over a reload too, and
// looks at who is said to have moved them.
func TestBreakerRateAndHold(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(strings.Replace(oneEndpoint(ep), "circuit_breaker: false", "circuit_breaker: true", 1))
	p := s.start()
	if out := s.must(0, "breaker", "ep", "open"); out != "ep: the circuit breaker is held open\n" {
		t.Errorf("breaker says %q", out)
	}
	s.must(0, "reload")
	told := make(chan answer, 1)
	go func() { told <- send(s.url(), "m1") }()
	type lever struct {
		By    string `json:"by"`
		Since string `json:"since"`
	}
	type destination struct {
		Waiting   int    `json:"waiting"`
		Breaker   string `json:"breaker"`
		Forced    *lever `json:"forced"`
		RateSet   *lever `json:"rate_set"`
		RateLimit *struct {
			PerSecond float64 `json:"per_second"`
			Burst     int     `json:"burst"`
			NextAt    string  `json:"next_at"`
		} `json:"rate_limit"`
	}
	status := func() destination {
		st := decode[struct {
			Destinations []destination `json:"destinations"`
		}](t, s.must(0, "status", "--json"))
		if len(st.Destinations) != 1 {
			t.Fatalf("status shows %+v", st)
		}
		return st.Destinations[0]
	}
	eventually(t, "the message waits", func() bool { return status().Waiting == 1 })
	if d := status(); d.Breaker != "open" || d.Forced == nil || d.Forced.By == "" || d.Forced.Since == "" || ep.tries("m1") != 0 {
		t.Errorf("held open after a reload: %+v, %d tries", d, ep.tries("m1"))
	}
	s.must(0, "breaker", "ep", "close")
	if a := <-told; a.status != "delivered" {
		t.Errorf("held closed: %+v", a)
	}
	s.must(0, "breaker", "ep", "auto")
	if d := status(); d.Breaker != "closed" || d.Forced != nil {
		t.Errorf("left to itself: %+v", d)
	}

	// A limit with a token for one message now and none for a minute.
	if out := s.must(0, "rate", "ep", "1/m"); out != "ep: at most 0.0166667/s from now on\n" {
		t.Errorf("rate says %q", out)
	}
	s.must(0, "reload")
	if a := send(s.url(), "m2"); a.status != "delivered" {
		t.Errorf("the first under the limit: %+v", a)
	}
	go func() { told <- send(s.url(), "m3") }()
	eventually(t, "the second waits", func() bool { return status().Waiting == 1 })
	if d := status(); d.RateLimit == nil || d.RateLimit.Burst != 1 || d.RateLimit.NextAt == "" || d.RateSet == nil || ep.tries("m3") != 0 {
		t.Errorf("limited after a reload: %+v", d)
	}
	s.must(0, "rate", "ep", "100/s", "--burst", "7", "--json")
	if a := <-told; a.status != "delivered" {
		t.Errorf("under a higher limit: %+v", a)
	}
	has(t, s.must(0, "status"), "at most 100/s")
	s.must(0, "rate", "ep", "auto")
	if d := status(); d.RateLimit != nil || d.RateSet != nil {
		t.Errorf("back to the configuration: %+v", d)
	}

	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"hold", "ep", "clear"}, "ep is not held"},
		{[]string{"hold", "nosuch", "clear"}, `no destination "nosuch"`},
		{[]string{"breaker", "nosuch", "open"}, `no destination "nosuch"`},
		{[]string{"rate", "nosuch", "1/s"}, `no destination "nosuch"`},
		{[]string{"rate", "ep", "1/h"}, "per_second must be from 0.01"},
	} {
		if r := s.run(c.args...); r.code != 2 || !strings.Contains(r.errOut, c.want) {
			t.Errorf("%q: exit %d, %s", c.args, r.code, r.errOut)
		}
	}
	if code, _ := s.get("/healthz"); code != http.StatusOK {
		t.Errorf("healthz: %d", code)
	}
	p.stop()
}
