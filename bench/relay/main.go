// Command relay measures pawl as an HTTP relay against its peers: HTTP in,
// HTTP out, 1 KiB, 64 callers, answered after delivery. Run it by make relay.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/pawlhq/pawl/bench/harness"
)

func main() {
	bin := flag.String("bin", ".cache", "folder with the contenders' binaries")
	rounds := flag.Int("rounds", 5, "rounds of each contender, interleaved")
	length := flag.Duration("length", 5*time.Second, "length of a round")
	callers := flag.Int("callers", 64, "callers at once")
	only := flag.String("only", "", "only these contenders, commas between")
	flag.Parse()
	if err := run(*bin, *rounds, *callers, *length, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench/relay:", err)
		os.Exit(1)
	}
}

func run(bin string, rounds, callers int, length time.Duration, only string) error {
	ctx := context.Background()
	var rows []harness.Row
	contenders := harness.Contenders(bin, 1)
	m := harness.Measure{
		Load: harness.Load{Paths: []string{"/0"}, Callers: callers, Body: 1024, Timeout: 10 * time.Second},
		Warm: 2 * time.Second, Length: length,
	}
	for round := 1; round <= rounds; round++ {
		for _, c := range contenders {
			if only != "" && !strings.Contains(","+only+",", ","+c.Name+",") {
				continue
			}
			row, err := m.Of(ctx, c, c.Name, round, "")
			if err != nil {
				return err
			}
			rows = append(rows, row)
			fmt.Printf("%d %-13s %8.0f/s  p50 %-8s p99 %-8s %6.1f µs CPU  %5.1f MiB  reuse %.4f  failed %d  others %.2f\n", round, c.Name,
				row.Rate, row.P50.Round(time.Microsecond), row.P99.Round(time.Microsecond), row.CPU, float64(row.RSS)/(1<<20), row.Reuse, row.Failed, row.Others)
		}
	}
	return harness.Write("relay", report(rows, contenders, callers), rows)
}

func report(rows []harness.Row, contenders []harness.Contender, callers int) string {
	var b strings.Builder
	rate := func(name string) float64 {
		return harness.Median(rows, name, func(r harness.Row) float64 { return r.Rate })
	}
	fmt.Fprintf(&b, "HTTP in, HTTP out, 1 KiB, %d callers, answered after delivery; medians, interleaved rounds.\n\n", callers)
	b.WriteString("| contender | msg/s | × nginx | × Benthos | p50 | p99 | CPU µs/msg | RSS MiB | reuse |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, c := range contenders {
		med := func(of func(harness.Row) float64) float64 { return harness.Median(rows, c.Name, of) }
		if rate(c.Name) == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.2f | %.2f ms | %.2f ms | %.1f | %.0f | %.4f |\n", strings.TrimSpace(c.Name+" "+c.Version), rate(c.Name),
			rate(c.Name)/rate("nginx"), rate(c.Name)/rate("benthos"),
			med(func(r harness.Row) float64 { return r.P50.Seconds() * 1e3 }), med(func(r harness.Row) float64 { return r.P99.Seconds() * 1e3 }),
			med(func(r harness.Row) float64 { return r.CPU }), med(func(r harness.Row) float64 { return float64(r.RSS) / (1 << 20) }),
			med(func(r harness.Row) float64 { return r.Reuse }))
	}
	return b.String()
}
