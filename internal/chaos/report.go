package chaos

import (
	"cmp"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Millis is a duration that is written in milliseconds.
type Millis time.Duration

// MarshalJSONTo writes milliseconds, to the microsecond.
func (m Millis) MarshalJSONTo(enc *jsontext.Encoder) error {
	return json.MarshalEncode(enc, float64(time.Duration(m).Microseconds())/1000)
}

// Report is what a run added up to. It doesn't change.
type Report struct {
	// Setup is what was run.
	Setup
	Began time.Time `json:"began"`
	Took  Millis    `json:"took_ms"`

	Messages Messages `json:"messages"`
	// Lost are ids of messages that were neither delivered nor kept, at most a
	// hundred; Messages.Lost counts them all.
	Lost []string `json:"lost_ids,omitempty"`
	// DeliveredBy says where messages arrived, most first.
	DeliveredBy []Count  `json:"delivered_by"`
	Attempts    Attempts `json:"attempts"`
	// Load is attempts ÷ messages: by how much the faults multiplied what the
	// other side is asked. 0 where there was no message.
	Load float64 `json:"load"`
	// Hedges counts races in which a hedge was sent, by who won.
	Hedges []Count `json:"hedge_races,omitempty"`
	// Applied counts what was put in front of attempts, "none" too.
	Applied []Count    `json:"faults_applied"`
	Hops    []HopCount `json:"hops"`
	// Deaths counts dead letters by why their last destination was left.
	Deaths  []Count  `json:"dead_letters"`
	Letters []Letter `json:"letters,omitempty"` // the first hundred
	// Latency is that of delivered messages, retries and waits included.
	Latency   Latency    `json:"latency"`
	Endpoints []Endpoint `json:"endpoints"`
	// Late is by how much the load fell behind its rate at worst.
	Late Millis `json:"late_ms,omitzero"`

	// Timeline is for the page.
	Timeline Timeline `json:"-"`
}

// Setup is what was run.
type Setup struct {
	Destination string `json:"destination"`
	// Traffic says where the messages came from.
	Traffic Traffic `json:"traffic"`
	// Command repeats the run.
	Command string `json:"command"`
	Seed    uint64 `json:"seed"`
	// Faults are the faults as they were asked for.
	Faults string `json:"faults"`
	// State is the folder that has the dead letters; "" where there are none.
	State string `json:"state,omitempty"`
}

// Traffic says where the messages of a run come from.
type Traffic string

// The traffics.
const (
	// Made: Run made them, so each is known, and each end is checked.
	Made Traffic = "made"
	// Received: sources took them, from senders who know what they sent. What became
	// of them is counted; that none was lost can't be shown.
	Received Traffic = "received"
)

// Messages says what became of the messages. Delivered, DeadLettered, Lost and
// Interrupted together are Sent, but for a message that was dead-lettered and
// did arrive: it counts for both. Of received messages it counts deliveries.
type Messages struct {
	Sent         int `json:"sent"`
	Delivered    int `json:"delivered"`
	DeadLettered int `json:"dead_lettered"`
	Lost         int `json:"lost"`
	Interrupted  int `json:"interrupted"` // given up when the run was ended early
	// Unkept are received ones that failed without a dead letter: nobody requires
	// them, or their source was told to send again.
	Unkept int `json:"unkept,omitzero"`
}

// Attempts counts tries by how they ended. A retry is one after the first at its
// destination that is no hedge.
type Attempts struct {
	Total     int `json:"total"`
	OK        int `json:"ok"`
	Failed    int `json:"failed"` // and worth another try
	Permanent int `json:"permanent"`
	Cancelled int `json:"cancelled"`
	Retries   int `json:"retries"`
	Hedges    int `json:"hedges"`
}

func (a *Attempts) add(e *event.Event) {
	a.Total++
	switch e.Outcome {
	case message.OutcomeOK:
		a.OK++
	case message.OutcomeRetry:
		a.Failed++
	case message.OutcomePermanent:
		a.Permanent++
	case message.OutcomeCancelled:
		a.Cancelled++
	}
	switch {
	case e.Hedge:
		a.Hedges++
	case e.Number > 1:
		a.Retries++
	}
}

// Latency are ranks of a number of latencies.
type Latency struct {
	Count int    `json:"count"`
	P50   Millis `json:"p50_ms"`
	P99   Millis `json:"p99_ms"`
	Max   Millis `json:"max_ms"`
}

// Count is how often something was.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// HopCount is how often a destination was left for another; To is "" for the
// dead letters.
type HopCount struct {
	From   string            `json:"from"`
	To     string            `json:"to"`
	Reason message.HopReason `json:"reason"`
	Count  int               `json:"count"`
}

// Letter is a dead letter. Reason is why the last destination was left.
type Letter struct {
	ID       string        `json:"id"`
	Letter   string        `json:"letter"`
	Reason   string        `json:"reason"`
	Attempts int           `json:"attempts"`
	Tags     failure.Tags  `json:"tags,omitempty"`
	Error    string        `json:"error"`
	At       time.Time     `json:"at"`
	Offset   time.Duration `json:"-"` // from the beginning; Report sets it
}

// Endpoint is what one endpoint saw.
type Endpoint struct {
	Name        string   `json:"name"`
	Destination string   `json:"destination"`
	Attempts    Attempts `json:"attempts"`
	// Latency is that of attempts that ended by themselves.
	Latency Latency `json:"latency"`
	// Opened counts how often its breaker opened from closed, Shut how long it was
	// not closed.
	Opened int    `json:"breaker_opened"`
	Shut   Millis `json:"breaker_not_closed_ms"`
	Holds  int    `json:"holds"`
}

// Timeline is when things were, from the beginning on.
type Timeline struct {
	Lanes []Lane
	Bars  []Bar
	Hops  []Mark
	// Attempts and HopsSeen are how many there were; more than there are Bars and
	// Hops where those are a sample.
	Attempts, HopsSeen int
	// Dropped counts what was left out since there were too many endpoints.
	Dropped int
}

// Lane is an endpoint's.
type Lane struct {
	Name, Destination string
	Attempts          int
	Moves             []Move
	Holds             []Hold
}

// Bar is one attempt.
type Bar struct {
	Endpoint, ID       string
	Number             int
	Start, End, Waited time.Duration
	Outcome            message.Outcome
	Hedge              bool
	Tags               failure.Tags
	Error              string
}

// Mark is one hop; To is "" for the dead letters.
type Mark struct {
	From, To, ID string
	At           time.Duration
	Reason       message.HopReason
	Error        string
}

// Move is a breaker's move to a state.
type Move struct {
	At    time.Duration
	State event.BreakerState
}

// Hold is a time for which an endpoint asked to be left alone.
type Hold struct{ From, To time.Duration }

// Report adds up what was recorded until now.
func (r *Recorder) Report(now time.Time, s Setup) Report {
	r.mu.Lock()
	defer r.mu.Unlock()
	rep := Report{
		Setup: s, Began: r.began, Took: Millis(now.Sub(r.began)), Late: Millis(r.late),
		DeliveredBy: counts(r.arrived), Attempts: r.attempts, Hedges: races(r.hedges), Applied: counts(r.faults), Hops: hopCounts(r.hops),
		Deaths: counts(r.deaths), Letters: slices.Clone(r.letters), Latency: r.latency.latency(), Endpoints: []Endpoint{},
		Timeline: Timeline{Bars: slices.Clone(r.bars.kept), Hops: slices.Clone(r.marks.kept), Attempts: r.bars.seen, HopsSeen: r.marks.seen, Dropped: r.dropped},
	}
	// Of what happened at the same moment, who came first is chance.
	slices.SortStableFunc(rep.Timeline.Bars, func(a, b Bar) int {
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.ID, b.ID), cmp.Compare(a.End, b.End))
	})
	slices.SortStableFunc(rep.Timeline.Hops, func(a, b Mark) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID)) })
	for i := range rep.Letters {
		rep.Letters[i].Offset = r.since(rep.Letters[i].At)
	}
	if s.Traffic == Received {
		rep.Messages = r.received()
	} else {
		rep.Messages, rep.Lost = r.audit()
	}
	if n := rep.Messages.Sent; n > 0 {
		rep.Load = float64(r.attempts.Total) / float64(n)
	}
	for _, name := range r.order {
		p := r.places[name]
		shut := p.shut
		if p.state != event.BreakerClosed {
			shut += max(now.Sub(p.since), 0)
		}
		rep.Endpoints = append(rep.Endpoints, Endpoint{
			Name: name, Destination: p.destination, Attempts: p.attempts, Latency: p.latency.latency(),
			Opened: p.opened, Shut: Millis(shut), Holds: len(p.holds),
		})
		rep.Timeline.Lanes = append(rep.Timeline.Lanes, Lane{
			Name: name, Destination: p.destination, Attempts: p.attempts.Total, Moves: slices.Clone(p.moves), Holds: slices.Clone(p.holds),
		})
	}
	return rep
}

// received adds up what the events said, which is all there is where sources took
// the messages. The caller holds r.mu.
func (r *Recorder) received() Messages {
	return Messages{
		Sent: r.delivered + r.failed, Delivered: r.delivered, DeadLettered: r.lettered, Unkept: max(r.failed-r.lettered, 0),
	}
}

// audit looks at each message that was made. The caller holds r.mu.
func (r *Recorder) audit() (Messages, []string) {
	m := Messages{Sent: r.sent}
	var lost []string
	for _, id := range slices.Sorted(maps.Keys(r.ledger)) {
		f := r.ledger[id]
		if f&arrived != 0 {
			m.Delivered++
		}
		if f&kept != 0 {
			m.DeadLettered++
		}
		switch {
		case f&concluded != 0:
		case f&cut != 0:
			m.Interrupted++
		default:
			m.Lost++
			if len(lost) < maxLost {
				lost = append(lost, id)
			}
		}
	}
	return m, lost
}

// counts sorts by count, then by name.
func counts(from map[string]int) []Count {
	all := make([]Count, 0, len(from))
	for name, n := range from {
		all = append(all, Count{name, n})
	}
	slices.SortFunc(all, func(a, b Count) int { return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name)) })
	return all
}

func races(from map[event.Race]int) []Count {
	named := make(map[string]int, len(from))
	for race, n := range from {
		named[string(race)] = n
	}
	return counts(named)
}

func hopCounts(from map[hopKey]int) []HopCount {
	all := make([]HopCount, 0, len(from))
	for k, n := range from {
		all = append(all, HopCount{k.from, k.to, k.reason, n})
	}
	slices.SortFunc(all, func(a, b HopCount) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}
