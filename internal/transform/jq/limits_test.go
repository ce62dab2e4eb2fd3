package jq

// Would catch: a program that runs without end or takes the machine's memory,
// and one that is stopped although it does neither.

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// runaways must each end with ErrLimit, quickly, and without much memory.
var runaways = []string{
	`range(1e12) | select(false)`,
	`[range(1e9)]`,
	`[range(1e9) | tostring]`,
	`"x" * 1e9`,
	`. as $s | "x" * ($s | length + 1e9)`,
	`1e9 * "x"`,
	`.a *= 1e9`,
	`[limit(1e9; repeat("x"))]`,
	`[limit(1e6; repeat("x" * 16000000))]`,
	`last(repeat(1))`,
	`until(false; . )`,
	`def f: f; f`,
	`def f: 1 + f; f`,
	`def f: [f]; f`,
	`reduce range(1e9) as $i ("x"; . + .)`,
	`reduce range(1e9) as $i ("x"; . += .)`,
	`reduce range(1e9) as $i ([1]; . + .)`,
	`reduce range(1e9) as $i ("x"; "\(.)\(.)")`,
	`reduce range(1e9) as $i ("x"; [., .] | add)`,
	`reduce range(1e9) as $i ("\""; tojson)`,
	`reduce range(1e9) as $i ("x"; @html "\(.)<\(.)")`,
	`reduce range(1e9) as $i (3; . * .)`,
	`[limit(100000; repeat(1))] | join("y" * 1000000)`,
	`"x" * 1000000 as $x | [limit(100000; repeat($x))] | add`,
	`reduce range(100) as $i (1; [., .])`,
	`reduce range(100) as $i (1; {a: ., b: .})`,
	`reduce range(100) as $i (1; [., .]) | tojson`,
	`reduce range(100) as $i (1; [., .]) | "\(.)"`,
	`reduce range(100) as $i (1; [., .]) | . == .`,
	`reduce range(100) as $i (1; [., .]) | . < [.]`,
	`reduce range(100) as $i (1; [., .]) | flatten`,
	`reduce range(100) as $i (1; [., .]) | @json`,
	`reduce range(100) as $i (1; [., .]) | sort`,
	`reduce range(100) as $i (1; [., .]) | [., .] | unique`,
	`reduce range(100) as $i (1; [., .]) | error`,
	`reduce range(100) as $i (1; [., .]) | error(.)`,
	`reduce range(100) as $i (1; [., .]) | contains([1])`,
	`reduce range(100000) as $i (1; [.])`,
	`.b[500000000 + 1] = 1`,
	`.b | setpath([500000000]; 1)`,
	`.b | getpath([500000000]) = 1`,
	`.b | .[(400000000, 1)] |= 1`,
	`[fromstream([[500000000], 1], [[500000000]])]`,
	`[range(30000)] as $a | $a - $a`,
	`[range(30000)] as $a | [range(30000)] - $a`,
	`[range(30000)] as $a | $a | indices($a[1:15000])`,
	`[range(30000)] as $a | $a | contains($a)`,
	`[range(100000) | []] + [[range(20000)]] | transpose`,
	`"x" * 10000000 | explode`,
	`"x" * 10000000 | split("")`,
	`"1" * 10000000 | tonumber`,
	`[.[]?, range(1e9)] | combinations`,
	`[limit(20; repeat([range(20)]))] | [combinations]`,
	`[recurse(.; true)]`,
	`"x" * 10000000 | [., ., .] | tojson`,
	`("a" * 3000) as $r | [range(1e9) | . as $i | "aaaa" | test("\($i)" + $r)]`,
	`.a | [splits("a"; null), range(1e12)]`,
}

func TestRunaways(t *testing.T) {
	m := body(`{"a":"x","b":[1]}`)
	for _, src := range runaways {
		p := compile(t, src)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		start := time.Now()
		got, err := p.Apply(t.Context(), m)
		took := time.Since(start)
		runtime.ReadMemStats(&after)
		if err == nil {
			t.Errorf("%s gives a body of %d bytes", src, len(got.Body))
			continue
		}
		if !errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", src, err)
		}
		// Wide of every bound: only an evaluation that is not cut at all takes
		// seconds or gigabytes.
		if mb := (after.TotalAlloc - before.TotalAlloc) >> 20; mb > 1500 || took > 20*time.Second {
			t.Errorf("%s took %v and %d MiB", src, took, mb)
		}
		t.Logf("%8v %5d MiB  %s", took.Round(time.Millisecond), (after.TotalAlloc-before.TotalAlloc)>>20, src)
	}
}

func TestCancelDuringEval(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWatch(ctx)
	cancel()
	for range 2 * checkEvery {
		w.Done()
	}
	if !errors.Is(w.Err(), context.Canceled) {
		t.Errorf("the watch says %v", w.Err())
	}
}

// Steps are bounded where the clock stands still, as in a test of virtual time.
func TestStepsAreBounded(t *testing.T) {
	w := newWatch(t.Context())
	w.start = time.Now().Add(time.Hour)
	for range MaxSteps + checkEvery {
		w.Done()
	}
	if !errors.Is(w.Err(), ErrLimit) || !strings.Contains(w.Err().Error(), "steps") {
		t.Errorf("the watch says %v", w.Err())
	}
}

// A program that had no time to run is not one that runs away.
func TestBusyMachine(t *testing.T) {
	for _, tt := range []struct {
		took  time.Duration
		steps int
		cut   bool
	}{
		{2 * MaxTime, fewSteps / 2, false},
		{2 * MaxTime, fewSteps + 2*checkEvery, true},
		{MaxTime / 2, fewSteps + 2*checkEvery, false},
		{2 * MaxStall, checkEvery, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := newWatch(t.Context())
			time.Sleep(tt.took) // virtual time
			for range tt.steps {
				w.Done()
			}
			if cut := errors.Is(w.Err(), ErrLimit); cut != tt.cut {
				t.Errorf("after %v and %d steps: cut is %v", tt.took, tt.steps, cut)
			}
		})
	}
}
