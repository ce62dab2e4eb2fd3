package main

import (
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/bench/harness"
)

func (o options) report(rows []harness.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "A primary that is away for %s of %s: %d messages a second of 1 KiB that do not wait for answers, latencies from when each was due, those of messages that were delivered; medians, interleaved rounds.\n\n", o.outage, o.before+o.outage+o.after, o.rate)
	fmt.Fprintf(&b, "Healthy again: how long after the recovery the first second begins in which every message is delivered and the p99 is at most twice that before, or %s. "+
		"In a round: the most sends to the dead endpoint without %s of silence between, after the first such round, by whose end it was found to be away. "+
		"Refused connections are counted by the kernel, checks of health among them. × is sends for each message. "+
		"Lost: acknowledged, and neither arrived nor kept as a dead letter. Unheard: the caller gave up or got 504, and neither. A 503 asks for %s.\n", atLeast, silence, o.retryAfter)
	for _, way := range ways {
		for _, f := range fallbacks {
			fmt.Fprintf(&b, "\n%s, %s:\n\n", way, f)
			b.WriteString("| contender | delivered/s before, during, after | p50 ms | p99 ms | healthy again | sends to the dead | rounds | in a round | × | lost | unheard | twice | dead letters | 503 | 504 | other errors | CPU µs/msg | RSS MiB |\n|" + strings.Repeat("---|", 18) + "\n")
			for _, c := range harness.OutageContenders(o.Bin, "", "", f, o.deadline) {
				if !o.Wants(c.Name) {
					continue
				}
				med := func(of func(harness.Row) float64) float64 { return harness.Median(rows, name(c.Name, way, f), of) }
				figure := func(figure string) float64 {
					return med(func(r harness.Row) float64 { return r.Figure(figure) })
				}
				again := "never"
				if ms := figure("again_ms"); ms >= 0 {
					again = fmt.Sprintf("%.1f s", ms/1e3)
				}
				fmt.Fprintf(&b, "| %s | %.0f, %.0f, %.0f | %.1f, %.1f, %.1f | %.1f, %.1f, %.1f | %s |", strings.TrimSpace(c.Name+" "+c.Version),
					figure("before_rate"), figure("during_rate"), figure("after_rate"),
					figure("before_p50_us")/1e3, figure("during_p50_us")/1e3, figure("after_p50_us")/1e3,
					figure("before_p99_us")/1e3, figure("during_p99_us")/1e3, figure("after_p99_us")/1e3, again)
				fmt.Fprintf(&b, " %.0f | %.0f | %.0f | %.2f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |\n",
					figure("dead_sends"), figure("rounds"), figure("round_max"), figure("multiplication"), figure("lost"), figure("unheard"), figure("duplicates"),
					figure("dead_letters"), figure("refused"), figure("timed_out"), figure("failed")+figure("unsent"),
					med(func(r harness.Row) float64 { return r.CPU }), med(func(r harness.Row) float64 { return float64(r.RSS) / (1 << 20) }))
			}
		}
	}
	return b.String()
}
