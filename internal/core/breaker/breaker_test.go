// These tests catch a breaker that opens too early, too late or on the wrong
// evidence, one message that counts as many, an attempt that hangs unnoticed, a
// trial too many, a place that is never given back, a state without a way out,
// and a late result that moves what it must not. explore_test.go walks every
// interleaving of a small breaker; model_test.go compares long histories with a
// second implementation.
package breaker_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
)

const (
	ms   = time.Millisecond
	sec  = time.Second
	slow = 2500 * ms // half of the default timeout
)

var start = time.Date(2026, 11, 30, 18, 0, 0, 0, time.UTC)

// rig is a breaker with a hand-moved clock.
type rig struct {
	*testing.T
	*breaker.Breaker
	now time.Time
}

func newRig(t *testing.T, s breaker.Settings) *rig {
	return &rig{t, breaker.New(s, start), start}
}

func (r *rig) pass(d time.Duration) { r.now = r.now.Add(d) }

// begin starts an attempt of a fresh message, which must be let through.
func (r *rig) begin() *breaker.Permit {
	r.Helper()
	p := &breaker.Permit{}
	if !r.Begin(r.now, slow, breaker.Mark{}, p) {
		r.Fatalf("refused: %+v", r.Snapshot(r.now))
	}
	return p
}

// each sends n fresh messages, all with the same outcome.
func (r *rig) each(n int, o breaker.Outcome) {
	r.Helper()
	for range n {
		r.End(r.now, r.begin(), o)
	}
}

func (r *rig) want(s breaker.State) {
	r.Helper()
	if got := r.Snapshot(r.now); got.State != s {
		r.Fatalf("state %v, want %v (%+v)", got.State, s, got)
	}
}

func (r *rig) wantCounts(failures, outcomes, messages int) {
	r.Helper()
	s := r.Snapshot(r.now)
	if s.Failures != failures || s.Outcomes != outcomes || s.Messages != messages {
		r.Fatalf("%d failures of %d outcomes of %d messages, want %d of %d of %d",
			s.Failures, s.Outcomes, s.Messages, failures, outcomes, messages)
	}
}

// halfOpened returns a rig that has just become half-open.
func halfOpened(t *testing.T, s breaker.Settings) *rig {
	r := newRig(t, s)
	r.each(s.MinRequests, breaker.Sick)
	r.want(breaker.Open)
	r.pass(s.OpenFor)
	r.want(breaker.HalfOpen)
	return r
}

func TestOpensAtTheRatioOfEnoughMessages(t *testing.T) {
	for _, c := range []struct {
		name        string
		good, bad   int
		lastIs      breaker.Outcome
		opens       bool
		ratioInHalf float64
	}{
		{"nineteen failures are too few", 0, 18, breaker.Sick, false, 0.5},
		{"twenty are enough", 0, 19, breaker.Sick, true, 0.5},
		{"half of twenty", 10, 9, breaker.Sick, true, 0.5},
		{"less than half", 11, 8, breaker.Sick, false, 0.5},
		{"a success may be the twentieth", 4, 15, breaker.Success, true, 0.5},
		{"a ratio of 1", 1, 18, breaker.Sick, false, 1},
		{"no failures", 30, 0, breaker.Success, false, 0.0001},
	} {
		s := breaker.Defaults()
		s.FailureRatio = c.ratioInHalf
		r := newRig(t, s)
		r.each(c.good, breaker.Success)
		r.each(c.bad, breaker.Sick)
		r.want(breaker.Closed)
		r.each(1, c.lastIs)
		if got := r.Snapshot(r.now).State == breaker.Open; got != c.opens {
			t.Errorf("%s: open %v", c.name, got)
		}
	}
}

func TestOneMessageIsOneMessage(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	var mark breaker.Mark
	var p breaker.Permit
	for range 50 {
		if !r.Begin(r.now, slow, mark, &p) {
			t.Fatal("fifty tries of one message opened it")
		}
		mark = r.End(r.now, &p, breaker.Sick)
		r.pass(sec)
	}
	r.wantCounts(50, 50, 1)
	// It stands where its latest outcome does: forgotten last of all.
	r.pass(56 * sec)
	if s := r.Snapshot(r.now); s.Messages != 1 || s.Outcomes == 0 || s.Outcomes == 50 {
		t.Fatalf("%+v", s)
	}
	r.pass(5 * sec)
	r.wantCounts(0, 0, 0)
	// Its mark is of a forgotten slot now: it counts anew.
	r.Begin(r.now, slow, mark, &p)
	r.End(r.now, &p, breaker.Sick)
	r.wantCounts(1, 1, 1)
}

func TestWindowForgetsWholeSlots(t *testing.T) {
	r := newRig(t, breaker.Defaults()) // slots of 3s
	r.each(5, breaker.Sick)
	r.pass(3*sec - 1)
	r.each(1, breaker.Sick) // still the first slot
	r.pass(1)
	r.each(1, breaker.Success) // the second
	r.pass(57*sec - 1)
	r.wantCounts(6, 7, 7)
	r.pass(1) // the first slot is over by 60s
	r.wantCounts(0, 1, 1)
	r.pass(3 * sec)
	r.wantCounts(0, 0, 0)
	r.pass(1000 * time.Hour)
	r.wantCounts(0, 0, 0)
}

func TestForgettingAloneOpensNothing(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.each(30, breaker.Success)
	r.pass(30 * sec)
	r.each(10, breaker.Sick)
	r.each(1, breaker.Success)
	r.each(10, breaker.Sick)
	r.want(breaker.Closed)
	r.pass(30 * sec) // the first successes are gone: 20 of 21
	r.wantCounts(20, 21, 21)
	r.want(breaker.Closed)
	r.each(1, breaker.Success) // the next outcome is judged with what is left
	r.want(breaker.Open)
}

func TestFailuresWithoutASuccessOpen(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.each(1000, breaker.Success) // a busy, healthy minute: the ratio is far away
	r.each(19, breaker.Sick)
	r.each(1, breaker.Success)
	r.each(19, breaker.Sick)
	r.want(breaker.Closed)
	r.each(1, breaker.Neutral) // says nothing and ends nothing
	r.each(1, breaker.Sick)
	r.want(breaker.Open)
}

func TestOneMessageIsNoStreak(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.each(1000, breaker.Success)
	var mark breaker.Mark
	for range 50 {
		var p breaker.Permit
		if !r.Begin(r.now, slow, mark, &p) {
			t.Fatal("refused")
		}
		mark = r.End(r.now, &p, breaker.Sick)
	}
	r.want(breaker.Closed)
}

func TestHangingAttemptsOpen(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	var held []*breaker.Permit
	for range 20 {
		held = append(held, r.begin())
		r.pass(ms)
	}
	r.now = start.Add(slow + 18*ms)
	r.wantCounts(19, 19, 19)
	if at, ok := r.Next(r.now); !ok || !at.Equal(start.Add(slow+19*ms)) {
		t.Errorf("next at %v, %v", at, ok)
	}
	r.pass(sec) // whoever comes next, it opened when the twentieth was slow
	r.want(breaker.Open)
	want := []breaker.Move{{From: breaker.Closed, To: breaker.Open, At: start.Add(slow + 19*ms), Failures: 20, Outcomes: 20}}
	if diff := cmp.Diff(want, r.TakeMoves()); diff != "" {
		t.Errorf("moves (-want +got)\n%s", diff)
	}
	for _, p := range held {
		r.End(r.now, p, breaker.Success)
	}
	r.want(breaker.Open)
}

func TestSlowAttempts(t *testing.T) {
	for _, c := range []struct {
		outcome                      breaker.Outcome
		failures, outcomes, messages int
	}{
		{breaker.Success, 0, 1, 1},
		{breaker.Alive, 0, 1, 1},
		{breaker.Sick, 1, 1, 1},
		{breaker.Suspect, 0, 1, 1},
		{breaker.SuspectTLS, 0, 0, 0},
		{breaker.Neutral, 0, 0, 0},    // an answer: it takes the failure back
		{breaker.Unanswered, 1, 1, 1}, // none: the failure stands
	} {
		r := newRig(t, breaker.Defaults())
		p := r.begin()
		r.pass(slow - 1)
		r.wantCounts(0, 0, 0)
		r.pass(1)
		r.wantCounts(1, 1, 1)
		r.pass(4 * sec) // in another slot
		r.End(r.now, p, c.outcome)
		r.wantCounts(c.failures, c.outcomes, c.messages)
		r.End(r.now, p, breaker.Sick) // a second End
		r.wantCounts(c.failures, c.outcomes, c.messages)
	}
}

func TestTakingBackAForgottenFailure(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	p := r.begin()
	r.pass(10 * time.Minute)
	r.wantCounts(0, 0, 0)
	r.End(r.now, p, breaker.Success)
	r.wantCounts(0, 1, 1)
}

// A slow second try moves its message; taken back, the message stands where its
// first try is counted.
func TestTakingBackGivesTheMessageBack(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	p := r.begin()
	mark := r.End(r.now, p, breaker.Sick)
	r.pass(30 * sec)
	r.Begin(r.now, slow, mark, p)
	r.pass(slow)
	r.wantCounts(2, 2, 1)
	mark = r.End(r.now, p, breaker.Neutral)
	r.wantCounts(1, 1, 1)
	r.now = start.Add(60 * sec)
	r.wantCounts(0, 0, 0)
	r.Begin(r.now, slow, mark, p)
	r.End(r.now, p, breaker.Sick)
	r.wantCounts(1, 1, 1)
}

func TestSuspect(t *testing.T) {
	for _, c := range []struct {
		name     string
		before   []breaker.Outcome
		age      time.Duration
		suspect  breaker.Outcome
		failures int
		outcomes int // of the suspect alone
	}{
		{"never well", nil, 0, breaker.Suspect, 0, 1},
		{"well just now", []breaker.Outcome{breaker.Success}, 0, breaker.Suspect, 1, 1},
		{"alive is well", []breaker.Outcome{breaker.Alive}, 0, breaker.Suspect, 1, 1},
		{"well a window ago", []breaker.Outcome{breaker.Success}, 60 * sec, breaker.Suspect, 1, 1},
		{"well longer ago", []breaker.Outcome{breaker.Success}, 60*sec + 1, breaker.Suspect, 0, 1},
		{"suspect does not prove health", []breaker.Outcome{breaker.Suspect}, 0, breaker.Suspect, 0, 1},
		{"neutral does not either", []breaker.Outcome{breaker.Neutral}, 0, breaker.Suspect, 0, 1},
		{"tls, never well", nil, 0, breaker.SuspectTLS, 0, 0},
		{"tls, well just now", []breaker.Outcome{breaker.Success}, 0, breaker.SuspectTLS, 1, 1},
	} {
		r := newRig(t, breaker.Defaults())
		for _, o := range c.before {
			r.each(1, o)
		}
		r.pass(c.age)
		was := r.Snapshot(r.now)
		r.each(1, c.suspect)
		is := r.Snapshot(r.now)
		if is.Failures-was.Failures != c.failures || is.Outcomes-was.Outcomes != c.outcomes {
			t.Errorf("%s: %+v after %+v", c.name, is, was)
		}
	}
}

func TestOf(t *testing.T) {
	for _, c := range []struct {
		f    *failure.Error
		want breaker.Outcome
	}{
		{nil, breaker.Success},
		{failure.FromStatus(500, 0), breaker.Sick},
		{failure.FromStatus(503, sec), breaker.Neutral},
		{failure.FromStatus(408, 0), breaker.Neutral},
		{failure.FromStatus(429, 0), breaker.Neutral},
		{failure.FromStatus(404, 0), breaker.Suspect},
		{failure.FromStatus(422, 0), breaker.Alive},
		{&failure.Error{Tags: failure.Tags{failure.TLS}, Verdict: failure.Suspect}, breaker.SuspectTLS},
		{&failure.Error{Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral}, breaker.Unanswered},
		{&failure.Error{}, breaker.Sick},
		{&failure.Error{Verdict: 99}, breaker.Sick},
	} {
		if got := breaker.Of(c.f); got != c.want {
			t.Errorf("%v is %v, want %v", c.f, got, c.want)
		}
	}
}

func TestTimeNeverGoesBack(t *testing.T) {
	r := newRig(t, breaker.Defaults())
	r.pass(30 * sec)
	r.want(breaker.Closed)
	r.now = start
	r.each(20, breaker.Sick)
	if look := r.Look(r.now); !look.Until.Equal(start.Add(35 * sec)) {
		t.Errorf("look %+v", look)
	}
	p := &breaker.Permit{}
	r.now = start.Add(35 * sec)
	r.Begin(r.now, slow, breaker.Mark{}, p)
	r.End(start, p, breaker.Success)
	if s := r.Snapshot(start); s.State != breaker.HalfOpen || s.Passes != 1 {
		t.Errorf("%+v", s)
	}
}

func TestMisuse(t *testing.T) {
	for name, misuse := range map[string]func(*rig){
		"breaker: Begin with a permit that is held":     func(r *rig) { r.Begin(r.now, slow, breaker.Mark{}, r.begin()) },
		"breaker: End with a permit of another breaker": func(r *rig) { breaker.New(breaker.Defaults(), start).End(start, r.begin(), breaker.Sick) },
	} {
		func() {
			defer func() {
				if got := recover(); got != name {
					t.Errorf("panic %v, want %q", got, name)
				}
			}()
			misuse(newRig(t, breaker.Defaults()))
		}()
	}
	var never breaker.Permit
	r := newRig(t, breaker.Defaults())
	r.End(r.now, &never, breaker.Sick)
	r.wantCounts(0, 0, 0)
}

func BenchmarkBeginEnd(b *testing.B) {
	br := breaker.New(breaker.Defaults(), start)
	var p breaker.Permit
	now := start
	b.ReportAllocs()
	for b.Loop() {
		now = now.Add(ms)
		br.Begin(now, slow, breaker.Mark{}, &p)
		br.End(now, &p, breaker.Success)
	}
}

func TestBeginEndAllocateNothing(t *testing.T) {
	br := breaker.New(breaker.Defaults(), start)
	var p breaker.Permit
	now := start
	if n := testing.AllocsPerRun(1000, func() {
		now = now.Add(ms)
		br.Begin(now, slow, breaker.Mark{}, &p)
		br.End(now, &p, breaker.Success)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
