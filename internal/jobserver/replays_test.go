package jobserver

// What these tests would catch: a replay that goes faster than it was told, a
// selection that reaches queues that the key does not see, jobs of uncertain
// effect that are brought back unasked.

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

func TestPaceKeepsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.001, MaxReplayRate).Draw(t, "rate")
		n, every := pace(rate)
		got := float64(n) / every.Seconds()
		if n < 1 || n > replayStep || every < replayRest || got > rate*1.0001 || got < rate*0.9999 {
			t.Fatalf("%v a second: %d every %v, %v a second", rate, n, every, got)
		}
	})
	if n, every := pace(0); n != replayStep || every != 0 {
		t.Errorf("as fast as it goes: %d every %v", n, every)
	}
}

func TestReplaysTellWhatIsWrong(t *testing.T) {
	limited := Principal{Name: "few", Queues: []string{"a"}}
	filter := func(f store.Filter) store.Selection { return store.Selection{Filter: f} }
	for _, c := range []struct {
		by   Principal
		ask  NewReplay
		want string
	}{
		{ops, NewReplay{Action: "repeat", PerSecond: -1}, "0 /action unknown action \"repeat\"; known are retry, cancel, delete\n0 /per_second must be from 0 (as fast as it goes) to 10000, not -1"},
		{ops, NewReplay{StopShare: new(1.5), Selection: filter(store.Filter{Status: job.Queued})}, "0 /filter/status must be failed for this action, not queued\n0 /stop_share must be from 0 to 1, not 1.5"},
		{ops, NewReplay{Action: store.ActionCancel, StopShare: new(0.5), Selection: filter(store.Filter{Status: job.Failed})}, "0 /filter/status must be queued or running for this action, not failed\n0 /stop_share is of the action retry alone"},
		{ops, NewReplay{Uncertainty: store.AcceptUncertain}, "0 /accept_uncertain is of the action retry with the reason uncertain alone"},
		{ops, NewReplay{Selection: filter(store.Filter{Reason: job.ReasonUncertain})}, "0 /accept_uncertain must be true: the effect of these jobs may have happened already, and may happen again"},
		{ops, NewReplay{Selection: filter(store.Filter{Queue: "a b", Reason: "bad"})}, "0 /filter/queue may hold A-Z, a-z, 0-9 and . _ : - only\n0 /filter/reason unknown reason \"bad\""},
		{limited, NewReplay{}, `0 /filter/queue must be one of those that the key "few" is limited to`},
		{limited, NewReplay{Selection: filter(store.Filter{Queue: "b"})}, `0 /filter/queue must be one of those that the key "few" is limited to`},
	} {
		_, err := c.ask.checked(c.by, time.Unix(0, 0))
		if err == nil {
			t.Errorf("%+v was taken", c.ask)
		} else if got := problems(t, err); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.ask, got, c.want)
		}
	}
	now := time.Unix(1000, 0)
	r, err := NewReplay{Selection: filter(store.Filter{Queue: "a", Limit: 5, Cursor: "x"}), Review: WithReview}.checked(limited, now)
	if err != nil || r.Action != store.ActionRetry || r.State != store.ReplayReview || r.StopShare != DefaultStopShare ||
		!r.Selection.Before.Equal(now) || r.Selection.Status != job.Failed || r.Selection.Limit != 0 || r.Selection.Cursor != "" || r.CreatedBy != "few" {
		t.Errorf("%+v %v", r, err)
	}
	if !limited.seesReplay(r) || limited.seesReplay(store.Replay{}) {
		t.Error("who sees it")
	}
}
