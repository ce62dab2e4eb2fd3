package breaker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/breaker"
)

func TestForceOpen(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	p := r.begin()
	r.Force(r.now, breaker.ForceOpen)
	if look := r.Look(r.now); look.Answer != breaker.Wait || !look.Until.IsZero() {
		t.Errorf("look %+v", look)
	}
	if _, ok := r.Next(r.now); ok {
		t.Error("something comes due though it is held open")
	}
	r.End(r.now, p, breaker.Success)
	r.pass(1000 * time.Hour)
	r.want(breaker.Open)
	if r.Begin(r.now, slow, breaker.Mark{}, p) {
		t.Error("let through")
	}
	r.Force(r.now, breaker.ForceAuto) // trials show what is true
	r.want(breaker.HalfOpen)
	r.each(5, breaker.Success)
	r.want(breaker.Closed)
	want := []breaker.Move{
		{From: breaker.Closed, To: breaker.Open, At: start},
		{From: breaker.Open, To: breaker.HalfOpen, At: r.now},
		{From: breaker.HalfOpen, To: breaker.Closed, At: r.now},
	}
	if diff := cmp.Diff(want, r.TakeMoves()); diff != "" {
		t.Errorf("moves (-want +got)\n%s", diff)
	}
	if r.TakeMoves() != nil {
		t.Error("the same moves twice")
	}
}

// A health check that passes ends the open time; the trial after it decides.
func TestTryNow(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.TryNow(r.now)
	r.want(breaker.Closed)
	r.each(20, breaker.Sick)
	r.pass(sec)
	r.TryNow(r.now)
	r.want(breaker.HalfOpen)
	p := r.begin()
	r.TryNow(r.now) // nothing to end: the trial in flight counts still
	if s := r.Snapshot(r.now); s.Trials != 1 {
		t.Errorf("%d trials", s.Trials)
	}
	r.End(r.now, p, breaker.Sick)
	if s := r.Snapshot(r.now); !s.OpenUntil.Equal(r.now.Add(10 * sec)) {
		t.Errorf("open until %v after a failed trial, want twice as long as before", s.OpenUntil)
	}
	r.Force(r.now, breaker.ForceOpen)
	r.TryNow(r.now)
	r.want(breaker.Open)
}

func TestForceClosed(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.each(20, breaker.Sick)
	r.Force(r.now, breaker.ForceClosed)
	r.want(breaker.Closed)
	r.each(100, breaker.Sick)
	hanging := r.begin()
	r.pass(time.Minute)
	r.want(breaker.Closed)
	r.wantCounts(0, 0, 0)
	r.Force(r.now, breaker.ForceAuto)
	r.End(r.now, hanging, breaker.Sick) // began under the lever
	r.wantCounts(0, 0, 0)
	r.each(20, breaker.Sick)
	r.want(breaker.Open)
	if s := r.Snapshot(r.now); s.Forced != breaker.ForceAuto || !s.OpenUntil.Equal(r.now.Add(5*sec)) {
		t.Errorf("%+v", s)
	}
}

func TestForceFromOneEndToTheOther(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	for _, c := range []struct {
		lever breaker.Forced
		state breaker.State
	}{
		{breaker.ForceAuto, breaker.Closed}, {breaker.ForceOpen, breaker.Open}, {breaker.ForceOpen, breaker.Open},
		{breaker.ForceClosed, breaker.Closed}, {breaker.ForceOpen, breaker.Open}, {breaker.ForceAuto, breaker.HalfOpen},
		{breaker.ForceAuto, breaker.HalfOpen}, {breaker.ForceClosed, breaker.Closed}, {breaker.ForceAuto, breaker.Closed},
	} {
		r.Force(r.now, c.lever)
		if s := r.Snapshot(r.now); s.State != c.state || s.Forced != c.lever {
			t.Fatalf("after %v: %+v, want %v", c.lever, s, c.state)
		}
	}
}

// Forcing what is forced already does not lose what was counted.
func TestForceAutoKeepsCounts(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.each(3, breaker.Sick)
	r.Force(r.now, breaker.ForceAuto)
	r.wantCounts(3, 3, 3)
}

func TestConfigureKeepsState(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.each(5, breaker.Success)
	r.each(4, breaker.Sick)
	p := r.begin()
	s := breaker.Defaults()
	s.MinRequests, s.OpenFor = 10, 7*sec
	r.Configure(r.now, s)
	r.want(breaker.Closed)
	r.wantCounts(4, 9, 9)
	r.End(r.now, p, breaker.Sick)
	r.want(breaker.Open)
	if until := r.Look(r.now).Until.Sub(r.now); until != 7*sec {
		t.Errorf("open for %v", until)
	}
}

func TestConfigureCutsTheOpenTime(t *testing.T) {
	r := halfOpened(t, breaker.Defaults())
	r.each(1, breaker.Sick) // 10s now
	s := breaker.Defaults()
	s.OpenFor, s.MaxOpenFor = sec, 2*sec
	r.Configure(r.now, s)
	if until := r.Look(r.now).Until.Sub(r.now); until != 2*sec {
		t.Errorf("open for %v", until)
	}
	r.pass(2 * sec)
	r.each(1, breaker.Sick)
	if until := r.Look(r.now).Until.Sub(r.now); until != 2*sec {
		t.Errorf("open for %v after the next failed round", until)
	}
}

func TestConfigureAnotherWindowForgets(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	p, q := r.begin(), r.begin()
	mark := r.End(r.now, r.begin(), breaker.Sick)
	r.pass(slow)
	r.wantCounts(3, 3, 3)
	s := breaker.Defaults()
	s.Window = 20 * sec
	r.Configure(r.now, s)
	r.wantCounts(0, 0, 0)
	r.End(r.now, p, breaker.Success) // nothing to take back
	r.wantCounts(0, 1, 1)
	r.End(r.now, q, breaker.Unanswered)
	r.wantCounts(0, 1, 1)
	r.Begin(r.now, slow, mark, p)
	r.End(r.now, p, breaker.Sick)
	r.wantCounts(1, 2, 2)
}

// Fewer trials wanted than have passed: the next pass closes it.
func TestConfigureFewerTrials(t *testing.T) {
	r := halfOpened(t, breaker.Defaults())
	r.each(3, breaker.Success)
	s := breaker.Defaults()
	s.HalfOpenMax = 2
	r.Configure(r.now, s)
	r.each(1, breaker.Success)
	r.want(breaker.Closed)
}

func TestSettingsThatDoNotPassDoNoHarm(t *testing.T) {
	for _, s := range []breaker.Settings{{}, {FailureRatio: -1, MinRequests: -5, Window: -1, OpenFor: -1, MaxOpenFor: -1, HalfOpenMax: -1}} {
		r := newRig(t, s)
		r.each(10, breaker.Success)
		r.want(breaker.Closed)
		r.each(1, breaker.Sick)
		r.want(breaker.Open)
		r.pass(1)
		r.each(1, breaker.Success)
		r.want(breaker.Closed)
	}
}

func TestMovesAreBounded(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	for i := range 100 {
		r.Force(r.now, []breaker.Forced{breaker.ForceOpen, breaker.ForceClosed}[i%2])
		r.pass(sec)
	}
	moves := r.TakeMoves()
	if len(moves) != 64 || !moves[63].At.Equal(start.Add(99*sec)) || !moves[0].At.Equal(start.Add(36*sec)) {
		t.Errorf("%d moves from %v to %v", len(moves), moves[0].At, moves[len(moves)-1].At)
	}
}
