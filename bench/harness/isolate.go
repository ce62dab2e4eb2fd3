package harness

import (
	"context"
	"sync"
	"time"
)

// Isolation is one stretch beside something sick: those who are well first under
// callers that wait for their answers, for throughput, then at a fixed rate, for
// latencies. Whoever asks for what is sick does not wait and goes on all the
// while, so that an input that both share fills up.
type Isolation struct {
	Closed Load // Address is filled in
	Open   Open // Address and Prefix are filled in
	// Flood is for what is sick; without a rate there is none.
	Flood  Open
	Warm   time.Duration
	Length time.Duration // of each of the two
}

// Of starts the contender, measures, and ends it. wrong is how many requests were
// left without an answer until now.
func (m Isolation) Of(ctx context.Context, c Contender, name string, round int, wrong func() int64) (Row, error) {
	var err error
	if m.Closed.Address, err = FreeAddress(); err != nil {
		return Row{}, err
	}
	m.Open.Address, m.Flood.Address = m.Closed.Address, m.Closed.Address
	m.Open.Prefix, m.Flood.Prefix = "o", "f"
	p, err := c.Start(ctx, m.Closed.Address, "")
	if err != nil {
		return Row{}, err
	}
	defer p.Stop()

	var flood []Sent
	var flooding sync.WaitGroup
	flooded, stop := context.WithCancel(ctx)
	defer stop()
	if m.Flood.PerSecond > 0 {
		flooding.Go(func() { flood = m.Flood.Run(flooded, m.Warm+2*m.Length+time.Minute) })
	}
	m.Closed.Run(ctx, m.Warm)
	before := wrong()
	all := func(string) bool { return true }
	row := p.Measure(name, round, func() Result { return Merge(m.Closed.Run(ctx, m.Length), all) })
	sent := m.Open.Run(ctx, m.Length)
	sick := wrong() - before
	stop()
	flooding.Wait()

	latency := Summary(sent, m.Length)
	row.P50, row.P99 = latency.Quantile(0.5), latency.Quantile(0.99)
	row.More = []Figure{
		{"open_rate", latency.Rate()}, {"open_failed", float64(latency.Failed)}, {"sick_sends", float64(sick)},
		{"flood_sent", float64(len(flood) - Count(flood, Unsent))}, {"flood_unsent", float64(Count(flood, Unsent))},
		{"flood_503", float64(Count(flood, Refused))},
	}
	return row, ctx.Err()
}
