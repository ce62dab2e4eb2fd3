// These tests catch a breaker that opens too early, too late or on the wrong
// evidence, one message that counts as many, an attempt that hangs unnoticed, a
// trial too many, a place that is never given back, a state without a way out,
// and a late result that moves what it must not. explore_test.go walks every
// interleaving of a small breaker; model_test.go compares long histories with a
// second implementation.
package breaker_test

import (
	"math"
	"strings"
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
	r.each(20, breaker.Sick)
	r.want(breaker.Closed)
	r.pass(30 * sec) // the successes are gone: 20 of 20
	r.wantCounts(20, 20, 20)
	r.want(breaker.Closed)
	r.each(1, breaker.Success) // the next outcome is judged with what is left
	r.want(breaker.Open)
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
	r.each(20, breaker.Sick)
	r.now = start
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

func TestCheck(t *testing.T) {
	set := func(change func(*breaker.Settings)) breaker.Settings {
		s := breaker.Defaults()
		change(&s)
		return s
	}
	for _, c := range []struct {
		s    breaker.Settings
		want string
	}{
		{breaker.Defaults(), ""},
		{set(func(s *breaker.Settings) {
			s.FailureRatio = 1
			s.MinRequests = 1
			s.HalfOpenMax = 1
			s.MaxOpenFor = s.OpenFor
		}), ""},
		{set(func(s *breaker.Settings) { s.FailureRatio = 0 }), "failure_ratio"},
		{set(func(s *breaker.Settings) { s.FailureRatio = 1.01 }), "failure_ratio"},
		{set(func(s *breaker.Settings) { s.FailureRatio = math.NaN() }), "failure_ratio"},
		{set(func(s *breaker.Settings) { s.MinRequests = 0 }), "min_requests"},
		{set(func(s *breaker.Settings) { s.MinRequests = 100_001 }), "min_requests"},
		{set(func(s *breaker.Settings) { s.Window = 99 * ms }), "window"},
		{set(func(s *breaker.Settings) { s.Window = 25 * time.Hour }), "window"},
		{set(func(s *breaker.Settings) { s.OpenFor = 0 }), "open_for"},
		{set(func(s *breaker.Settings) { s.OpenFor, s.MaxOpenFor = 25*time.Hour, 25*time.Hour }), "open_for max_open_for"},
		{set(func(s *breaker.Settings) { s.MaxOpenFor = 4 * sec }), "max_open_for"},
		{set(func(s *breaker.Settings) { s.HalfOpenMax = 0 }), "half_open_max"},
		{set(func(s *breaker.Settings) { s.HalfOpenMax = 1001 }), "half_open_max"},
		{breaker.Settings{}, "failure_ratio min_requests window open_for half_open_max"},
	} {
		var fields []string
		for _, p := range c.s.Check() {
			fields = append(fields, p.Field)
			if p.Message == "" {
				t.Errorf("%s: no message", p.Field)
			}
		}
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("%+v: problems with %q, want %q", c.s, got, c.want)
		}
	}
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
