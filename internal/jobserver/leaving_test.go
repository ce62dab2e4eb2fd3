package jobserver

// What these tests would catch: a message that is lost since a reload took its
// queue away while it was under way; a queue that is gone and takes jobs still.

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
)

// A queue that a configuration names no more is there for messages that are under
// way, and for nobody else.
func TestALeavingQueue(t *testing.T) {
	s := stored(t, twoQueues)
	var log strings.Builder
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	if err := s.Configure(Config{
		Queues:  map[string]Queue{"reports": {}},
		Leaving: map[string]Queue{"emails": {Lease: time.Minute}, "reports": {Lease: time.Hour}},
	}); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		put(t, s.Messages(), connector.Put{Queue: "emails", Task: "t", Message: aMessage(fmt.Sprint(i))})
	}
	put(t, s.Messages(), connector.Put{Queue: "reports", Task: "t", Message: aMessage("r")})
	if n := strings.Count(log.String(), "queue=emails"); n != 1 || strings.Contains(log.String(), "queue=reports") {
		t.Errorf("told %d times of jobs that nobody can work: %s", n, log.String())
	}
	if got := take(t, s.Messages(), "emails"); got.LeaseFor != time.Minute {
		t.Errorf("a lease of %v, want a minute", got.LeaseFor)
	}
	if got := take(t, s.Messages(), "reports"); got.LeaseFor != DefaultLease {
		t.Errorf("a lease of %v of a queue that stays, want %v", got.LeaseFor, DefaultLease)
	}
	_, err := s.Create(t.Context(), Principal{}, []New{{Queue: "emails", Task: "t", Payload: []byte(`1`)}})
	if bad, ok := errors.AsType[*InvalidError](err); !ok || len(bad.Problems) != 1 || bad.Problems[0].Pointer != "/queue" {
		t.Errorf("a producer finds the queue: %v", err)
	}
	if _, there := s.Queues()["emails"]; there {
		t.Error("the queue is in the list")
	}
	if err := s.Configure(Config{Queues: map[string]Queue{"reports": {}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Messages().Put(t.Context(), connector.Put{Queue: "emails", Task: "t", Message: aMessage("b")}); !errors.Is(err, connector.ErrNoQueue) {
		t.Errorf("after it left: %v", err)
	}
}
