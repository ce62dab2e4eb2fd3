package harness

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Row is one round of one contender.
type Row struct {
	Contender string
	Round     int
	Rate      float64 // answers 2xx a second
	Failed    int64
	P50       time.Duration
	P99       time.Duration
	CPU       float64 // of the contender, µs a message
	OwnCPU    float64 // of generator and sink
	Others    float64 // CPU that others used meanwhile, in cores
	RSS       int64
	Reuse     float64 // share of requests on a reused connection
	Delivered float64 // requests a second that arrived at the sink
	More      []Figure
}

// Figure is what one benchmark alone measures. All rows of a benchmark have the
// same, in the same order.
type Figure struct {
	Name  string // a column of the raw rows
	Value float64
}

// Figure returns the value of a figure by its name, 0 where it was not measured.
func (r Row) Figure(name string) float64 {
	for _, f := range r.More {
		if f.Name == name {
			return f.Value
		}
	}
	return 0
}

// maxOthers is how much CPU others may use in a round, in cores.
const maxOthers = 0.2

// Measure is one measured stretch: what is sent, and for how long after warming
// up.
type Measure struct {
	Load   Load
	Warm   time.Duration
	Length time.Duration
	// Paths tells whose answers count; nil is all.
	Paths func(path string) bool
}

// Of starts the contender and a sink whose paths that begin with hang ("" for
// none) never answer, measures, and runs a round that others disturbed again. The
// load's address is filled in.
func (m Measure) Of(ctx context.Context, c Contender, name string, round int, hang string) (Row, error) {
	return Undisturbed(func() (Row, error) { return m.once(ctx, c, name, round, hang) })
}

// Undisturbed runs a round that others disturbed again, a few times.
func Undisturbed(once func() (Row, error)) (Row, error) {
	row, err := once()
	for n := 0; err == nil && row.Others > maxOthers && n < again; n++ {
		row, err = once()
	}
	return row, err
}

func (m Measure) once(ctx context.Context, c Contender, name string, round int, hang string) (Row, error) {
	sink, err := StartSink(hang)
	if err != nil {
		return Row{}, err
	}
	defer sink.Close()
	if m.Load.Address, err = FreeAddress(); err != nil {
		return Row{}, err
	}
	p, err := c.Start(ctx, m.Load.Address, sink.Address())
	if err != nil {
		return Row{}, err
	}
	defer p.Stop()
	return m.run(ctx, name, round, p, sink), nil
}

// run measures a contender that runs and sends to sink.
func (m Measure) run(ctx context.Context, name string, round int, p *Process, sink *Sink) Row {
	m.Load.Run(ctx, m.Warm)
	requests, connections := sink.Requests(), sink.Connections()
	keep := m.Paths
	if keep == nil {
		keep = func(string) bool { return true }
	}
	row := p.Measure(name, round, func() Result { return Merge(m.Load.Run(ctx, m.Length), keep) })
	if n := sink.Requests() - requests; n > 0 {
		row.Reuse = 1 - float64(sink.Connections()-connections)/float64(n)
		row.Delivered = float64(n) / m.Length.Seconds()
	}
	return row
}

// Measure returns the row of a stretch of work on the process: what work saw,
// and what the process, this one and others used meanwhile.
func (p *Process) Measure(name string, round int, work func() Result) Row {
	wait := p.profile(name, round)
	defer wait()
	begin := p.meter()
	sum := work()
	return p.meter().row(begin, name, round, sum)
}

// meter is what was used until a moment.
type meter struct {
	at        time.Time
	process   Usage
	busy, own time.Duration
}

func (p *Process) meter() meter { return meter{time.Now(), p.Usage(), Busy(), Own()} }

// row returns the row of the stretch from begin to m.
func (m meter) row(begin meter, name string, round int, sum Result) Row {
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / max(float64(sum.OK), 1) }
	cpu, mine, busy := m.process.CPU-begin.process.CPU, m.own-begin.own, m.busy-begin.busy
	return Row{
		Contender: name, Round: round, Rate: sum.Rate(), Failed: sum.Failed,
		P50: sum.Quantile(0.5), P99: sum.Quantile(0.99), CPU: per(cpu), OwnCPU: per(mine), RSS: m.process.RSS,
		Others: max(0, (busy-cpu-mine).Seconds()/m.at.Sub(begin.at).Seconds()),
	}
}

// Median returns the median of a figure over a contender's rows.
func Median(rows []Row, contender string, of func(Row) float64) float64 {
	var all []float64
	for _, r := range rows {
		if r.Contender == contender {
			all = append(all, of(r))
		}
	}
	if len(all) == 0 {
		return 0
	}
	slices.Sort(all)
	return all[len(all)/2]
}

// Write puts a report and the raw rows into bench/results.
func Write(name, report string, rows []Row) error {
	dir := filepath.Join("results")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var raw strings.Builder
	raw.WriteString("contender\tround\trate\tfailed\tp50_us\tp99_us\tcpu_us\town_cpu_us\tothers_cores\trss_mib\treuse\tdelivered")
	if len(rows) > 0 {
		for _, f := range rows[0].More {
			raw.WriteString("\t" + f.Name)
		}
	}
	raw.WriteString("\n")
	for _, r := range rows {
		fmt.Fprintf(&raw, "%s\t%d\t%.0f\t%d\t%d\t%d\t%.1f\t%.1f\t%.2f\t%.1f\t%.4f\t%.0f", r.Contender, r.Round, r.Rate, r.Failed,
			r.P50.Microseconds(), r.P99.Microseconds(), r.CPU, r.OwnCPU, r.Others, float64(r.RSS)/(1<<20), r.Reuse, r.Delivered)
		for _, f := range r.More {
			raw.WriteString("\t" + strconv.FormatFloat(f.Value, 'f', -1, 64))
		}
		raw.WriteString("\n")
	}
	if err := os.WriteFile(filepath.Join(dir, name+".tsv"), []byte(raw.String()), 0o644); err != nil {
		return err
	}
	head := fmt.Sprintf("%s, %s/%s, %d cores\n\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	return os.WriteFile(filepath.Join(dir, name+".md"), []byte(head+report), 0o644)
}
