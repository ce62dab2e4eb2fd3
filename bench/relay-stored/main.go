// Command relay-stored measures an intake that answers once the message is
// stored: pawl with ack: stored, durably, beside Benthos without durability,
// which answers after delivery, or at once with its memory buffer. Run it by make
// relay-stored.
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
	length := flag.Duration("length", 10*time.Second, "length of a round")
	callers := flag.Int("callers", 64, "callers at once")
	flag.Parse()
	if err := run(context.Background(), *bin, *rounds, *callers, *length); err != nil {
		fmt.Fprintln(os.Stderr, "bench/relay-stored:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin string, rounds, callers int, length time.Duration) error {
	contenders := harness.StoredContenders(bin)
	m := harness.Measure{
		Load: harness.Load{Paths: []string{"/0"}, Callers: callers, Body: 1024, Timeout: 10 * time.Second},
		Warm: 2 * time.Second, Length: length,
	}
	var rows []harness.Row
	for round := 1; round <= rounds; round++ {
		for _, c := range contenders {
			row, err := m.Of(ctx, c, c.Name, round, "")
			if err != nil {
				return err
			}
			rows = append(rows, row)
			fmt.Printf("%d %-14s %8.0f/s answered %8.0f/s delivered  p50 %-8s p99 %-8s %6.1f µs CPU  %5.1f MiB  failed %d  others %.2f\n", round, c.Name,
				row.Rate, row.Delivered, row.P50.Round(time.Microsecond), row.P99.Round(time.Microsecond), row.CPU, float64(row.RSS)/(1<<20), row.Failed, row.Others)
		}
	}
	return harness.Write("relay-stored", report(rows, contenders, callers), rows)
}

func report(rows []harness.Row, contenders []harness.Contender, callers int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP in, 1 KiB, %d callers, answered by pawl once it is on disk and synchronised, by Benthos after delivery or once it is in memory; delivered by HTTP meanwhile; medians, interleaved rounds.\n\n", callers)
	b.WriteString("| contender | answered/s | × Benthos | delivered/s | × Benthos | p50 | p99 | CPU µs/msg | RSS MiB |\n|---|---|---|---|---|---|---|---|---|\n")
	answered := func(r harness.Row) float64 { return r.Rate }
	delivered := func(r harness.Row) float64 { return r.Delivered }
	for _, c := range contenders {
		med := func(of func(harness.Row) float64) float64 { return harness.Median(rows, c.Name, of) }
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.0f | %.2f | %.2f ms | %.2f ms | %.1f | %.0f |\n", strings.TrimSpace(c.Name+" "+c.Version),
			med(answered), med(answered)/max(harness.Median(rows, "benthos", answered), 1),
			med(delivered), med(delivered)/max(harness.Median(rows, "benthos", delivered), 1),
			med(func(r harness.Row) float64 { return r.P50.Seconds() * 1e3 }), med(func(r harness.Row) float64 { return r.P99.Seconds() * 1e3 }),
			med(func(r harness.Row) float64 { return r.CPU }), med(func(r harness.Row) float64 { return float64(r.RSS) / (1 << 20) }))
	}
	return b.String()
}
