// Command jobs-backlog measures what a large store costs: the cycle of create,
// claim and complete in batches of 64 beside jobs that wait, are finished, are
// due later, stand behind a pause or an open circuit, or are spread over very many
// endpoints, open and shut, each against an empty store. Those that are held are
// so for an hour: it must be over by then. Run it by make jobs-backlog.
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

// stock is what stands in a store while it is measured.
type stock struct {
	name string
	fill func(ctx context.Context, j harness.Jobs, o options) error
}

var stocks = []stock{
	{"empty", func(context.Context, harness.Jobs, options) error { return nil }},
	{"waiting", func(ctx context.Context, j harness.Jobs, o options) error { return j.Fill(ctx, o.jobs, with("")) }},
	{"finished", func(ctx context.Context, j harness.Jobs, o options) error { return j.Finish(ctx, o.jobs) }},
	{"due later", func(ctx context.Context, j harness.Jobs, o options) error {
		return j.Fill(ctx, o.jobs, with(`"delay":"240h",`))
	}},
	{"of a paused endpoint", func(ctx context.Context, j harness.Jobs, o options) error {
		if err := j.Pause("paused"); err != nil {
			return err
		}
		return j.Fill(ctx, o.jobs, with(`"endpoint":"paused",`))
	}},
	{"behind an open circuit", func(ctx context.Context, j harness.Jobs, o options) error {
		if err := j.Open(ctx, "open"); err != nil {
			return err
		}
		return j.Fill(ctx, o.jobs, with(`"endpoint":"open",`))
	}},
	{"of many endpoints", func(ctx context.Context, j harness.Jobs, o options) error { return j.Fill(ctx, o.jobs, o.spread) }},
	{"of many held endpoints", func(ctx context.Context, j harness.Jobs, o options) error {
		if err := j.Hold(ctx, o.endpoints, o.spread); err != nil {
			return err
		}
		return j.Fill(ctx, o.jobs, o.spread)
	}},
}

// with gives every job some members more.
func with(more string) func(int) string { return func(int) string { return more } }

// spread gives the jobs an endpoint each in turn.
func (o options) spread(i int) string { return fmt.Sprintf(`"endpoint":"e%d",`, i%o.endpoints) }

func main() {
	var o options
	flag.StringVar(&o.bin, "bin", ".cache", "folder with the contenders' binaries")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each store, interleaved")
	flag.IntVar(&o.jobs, "jobs", 1_000_000, "jobs that stand in a store")
	flag.IntVar(&o.endpoints, "endpoints", 100_000, "endpoints they are spread over")
	flag.IntVar(&o.callers, "callers", 8, "callers at once")
	flag.DurationVar(&o.length, "length", 5*time.Second, "length of a round")
	flag.StringVar(&o.only, "only", "", "only these beside empty, commas between")
	flag.Parse()
	if err := run(context.Background(), o); err != nil {
		fmt.Fprintln(os.Stderr, "bench/jobs-backlog:", err)
		os.Exit(1)
	}
}

type options struct {
	bin, only                        string
	rounds, jobs, endpoints, callers int
	length                           time.Duration
}

// filled is a server that runs with its stock, idle but in its own turn.
type filled struct {
	stock
	process *harness.Process
	jobs    harness.Jobs
}

func run(ctx context.Context, o options) error {
	var stores []filled
	for _, s := range stocks {
		if o.only != "" && s.name != "empty" && !strings.Contains(","+o.only+",", ","+s.name+",") {
			continue
		}
		f, err := start(ctx, o, s)
		if err != nil {
			return err
		}
		defer f.process.Stop()
		stores = append(stores, f)
	}
	var rows []harness.Row
	for round := 1; round <= o.rounds; round++ {
		for _, f := range stores {
			row, err := harness.Undisturbed(func() (harness.Row, error) {
				f.jobs.Cycle(ctx, time.Second)
				return f.process.Measure(f.name, round, func() harness.Result { return f.jobs.Cycle(ctx, o.length) }), nil
			})
			if err != nil {
				return err
			}
			rows = append(rows, row)
			fmt.Printf("%d %-22s %8.0f/s  p50 %-8s p99 %-8s %6.1f µs CPU  %6.1f MiB  failed %d  others %.2f\n", round, row.Contender,
				row.Rate, row.P50.Round(time.Microsecond), row.P99.Round(time.Microsecond), row.CPU, float64(row.RSS)/(1<<20), row.Failed, row.Others)
		}
	}
	return harness.Write("jobs-backlog", report(o, rows, stores), rows)
}

// start fills a server of its own.
func start(ctx context.Context, o options, s stock) (filled, error) {
	address, err := harness.FreeAddress()
	if err != nil {
		return filled{}, err
	}
	p, err := harness.PawlJobs(o.bin, harness.Plain).Start(ctx, address, "")
	if err != nil {
		return filled{}, err
	}
	j := harness.Jobs{Address: address, Callers: o.callers, Batch: 64, Payload: 256}
	began := time.Now()
	if err := s.fill(ctx, j, o); err != nil {
		p.Stop()
		return filled{}, fmt.Errorf("filling %q: %w", s.name, err)
	}
	fmt.Printf("  %-22s filled in %s\n", s.name, time.Since(began).Round(time.Second))
	return filled{s, p, j}, nil
}

func report(o options, rows []harness.Row, stores []filled) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Create, claim and complete in batches of 64 from %d callers, SQLite, beside %d jobs of a kind in the same queue (of %d endpoints where they are many); medians, interleaved rounds.\n\n", o.callers, o.jobs, o.endpoints)
	b.WriteString("| beside jobs that are | jobs/s | × empty | p99 of a turn | CPU µs/job | × empty | RSS MiB |\n|---|---|---|---|---|---|---|\n")
	rate := func(r harness.Row) float64 { return r.Rate }
	cpu := func(r harness.Row) float64 { return r.CPU }
	for _, f := range stores {
		med := func(of func(harness.Row) float64) float64 { return harness.Median(rows, f.name, of) }
		fmt.Fprintf(&b, "| %s | %.0f | %.2f | %.1f ms | %.0f | %.2f | %.0f |\n", f.name, med(rate), med(rate)/harness.Median(rows, "empty", rate),
			med(func(r harness.Row) float64 { return r.P99.Seconds() * 1e3 }), med(cpu), med(cpu)/harness.Median(rows, "empty", cpu),
			med(func(r harness.Row) float64 { return float64(r.RSS) / (1 << 20) }))
	}
	return b.String()
}
