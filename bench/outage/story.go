package main

import (
	"time"

	"github.com/pawlhq/pawl/bench/harness"
)

// story is all that is known of a run once it is over.
type story struct {
	before, outage, after time.Duration
	began                 time.Time
	sent                  []harness.Sent
	primary, second       []harness.Arrival
	letters               map[string]struct{} // nil where none are kept
}

// silence is what lies between two rounds of sends to an endpoint that is away.
// Checks of health come once a second, so that one that was refused, and is not
// known as such, is a round of its own.
const silence = 500 * time.Millisecond

// healthyFor is the window in which all must be well, and atLeast the lowest
// limit for its 99th percentile: what a busy machine does by itself.
const (
	healthyFor = time.Second
	atLeast    = 5 * time.Millisecond
)

// figures judges the run.
func (s story) figures() []harness.Figure {
	var all []harness.Figure
	add := func(name string, value float64) { all = append(all, harness.Figure{Name: name, Value: value}) }
	arrived := s.arrived()
	from := time.Duration(0)
	var p99 time.Duration // before
	for _, phase := range []struct {
		name   string
		length time.Duration
	}{{"before", s.before}, {"during", s.outage}, {"after", s.after}} {
		to := from + phase.length
		n := 0
		for _, a := range arrived {
			if a.first >= from && a.first < to {
				n++
			}
		}
		r := harness.Summary(harness.Between(s.sent, from, to), phase.length)
		add(phase.name+"_rate", float64(n)/phase.length.Seconds())
		add(phase.name+"_p50_us", float64(r.Quantile(0.5).Microseconds()))
		add(phase.name+"_p99_us", float64(r.Quantile(0.99).Microseconds()))
		if phase.name == "before" {
			p99 = r.Quantile(0.99)
		}
		from = to
	}
	again := -1.0 // never
	if after, ok := harness.HealthyAgain(s.sent, s.before+s.outage, healthyFor, max(2*p99, atLeast)); ok {
		again = float64(after.Milliseconds())
	}
	add("again_ms", again)
	dead := s.deadSends()
	rounds := roundsOf(dead)
	add("dead_sends", float64(len(dead)))
	add("rounds", float64(len(rounds)))
	add("round_max", float64(largest(rounds)))
	unsent := harness.Count(s.sent, harness.Unsent)
	add("multiplication", float64(s.attempts())/max(float64(len(s.sent)-unsent), 1))
	lost, unheard := s.missing(arrived)
	add("lost", float64(lost))
	add("unheard", float64(unheard))
	twice := 0
	for _, a := range arrived {
		twice += a.times - 1
	}
	add("duplicates", float64(twice))
	add("dead_letters", float64(len(s.letters)))
	add("refused", float64(harness.Count(s.sent, harness.Refused)))
	add("timed_out", float64(harness.Count(s.sent, harness.TimedOut)))
	add("failed", float64(harness.Count(s.sent, harness.Failed)+harness.Count(s.sent, harness.NoAnswer)))
	add("unsent", float64(unsent))
	return all
}

// arrival is when a message was first taken by an endpoint, since the load began,
// and how often it was.
type arrival struct {
	first time.Duration
	times int
}

// arrived returns the messages of the load that an endpoint answered with 200.
func (s story) arrived() map[string]arrival {
	ours := make(map[string]struct{}, len(s.sent))
	for _, m := range s.sent {
		ours[m.ID] = struct{}{}
	}
	all := make(map[string]arrival, len(s.sent))
	for _, log := range [][]harness.Arrival{s.primary, s.second} {
		for _, a := range log {
			if _, ok := ours[a.ID]; !ok || a.State != harness.Well || a.Check {
				continue
			}
			seen, at := all[a.ID], a.At.Sub(s.began)
			if seen.times == 0 || at < seen.first {
				seen.first = at
			}
			seen.times++
			all[a.ID] = seen
		}
	}
	return all
}

// attempts counts what was sent to either endpoint since the load began.
func (s story) attempts() (n int) {
	for _, log := range [][]harness.Arrival{s.primary, s.second} {
		for _, a := range log {
			if !a.Check && !a.At.Before(s.began) {
				n++
			}
		}
	}
	return n
}

// deadSends returns when something was sent to the primary while it was away.
func (s story) deadSends() (at []time.Duration) {
	for _, a := range s.primary {
		if t := a.At.Sub(s.began); a.State != harness.Well && !a.Check && t < s.before+s.outage+time.Second {
			at = append(at, t)
		}
	}
	return at
}

// roundsOf returns how many sends each round has, without the first: that one
// ends when the endpoint was found to be away.
func roundsOf(at []time.Duration) (rounds []int) {
	for i, t := range at {
		switch {
		case i == 0:
		case t-at[i-1] >= silence:
			rounds = append(rounds, 1)
		case len(rounds) > 0:
			rounds[len(rounds)-1]++
		}
	}
	return rounds
}

func largest(rounds []int) (most int) {
	for _, n := range rounds {
		most = max(most, n)
	}
	return most
}

// missing counts the messages that are nowhere: lost are those that the relay
// had taken on itself, unheard those whose callers did not hear in time. Who was
// told that it failed knows.
func (s story) missing(arrived map[string]arrival) (lost, unheard int) {
	for _, m := range s.sent {
		_, there := arrived[m.ID]
		_, kept := s.letters[m.ID]
		switch {
		case there || kept:
		case m.Fate.Acked():
			lost++
		case m.Fate == harness.TimedOut || m.Fate == harness.NoAnswer:
			unheard++
		}
	}
	return lost, unheard
}
