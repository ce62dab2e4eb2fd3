// Command jobs measures pawl as a job server on SQLite, through HTTP with keys,
// beside itself with everything on, and beside River on SQLite, in the process
// of its callers: creating one job at a time, and the whole way of create, claim
// and complete, in batches of 64 and one at a time. Every commit of either is
// synchronised. Run it by make jobs.
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

// work is what is measured.
type work struct {
	name           string
	mode           string // of the peer
	callers, batch int
	load           func(j harness.Jobs, ctx context.Context, d time.Duration) harness.Result
}

var works = []work{
	{"create", "create", 64, 1, harness.Jobs.Create},
	{"cycle by 64", "cycle", 8, 64, harness.Jobs.Cycle},
	{"cycle by 1", "cycle", 64, 1, harness.Jobs.Cycle},
}

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", ".cache", "folder with the contenders' binaries")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each contender, interleaved")
	flag.IntVar(&o.payload, "payload", 256, "bytes of a payload")
	flag.DurationVar(&o.warm, "warm", 2*time.Second, "time before what is measured")
	flag.DurationVar(&o.length, "length", 5*time.Second, "length of a round")
	flag.StringVar(&o.only, "only", "", "only this contender")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/jobs:", err)
		os.Exit(1)
	}
}

type options struct {
	bin, only       string
	rounds, payload int
	warm, length    time.Duration
}

func run(ctx context.Context, o options) error {
	var rows []harness.Row
	for round := 1; round <= o.rounds; round++ {
		for _, w := range works {
			for _, c := range contenders {
				if o.only != "" && o.only != c.name {
					continue
				}
				row, err := harness.Undisturbed(func() (harness.Row, error) { return c.measure(ctx, o, w, round) })
				if err != nil {
					return err
				}
				rows = append(rows, row)
				fmt.Printf("%d %-18s %8.0f/s  p50 %-8s p99 %-8s %6.1f µs CPU  %5.1f MiB  failed %d  others %.2f\n", round, row.Contender,
					row.Rate, row.P50.Round(time.Microsecond), row.P99.Round(time.Microsecond), row.CPU, float64(row.RSS)/(1<<20), row.Failed, row.Others)
			}
		}
	}
	return harness.Write("jobs", report(o, rows), rows)
}

// contenders measure a work in a round.
var contenders = []struct {
	name    string
	measure func(ctx context.Context, o options, w work, round int) (harness.Row, error)
}{{"pawl", pawl(harness.Plain)}, {"pawl-whole", pawl(harness.Whole)}, {"river", river}}

// pawl measures a server of its own.
func pawl(extent harness.Extent) func(context.Context, options, work, int) (harness.Row, error) {
	return func(ctx context.Context, o options, w work, round int) (harness.Row, error) {
		return measure(ctx, extent, o, w, round)
	}
}

func measure(ctx context.Context, extent harness.Extent, o options, w work, round int) (harness.Row, error) {
	name := "pawl "
	address, err := harness.FreeAddress()
	if err != nil {
		return harness.Row{}, err
	}
	p, err := harness.PawlJobs(o.bin, extent).Start(ctx, address, "")
	if err != nil {
		return harness.Row{}, err
	}
	defer p.Stop()
	j := harness.Jobs{Address: address, Callers: w.callers, Batch: w.batch, Payload: o.payload}
	if extent == harness.Whole {
		name = "pawl-whole "
		if err := j.ReadEvents(ctx); err != nil {
			return harness.Row{}, err
		}
	}
	w.load(j, ctx, o.warm)
	return p.Measure(name+w.name, round, func() harness.Result { return w.load(j, ctx, o.length) }), nil
}

func river(ctx context.Context, o options, w work, round int) (harness.Row, error) {
	return harness.SelfRun(ctx, "river "+w.name, round, func(dir string) *exec.Cmd {
		return exec.Command(filepath.Join(o.bin, "river"), "-dir", dir, "-mode", w.mode,
			"-callers", fmt.Sprint(w.callers), "-batch", fmt.Sprint(w.batch), "-payload", fmt.Sprint(o.payload),
			"-warm", o.warm.String(), "-length", o.length.String())
	})
}

func report(o options, rows []harness.Row) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Jobs with a payload of %d bytes on SQLite, every commit synchronised: pawl through HTTP with an API key, River %s in one process with its callers; medians, interleaved rounds. "+
		"Whole is with a contract and its schemas, an endpoint with circuit, rate and concurrency, a bound of the queue, and every event kept. A cycle is create, claim and complete. CPU is that of the process under measurement, the generator's apart: River's has both in one.\n\n", o.payload, harness.RiverVersion)
	b.WriteString("| what | callers | pawl jobs/s | River jobs/s | × River | whole jobs/s | whole ÷ plain | pawl p50 | pawl p99 | River p99 | pawl CPU µs/job | whole | generator | River CPU µs/job | pawl RSS MiB |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, w := range works {
		med := func(who string, of func(harness.Row) float64) float64 {
			return harness.Median(rows, who+" "+w.name, of)
		}
		rate := func(r harness.Row) float64 { return r.Rate }
		cpu := func(r harness.Row) float64 { return r.CPU }
		p99 := func(r harness.Row) float64 { return r.P99.Seconds() * 1e3 }
		peer := "–" // its callers do not wait for a cycle
		if w.mode == "create" {
			peer = fmt.Sprintf("%.1f ms", med("river", p99))
		}
		fmt.Fprintf(&b, "| %s | %d | %.0f | %.0f | %.1f | %.0f | %.2f | %.1f ms | %.1f ms | %s | %.0f | %.0f | %.0f | %.0f | %.0f |\n", w.name, w.callers,
			med("pawl", rate), med("river", rate), med("pawl", rate)/max(med("river", rate), 1),
			med("pawl-whole", rate), med("pawl-whole", rate)/max(med("pawl", rate), 1),
			med("pawl", func(r harness.Row) float64 { return r.P50.Seconds() * 1e3 }), med("pawl", p99), peer,
			med("pawl", cpu), med("pawl-whole", cpu), med("pawl", func(r harness.Row) float64 { return r.OwnCPU }), med("river", cpu),
			med("pawl", func(r harness.Row) float64 { return float64(r.RSS) / (1 << 20) }))
	}
	return b.String()
}
