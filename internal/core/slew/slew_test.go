// These tests catch a store's clock that goes back, that jumps with the wall
// clock, that runs too fast or too slow to trust a lease to, or that never gets
// to the wall clock.
package slew_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/slew"
)

var start = time.Date(2026, 12, 1, 3, 0, 0, 0, time.UTC)

func TestStartsAtTheLater(t *testing.T) {
	for _, c := range []struct {
		name string
		last time.Time
		want time.Time
	}{
		{"nothing kept", time.Time{}, start},
		{"kept before", start.Add(-time.Hour), start},
		{"kept ahead", start.Add(time.Hour), start.Add(time.Hour)},
	} {
		if got := slew.New(start, c.last).Now(start, 0); !got.Equal(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A second off is made good in ten, in either direction, and then it is the wall
// clock to the nanosecond.
func TestASecondTakesTen(t *testing.T) {
	for _, off := range []time.Duration{time.Second, -time.Second} {
		c := slew.New(start, time.Time{})
		for s := range 20 {
			mono := time.Duration(s) * time.Second
			wall := start.Add(mono + off)
			left := off - off*time.Duration(min(s, 10))/10
			if got := wall.Sub(c.Now(wall, mono)); got != left {
				t.Errorf("%v off, after %v: %v left, want %v", off, mono, got, left)
			}
		}
	}
}

// Whatever the wall clock does, the time goes on with the monotonic clock, a
// tenth faster or slower at most, and never back.
func TestNeverBackNeverFar(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wall, mono := start, time.Duration(0)
		last := start.Add(time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "last")))
		c := slew.New(wall, last)
		was := c.Now(wall, 0)
		if was.Before(last) || was.Before(wall) {
			t.Fatalf("starts at %v", was)
		}
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			passed := time.Duration(rapid.Int64Range(0, 1e11).Draw(t, "passed"))
			mono += passed
			wall = wall.Add(passed)
			if rapid.IntRange(0, 3).Draw(t, "set") == 0 {
				wall = wall.Add(time.Duration(rapid.Int64().Draw(t, "by")))
			}
			now := c.Now(wall, mono)
			gone := now.Sub(was)
			if gone < passed-passed/10 || gone > passed+passed/10 {
				t.Fatalf("%v passed and the clock went on by %v", passed, gone)
			}
			off := wall.Sub(was.Add(passed))
			if left := wall.Sub(now); off >= 0 && (left < 0 || left > off) || off <= 0 && (left > 0 || left < off) {
				t.Fatalf("%v off became %v", off, left)
			}
			was = now
		}
	})
}

// It gets to the wall clock in ten times as long as it was off.
func TestConverges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		off := time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "off"))
		c := slew.New(start, start.Add(off)) // a later last is one way to be off
		mono, jump := time.Duration(0), time.Duration(0)
		if off < 0 { // a wall clock that jumps ahead is the other
			jump = -off
		}
		var wall, now time.Time
		for mono < 10*off.Abs() || mono == 0 {
			// Whole tens: a nanosecond has no tenth.
			mono += 10 * time.Duration(rapid.Int64Range(1e6, 1e12).Draw(t, "step"))
			wall = start.Add(jump + mono)
			now = c.Now(wall, mono)
		}
		if !now.Equal(wall) {
			t.Fatalf("%v off at first, still %v after %v", off, wall.Sub(now), mono)
		}
	})
}

// Over a restart, whatever was told before is not told again as earlier.
func TestNeverBackOverARestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := slew.New(start, time.Time{})
		told := c.Now(start.Add(time.Hour), time.Minute)
		wall := start.Add(time.Duration(rapid.Int64Range(-1e15, 1e15).Draw(t, "wall clock")))
		if got := slew.New(wall, told).Now(wall, 0); got.Before(told) {
			t.Fatalf("told %v, and after the restart %v", told, got)
		}
	})
}

func TestStrangeClocks(t *testing.T) {
	c := slew.New(start, time.Time{})
	at := c.Now(start.Add(time.Minute), time.Minute)
	if got := c.Now(start.Add(time.Minute), time.Second); !got.Equal(at) {
		t.Errorf("a monotonic clock that went back moved the time to %v", got)
	}
	if got := c.Now(start.Add(time.Minute+time.Second), time.Minute+time.Second); got.Sub(at) != time.Second {
		t.Errorf("and then a second was %v", got.Sub(at))
	}
	if got := c.Now(start.Add(time.Hour), time.Minute+time.Second); got.Sub(at) != time.Second {
		t.Errorf("the time moved to %v while the monotonic clock stood", got)
	}
}

// A wall clock that still has its monotonic part would be compared by that.
func TestMonotonicPartIsLeftOut(t *testing.T) {
	wall := time.Now()
	if got := slew.New(wall, time.Time{}).Now(wall, 0); got != wall.Round(0) {
		t.Errorf("%#v is told of %#v", got, wall)
	}
}
