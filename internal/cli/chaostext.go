package cli

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/pawlhq/pawl/internal/chaos"
	"github.com/pawlhq/pawl/internal/core/message"
)

// lateEnough is by how much a load is late before it is told: less is the
// clock's and the scheduler's.
const lateEnough = 100 * time.Millisecond

// chaosText is the report for people.
func (sh *shell) chaosText(r chaos.Report) string {
	var b strings.Builder
	m := r.Messages
	fmt.Fprintf(&b, "%s: %s in %s\n\n", printable(r.Destination), count(m.Sent, "message"), round(time.Duration(r.Took)))
	line := func(name string, n int, detail string) {
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%-14s %6d  %s", name, n, printable(detail)), " "))
	}
	line("delivered", m.Delivered, countsText(r.DeliveredBy))
	line("dead letters", m.DeadLettered, countsText(r.Deaths))
	if m.Interrupted > 0 {
		line("given up", m.Interrupted, "on their way when the run was interrupted")
	}
	if r.Traffic == chaos.Received {
		line("no letter", m.Unkept, "failed: best effort, or given back to the source")
	} else {
		line("lost", m.Lost, "")
	}
	a := r.Attempts
	detail := fmt.Sprintf("%.2f for each message: %s, %s", r.Load, counted(a.Retries, "retry", "retries"), count(a.Hedges, "hedge"))
	line("attempts", a.Total, detail)
	line("", a.OK, "ok")
	for _, o := range []struct {
		n    int
		what string
	}{{a.Failed, "failed, worth another try"}, {a.Permanent, "failed for good"}, {a.Cancelled, "cancelled"}} {
		if o.n > 0 {
			line("", o.n, o.what)
		}
	}
	for i, h := range r.Hedges {
		line(map[int]string{0: "races won by"}[i], h.Count, map[string]string{"first": "the first attempt", "hedge": "a hedge", "none": "nobody"}[h.Name])
	}
	for i, f := range r.Applied {
		line(map[int]string{0: "faults"}[i], f.Count, strings.ReplaceAll(f.Name, "_", " "))
	}
	for i, h := range r.Hops {
		nowhere := "dead letters"
		if h.Reason == message.HopCancelled {
			nowhere = "nowhere"
		}
		line(map[int]string{0: "hops"}[i], h.Count, fmt.Sprintf("%s -> %s (%s)", h.From, orElse(h.To, nowhere), h.Reason))
	}
	if r.Latency.Count > 0 {
		fmt.Fprintf(&b, "\ndelivered within   p50 %s, p99 %s, at most %s\n", millisText(r.Latency.P50), millisText(r.Latency.P99), millisText(r.Latency.Max))
	}
	if late := time.Duration(r.Late); late >= lateEnough {
		fmt.Fprintf(&b, "the load fell behind its rate by %s: %d messages were open at once, or the lane was slow to take more\n", round(late), chaos.MaxOpen)
	}
	if r.Traffic == chaos.Received {
		b.WriteString("\nsources brought these messages: this is what was counted, no proof that none was lost\n")
	}
	sh.chaosEndpoints(&b, r)
	for i, id := range r.Lost {
		if i == 10 {
			fmt.Fprintf(&b, "… and %d more; --json lists them\n", m.Lost-i)
			break
		}
		fmt.Fprintf(&b, "LOST %s\n", printable(id))
	}
	if r.State != "" && m.DeadLettered > 0 {
		call := "pawl dlq list"
		for _, path := range sh.paths {
			call += " -c " + shellWord(path)
		}
		fmt.Fprintf(&b, "\ndead letters: %s --state %s\n", call, shellWord(r.State))
	}
	fmt.Fprintf(&b, "\nagain: %s\n", printable(r.Command))
	return b.String()
}

func (sh *shell) chaosEndpoints(b *strings.Builder, r chaos.Report) {
	if len(r.Endpoints) == 0 {
		return
	}
	t := sh.table("ENDPOINT", "ATTEMPTS", "OK", "P50", "P99", "MAX", "BREAKER")
	for _, e := range r.Endpoints {
		state := "stayed closed"
		if e.Opened > 0 {
			state = fmt.Sprintf("opened %s, %s not closed", counted(e.Opened, "time", "times"), millisText(e.Shut))
		}
		if e.Holds > 0 {
			state += ", " + count(e.Holds, "hold")
		}
		t.row(printable(e.Name), strconv.Itoa(e.Attempts.Total), strconv.Itoa(e.Attempts.OK),
			millisText(e.Latency.P50), millisText(e.Latency.P99), millisText(e.Latency.Max), state)
	}
	fmt.Fprintf(b, "\n%s\n", t)
}

func millisText(m chaos.Millis) string { return round(time.Duration(m).Round(time.Microsecond)) }

func counted(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + many
}

// countsText writes counts in a line: disk 37, ledger 60.
func countsText(all []chaos.Count) string {
	words := make([]string, len(all))
	for i, c := range all {
		words[i] = fmt.Sprintf("%s %d", c.Name, c.Count)
	}
	return strings.Join(words, ", ")
}

// chaosLive shows how far a run is, on a terminal.
type chaosLive struct {
	bars *mpb.Progress // nil: nothing is shown
	bar  *mpb.Bar
	stop chan struct{}
	done sync.WaitGroup
}

// liveEvery is how often it is drawn: fast enough to look alive.
const liveEvery = 100 * time.Millisecond

func (sh *shell) liveView(p *chaosPlan, rec *chaos.Recorder) *chaosLive {
	if !isTerminal(sh.err) || sh.json {
		return &chaosLive{}
	}
	l := &chaosLive{bars: mpb.New(mpb.WithOutput(sh.err), mpb.WithWidth(30)), stop: make(chan struct{})}
	l.bar = l.bars.AddBar(int64(p.count),
		mpb.PrependDecorators(decor.Name("settled "), decor.CountersNoUnit("%d/%d")),
		mpb.AppendDecorators(decor.Any(func(decor.Statistics) string { return liveText(rec.Progress()) })))
	l.done.Go(func() {
		tick := time.NewTicker(liveEvery)
		defer tick.Stop()
		for {
			now := rec.Progress()
			l.bar.SetCurrent(int64(now.Delivered + now.Failed))
			select {
			case <-tick.C:
			case <-l.stop:
				return
			}
		}
	})
	return l
}

func liveText(p chaos.Progress) string {
	text := fmt.Sprintf("%d delivered, %d failed, %d in flight, %s", p.Delivered, p.Failed, p.InFlight(), count(p.Attempts, "attempt"))
	if len(p.Open) > 0 {
		text += "; " + printable(strings.Join(p.Open, ", "))
	}
	return text
}

func (l *chaosLive) end() {
	if l.bars == nil {
		return
	}
	close(l.stop)
	l.done.Wait()
	l.bar.Abort(false)
	l.bars.Wait()
}

// repeated are the flags that make a run what it is, apart from the seed.
var repeated = []string{
	"destination", "fail", "status", "retry-after", "reset", "hang", "slow-body", "latency",
	"data", "header", "content-type", "count", "rate",
}

// chaosCommandLine is the call that repeats this one.
func chaosCommandLine(paths []string, c *cobra.Command, seed uint64) string {
	words := []string{"pawl", "chaos"}
	for _, path := range paths {
		words = append(words, "-c", shellWord(path))
	}
	for _, name := range repeated {
		f := c.Flags().Lookup(name)
		if !f.Changed {
			continue
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(interface{ GetSlice() []string }); ok {
			values = list.GetSlice()
		}
		for _, v := range values {
			words = append(words, "--"+name, shellWord(v))
		}
	}
	return strings.Join(append(words, "--seed", strconv.FormatUint(seed, 10)), " ")
}

// shellWord quotes a word for a shell where it must be.
func shellWord(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@%+=:,./_-"
	if s != "" && strings.Trim(s, plain) == "" {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
