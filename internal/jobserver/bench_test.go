package jobserver

import (
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/store"
)

// payload is 1 KiB of JSON as a program would write it.
var payload = []byte(`{"user":{"id":7,"name":"Ada"},"items":[` + strings.TrimSuffix(strings.Repeat(`{"sku":"a-1","n":2,"price":"9.99"},`, 27), ",") + `]}`)

func BenchmarkHashNew(b *testing.B) {
	n := New{Queue: "emails", Task: "send-welcome-email", Payload: payload, Key: "k"}
	b.SetBytes(int64(len(payload)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := hashNew(&n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkPrepareComplete(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		r := store.Report{Type: store.Complete, Lease: "lse_x", Result: []byte(`{"sent":true,"id":"m-1"}`)}
		if wrong := prepare(&r); wrong != "" {
			b.Fatal(wrong)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	s := &settings{queues: map[string]*queue{}, names: []string{"emails"}}
	s.queues["emails"] = s.queue(Queue{Timeout: DefaultTimeout, Lease: DefaultLease}, fromFile)
	n := New{Queue: "emails", Task: "send-welcome-email", Payload: payload}
	b.ReportAllocs()
	for b.Loop() {
		c := creator{settings: s}
		c.check(&n)
		if err := c.err(); err != nil {
			b.Fatal(err)
		}
	}
}
