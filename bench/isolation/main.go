// Command isolation measures what something that hangs does to what is well: one
// destination of ten, and one of the two members of a group. Whoever asks for the
// destination that hangs does so at a fixed rate, far above what it takes. Run it
// by make isolation.
package main

import (
	"context"
	"flag"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/bench/harness"
)

// options are what the command line says.
type options struct {
	*harness.Flags
	length              *time.Duration
	warm                time.Duration
	callers, rate, load int
	parts               string
}

// fdCallers bounds the callers of an open load at once: each has a descriptor on
// either side.
const fdCallers = 4096

// patience is when a caller gives up: after the relays do, at 25 s.
const patience = 30 * time.Second

func main() {
	o := options{Flags: harness.AddFlags(), length: harness.AddLength(10 * time.Second)}
	flag.DurationVar(&o.warm, "warm", 5*time.Second, "time before what is measured, in which a breaker finds out")
	flag.IntVar(&o.callers, "callers", 64, "callers that wait, spread over what is well")
	flag.IntVar(&o.rate, "rate", 1000, "messages a second to what is well while latencies are measured")
	flag.IntVar(&o.load, "flood", 300, "messages a second to the destination that hangs")
	flag.StringVar(&o.parts, "parts", "lanes,members", "what is measured")
	harness.Main("isolation", o.run)
}

// state is whether something hangs.
type state string

const (
	well  state = "all well"
	hangs state = "one hangs"
)

// name is a contender's name in the rows.
func name(c harness.Contender, s state) string { return c.Name + ", " + string(s) }

func (o *options) run(ctx context.Context) error {
	var rows []harness.Row
	for round := 1; round <= o.Rounds; round++ {
		for _, p := range parts {
			if !o.measures(p) {
				continue
			}
			for _, who := range p.contenders(o.Bin, "", "") {
				for _, s := range []state{well, hangs} {
					if !o.Wants(who.Name) {
						continue
					}
					row, err := harness.Undisturbed(func() (harness.Row, error) { return o.once(ctx, p, who.Name, s, round) })
					if err != nil {
						return err
					}
					rows = append(rows, row)
					fmt.Printf("%d %-38s %8.0f/s of those that are well  p50 %-8s p99 %-8s failed %d+%.0f  to the sick %.0f  others %.2f\n", round, row.Contender,
						row.Rate, row.P50.Round(time.Microsecond), row.P99.Round(time.Microsecond), row.Failed, row.Figure("open_failed"), row.Figure("sick_sends"), row.Others)
				}
			}
		}
	}
	return harness.Write("isolation", o.report(rows), rows)
}

// once measures one contender with sinks of its own.
func (o options) once(ctx context.Context, p part, who string, s state, round int) (harness.Row, error) {
	first, err := harness.StartSink("")
	if err != nil {
		return harness.Row{}, err
	}
	defer first.Close()
	hang := ""
	if s == hangs {
		hang = p.hang
	}
	second, err := harness.StartSink(hang)
	if err != nil {
		return harness.Row{}, err
	}
	defer second.Close()
	for _, c := range p.contenders(o.Bin, first.Address(), second.Address()) {
		if c.Name == who {
			return p.measure(o).Of(ctx, c, p.name+" "+name(c, s), round, second.Hung)
		}
	}
	return harness.Row{}, fmt.Errorf("no contender %q", who)
}
