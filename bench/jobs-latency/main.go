// Command jobs-latency measures how long a job takes from its creation until a
// worker has it, at rates that do not wait for answers: pawl on SQLite through
// HTTP, and River on SQLite in process with its defaults. Run it by make
// jobs-latency.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/pawlhq/pawl/bench/harness"
)

// rates are jobs a second. River does not get to the second: one insert at a
// time takes it longer than that.
var rates = []struct {
	perSecond int
	river     bool
}{{300, true}, {2000, false}}

func main() {
	bin := flag.String("bin", ".cache", "folder with the contenders' binaries")
	rounds := flag.Int("rounds", 5, "rounds of each contender, interleaved")
	workers := flag.Int("workers", 16, "workers that wait for jobs")
	warm := flag.Duration("warm", 2*time.Second, "time before what is measured")
	length := flag.Duration("length", 10*time.Second, "length of a round")
	flag.Parse()
	if err := run(context.Background(), *bin, *rounds, *workers, *warm, *length); err != nil {
		fmt.Fprintln(os.Stderr, "bench/jobs-latency:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin string, rounds, workers int, warm, length time.Duration) error {
	var rows []harness.Row
	for round := 1; round <= rounds; round++ {
		for _, rate := range rates {
			measures := []func() (harness.Row, error){func() (harness.Row, error) {
				return pawl(ctx, bin, round, rate.perSecond, workers, warm, length)
			}}
			if rate.river {
				measures = append(measures, func() (harness.Row, error) {
					return harness.SelfRun(ctx, name("river", rate.perSecond), round, func(dir string) *exec.Cmd {
						return exec.Command(filepath.Join(bin, "river"), "-dir", dir, "-mode", "latency", "-rate", fmt.Sprint(rate.perSecond),
							"-warm", warm.String(), "-length", length.String())
					})
				})
			}
			for _, measure := range measures {
				row, err := harness.Undisturbed(measure)
				if err != nil {
					return err
				}
				rows = append(rows, row)
				fmt.Printf("%d %-12s %6.0f/s  p50 %-8s p99 %-8s  %6.1f µs CPU  failed %d  others %.2f\n", round, row.Contender, row.Rate,
					row.P50.Round(time.Microsecond), row.P99.Round(time.Microsecond), row.CPU, row.Failed, row.Others)
			}
		}
	}
	return harness.Write("jobs-latency", report(rows, workers), rows)
}

func name(contender string, perSecond int) string {
	return fmt.Sprintf("%s %d/s", contender, perSecond)
}

// pawl measures a server of its own. The stretch whose CPU counts has the warm
// part in it, which counts for no latency.
func pawl(ctx context.Context, bin string, round, perSecond, workers int, warm, length time.Duration) (harness.Row, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return harness.Row{}, err
	}
	p, err := harness.PawlJobs(bin, harness.Plain).Start(ctx, address, "")
	if err != nil {
		return harness.Row{}, err
	}
	defer p.Stop()
	j := harness.Jobs{Address: address, Callers: workers}
	return p.Measure(name("pawl", perSecond), round, func() harness.Result { return j.Latency(ctx, perSecond, warm, length) }), nil
}

func report(rows []harness.Row, workers int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "From the moment at which a job was due to be created until a worker has it, SQLite, every commit synchronised: pawl through HTTP with %d workers that wait, River %s in process with its defaults; medians, interleaved rounds.\n\n", workers, harness.RiverVersion)
	b.WriteString("| contender | jobs/s that arrived | p50 | p99 | failed |\n|---|---|---|---|---|\n")
	for _, rate := range rates {
		for _, contender := range []string{"pawl", "river"} {
			if contender == "river" && !rate.river {
				continue
			}
			med := func(of func(harness.Row) float64) float64 {
				return harness.Median(rows, name(contender, rate.perSecond), of)
			}
			fmt.Fprintf(&b, "| %s | %.0f | %.1f ms | %.1f ms | %.0f |\n", name(contender, rate.perSecond),
				med(func(r harness.Row) float64 { return r.Rate }), med(func(r harness.Row) float64 { return r.P50.Seconds() * 1e3 }),
				med(func(r harness.Row) float64 { return r.P99.Seconds() * 1e3 }), med(func(r harness.Row) float64 { return float64(r.Failed) }))
		}
	}
	return b.String()
}
