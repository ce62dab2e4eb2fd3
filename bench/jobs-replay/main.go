// Command jobs-replay measures what it takes to bring dead letters back: ten
// thousand, a hundred thousand and a million of them, each in a store of its own.
// The time for each letter and the memory must not grow with their number. Run it
// by make jobs-replay.
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
	most := flag.Int("letters", 1_000_000, "dead letters of the last store; the ones before have a tenth and a hundredth")
	flag.Parse()
	if err := run(context.Background(), *bin, *most); err != nil {
		fmt.Fprintln(os.Stderr, "bench/jobs-replay:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin string, most int) error {
	var rows []harness.Row
	for i, letters := range []int{most / 100, most / 10, most} {
		row, err := measure(ctx, bin, letters, i+1)
		if err != nil {
			return err
		}
		rows = append(rows, row)
		fmt.Printf("%9d letters %8.0f/s %6.1f µs CPU  %6.1f MiB before, %6.1f after  others %.2f\n",
			letters, row.Rate, row.CPU, row.More[0].Value, float64(row.RSS)/(1<<20), row.Others)
	}
	return harness.Write("jobs-replay", report(rows), rows)
}

func measure(ctx context.Context, bin string, letters, round int) (row harness.Row, err error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return row, err
	}
	p, err := harness.PawlJobs(bin, harness.Plain).Start(ctx, address, "")
	if err != nil {
		return row, err
	}
	defer p.Stop()
	j := harness.Jobs{Address: address, Callers: 8, Batch: 64, Payload: 256}
	began := time.Now()
	if err := j.Die(ctx, letters); err != nil {
		return row, err
	}
	fmt.Printf("  %d dead letters made in %s\n", letters, time.Since(began).Round(time.Second))
	before := float64(p.Usage().RSS) / (1 << 20)
	row = p.Measure(fmt.Sprintf("%d letters", letters), round, func() (r harness.Result) { r, err = j.Replay(ctx); return r })
	row.More = []harness.Figure{{Name: "rss_before_mib", Value: before}}
	if err == nil && row.Rate == 0 {
		err = fmt.Errorf("nothing of %d letters came back", letters)
	}
	return row, err
}

func report(rows []harness.Row) string {
	var b strings.Builder
	b.WriteString("A replay brings every dead letter of a store back, payloads of 256 bytes, SQLite, with nobody at work beside it; what it leaves to others is in its pace: four fifths of the time.\n\n")
	b.WriteString("| store | letters/s | CPU µs/letter | RSS before, MiB | after |\n|---|---|---|---|---|\n")
	for _, r := range rows {
		fmt.Fprintf(&b, "| %s | %.0f | %.0f | %.0f | %.0f |\n", r.Contender, r.Rate, r.CPU, r.More[0].Value, float64(r.RSS)/(1<<20))
	}
	return b.String()
}
