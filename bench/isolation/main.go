// Command isolation measures what one destination that hangs does to nine that
// are well: throughput and latency of the nine, with and without the tenth.
// Run it by make isolation.
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

const (
	lanes   = 10
	callers = 64 // spread evenly over the lanes
	sick    = "/9"
)

func main() {
	bin := flag.String("bin", ".cache", "folder with the contenders' binaries")
	rounds := flag.Int("rounds", 5, "rounds of each contender, interleaved")
	length := flag.Duration("length", 10*time.Second, "length of a round")
	flag.Parse()
	if err := run(*bin, *rounds, *length); err != nil {
		fmt.Fprintln(os.Stderr, "bench/isolation:", err)
		os.Exit(1)
	}
}

func run(bin string, rounds int, length time.Duration) error {
	ctx := context.Background()
	var rows []harness.Row
	var contenders []harness.Contender
	for _, c := range harness.Contenders(bin, lanes) {
		if c.Name == "pawl" || c.Name == "benthos" {
			contenders = append(contenders, c)
		}
	}
	paths := make([]string, lanes)
	for i := range paths {
		paths[i] = fmt.Sprintf("/%d", i)
	}
	m := harness.Measure{
		Load: harness.Load{Paths: paths, Callers: callers, Body: 1024, Timeout: 30 * time.Second},
		Warm: 3 * time.Second, Length: length,
		Paths: func(path string) bool { return path != sick },
	}
	for round := 1; round <= rounds; round++ {
		for _, c := range contenders {
			for _, hang := range []string{"", sick} {
				row, err := m.Of(ctx, c, name(c.Name, hang), round, hang)
				if err != nil {
					return err
				}
				rows = append(rows, row)
				fmt.Printf("%d %-22s %8.0f/s of the nine  p50 %-8s p99 %-8s failed %d  others %.2f\n", round, row.Contender,
					row.Rate, row.P50.Round(time.Microsecond), row.P99.Round(time.Microsecond), row.Failed, row.Others)
			}
		}
	}
	return harness.Write("isolation", report(rows, contenders), rows)
}

// name is a contender's name with the state of the tenth destination.
func name(contender, hang string) string {
	if hang == "" {
		return contender + ", all well"
	}
	return contender + ", one hangs"
}

func report(rows []harness.Row, contenders []harness.Contender) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Ten destinations, %d callers spread over them, 1 KiB, answered after delivery. Shown are the nine that are well: without and with the tenth hanging.\n\n", callers)
	b.WriteString("| contender | msg/s all well | msg/s one hangs | kept | p99 all well | p99 one hangs | errors |\n|---|---|---|---|---|---|---|\n")
	for _, c := range contenders {
		well, hangs := name(c.Name, ""), name(c.Name, sick)
		rate := func(n string) float64 { return harness.Median(rows, n, func(r harness.Row) float64 { return r.Rate }) }
		p99 := func(n string) float64 {
			return harness.Median(rows, n, func(r harness.Row) float64 { return r.P99.Seconds() * 1e3 })
		}
		failed := harness.Median(rows, hangs, func(r harness.Row) float64 { return float64(r.Failed) })
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f %% | %.2f ms | %.2f ms | %.0f |\n", strings.TrimSpace(c.Name+" "+c.Version),
			rate(well), rate(hangs), 100*rate(hangs)/max(rate(well), 1), p99(well), p99(hangs), failed)
	}
	return b.String()
}
