package chaos

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// The bounds of a Recorder.
const (
	// maxBars is how many attempts the timeline shows: more than a screen has
	// pixels for, and a page of about 2 MB.
	maxBars = 4000
	// maxMarks is how many hops, breaker moves and holds each it shows.
	maxMarks = 2000
	// maxLanes is how many endpoints are told apart: a group has at most 64, and
	// a chain is short.
	maxLanes = 128
	// maxLatencies is how many latencies are kept to rank them.
	maxLatencies = 1 << 16
	// maxLetters and maxLost are how many dead letters and lost messages a report
	// lists.
	maxLetters = 100
	maxLost    = 100
	// maxKinds is how many different reasons are counted, of hops or of dead
	// letters.
	maxKinds = 256
)

// Recorder counts what happens to messages and keeps a timeline of it. It is
// safe for concurrent use.
type Recorder struct {
	began time.Time
	mine  func(destination string) bool

	mu        sync.Mutex
	ledger    map[string]fate // by message id
	sent      int
	delivered int
	failed    int // deliveries that ended without
	lettered  int // dead letters that were told of
	attempts  Attempts
	places    map[string]*place
	order     []string // of places, as they were seen
	dropped   int      // events of endpoints past maxLanes
	arrived   map[string]int
	hops      map[hopKey]int
	hedges    map[event.Race]int
	faults    map[string]int
	letters   []Letter
	deaths    map[string]int
	latency   ranks
	bars      sample[Bar]
	marks     sample[Mark]
	late      time.Duration
}

// fate is what became of a message.
type fate uint8

const (
	open      fate = 0
	arrived   fate = 1 << 0
	kept      fate = 1 << 1 // as a dead letter
	cut       fate = 1 << 2 // given up by who ran it
	concluded      = arrived | kept
)

type hopKey struct {
	from, to string
	reason   message.HopReason
}

// place is one endpoint.
type place struct {
	destination, name string
	attempts          Attempts
	latency           ranks
	state             event.BreakerState
	since             time.Time // of state
	opened            int
	shut              time.Duration // open or half-open, before since
	moves             []Move
	holds             []Hold
}

// NewRecorder returns a Recorder whose time begins now. mine says which
// destinations it looks at; nil is all of them.
func NewRecorder(now time.Time, mine func(destination string) bool) *Recorder {
	if mine == nil {
		mine = func(string) bool { return true }
	}
	return &Recorder{
		began: now, mine: mine,
		ledger: map[string]fate{}, places: map[string]*place{}, arrived: map[string]int{}, hops: map[hopKey]int{},
		hedges: map[event.Race]int{}, faults: map[string]int{}, deaths: map[string]int{},
		bars:  sample[Bar]{most: maxBars, id: func(b *Bar) string { return b.ID }},
		marks: sample[Mark]{most: maxMarks, id: func(m *Mark) string { return m.ID }},
	}
}

// Sent says that a message is on its way. Only such messages can be lost.
func (r *Recorder) Sent(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sent++
	if _, ok := r.ledger[id]; !ok {
		r.ledger[id] = open
	}
}

// Cut says that whoever ran it gave a message up: it is not lost.
func (r *Recorder) Cut(id string) { r.mark(id, cut) }

// Late says how far the load has fallen behind its rate.
func (r *Recorder) Late(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.late = max(r.late, d)
}

// Fault counts a fault that was put in front of an attempt.
func (r *Recorder) Fault(kind string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	count(r.faults, kind, 1)
}

// Kept says that a dead letter was found where dead letters are kept.
func (r *Recorder) Kept(l Letter) {
	r.mark(l.ID, kept)
	r.mu.Lock()
	defer r.mu.Unlock()
	count(r.deaths, l.Reason, 1)
	if len(r.letters) < maxLetters {
		r.letters = append(r.letters, l)
	}
}

func (r *Recorder) mark(id string, f fate) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if was, ok := r.ledger[id]; ok {
		r.ledger[id] = was | f
	}
}

// Observe is an event.Sink.
func (r *Recorder) Observe(e event.Event) {
	if e.Destination == "" || !r.mine(e.Destination) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	switch e.Kind {
	case event.AttemptEnded:
		r.attempt(&e)
	case event.Hopped:
		r.hop(&e)
	case event.Delivered:
		r.delivered++
		count(r.arrived, e.Endpoint, 1)
		r.latency.add(e.Took)
		if was, ok := r.ledger[e.MessageID]; ok {
			r.ledger[e.MessageID] = was | arrived
		}
	case event.DeliveryFailed:
		r.failed++
	case event.Lettered:
		r.lettered++
	case event.BreakerMoved:
		r.move(&e)
	case event.HoldSet:
		if p := r.place(&e); p != nil && len(p.holds) < maxMarks {
			at := r.since(e.At)
			p.holds = append(p.holds, Hold{at, at + e.Took})
		}
	case event.Raced:
		r.hedges[e.Race]++
	default: // the rest has no part in a delivery
	}
}

func (r *Recorder) attempt(e *event.Event) {
	r.attempts.add(e)
	p := r.place(e)
	if p == nil {
		return
	}
	p.attempts.add(e)
	if e.Outcome != message.OutcomeCancelled {
		p.latency.add(e.Took)
	}
	end := r.since(e.At)
	r.bars.add(Bar{
		Endpoint: p.name, ID: e.MessageID, Number: e.Number, Start: max(end-e.Took, 0), End: end, Waited: e.Waited,
		Outcome: e.Outcome, Hedge: e.Hedge, Tags: slices.Clone(e.Tags), Error: e.Error,
	})
}

func (r *Recorder) hop(e *event.Event) {
	count(r.hops, hopKey{e.Destination, e.To, e.Hop}, 1)
	r.marks.add(Mark{From: e.Destination, To: e.To, ID: e.MessageID, At: r.since(e.At), Reason: e.Hop, Error: e.Error})
}

func (r *Recorder) move(e *event.Event) {
	p := r.place(e)
	if p == nil {
		return
	}
	if p.state != event.BreakerClosed {
		p.shut += e.At.Sub(p.since)
	}
	if e.Breaker == event.BreakerOpen && p.state == event.BreakerClosed {
		p.opened++
	}
	p.state, p.since = e.Breaker, e.At
	if len(p.moves) < maxMarks {
		p.moves = append(p.moves, Move{r.since(e.At), e.Breaker})
	}
}

// place returns the endpoint of an event, made where it is new; nil where there
// are too many. The caller holds r.mu.
func (r *Recorder) place(e *event.Event) *place {
	name := cmp.Or(e.Endpoint, e.Destination)
	p, ok := r.places[name]
	if !ok {
		if len(r.places) == maxLanes {
			r.dropped++
			return nil
		}
		p = &place{destination: e.Destination, name: name}
		r.places[name] = p
		r.order = append(r.order, name)
	}
	return p
}

// since returns when something was, from the beginning on.
func (r *Recorder) since(at time.Time) time.Duration { return max(at.Sub(r.began), 0) }

// count adds to a count of kinds, up to maxKinds of them.
func count[K comparable](counts map[K]int, k K, n int) {
	if _, ok := counts[k]; ok || len(counts) < maxKinds {
		counts[k] += n
	}
}

// Progress is how far a run is.
type Progress struct {
	Sent, Delivered, Failed, Attempts int
	// Open are the endpoints whose breaker is not closed, with its state.
	Open []string
}

// InFlight is how many messages are on their way.
func (p Progress) InFlight() int { return max(p.Sent-p.Delivered-p.Failed, 0) }

// Progress returns how far the run is.
func (r *Recorder) Progress() Progress {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := Progress{Sent: r.sent, Delivered: r.delivered, Failed: r.failed, Attempts: r.attempts.Total}
	for _, name := range r.order {
		if s := r.places[name].state; s != event.BreakerClosed {
			p.Open = append(p.Open, name+" "+s.String())
		}
	}
	return p
}
