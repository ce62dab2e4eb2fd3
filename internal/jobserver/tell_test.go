package jobserver

// What these tests would catch: a dead letter or an open circuit that the log says
// nothing of, a log that a dying far side fills, an event that is told twice, or
// again after a restart.

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

func TestTheLogTellsWhatHappened(t *testing.T) {
	clock := newClock()
	st := open(t, clock.options())
	var out bytes.Buffer
	c := Config{Queues: twoQueues.Queues, Endpoints: map[string]Endpoint{"far": {Circuit: &circuit.Settings{Failures: 25, Cooldown: time.Minute}}}}
	s, err := NewServer(Options{Store: st, Config: c, Log: slog.New(slog.NewTextHandler(&out, nil))})
	must(t, err)
	must(t, s.Open(t.Context()))
	tell := &teller{server: s, after: s.tellFrom}

	var ids []string
	for range 30 {
		ids = append(ids, create(t, s, New{Queue: "emails", Task: "send", Endpoint: "far", Payload: []byte("1")}).ID)
	}
	got, err := s.Claim(t.Context(), Want{Worker: "worker-01", Queues: []string{"emails"}, Max: 30})
	must(t, err)
	var reports []store.Report
	for _, j := range got.Jobs {
		reports = append(reports, store.Report{Type: store.Fail, Lease: j.Lease, Failure: job.Failure{Permanent: true},
			Error: &job.Error{Type: "HttpError", Message: strings.Repeat("5", 300)}})
	}
	_, err = s.Report(t.Context(), "worker-01", reports)
	must(t, err)

	rest, err := tell.step(t.Context())
	must(t, err)
	if rest != tellEvery {
		t.Errorf("it rests %v", rest)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != tellLines+2 { // with the circuit
		t.Fatalf("%d lines:\n%s", len(lines), out.String())
	}
	for what, want := range map[string]string{
		lines[0]: "level=WARN msg=\"a job became a dead letter\" job=" + ids[0] + " queue=emails task=send version=1 endpoint=far reason=non_retryable error_type=HttpError error=" +
			strings.Repeat("5", tellAtMost) + "…",
		lines[len(lines)-1]: "level=WARN msg=\"more of the same, which the events show\" event=job.failed count=10",
	} {
		if !strings.HasSuffix(what, want) {
			t.Errorf("got  %s\nwant …%s", what, want)
		}
	}
	if n := strings.Count(out.String(), "msg=\"a circuit opened\" endpoint=far tries_at=2"); n != 1 {
		t.Errorf("the circuit's opening is told %d times:\n%s", n, out.String())
	}

	// What is done to many jobs is told with what, to which and how many.
	out.Reset()
	clock.step(time.Second)
	made, err := s.AddReplay(t.Context(), ops, NewReplay{Action: store.ActionDelete, Selection: store.Selection{Filter: store.Filter{Queue: "emails", Status: job.Failed}}})
	must(t, err)
	for made.State != store.ReplayDone { // a step may do fewer than it may
		made, err = st.StepReplay(t.Context(), made.ID, 100)
		must(t, err)
	}
	_, err = tell.step(t.Context())
	must(t, err)
	want := `msg="a replay moved on" subject=` + made.ID + ` state=done action=delete filter="{\"queue\":\"emails\",\"status\":\"failed\"}" done=30 skipped=0`
	if !strings.Contains(out.String(), want) {
		t.Errorf("no line has %s:\n%s", want, out.String())
	}

	// Neither it nor the next server tells any of it again.
	out.Reset()
	for _, next := range []*teller{tell, {server: s, after: opened(t, st, c).tellFrom}} {
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := next.step(ctx); !errors.Is(err, context.DeadlineExceeded) || out.Len() > 0 {
			t.Errorf("%v, told again:\n%s", err, out.String())
		}
		stop()
	}
}
