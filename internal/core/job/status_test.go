// These tests catch a job that moves where it must not: a move that the table
// lacks or should not have, and a decision that is none of its moves or is not
// whole.
package job_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
)

func TestNothingButTheTableMoves(t *testing.T) {
	// From each status, by each cause, to where. What is not named is refused.
	legal := map[job.Status]map[job.Cause][]job.Status{
		job.Queued: {
			job.Claim:  {job.Running},
			job.Cancel: {job.Cancelled},
		},
		job.Running: {
			job.Complete: {job.Succeeded, job.Failed},
			job.Fail:     {job.Queued, job.Failed},
			job.Release:  {job.Queued},
			job.Timeout:  {job.Queued, job.Failed},
			job.Lapse:    {job.Queued, job.Failed},
			job.Cancel:   {job.Cancelled},
		},
		job.Failed: {job.Retry: {job.Queued}},
	}
	statuses := append(job.Statuses(), "", "lost")
	causes := []job.Cause{job.Claim, job.Complete, job.Fail, job.Release, job.Timeout, job.Lapse, job.Cancel, job.Retry, ""}
	var want []job.Move
	for _, from := range statuses {
		for _, cause := range causes {
			for _, to := range statuses {
				m := job.Move{From: from, Cause: cause, To: to}
				is := slices.Contains(legal[from][cause], to)
				if m.Legal() != is {
					t.Errorf("%s by %s to %s is legal: %t, want %t", from, cause, to, m.Legal(), is)
				}
				if is {
					want = append(want, m)
				}
			}
		}
	}
	if len(job.Moves()) != len(want) {
		t.Errorf("the table has %d moves, want %d, each once", len(job.Moves()), len(want))
	}
	for _, m := range job.Moves() {
		if !slices.Contains(want, m) {
			t.Errorf("the table has %v", m)
		}
	}
}

func TestMovesIsACopy(t *testing.T) {
	job.Moves()[0] = job.Move{From: job.Succeeded, Cause: job.Retry, To: job.Queued}
	if (job.Move{From: job.Succeeded, Cause: job.Retry, To: job.Queued}).Legal() || job.Moves()[0].From != job.Queued {
		t.Error("a caller can change what is legal")
	}
}

// A finished job stays where it is but for a person's retry of a dead letter,
// and one that is not finished can always get there.
func TestFinishedIsTheEnd(t *testing.T) {
	for _, s := range job.Statuses() {
		var out []job.Cause
		for _, m := range job.Moves() {
			if m.From == s {
				out = append(out, m.Cause)
			}
		}
		switch {
		case s == job.Failed:
			if d := cmp.Diff([]job.Cause{job.Retry}, out); d != "" {
				t.Errorf("failed (-want +got)\n%s", d)
			}
		case s.Finished() && out != nil:
			t.Errorf("%s is finished and still moves by %v", s, out)
		case !s.Finished() && out == nil:
			t.Errorf("%s is not finished and never moves", s)
		}
	}
}

// run draws any running job, with a policy within its bounds and counts below
// its caps, whose lease and timeout end around now.
func run(now time.Time) *rapid.Generator[job.Run] {
	return rapid.Custom(func(t *rapid.T) job.Run {
		p := policy().Draw(t, "policy")
		around := rapid.Custom(func(t *rapid.T) time.Time {
			return now.Add(time.Duration(rapid.Int64Range(-3, 3).Draw(t, "ms")) * time.Millisecond)
		})
		r := job.Run{
			Attempt: rapid.IntRange(1, 1000).Draw(t, "attempt"),
			Policy:  p,
			Counts: job.Counts{
				Charged:    rapid.IntRange(0, p.MaxAttempts-1).Draw(t, "charged"),
				Lost:       rapid.IntRange(0, job.MaxLost).Draw(t, "lost"),
				Unreceived: rapid.IntRange(0, job.MaxUnreceived).Draw(t, "unreceived"),
			},
			LeaseUntil: around.Draw(t, "lease until"),
			Deadline:   around.Draw(t, "deadline"),
		}
		r.Counts.LostInRow = rapid.IntRange(0, r.Counts.Lost).Draw(t, "lost in a row")
		if rapid.Bool().Draw(t, "heard") {
			r.Heard = now.Add(-time.Minute)
		}
		return r
	})
}

func policy() *rapid.Generator[job.Policy] {
	return rapid.Custom(func(t *rapid.T) job.Policy {
		return job.Policy{
			MaxAttempts: rapid.IntRange(1, job.MaxAttempts).Draw(t, "max attempts"),
			Initial:     time.Duration(rapid.Int64Range(0, int64(job.MaxInitial)).Draw(t, "initial")),
			Factor:      rapid.Float64Range(1, job.MaxFactor).Draw(t, "factor"),
			MaxDelay:    time.Duration(rapid.Int64Range(0, int64(job.MaxDelay)).Draw(t, "max delay")),
			Jitter:      rapid.Float64Range(0, 1).Draw(t, "jitter"),
		}
	})
}

func failure() *rapid.Generator[job.Failure] {
	return rapid.Custom(func(t *rapid.T) job.Failure {
		wait := rapid.Ptr(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.Int64().Draw(t, "wait"))
		}), true)
		return job.Failure{
			Permanent: rapid.IntRange(0, 3).Draw(t, "permanent") == 0,
			RetryIn:   wait.Draw(t, "retry_in"), RetryAfter: wait.Draw(t, "retry_after"),
		}
	})
}

// decide draws a way for the attempt to end, and what is decided.
func decide(t *rapid.T, r job.Run, now time.Time) (job.Transition, bool) {
	u := rapid.Float64Range(0, 0.999999).Draw(t, "u")
	switch rapid.SampledFrom([]job.Cause{job.Complete, job.Fail, job.Release, job.Lapse}).Draw(t, "how") {
	case job.Complete:
		return job.DecideComplete(r), true
	case job.Fail:
		return job.DecideFail(r, failure().Draw(t, "failure"), now, u), true
	case job.Release:
		return job.DecideRelease(r, time.Duration(rapid.Int64().Draw(t, "after")), now), true
	default:
		return job.DecideLapse(r, now, u)
	}
}

// legal checks a decision against the table and returns its move.
func legal(t rapid.TB, r job.Run, tr job.Transition) job.Move {
	m := job.Move{From: job.Running, Cause: tr.Cause, To: tr.To}
	if !m.Legal() {
		t.Fatalf("%+v is no legal move", m)
	}
	whole(t, r, tr)
	return m
}

func TestAnyDecisionIsALegalMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := run(start).Draw(t, "run")
		if tr, ended := decide(t, r, start); ended {
			legal(t, r, tr)
		} else if d := cmp.Diff(job.Transition{}, tr); d != "" || !start.Before(r.LeaseUntil) || !start.Before(r.Deadline) {
			t.Fatalf("nothing ended at %v of %+v (-want +got)\n%s", start, r, d)
		}
	})
}

// Every edge of the counts, ends and failures, and so every move that an end of
// an attempt can make. The others are a refused result and a cancellation.
func TestEveryEdgeIsALegalMove(t *testing.T) {
	made := map[job.Move]bool{
		{From: job.Running, Cause: job.Complete, To: job.Failed}:  true,
		{From: job.Running, Cause: job.Cancel, To: job.Cancelled}: true,
	}
	over, left := start, start.Add(1)
	for _, attempts := range []int{1, 2, job.MaxAttempts} {
		for _, charged := range []int{0, attempts - 1} {
			for _, lost := range []int{0, 1, job.MaxLost} {
				for _, unreceived := range []int{0, job.MaxUnreceived} {
					for _, heard := range []time.Time{{}, start} {
						r := job.Run{Attempt: 1, Policy: job.BuiltIn(), Heard: heard, LeaseUntil: over, Deadline: left}
						r.Policy.MaxAttempts = attempts
						r.Counts = job.Counts{Charged: charged, Lost: lost, LostInRow: lost, Unreceived: unreceived}
						timedOut := r
						timedOut.LeaseUntil, timedOut.Deadline = left, over
						for _, run := range []job.Run{r, timedOut} {
							tr, ended := job.DecideLapse(run, start, 0.5)
							if !ended {
								t.Fatalf("nothing ended of %+v", run)
							}
							made[legal(t, run, tr)] = true
						}
						made[legal(t, r, job.DecideComplete(r))] = true
						made[legal(t, r, job.DecideRelease(r, 0, start))] = true
						made[legal(t, r, job.DecideFail(r, job.Failure{}, start, 0.5))] = true
						made[legal(t, r, job.DecideFail(r, job.Failure{Permanent: true}, start, 0.5))] = true
					}
				}
			}
		}
	}
	for _, m := range job.Moves() {
		if m.From == job.Running && !made[m] {
			t.Errorf("no decision made the move %+v", m)
		}
	}
}

// whole checks what every transition keeps to.
func whole(t rapid.TB, r job.Run, tr job.Transition) {
	outcomes := map[job.Cause][]job.Outcome{
		job.Complete: {job.OutcomeSucceeded},
		job.Fail:     {job.OutcomeFailed},
		job.Release:  {job.OutcomeReleased},
		job.Timeout:  {job.OutcomeTimedOut},
		job.Lapse:    {job.OutcomeLost, job.OutcomeUnreceived},
	}
	if !slices.Contains(outcomes[tr.Cause], tr.Outcome) {
		t.Fatalf("%s ends the attempt as %s", tr.Cause, tr.Outcome)
	}
	if (tr.To == job.Queued) == tr.RunAt.IsZero() {
		t.Fatalf("to %s with the due time %v", tr.To, tr.RunAt)
	}
	if tr.To == job.Queued && (tr.RunAt.Before(start) || tr.RunAt.After(start.Add(2*job.MaxDelay))) {
		t.Fatalf("due at %v, %v from now", tr.RunAt, tr.RunAt.Sub(start))
	}
	if (tr.To == job.Failed) != slices.Contains(job.Reasons(), tr.Reason) {
		t.Fatalf("to %s for the reason %q", tr.To, tr.Reason)
	}
	was, is := r.Counts, tr.Counts
	charged := tr.Outcome == job.OutcomeSucceeded || tr.Outcome == job.OutcomeFailed || tr.Outcome == job.OutcomeTimedOut
	if tr.Charged != charged {
		t.Fatalf("%s is charged: %t", tr.Outcome, tr.Charged)
	}
	one := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	want := job.Counts{
		Charged:    was.Charged + one(charged),
		Lost:       was.Lost + one(tr.Outcome == job.OutcomeLost),
		Unreceived: was.Unreceived + one(tr.Outcome == job.OutcomeUnreceived),
	}
	switch tr.Outcome {
	case job.OutcomeLost:
		want.LostInRow = was.LostInRow + 1
	case job.OutcomeUnreceived: // says nothing of the worker
		want.LostInRow = was.LostInRow
	default:
	}
	if d := cmp.Diff(want, is); d != "" {
		t.Fatalf("%s: counts (-want +got)\n%s", tr.Outcome, d)
	}
	over := is.Charged >= r.Policy.MaxAttempts || is.Lost > job.MaxLost || is.Unreceived > job.MaxUnreceived
	if tr.To == job.Queued && over {
		t.Fatalf("queued again with %+v under %+v", is, r.Policy)
	}
}
