package jobserver

// What these tests would catch: a replay that goes faster than it was told, a
// selection that reaches queues that the key does not see, jobs of uncertain
// effect that are brought back unasked, a review by the key that asked for it.

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

func TestPaceKeepsTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Float64Range(0.001, MaxReplayRate).Draw(t, "rate")
		n := stepOf(rate)
		every := restOf(int64(n), rate)
		got := float64(n) / every.Seconds()
		if n < 1 || n > replayStep || every < replayRest || got > rate*1.0001 || got < rate*0.9999 {
			t.Fatalf("%v a second: %d every %v, %v a second", rate, n, every, got)
		}
	})
	if n, every := stepOf(0), restOf(replayStep, 0); n != replayStep || every != 0 {
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

// The id of a key tells who it is: of names the store alone says that no two keys
// have the same.
func TestAReviewIsByAnotherKey(t *testing.T) {
	st := open(t, sqlite.Options{})
	s := opened(t, st, twoQueues)
	asked := func(by Principal) string {
		t.Helper()
		r, err := s.AddReplay(t.Context(), by, NewReplay{Review: WithReview})
		must(t, err)
		return r.ID
	}
	alice := Principal{ID: "key_1", Name: "alice"}
	mine, next := asked(alice), asked(alice)
	older := store.Replay{ID: "rpl_older", Action: store.ActionRetry, State: store.ReplayReview, CreatedBy: "alice"}
	must(t, st.AddReplay(t.Context(), older))
	for _, c := range []struct {
		what, id string
		by       Principal
		allowed  bool
	}{
		{"the key itself", mine, alice, false},
		{"the key itself, under another name", mine, Principal{ID: "key_1", Name: "bob"}, false},
		{"another key", mine, Principal{ID: "key_2", Name: "bob"}, true},
		{"another key that has the name of the first", next, Principal{ID: "key_3", Name: "alice"}, true},
		{"the name, where an older pawl kept no id", older.ID, alice, false},
		{"another name, where an older pawl kept no id", older.ID, Principal{ID: "key_2", Name: "bob"}, true},
	} {
		r, err := s.ApproveReplay(t.Context(), c.by, c.id)
		switch {
		case c.allowed && (err != nil || r.State != store.ReplayRunning || r.ApprovedBy != c.by.Name):
			t.Errorf("%s: %+v %v", c.what, r, err)
		case !c.allowed && !errors.Is(err, store.ErrStatus):
			t.Errorf("%s approved it: %v", c.what, err)
		}
	}
}

// replaying is a store that has replays, and notes when each takes a step.
type replaying struct {
	steps
	all  []store.Replay
	took map[string][]time.Duration
}

func (r *replaying) Preview(context.Context, store.Action, store.Selection, store.Uncertainty) (store.Preview, error) {
	return store.Preview{}, nil
}
func (r *replaying) AddReplay(context.Context, store.Replay) error { return nil }
func (r *replaying) Replay(_ context.Context, id string) (store.Replay, error) {
	for _, rp := range r.all {
		if rp.ID == id {
			return rp, nil
		}
	}
	return store.Replay{}, store.ErrNotFound
}

func (r *replaying) RunningReplays(context.Context) (running []store.Replay, err error) {
	for _, rp := range r.all {
		if rp.State == store.ReplayRunning {
			running = append(running, rp)
		}
	}
	return running, nil
}

func (r *replaying) MoveReplay(context.Context, string, store.ReplayState, string, string) (store.Replay, error) {
	return store.Replay{}, store.ErrNotFound
}

// StepReplay does n jobs; a replay has 1,000. One whose name is "moved" was paused
// by a person, one that is "sparse" has its jobs behind a million of others.
func (r *replaying) StepReplay(_ context.Context, id string, n int) (store.Replay, error) {
	r.took[id] = append(r.took[id], time.Since(r.began))
	if id == "moved" {
		return store.Replay{}, store.ErrStatus
	}
	i := slices.IndexFunc(r.all, func(rp store.Replay) bool { return rp.ID == id })
	rp := &r.all[i]
	if rp.Cursor += 500; id == "sparse" && rp.Cursor < 1_000_000 {
		return *rp, nil
	}
	rp.Done = min(rp.Done+int64(n), 1000)
	if rp.Done == 1000 {
		rp.State = store.ReplayDone
	}
	return *rp, nil
}

func TestReplaysAreWorkedOnInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replaying{took: map[string][]time.Duration{}, all: []store.Replay{
			{ID: "slow", State: store.ReplayRunning, PerSecond: 100}, {ID: "fast", State: store.ReplayRunning},
			{ID: "paused", State: store.ReplayPaused}, {ID: "moved", State: store.ReplayRunning},
		}}
		r.began = time.Now()
		s, err := NewServer(Options{Store: r})
		must(t, err)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		must(t, s.Run(ctx))
		slow, fast := r.took["slow"], r.took["fast"]
		if len(slow) != 100 || slow[99] < 9900*time.Millisecond || slow[99] > 11*time.Second {
			t.Errorf("1,000 at 100 a second took %d steps to %v", len(slow), slow[len(slow)-1])
		}
		if len(fast) != 2 || fast[1] > 200*time.Millisecond || r.all[1].Done != 1000 {
			t.Errorf("as fast as it goes: %v", fast)
		}
		if len(r.took["paused"]) != 0 || len(r.took["moved"]) > 7 {
			t.Errorf("paused: %v, moved: %v", r.took["paused"], r.took["moved"])
		}
	})
}

func TestASlowReplayFindsItsJobsSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &replaying{took: map[string][]time.Duration{}, all: []store.Replay{{ID: "sparse", State: store.ReplayRunning, PerSecond: 0.1}}}
		r.began = time.Now()
		s, err := NewServer(Options{Store: r})
		must(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Minute)
		defer stop()
		must(t, s.Run(ctx))
		// Two thousand steps pass over what is not its; then one job every ten seconds.
		if done := r.all[0].Done; done < 50 || done > 60 {
			t.Errorf("in ten minutes at one in ten seconds: %d jobs, in %d steps", done, len(r.took["sparse"]))
		}
	})
}

// TestAReplayThatMayStopGoesCarefully replays more dead letters than may be under
// way, as fast as it goes: as long as none ends, it waits; what succeeds and what
// is taken back makes room, what fails again makes little and stops it.
func TestAReplayThatMayStopGoesCarefully(t *testing.T) {
	clock := newClock()
	s := opened(t, open(t, clock.options()), twoQueues)
	const letters = 300
	work := func(n int, r store.Report) {
		t.Helper()
		got, err := s.Claim(t.Context(), Want{Worker: "worker-01", Queues: []string{"emails"}, Max: n})
		must(t, err)
		if len(got.Jobs) != n {
			t.Fatalf("%d of %d are there to be claimed", len(got.Jobs), n)
		}
		var reports []store.Report
		for _, j := range got.Jobs {
			r.Lease = j.Lease
			reports = append(reports, r)
		}
		_, err = s.Report(t.Context(), "worker-01", reports)
		must(t, err)
	}
	fails := store.Report{Type: store.Fail, Failure: job.Failure{Permanent: true}, Error: &job.Error{Message: "503"}}
	for range letters {
		create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	}
	work(letters, fails)
	asked, err := s.AddReplay(t.Context(), ops, NewReplay{Selection: store.Selection{Filter: store.Filter{Queue: "emails"}}})
	must(t, err)
	// go lets it take steps until it waits, and tells how many are done and under way.
	run := &replayer{server: s, next: map[string]time.Time{}}
	is := func(what string, state store.ReplayState, done, underWay int64) {
		t.Helper()
		rp, err := s.Replay(t.Context(), ops, asked.ID)
		must(t, err)
		// A step ends early where it takes long.
		for steps := 0; rp.State == store.ReplayRunning && roomOf(&rp) > 0 && steps < letters; steps++ {
			_, _, err = run.one(t.Context(), rp)
			must(t, err)
			rp, err = s.Replay(t.Context(), ops, asked.ID)
			must(t, err)
		}
		_, _, err = run.one(t.Context(), rp) // one more does nothing
		must(t, err)
		rp, err = s.Replay(t.Context(), ops, asked.ID)
		must(t, err)
		if rp.State != state || rp.Done != done || rp.UnderWay() != underWay {
			t.Errorf("%s: it is %s, with %d done and %d under way; want %s, %d, %d", what, rp.State, rp.Done, rp.UnderWay(), state, done, underWay)
		}
	}
	is("none ended", store.ReplayRunning, 100, 100)
	work(10, store.Report{Type: store.Complete})
	is("ten succeeded", store.ReplayRunning, 120, 110)
	cancelled := 0
	for cursor := ""; cancelled < 5; { // so does a page
		page, err := s.List(t.Context(), store.Filter{Queue: "emails", Status: job.Queued, Limit: 5 - cancelled, Cursor: cursor})
		must(t, err)
		for _, j := range page.Jobs {
			_, err := s.Cancel(t.Context(), ops, j.ID)
			must(t, err)
			cancelled++
		}
		if cursor = page.Next; cursor == "" && cancelled < 5 {
			t.Fatalf("%d jobs are queued", cancelled)
		}
	}
	is("five were cancelled", store.ReplayRunning, 125, 110)
	work(9, fails)
	is("nine failed again", store.ReplayRunning, 134, 110)
	work(2, fails)
	is("more failed than succeeded", store.ReplayStopped, 134, 108)
	_, err = s.ResumeReplay(t.Context(), ops, asked.ID)
	must(t, err)
	is("a person lets it go on, and it begins anew", store.ReplayRunning, 134, 108)
	work(30, store.Report{Type: store.Complete})
	is("thirty succeeded since", store.ReplayRunning, 186, 130)
}
