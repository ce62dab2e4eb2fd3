// Command outage measures what a relay does while its destination is away for a
// while: refused, hanging, or answering 503 with Retry-After, with and without
// somewhere else to go. Messages come at a fixed rate and do not wait. Run it by
// make outage.
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
	before, outage, after, retryAfter, deadline time.Duration
	rate, callers                               int
}

// body is the size of a message in bytes.
const body = 1024

const (
	// patience is when a caller gives up: after the relays do, at 25 s.
	patience = 30 * time.Second
	// grace is how long a contender may take to end with what it holds.
	grace = 30 * time.Second
	// warm is how long messages flow before the clock starts.
	warm = 2 * time.Second
)

var (
	ways      = []harness.State{harness.Refusing, harness.Hanging, harness.Unavailable}
	fallbacks = []harness.Fallback{harness.NoFallback, harness.WithFallback}
)

func main() {
	o := options{Flags: harness.AddFlags()}
	flag.DurationVar(&o.before, "before", 10*time.Second, "time before the outage")
	flag.DurationVar(&o.outage, "outage", 30*time.Second, "how long the primary is away")
	flag.DurationVar(&o.after, "after", 20*time.Second, "time after the outage")
	flag.DurationVar(&o.retryAfter, "retry-after", 5*time.Second, "what a 503 asks for, whole seconds")
	flag.DurationVar(&o.deadline, "deadline", 2*time.Second, "when a message goes to the fallback at the latest")
	flag.IntVar(&o.rate, "rate", 200, "messages a second")
	flag.IntVar(&o.callers, "callers", 8000, "messages under way at most, each with a descriptor on either side")
	harness.Main("outage", o.run)
}

// name is the name of a contender's rows.
func name(contender string, way harness.State, f harness.Fallback) string {
	return fmt.Sprintf("%s, %s, %s", contender, way, f)
}

func (o *options) run(ctx context.Context) error {
	var rows []harness.Row
	for round := 1; round <= o.Rounds; round++ {
		for _, way := range ways {
			for _, f := range fallbacks {
				for _, c := range harness.OutageContenders(o.Bin, "", "", f, o.deadline) {
					if !o.Wants(c.Name) {
						continue
					}
					row, err := harness.Undisturbed(func() (harness.Row, error) { return o.once(ctx, c.Name, way, f, round) })
					if err != nil {
						return err
					}
					rows = append(rows, row)
					fmt.Printf("%d %-38s %5.0f %5.0f %5.0f /s  healthy again %6.0f ms  sends while dead %5.0f  in a round %3.0f  × %.2f  lost %.0f  twice %.0f  503 %.0f  504 %.0f  others %.2f\n", round, row.Contender,
						row.Figure("before_rate"), row.Figure("during_rate"), row.Figure("after_rate"), row.Figure("again_ms"), row.Figure("dead_sends"), row.Figure("round_max"),
						row.Figure("multiplication"), row.Figure("lost"), row.Figure("duplicates"), row.Figure("refused"), row.Figure("timed_out"), row.Others)
				}
			}
		}
	}
	return harness.Write("outage", o.report(rows), rows)
}

// once measures one outage of one contender.
func (o options) once(ctx context.Context, who string, way harness.State, f harness.Fallback, round int) (harness.Row, error) {
	s := story{before: o.before, outage: o.outage, after: o.after}
	primary, err := harness.StartEndpoint(o.retryAfter)
	if err != nil {
		return harness.Row{}, err
	}
	defer primary.Close()
	second, err := harness.StartEndpoint(o.retryAfter)
	if err != nil {
		return harness.Row{}, err
	}
	defer second.Close()
	var c harness.Contender
	for _, c = range harness.OutageContenders(o.Bin, primary.Address(), second.Address(), f, o.deadline) {
		if c.Name == who {
			break
		}
	}
	load := harness.Open{Paths: []string{"/0"}, PerSecond: o.rate, Callers: o.callers, Body: body, Timeout: patience, Prefix: "w"}
	if load.Address, err = harness.FreeAddress(); err != nil {
		return harness.Row{}, err
	}
	p, err := c.Start(ctx, load.Address, "")
	if err != nil {
		return harness.Row{}, err
	}
	defer p.Stop()
	load.Run(ctx, warm)
	load.Prefix = "m"

	// failed is buffered, so that nobody waits for whom nobody asks any more.
	failed := make(chan error, 1)
	row := p.Measure(name(who, way, f), round, func() harness.Result {
		s.began = time.Now()
		go func() { failed <- o.strike(ctx, primary, way, s.began) }()
		s.sent = load.Run(ctx, o.before+o.outage+o.after)
		return harness.Summary(s.sent, o.before+o.outage+o.after)
	})
	if err := <-failed; err != nil {
		return harness.Row{}, err
	}
	p.End(grace)
	s.primary, s.second = primary.Arrivals(), second.Arrivals()
	if c.Letters != nil {
		if s.letters, err = p.Letters(ctx, c); err != nil {
			return harness.Row{}, err
		}
	}
	row.More = s.figures()
	return row, ctx.Err()
}

// strike makes the primary sick and well again.
func (o options) strike(ctx context.Context, primary *harness.Endpoint, way harness.State, began time.Time) error {
	for _, move := range []struct {
		at time.Duration
		to harness.State
	}{{o.before, way}, {o.before + o.outage, harness.Well}} {
		select {
		case <-time.After(time.Until(began.Add(move.at))):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := primary.Set(move.to); err != nil {
			return err
		}
	}
	return nil
}
