package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/bench/harness"
)

// part is one thing of which a piece hangs.
type part struct {
	name, about string
	// hang is the path at the second sink that hangs.
	hang       string
	contenders func(bin, first, second string) []harness.Contender
	measure    func(o options) harness.Isolation
}

const (
	lanes = 10
	sick  = "/9"
)

var parts = []part{
	{
		name:  "lanes",
		about: "Ten destinations behind one input, of which the tenth hangs. Shown are the nine that are well.",
		hang:  sick,
		contenders: func(bin, _, sink string) []harness.Contender {
			return harness.LaneContenders(bin, sink, lanes)
		},
		measure: func(o options) harness.Isolation {
			paths := make([]string, 0, lanes)
			for i := range lanes {
				if path := fmt.Sprintf("/%d", i); path != sick {
					paths = append(paths, path)
				}
			}
			m := o.isolation(paths)
			m.Flood = harness.Open{Paths: []string{sick}, PerSecond: o.load, Callers: fdCallers, Body: body, Timeout: patience}
			return m
		},
	},
	{
		name:       "members",
		about:      "One destination of two members, of which the second hangs from the start, without a check of health.",
		hang:       "/",
		contenders: harness.GroupContenders,
		measure:    func(o options) harness.Isolation { return o.isolation([]string{"/0"}) },
	},
}

// body is the size of a message in bytes.
const body = 1024

func (o options) isolation(paths []string) harness.Isolation {
	return harness.Isolation{
		Closed: harness.Load{Paths: paths, Callers: o.callers, Body: body, Timeout: patience},
		Open:   harness.Open{Paths: paths, PerSecond: o.rate, Callers: fdCallers, Body: body, Timeout: patience},
		Warm:   o.warm, Length: *o.length,
	}
}

func (o options) measures(p part) bool {
	return slices.Contains(strings.Split(o.parts, ","), p.name)
}

func (o options) report(rows []harness.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "What hangs beside what is well: 1 KiB, answered after delivery; throughput from %d callers that wait for their answers, latencies at %d messages a second from when each was due, "+
		"%d messages a second to the destination that hangs, which do not wait; medians, interleaved rounds.\n", o.callers, o.rate, o.load)
	for _, p := range parts {
		if !o.measures(p) {
			continue
		}
		fmt.Fprintf(&b, "\n%s\n\n", p.about)
		b.WriteString("| contender | msg/s all well | msg/s one hangs | kept | p50 all well | p50 one hangs | p99 all well | p99 one hangs | × | errors to callers | sends to the sick | CPU µs/msg one hangs | RSS MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
		for _, c := range p.contenders(o.Bin, "", "") {
			if !o.Wants(c.Name) {
				continue
			}
			med := func(s state, of func(harness.Row) float64) float64 {
				return harness.Median(rows, p.name+" "+name(c, s), of)
			}
			rate := func(r harness.Row) float64 { return r.Rate }
			p50 := func(r harness.Row) float64 { return r.P50.Seconds() * 1e3 }
			p99 := func(r harness.Row) float64 { return r.P99.Seconds() * 1e3 }
			fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f %% | %.2f ms | %.2f ms | %.2f ms | %.2f ms | %.2f | %.0f | %.0f | %.1f | %.0f |\n", strings.TrimSpace(c.Name+" "+c.Version),
				med(well, rate), med(hangs, rate), 100*med(hangs, rate)/max(med(well, rate), 1),
				med(well, p50), med(hangs, p50), med(well, p99), med(hangs, p99), med(hangs, p99)/max(med(well, p99), 1e-3),
				med(hangs, func(r harness.Row) float64 { return float64(r.Failed) + r.Figure("open_failed") }),
				med(hangs, func(r harness.Row) float64 { return r.Figure("sick_sends") }),
				med(hangs, func(r harness.Row) float64 { return r.CPU }), med(hangs, func(r harness.Row) float64 { return float64(r.RSS) / (1 << 20) }))
		}
	}
	return b.String()
}
