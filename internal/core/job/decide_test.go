// These tests catch a schedule that is not the one on paper, a job that is
// retried for ever or given up early, a lost worker that costs an attempt, a
// wait that somebody asked for and did not get, and the wrong one of two ends.
package job_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
)

var start = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

// almostOne is the highest number that a random source gives.
const almostOne = 1 - 1.0/(1<<53)

// held is a running job with a worker that was heard of and time left.
func held(p job.Policy) job.Run {
	return job.Run{Attempt: 1, Policy: p, Heard: start, LeaseUntil: start.Add(30 * time.Second), Deadline: start.Add(5 * time.Minute)}
}

// The waits of the default policy, by the decisions themselves.
func TestGoldenSchedule(t *testing.T) {
	type window struct{ Lo, Middle, Hi time.Duration }
	s := time.Second
	want := []window{
		{7500 * time.Millisecond, 10 * s, 12500 * time.Millisecond},
		{15 * s, 20 * s, 25 * s}, {30 * s, 40 * s, 50 * s}, {60 * s, 80 * s, 100 * s},
		{120 * s, 160 * s, 200 * s}, {240 * s, 320 * s, 400 * s}, {480 * s, 640 * s, 800 * s},
	}
	var got []window
	var given time.Duration
	r := held(job.BuiltIn())
	for {
		wait := func(u float64) time.Duration {
			return job.DecideFail(r, job.Failure{}, start, u).RunAt.Sub(start).Round(time.Microsecond)
		}
		next := job.DecideFail(r, job.Failure{}, start, 0.5)
		if next.To != job.Queued {
			if next.To != job.Failed || next.Reason != job.ReasonExhausted {
				t.Errorf("the last try leads to %s for %q", next.To, next.Reason)
			}
			break
		}
		got = append(got, window{wait(0), wait(0.5), wait(almostOne)})
		given += wait(0.5)
		r.Counts, r.Attempt = next.Counts, r.Attempt+1
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if r.Attempt != 8 || given != 21*time.Minute+10*s {
		t.Errorf("given up at attempt %d, %v after the first", r.Attempt, given)
	}
}

// A timeout waits as a failure does.
func TestTimeoutWaitsAsAFailure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := held(policy().Draw(t, "policy"))
		r.Counts.Charged = rapid.IntRange(0, r.Policy.MaxAttempts-1).Draw(t, "charged")
		r.Deadline = start
		u := rapid.Float64Range(0, almostOne).Draw(t, "u")
		got, ended := job.DecideLapse(r, start, u)
		if !ended {
			t.Fatal("the deadline has come and nothing ended")
		}
		want := job.DecideFail(r, job.Failure{}, start, u)
		want.Cause, want.Outcome = job.Timeout, job.OutcomeTimedOut
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got)\n%s", d)
		}
	})
}

func TestWhatAFailureAsksFor(t *testing.T) {
	s, day := time.Second, 24*time.Hour
	for _, c := range []struct {
		name        string
		failure     job.Failure
		maxAttempts int
		to          job.Status
		reason      job.Reason
		wait        time.Duration
		note        string
	}{
		{name: "nothing", to: job.Queued, wait: 10 * s},
		{name: "permanent", failure: job.Failure{Permanent: true}, to: job.Failed, reason: job.ReasonNonRetryable},
		{name: "permanent wins over waits", failure: job.Failure{Permanent: true, RetryIn: new(s), RetryAfter: new(s)}, to: job.Failed, reason: job.ReasonNonRetryable},
		{name: "permanent says why, also at the last try", failure: job.Failure{Permanent: true}, maxAttempts: 1, to: job.Failed, reason: job.ReasonNonRetryable},
		{name: "the only try", maxAttempts: 1, to: job.Failed, reason: job.ReasonExhausted},
		{name: "a wait saves no last try", failure: job.Failure{RetryIn: new(s)}, maxAttempts: 1, to: job.Failed, reason: job.ReasonExhausted},
		{name: "retry_in replaces the delay", failure: job.Failure{RetryIn: new(3 * s)}, to: job.Queued, wait: 3 * s},
		{name: "retry_in of 0", failure: job.Failure{RetryIn: new(time.Duration(0))}, to: job.Queued, wait: 0},
		{name: "retry_in passes max_delay", failure: job.Failure{RetryIn: new(2 * day)}, to: job.Queued, wait: 2 * day},
		{name: "retry_in below 0", failure: job.Failure{RetryIn: new(-s)}, to: job.Queued, wait: 0},
		{name: "retry_in of 30 days", failure: job.Failure{RetryIn: new(30 * day)}, to: job.Queued, wait: 30 * day},
		{name: "retry_in is cut", failure: job.Failure{RetryIn: new(30*day + s)}, to: job.Queued, wait: 30 * day, note: "retry_in of 30d1s was cut to 30d"},
		{name: "retry_after is the later", failure: job.Failure{RetryAfter: new(time.Minute)}, to: job.Queued, wait: time.Minute},
		{name: "retry_after is the sooner", failure: job.Failure{RetryAfter: new(s)}, to: job.Queued, wait: 10 * s},
		{name: "retry_after below 0", failure: job.Failure{RetryAfter: new(-s)}, to: job.Queued, wait: 10 * s},
		{name: "retry_after is cut", failure: job.Failure{RetryAfter: new(31 * day)}, to: job.Queued, wait: 30 * day, note: "retry_after of 31d was cut to 30d"},
		{name: "both, retry_in later", failure: job.Failure{RetryIn: new(5 * s), RetryAfter: new(2 * s)}, to: job.Queued, wait: 5 * s},
		{name: "both, retry_after later", failure: job.Failure{RetryIn: new(2 * s), RetryAfter: new(5 * s)}, to: job.Queued, wait: 5 * s},
		{name: "both cut", failure: job.Failure{RetryIn: new(40 * day), RetryAfter: new(31 * day)}, to: job.Queued, wait: 30 * day,
			note: "retry_in of 40d was cut to 30d; retry_after of 31d was cut to 30d"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := held(job.BuiltIn())
			if c.maxAttempts > 0 {
				r.Policy.MaxAttempts = c.maxAttempts
			}
			want := job.Transition{
				Cause: job.Fail, Outcome: job.OutcomeFailed, Charged: true, To: c.to, Reason: c.reason,
				Counts: job.Counts{Charged: 1}, Note: c.note,
			}
			if c.to == job.Queued {
				want.RunAt = start.Add(c.wait)
			}
			if d := cmp.Diff(want, job.DecideFail(r, c.failure, start, 0.5)); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

func TestRelease(t *testing.T) {
	r := held(job.BuiltIn())
	r.Counts = job.Counts{Charged: 7, Lost: 2, LostInRow: 2, Unreceived: 3}
	for _, c := range []struct {
		after, wait time.Duration
		note        string
	}{
		{0, 0, ""}, {time.Minute, time.Minute, ""}, {-time.Minute, 0, ""},
		{job.MaxDelay + time.Second, job.MaxDelay, "the wait of 30d1s was cut to 30d"},
	} {
		want := job.Transition{
			Cause: job.Release, To: job.Queued, Outcome: job.OutcomeReleased, RunAt: start.Add(c.wait),
			Counts: job.Counts{Charged: 7, Lost: 2, Unreceived: 3}, Note: c.note,
		}
		if d := cmp.Diff(want, job.DecideRelease(r, c.after, start)); d != "" {
			t.Errorf("after %v (-want +got)\n%s", c.after, d)
		}
	}
}

// The earlier end decides, however late it is looked at; at the same moment it
// is the silence.
func TestTheEarlierEndDecides(t *testing.T) {
	for _, c := range []struct {
		name            string
		lease, deadline time.Duration // from start
		heard           bool
		now             time.Duration
		want            job.Outcome // "" for none yet
	}{
		{"neither yet", 30, 60, true, 29, ""},
		{"the lease, to the moment", 30, 60, true, 30, job.OutcomeLost},
		{"the lease, seen after both", 30, 60, true, 1000, job.OutcomeLost},
		{"the lease, never heard", 30, 60, false, 30, job.OutcomeUnreceived},
		{"the timeout, to the moment", 60, 30, true, 30, job.OutcomeTimedOut},
		{"the timeout, not yet", 60, 30, true, 29, ""},
		{"the timeout, seen after both", 60, 30, true, 1000, job.OutcomeTimedOut},
		{"the timeout, never heard", 60, 30, false, 30, job.OutcomeTimedOut},
		{"both at once", 30, 30, true, 30, job.OutcomeLost},
		{"both at once, never heard", 30, 30, false, 30, job.OutcomeUnreceived},
	} {
		r := held(job.BuiltIn())
		r.LeaseUntil, r.Deadline = start.Add(c.lease*time.Second), start.Add(c.deadline*time.Second)
		if !c.heard {
			r.Heard = time.Time{}
		}
		got, ended := job.DecideLapse(r, start.Add(c.now*time.Second), 0.5)
		if got.Outcome != c.want || ended != (c.want != "") {
			t.Errorf("%s: %q, ended %t; want %q", c.name, got.Outcome, ended, c.want)
		}
		if end := min(c.lease, c.deadline) * time.Second; r.End() != start.Add(end) {
			t.Errorf("%s: ends at %v", c.name, r.End())
		}
	}
}

// A worker that is lost costs no attempt, even where there is only one, but five
// times; the first time the job is due at once, then after the waits of the
// policy.
func TestLostWorkers(t *testing.T) {
	p := job.BuiltIn()
	p.MaxAttempts = 1
	r := held(p)
	now := r.LeaseUntil.Add(time.Second)
	var waits []time.Duration
	for k := 1; ; k++ {
		tr, ended := job.DecideLapse(r, now, 0.5)
		if !ended || tr.Outcome != job.OutcomeLost || tr.Charged || tr.Counts.Charged != 0 || tr.Counts.Lost != k {
			t.Fatalf("loss %d: %+v, ended %t", k, tr, ended)
		}
		r.Counts = tr.Counts
		if tr.To == job.Failed {
			if k != 6 || tr.Reason != job.ReasonLost {
				t.Errorf("given up at loss %d for %q", k, tr.Reason)
			}
			break
		}
		waits = append(waits, tr.RunAt.Sub(now))
	}
	s := time.Second
	if d := cmp.Diff([]time.Duration{0, 10 * s, 20 * s, 40 * s, 80 * s}, waits); d != "" {
		t.Errorf("waits (-want +got)\n%s", d)
	}
	// What is heard in between ends the row, and so the wait, but not the count.
	r.Counts = job.Counts{Lost: 4, LostInRow: 4}
	r.Policy.MaxAttempts = 2
	r.Counts = job.DecideFail(r, job.Failure{}, start, 0.5).Counts
	tr, _ := job.DecideLapse(r, now, 0.5)
	if tr.To != job.Queued || tr.RunAt != now || tr.Counts != (job.Counts{Charged: 1, Lost: 5, LostInRow: 1}) {
		t.Errorf("a loss after a failure: %+v", tr)
	}
}

func TestUnreceived(t *testing.T) {
	p := job.BuiltIn()
	p.MaxAttempts = 1
	r := held(p)
	r.Heard = time.Time{}
	r.Counts = job.Counts{Lost: 3, LostInRow: 3}
	now := r.LeaseUntil
	for k := 1; k <= 101; k++ {
		tr, ended := job.DecideLapse(r, now, 0.5)
		want := job.Transition{
			Cause: job.Lapse, To: job.Queued, Outcome: job.OutcomeUnreceived, RunAt: now,
			Counts: job.Counts{Lost: 3, LostInRow: 3, Unreceived: k},
		}
		if k == 101 {
			want.To, want.RunAt, want.Reason = job.Failed, time.Time{}, job.ReasonLost
		}
		if d := cmp.Diff(want, tr); d != "" || !ended {
			t.Fatalf("claim %d, ended %t (-want +got)\n%s", k, ended, d)
		}
		r.Counts = tr.Counts
	}
}

// A job whose attempts end in any order is finished within bounds, and no
// sooner than its policy and the caps say.
func TestEveryLifeEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := policy().Draw(t, "policy")
		r := job.Run{Policy: p}
		released := 0
		for r.Attempt = 1; ; r.Attempt++ {
			if most := p.MaxAttempts + job.MaxLost + 1 + job.MaxUnreceived + 1 + released; r.Attempt > most {
				t.Fatalf("attempt %d, with %d handed back, under %+v", r.Attempt, released, p)
			}
			r.Heard, r.LeaseUntil, r.Deadline = start, start, start
			var tr job.Transition
			// Mostly what is not charged, or no life would reach its caps.
			switch rapid.SampledFrom([]string{"fail", "time out", "lose", "lose", "unreceived", "unreceived", "unreceived", "release"}).Draw(t, "how") {
			case "fail":
				tr = job.DecideFail(r, job.Failure{}, start, 0.5)
			case "time out":
				tr, _ = job.DecideLapse(r, start, 0.5)
			case "lose":
				r.Deadline = start.Add(1)
				tr, _ = job.DecideLapse(r, start, 0.5)
			case "unreceived":
				r.Heard, r.Deadline = time.Time{}, start.Add(1)
				tr, _ = job.DecideLapse(r, start, 0.5)
			case "release":
				released++
				tr = job.DecideRelease(r, 0, start)
			}
			now := tr.Counts
			if now.Charged < r.Counts.Charged || now.Lost < r.Counts.Lost || now.Unreceived < r.Counts.Unreceived {
				t.Fatalf("counts fell from %+v to %+v", r.Counts, now)
			}
			r.Counts = tr.Counts
			if tr.To == job.Queued {
				continue
			}
			used := map[job.Reason]bool{
				job.ReasonExhausted: r.Counts.Charged == p.MaxAttempts,
				job.ReasonLost:      r.Counts.Lost == job.MaxLost+1 || r.Counts.Unreceived == job.MaxUnreceived+1,
			}
			if !used[tr.Reason] {
				t.Fatalf("given up for %q with %+v under %+v", tr.Reason, r.Counts, p)
			}
			return
		}
	})
}

func TestComplete(t *testing.T) {
	r := held(job.BuiltIn())
	r.Counts = job.Counts{Charged: 7, Lost: 5, LostInRow: 2, Unreceived: 9}
	want := job.Transition{
		Cause: job.Complete, To: job.Succeeded, Outcome: job.OutcomeSucceeded, Charged: true,
		Counts: job.Counts{Charged: 8, Lost: 5, Unreceived: 9},
	}
	if d := cmp.Diff(want, job.DecideComplete(r)); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
}
