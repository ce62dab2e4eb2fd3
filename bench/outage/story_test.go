// What these tests would catch: a round of sends that is counted wrong, a lost
// message that is not seen as one, or one that is safe seen as lost.
package main

import (
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/bench/harness"
)

func TestRounds(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		at   []time.Duration
		want []int
	}{
		{nil, nil},
		{[]time.Duration{0, s / 10, s / 5}, nil}, // nobody left it alone
		{[]time.Duration{0, s / 10, 5 * s, 5*s + s/10, 10 * s}, []int{2, 1}},
		{[]time.Duration{0, silence, 2*silence - 1}, []int{2}},
	} {
		if got := roundsOf(c.at); !slices.Equal(got, c.want) {
			t.Errorf("roundsOf(%v) = %v, want %v", c.at, got, c.want)
		}
	}
}

func TestMissing(t *testing.T) {
	began := time.Unix(1000, 0)
	at := func(id string, state harness.State) harness.Arrival {
		return harness.Arrival{At: began.Add(time.Second), State: state, ID: id}
	}
	s := story{
		began: began,
		sent: []harness.Sent{
			{ID: "there", Fate: harness.Delivered}, {ID: "twice", Fate: harness.Delivered},
			{ID: "kept", Fate: harness.DeadLettered}, {ID: "late", Fate: harness.TimedOut},
			{ID: "lost", Fate: harness.Delivered}, {ID: "unkept", Fate: harness.DeadLettered},
			{ID: "unheard", Fate: harness.TimedOut}, {ID: "refused", Fate: harness.Refused},
		},
		primary: []harness.Arrival{at("there", harness.Well), at("twice", harness.Well), at("lost", harness.Hanging), at("unkept", harness.Unavailable), at("warm", harness.Well)},
		second:  []harness.Arrival{at("twice", harness.Well), at("late", harness.Well)},
		letters: map[string]struct{}{"kept": {}},
	}
	arrived := s.arrived()
	if len(arrived) != 3 || arrived["twice"].times != 2 || arrived["there"].times != 1 {
		t.Errorf("arrived: %v", arrived)
	}
	if lost, unheard := s.missing(arrived); lost != 2 || unheard != 1 {
		t.Errorf("lost %d, unheard %d, want 2 and 1", lost, unheard)
	}
	if n := s.attempts(); n != 7 {
		t.Errorf("attempts: %d, want 7", n)
	}
}

func TestHealthyAgain(t *testing.T) {
	var sent []harness.Sent
	for due := time.Duration(0); due <= 10*time.Second; due += 10 * time.Millisecond {
		m := harness.Sent{Due: due, Took: time.Millisecond}
		switch {
		case due < 2*time.Second:
			m.Fate = harness.Refused
		case due < 3*time.Second:
			m.Took = time.Second
		}
		sent = append(sent, m)
	}
	after, ok := harness.HealthyAgain(sent, time.Second, time.Second, 10*time.Millisecond)
	if !ok || after != 2*time.Second {
		t.Errorf("healthy again after %v (%v), want 2s", after, ok)
	}
	if after, ok := harness.HealthyAgain(sent, time.Second, time.Second, 0); ok {
		t.Errorf("healthy again after %v, though nothing is that fast", after)
	}
}
