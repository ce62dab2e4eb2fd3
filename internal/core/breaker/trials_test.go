package breaker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/breaker"
)

func TestOpenTimesDouble(t *testing.T) {
	s := breaker.Defaults()
	r := newRig(t, s)
	r.each(20, breaker.Sick)
	for round, want := range []time.Duration{5 * sec, 10 * sec, 20 * sec, 40 * sec, 60 * sec, 60 * sec} {
		look := r.Look(r.now)
		if look.Answer != breaker.Wait || look.Until.Sub(r.now) != want {
			t.Fatalf("round %d: %v until %v from now, want %v", round, look.Answer, look.Until.Sub(r.now), want)
		}
		if at, ok := r.Next(r.now); !ok || !at.Equal(look.Until) {
			t.Fatalf("next at %v, %v", at, ok)
		}
		r.pass(want - 1)
		if r.Begin(r.now, slow, breaker.Mark{}, &breaker.Permit{}) {
			t.Fatal("let through while open")
		}
		r.pass(1)
		r.each(1, breaker.Sick)
		r.want(breaker.Open)
	}
	// Closing forgets the doubling.
	r.pass(60 * sec)
	r.each(s.HalfOpenMax, breaker.Success)
	r.want(breaker.Closed)
	r.each(20, breaker.Sick)
	if until := r.Look(r.now).Until.Sub(r.now); until != 5*sec {
		t.Errorf("open for %v after it was closed", until)
	}
}

func TestOpenTimeIsNotDoubledPastItsMaximum(t *testing.T) {
	s := breaker.Defaults()
	s.MaxOpenFor = s.OpenFor
	r := halfOpened(t, s)
	r.each(1, breaker.Sick)
	if until := r.Look(r.now).Until.Sub(r.now); until != s.OpenFor {
		t.Errorf("open for %v", until)
	}
}

func TestHalfOpenTrials(t *testing.T) {
	r := halfOpened(t, breaker.Defaults())
	held := []*breaker.Permit{r.begin(), r.begin(), r.begin(), r.begin(), r.begin()}
	var sixth breaker.Permit
	if r.Begin(r.now, slow, breaker.Mark{}, &sixth) {
		t.Fatal("a sixth trial")
	}
	if look := r.Look(r.now); look.Answer != breaker.Wait || !look.Until.IsZero() {
		t.Errorf("look %+v, want to wait for a trial", look)
	}
	r.End(r.now, held[0], breaker.Neutral) // concludes nothing
	r.End(r.now, held[1], breaker.Unanswered)
	if s := r.Snapshot(r.now); s.Trials != 3 || s.Passes != 0 {
		t.Fatalf("%+v", s)
	}
	r.End(r.now, held[0], breaker.Neutral) // gives nothing back twice
	if s := r.Snapshot(r.now); s.Trials != 3 {
		t.Fatalf("%+v", s)
	}
	for _, p := range held[2:] {
		r.End(r.now, p, breaker.Success)
	}
	r.each(1, breaker.Alive)
	r.want(breaker.HalfOpen)
	r.each(1, breaker.Success)
	r.want(breaker.Closed)
	r.wantCounts(0, 0, 0)
}

func TestOneFailedTrialReopens(t *testing.T) {
	r := halfOpened(t, breaker.Defaults())
	other := r.begin()
	r.each(4, breaker.Success)
	r.each(1, breaker.Sick)
	r.want(breaker.Open)
	r.End(r.now, other, breaker.Success)
	r.pass(10 * sec)
	if s := r.Snapshot(r.now); s.State != breaker.HalfOpen || s.Passes != 0 || s.Trials != 0 {
		t.Errorf("the next round begins with %+v", s)
	}
}

func TestASuspectTrial(t *testing.T) {
	s := breaker.Defaults()
	s.HalfOpenMax = 1
	for _, c := range []struct {
		name  string
		well  time.Duration // before the trial; 0 is never
		with  breaker.Outcome
		state breaker.State
	}{
		{"never well: as good as alive", 0, breaker.Suspect, breaker.Closed},
		{"well a while ago: still broken", 20 * sec, breaker.Suspect, breaker.Open},
		{"well too long ago", 70 * sec, breaker.Suspect, breaker.Closed},
		{"tls, never well: nothing concluded", 0, breaker.SuspectTLS, breaker.HalfOpen},
		{"tls, well a while ago", 20 * sec, breaker.SuspectTLS, breaker.Open},
	} {
		r := newRig(t, s)
		if c.well > 0 {
			r.each(1, breaker.Success)
			r.pass(c.well - s.OpenFor)
		}
		for r.Snapshot(r.now).State == breaker.Closed {
			r.each(1, breaker.Sick)
		}
		r.pass(s.OpenFor)
		r.each(1, c.with)
		if got := r.Snapshot(r.now).State; got != c.state {
			t.Errorf("%s: %v, want %v", c.name, got, c.state)
		}
	}
}

func TestASlowTrialReopens(t *testing.T) {
	r := halfOpened(t, breaker.Defaults())
	r.TakeMoves()
	p := r.begin()
	at := r.now.Add(slow)
	if next, ok := r.Next(r.now); !ok || !next.Equal(at) {
		t.Errorf("next at %v, %v", next, ok)
	}
	r.pass(slow + sec)
	r.want(breaker.Open)
	if until := r.Look(r.now).Until; !until.Equal(at.Add(10 * sec)) {
		t.Errorf("open until %v, want it counted from the moment of the failure", until)
	}
	r.End(r.now, p, breaker.Success) // too late
	r.want(breaker.Open)
	if diff := cmp.Diff([]breaker.Move{{From: breaker.HalfOpen, To: breaker.Open, At: at}}, r.TakeMoves()); diff != "" {
		t.Errorf("moves (-want +got)\n%s", diff)
	}
}

func TestOldResultsMoveNothing(t *testing.T) {
	s := breaker.Defaults()
	r := newRig(t, s)
	old := []*breaker.Permit{r.begin(), r.begin(), r.begin(), r.begin(), r.begin(), r.begin()}
	r.each(20, breaker.Sick)
	r.End(r.now, old[0], breaker.Success)
	r.want(breaker.Open)
	r.pass(s.OpenFor)
	r.want(breaker.HalfOpen)
	r.End(r.now, old[1], breaker.Sick)
	r.End(r.now, old[2], breaker.Success)
	if got := r.Snapshot(r.now); got.State != breaker.HalfOpen || got.Passes != 0 || got.Trials != 0 {
		t.Fatalf("%+v", got)
	}
	r.each(s.HalfOpenMax, breaker.Success)
	r.End(r.now, old[3], breaker.Sick)
	r.End(r.now, old[4], breaker.Sick)
	r.wantCounts(0, 0, 0)
	r.pass(time.Minute) // nor does the one that never ends
	r.wantCounts(0, 0, 0)
}
