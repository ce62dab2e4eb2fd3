package http

import (
	"strings"
	"testing"
	"time"
)

func TestIDs(t *testing.T) {
	long := strings.Repeat("k", 256)
	for _, c := range []struct {
		name   string
		change func(*SourceSettings)
		header []string
		body   string
		want   string // "" for one of our own
		status int
	}{
		{"none", nil, nil, "", "", 200},
		{"empty", nil, []string{"Idempotency-Key", ""}, "", "", 200},
		{"key", nil, []string{"Idempotency-Key", "k1", "Webhook-Id", "w1"}, "", "k1", 200},
		{"webhook-id", nil, []string{"Webhook-Id", "w1"}, "", "w1", 200},
		{"quoted stays quoted", nil, []string{"Idempotency-Key", `"k1"`}, "", `"k1"`, 200},
		{"256 bytes", nil, []string{"Idempotency-Key", long}, "", long, 200},
		{"257 bytes", nil, []string{"Idempotency-Key", long + "k"}, "", "", 400},
		{"a tab", nil, []string{"Idempotency-Key", "a\tb"}, "", "", 400},
		{"a C1 control", nil, []string{"Idempotency-Key", "a\u0085b"}, "", "", 400},
		{"not UTF-8", nil, []string{"Idempotency-Key", "a\xffb"}, "", "", 400},
		{"twice", nil, []string{"Idempotency-Key", "a", "Idempotency-Key", "b"}, "", "", 400},
		{"prefix", func(s *SourceSettings) { s.KeyPrefix = "eu:" }, []string{"Idempotency-Key", "k1"}, "", "eu:k1", 200},
		{"prefix leaves less room", func(s *SourceSettings) { s.KeyPrefix = "eu:" }, []string{"Idempotency-Key", long[:254]}, "", "", 400},
		{"id_header", func(s *SourceSettings) { s.IDHeader = "x-event" }, []string{"X-Event", "e1", "Idempotency-Key", "k"}, "", "e1", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			withSource(t, c.change, func(r *rig) {
				a := r.post(c.body, c.header...)
				if a.status != c.status {
					t.Fatalf("status %d %s, want %d", a.status, a.body, c.status)
				}
				if a.status != 200 {
					if r.relay.count() != 0 || a.header.Get("Content-Type") != "application/problem+json" {
						t.Errorf("a refused request became a message, or is no problem document: %+v", a)
					}
					return
				}
				d := r.relay.last(r.T)
				if c.want == "" {
					if d.Keyed || len(d.Message.ID) != 26 {
						t.Errorf("id %q, keyed %v; want a ULID of our own", d.Message.ID, d.Keyed)
					}
				} else if d.Message.ID != c.want || !d.Keyed {
					t.Errorf("id %q, keyed %v; want %q from the caller", d.Message.ID, d.Keyed, c.want)
				}
			})
		})
	}
}

func TestOwnIDsSortAsTheyWereMade(t *testing.T) {
	now, before := time.Now(), ""
	for range 10_000 {
		id := newID(now)
		if id <= before {
			t.Fatalf("%s after %s", id, before)
		}
		before = id
	}
}
