package chaos

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// The sizes of the pictures, in user units: pixels where the page is 1000 wide.
const (
	pictureWidth = 1000.0
	edge         = 10.0 // left and right of the plot
	labelHeight  = 18.0
	bandHeight   = 6.0
	rowHeight    = 7.0
	barHeight    = 6.0
	laneGap      = 20.0
	axisHeight   = 24.0
	plotHeight   = 200.0 // of the latencies
	// maxRows is how many attempts at once a lane shows below each other; more
	// are drawn over each other.
	maxRows = 48
	// leastBar is the width of an attempt that took no time to speak of.
	leastBar = 1.5
	// rowGap keeps two attempts of a row apart.
	rowGap = 0.5
	// ticks is how many marks an axis has at most.
	ticks = 10
)

// unit is a coordinate as SVG wants it: a tenth of a pixel is enough.
type unit float64

func (u unit) String() string { return strconv.FormatFloat(float64(u), 'f', 1, 64) }

// picture is one SVG, ready for the template.
type picture struct {
	Height unit
	Plot   unit // where the axis is
	Ticks  []tick
	Lanes  []drawnLane
	Levels []level
	Hops   []drawnHop
	Dots   []dot
	Dead   *deadLane
}

type tick struct {
	X    unit
	Text string
}

// level is a line of equal latency.
type level struct {
	Y    unit
	Text string
}

type drawnLane struct {
	Label, Detail string
	LabelY, BandY unit
	Bands         []box
	Bars          []box
}

// box is a rectangle with a class for its colour and a text for the pointer.
type box struct {
	X, Y, Width unit
	Class       string
	Title       string
}

type drawnHop struct {
	X, From, To unit
	Arrow       string // the points of its head
	Title       string
}

type dot struct {
	X, Y  unit
	Class string
	Title string
}

type deadLane struct {
	LabelY, Y unit
	Marks     []dot
}

// scale turns times into places.
type scale struct{ span time.Duration }

func (s scale) x(at time.Duration) float64 {
	share := float64(at) / float64(s.span)
	return edge + math.Min(math.Max(share, 0), 1)*(pictureWidth-2*edge)
}

// span is how long the pictures are.
func (r *Report) span() time.Duration {
	end := max(time.Duration(r.Took), time.Millisecond)
	for i := range r.Timeline.Bars {
		end = max(end, r.Timeline.Bars[i].End)
	}
	return end
}

// timeline draws a lane for each endpoint: its breaker, its holds, its attempts;
// and the hops between them.
func (r *Report) timeline() picture {
	s := scale{r.span()}
	p := picture{Ticks: axis(s)}
	y := 0.0
	tops, bottoms := map[string]float64{}, map[string]float64{}
	for i := range r.Timeline.Lanes {
		l := &r.Timeline.Lanes[i]
		if _, ok := tops[l.Destination]; !ok {
			tops[l.Destination] = y + labelHeight
		}
		drawn, height := drawLane(s, l, r.Timeline.Bars, y)
		p.Lanes = append(p.Lanes, drawn)
		y += height
		bottoms[l.Destination] = y
		y += laneGap
	}
	if r.Messages.DeadLettered > 0 {
		tops[""] = y + labelHeight
		p.Dead = drawDead(s, r.Letters, y)
		y += labelHeight + 2*rowHeight + laneGap
	}
	for i := range r.Timeline.Hops {
		if h, ok := drawHop(s, &r.Timeline.Hops[i], bottoms, tops); ok {
			p.Hops = append(p.Hops, h)
		}
	}
	p.Plot = unit(y)
	p.Height = unit(y + axisHeight)
	return p
}

func drawLane(s scale, l *Lane, bars []Bar, top float64) (drawn drawnLane, height float64) {
	detail := attempts(l.Attempts)
	if l.Destination != l.Name {
		detail = "of " + l.Destination + ", " + detail
	}
	band := top + labelHeight
	drawn = drawnLane{Label: l.Name, Detail: detail, LabelY: unit(top + labelHeight - 6), BandY: unit(band)}
	drawn.Bands = append(breakerBands(s, l, band), holdBands(s, l, band)...)
	own := slices.DeleteFunc(slices.Clone(bars), func(b Bar) bool { return b.Endpoint != l.Name })
	var ends []float64 // of the rows
	first := band + 2*bandHeight
	for i := range own {
		b := &own[i]
		from := s.x(b.Start)
		width := math.Max(s.x(b.End)-from, leastBar)
		row := slices.IndexFunc(ends, func(end float64) bool { return end+rowGap <= from })
		switch {
		case row >= 0:
		case len(ends) < maxRows:
			row = len(ends)
			ends = append(ends, 0)
		default:
			row = slices.Index(ends, slices.Min(ends))
		}
		ends[row] = math.Max(ends[row], from+width)
		drawn.Bars = append(drawn.Bars, box{unit(from), unit(first + float64(row)*rowHeight), unit(width), classOf(b), titleOf(b)})
	}
	return drawn, labelHeight + 2*bandHeight + float64(max(len(ends), 1))*rowHeight
}

// breakerBands are the times for which the breaker was not closed.
func breakerBands(s scale, l *Lane, y float64) []box {
	var all []box
	for i, m := range l.Moves {
		if m.State == event.BreakerClosed {
			continue
		}
		until := s.span
		if i+1 < len(l.Moves) {
			until = l.Moves[i+1].At
		}
		from := s.x(m.At)
		all = append(all, box{
			unit(from), unit(y), unit(math.Max(s.x(until)-from, leastBar)), m.State.String(),
			fmt.Sprintf("breaker %s from %s to %s", strings.ReplaceAll(m.State.String(), "_", "-"), short(m.At), short(until)),
		})
	}
	return all
}

func holdBands(s scale, l *Lane, y float64) []box {
	var all []box
	for _, h := range l.Holds {
		from := s.x(h.From)
		all = append(all, box{
			unit(from), unit(y + bandHeight), unit(math.Max(s.x(h.To)-from, leastBar)), "hold",
			fmt.Sprintf("asked to be left alone from %s to %s", short(h.From), short(h.To)),
		})
	}
	return all
}

func drawHop(s scale, h *Mark, bottoms, tops map[string]float64) (drawnHop, bool) {
	if h.To == "" && h.Reason == message.HopCancelled { // it was given up, and is no dead letter
		return drawnHop{}, false
	}
	from, ok := bottoms[h.From]
	if !ok { // it was left before anything was tried there
		from, ok = tops[h.From]
	}
	to, there := tops[h.To]
	if !ok || !there {
		return drawnHop{}, false
	}
	x := s.x(h.At)
	head := 4.0
	if to < from {
		head = -head
	}
	title := fmt.Sprintf("%s: %s to %s at %s: %s", h.ID, h.From, cmp.Or(h.To, "the dead letters"), short(h.At), h.Reason)
	if h.Error != "" {
		title += ": " + h.Error
	}
	return drawnHop{
		X: unit(x), From: unit(from), To: unit(to), Title: title,
		Arrow: fmt.Sprintf("%s,%s %s,%s %s,%s", unit(x), unit(to), unit(x-2.5), unit(to-head), unit(x+2.5), unit(to-head)),
	}, true
}

func attempts(n int) string {
	if n == 1 {
		return "1 attempt"
	}
	return fmt.Sprintf("%d attempts", n)
}

func drawDead(s scale, letters []Letter, top float64) *deadLane {
	d := &deadLane{LabelY: unit(top + labelHeight - 6), Y: unit(top + labelHeight + rowHeight)}
	for _, l := range letters {
		d.Marks = append(d.Marks, dot{unit(s.x(l.Offset)), d.Y, "dead", fmt.Sprintf("%s: %s after %s: %s", l.ID, l.Reason, attempts(l.Attempts), l.Error)})
	}
	return d
}

// latencies draws how long each attempt took, when it ended, on a logarithmic
// scale.
func (r *Report) latencies() picture {
	s := scale{r.span()}
	p := picture{Ticks: axis(s), Plot: plotHeight, Height: plotHeight + axisHeight}
	if len(r.Timeline.Bars) == 0 {
		return p
	}
	least, most := time.Duration(math.MaxInt64), time.Duration(0)
	for i := range r.Timeline.Bars {
		took := max(r.Timeline.Bars[i].took(), time.Microsecond)
		least, most = min(least, took), max(most, took)
	}
	low := math.Floor(math.Log10(float64(least)))
	high := math.Max(math.Ceil(math.Log10(float64(most))), low+1)
	y := func(d time.Duration) unit {
		share := (math.Log10(float64(max(d, time.Microsecond))) - low) / (high - low)
		return unit(2*edge + (1-share)*(plotHeight-3*edge))
	}
	for e := low; e <= high; e++ {
		d := time.Duration(math.Round(math.Pow(10, e)))
		p.Levels = append(p.Levels, level{y(d), short(d)})
	}
	for i := range r.Timeline.Bars {
		b := &r.Timeline.Bars[i]
		p.Dots = append(p.Dots, dot{unit(s.x(b.End)), y(b.took()), classOf(b), titleOf(b)})
	}
	return p
}

func (b *Bar) took() time.Duration { return b.End - b.Start }

// classOf is the class of an attempt: its outcome, and whether it was a hedge.
func classOf(b *Bar) string {
	class := string(b.Outcome)
	if b.Hedge {
		class += " hedge"
	}
	return class
}

func titleOf(b *Bar) string {
	what := "attempt"
	if b.Hedge {
		what = "hedge, attempt"
	}
	title := fmt.Sprintf("%s: %s %d at %s from %s, took %s: %s", b.ID, what, b.Number, b.Endpoint, short(b.Start), short(b.took()), outcomeText(b.Outcome))
	if b.Waited >= time.Millisecond {
		title += ", after a wait of " + short(b.Waited)
	}
	if b.Error != "" {
		title += ": " + b.Error
	}
	return title
}

func outcomeText(o message.Outcome) string {
	switch o {
	case message.OutcomeOK:
		return "ok"
	case message.OutcomeRetry:
		return "failed, worth another try"
	case message.OutcomePermanent:
		return "failed for good"
	default:
		return string(o)
	}
}

// axis marks the time at round distances.
func axis(s scale) []tick {
	step := time.Duration(1)
	for i := 0; s.span/step > ticks; i++ {
		step = []time.Duration{1, 2, 5}[i%3] * time.Duration(math.Pow10(i/3))
	}
	var all []tick
	for at := time.Duration(0); at <= s.span; at += step {
		all = append(all, tick{unit(s.x(at)), short(at)})
	}
	return all
}

// short writes a duration with about three digits that count.
func short(d time.Duration) string {
	switch {
	case d >= time.Hour:
		d = d.Round(time.Minute)
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= 10*time.Second:
		d = d.Round(100 * time.Millisecond)
	case d >= time.Second:
		d = d.Round(10 * time.Millisecond)
	case d >= 10*time.Millisecond:
		d = d.Round(time.Millisecond)
	case d >= time.Millisecond:
		d = d.Round(100 * time.Microsecond)
	default:
		d = d.Round(time.Microsecond)
	}
	return duration.Text(d)
}
