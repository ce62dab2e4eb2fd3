// These tests catch a sweep that calls workers lost which had no way to report,
// and one that never calls anybody lost.
package job_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
)

func TestGap(t *testing.T) {
	s := time.Second
	for _, c := range []struct {
		name         string
		since, lease time.Duration
		want         bool
	}{
		{"a sweep in time", s, 30 * s, false},
		{"a third of the lease", 10 * s, 30 * s, false},
		{"more than a third", 10*s + 1, 30 * s, true},
		{"as long, for a long lease", 10*s + 1, time.Hour, false},
		{"a third of an hour", 20*time.Minute + 1, time.Hour, true},
		{"a sweep in time, for the shortest lease", s, s, false},
		{"a late sweep, for the shortest lease", 2 * s, s, false},
		{"a pause, for the shortest lease", 2*s + 1, s, true},
		{"a tick ahead", -time.Hour, s, false},
	} {
		if got := job.Gap(start, start.Add(c.since), c.lease); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
	if !job.Gap(time.Time{}, start, time.Hour) {
		t.Error("nobody is known to have swept, and that is no gap")
	}
}

func TestBrake(t *testing.T) {
	s := time.Second
	down := job.Silence{Heard: start.Add(-20 * s), Lease: 30 * s, Running: 20, Ending: 10}
	for _, c := range []struct {
		name   string
		change func(*job.Silence)
		want   bool
	}{
		{"half of them, ten, for two thirds of a lease", func(*job.Silence) {}, true},
		{"one was heard later", func(q *job.Silence) { q.Heard = q.Heard.Add(1) }, false},
		{"of a longer lease", func(q *job.Silence) { q.Lease = 31 * s }, false},
		{"nine", func(q *job.Silence) { q.Ending, q.Running = 9, 9 }, false},
		{"less than half", func(q *job.Silence) { q.Running = 21 }, false},
		{"all of ten", func(q *job.Silence) { q.Running = 10 }, true},
		{"nobody was ever heard", func(q *job.Silence) { q.Heard = time.Time{} }, true},
		{"a grace before, and heard since", func(q *job.Silence) { q.Graced = q.Heard.Add(-1) }, true},
		{"a grace before, and nothing since", func(q *job.Silence) { q.Graced = q.Heard }, false},
		{"a grace before, and never heard", func(q *job.Silence) { q.Heard, q.Graced = time.Time{}, start.Add(-time.Hour) }, false},
	} {
		q := down
		c.change(&q)
		if got := job.Brake(start, q); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestGraceLengthensOnly(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := run(start).Draw(t, "run")
		r.Deadline = r.Deadline.Add(time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "timeout")))
		lease := time.Duration(rapid.Int64Range(1, int64(time.Hour)).Draw(t, "lease"))
		got := r.Grace(start, lease)
		for _, end := range []struct{ was, is time.Time }{{r.LeaseUntil, got.LeaseUntil}, {r.Deadline, got.Deadline}} {
			least := start.Add(lease)
			if end.is.Before(end.was) || end.is.Before(least) || end.is != end.was && end.is != least {
				t.Fatalf("an end at %v became %v; a lease from now is %v", end.was, end.is, least)
			}
		}
		got.LeaseUntil, got.Deadline = r.LeaseUntil, r.Deadline
		if got != r {
			t.Fatalf("something else changed: %+v, was %+v", got, r)
		}
	})
}

// fleet is a sweep in small: what a store does with the rules, over workers that
// beat every third of a lease, each at its own time.
type fleet struct {
	lease   time.Duration
	runs    []job.Run
	tick    time.Time
	silence job.Silence
	lost    int
}

func newFleet(n int, lease time.Duration, offset func() time.Duration) *fleet {
	f := &fleet{lease: lease, tick: start, silence: job.Silence{Lease: lease}}
	for range n {
		beat := start.Add(-offset())
		f.runs = append(f.runs, job.Run{Policy: job.BuiltIn(), Heard: beat, LeaseUntil: beat.Add(lease), Deadline: start.Add(48 * time.Hour)})
		if beat.After(f.silence.Heard) {
			f.silence.Heard = beat
		}
	}
	return f
}

// beats has every worker report at now whose last report is a third of a lease
// ago.
func (f *fleet) beats(now time.Time) {
	for i, r := range f.runs {
		if now.Sub(r.Heard) >= f.lease/3 {
			f.runs[i].Heard, f.runs[i].LeaseUntil, f.silence.Heard = now, now.Add(f.lease), now
		}
	}
}

// sweep does what the comment in lapse.go says.
func (f *fleet) sweep(now time.Time) {
	grace := func() {
		for i := range f.runs {
			f.runs[i] = f.runs[i].Grace(now, f.lease)
		}
		f.silence.Graced = now
	}
	if job.Gap(f.tick, now, f.lease) {
		grace()
	}
	f.tick = now
	f.silence.Running, f.silence.Ending = len(f.runs), 0
	over := false
	for _, r := range f.runs {
		over = over || !now.Before(r.LeaseUntil)
		if r.Ending(now, f.lease) {
			f.silence.Ending++
		}
	}
	if over && job.Brake(now, f.silence) {
		grace()
	}
	kept := f.runs[:0]
	for _, r := range f.runs {
		if _, ended := job.DecideLapse(r, now, 0.5); ended {
			f.lost++
		} else {
			kept = append(kept, r)
		}
	}
	f.runs = kept
}

// Whatever the size of the fleet and the times of its heartbeats, a path that is
// down for up to a lease and two thirds costs no lease where ten are out, and a
// fleet that never comes back is found lost after two leases and two sweeps.
func TestThePathIsDown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lease := time.Duration(rapid.IntRange(3, 600).Draw(t, "lease")) * time.Second
		n := rapid.IntRange(job.MinBrake, 40).Draw(t, "workers")
		f := newFleet(n, lease, func() time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(lease/3)).Draw(t, "beat"))
		})
		now := start
		until := func(after time.Duration, beating bool) {
			for end := now.Add(after); now.Before(end); now = now.Add(time.Second) {
				if beating {
					f.beats(now)
				}
				f.sweep(now)
			}
		}
		until(lease*5/3-time.Second, false)
		if f.lost != 0 {
			t.Fatalf("%d of %d were lost while the path was down", f.lost, n)
		}
		until(2*lease, true)
		if f.lost != 0 {
			t.Fatalf("%d of %d were lost after the path was up again", f.lost, n)
		}
		until(2*lease+2*time.Second, false)
		if len(f.runs) != 0 {
			t.Fatalf("%d of %d are still out after two leases of silence", len(f.runs), n)
		}
	})
}

// One worker of a fleet that dies is found after its lease, whatever it held of
// others that are heard.
func TestOneWorkerDies(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lease := time.Duration(rapid.IntRange(6, 600).Draw(t, "lease")) * time.Second
		dead := rapid.IntRange(1, 40).Draw(t, "leases of the dead")
		f := newFleet(dead, lease, func() time.Duration { return 0 })
		alive := newFleet(1, lease, func() time.Duration { return 0 })
		f.runs = append(f.runs, alive.runs...)
		for now := start; !now.After(start.Add(lease)); now = now.Add(time.Second) {
			if r := &f.runs[len(f.runs)-1]; now.Sub(r.Heard) >= lease/3 {
				r.Heard, r.LeaseUntil, f.silence.Heard = now, now.Add(lease), now
			}
			f.sweep(now)
		}
		if f.lost != dead || len(f.runs) != 1 {
			t.Fatalf("%d of %d leases of the dead worker were found, %d are left", f.lost, dead, len(f.runs))
		}
	})
}

// A server that is away for any time loses no worker that reports within a lease
// of its return, and finds within two sweeps more those that do not.
func TestTheServerIsAway(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lease := time.Duration(rapid.IntRange(6, 600).Draw(t, "lease")) * time.Second
		f := newFleet(rapid.IntRange(1, 20).Draw(t, "workers"), lease, func() time.Duration {
			return time.Duration(rapid.Int64Range(0, int64(lease/3)).Draw(t, "beat"))
		})
		n := len(f.runs)
		f.sweep(start)
		back := start.Add(time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "away")))
		comes := rapid.Bool().Draw(t, "they come back")
		patience := time.Duration(0)
		if back.Sub(start) > lease/3 {
			patience = lease - time.Second
		}
		for now := back; now.Before(back.Add(patience)); now = now.Add(time.Second) {
			f.sweep(now)
		}
		if f.lost != 0 {
			t.Fatalf("%d of %d were lost", f.lost, n)
		}
		now := back.Add(patience)
		if comes {
			f.beats(now)
		}
		for end := now.Add(lease + 2*time.Second); now.Before(end); now = now.Add(time.Second) {
			if comes {
				f.beats(now)
			}
			f.sweep(now)
		}
		if comes != (len(f.runs) == n) && (comes || n < job.MinBrake) {
			t.Fatalf("they come back: %t, and %d of %d are out", comes, len(f.runs), n)
		}
	})
}
