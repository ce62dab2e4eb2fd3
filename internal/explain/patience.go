package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/setting"
)

// Patience is how long it takes from the moment in which a destination, and all
// its fallbacks with it, goes away until the first dead letter.
type Patience struct {
	// Tries is that time while every breaker is closed still, for too few
	// messages have failed.
	Tries Window `json:"tries"`
	// Spent is when it can come the earliest with the retry budgets spent, which
	// other messages may have done; nil where no destination of the chain has one.
	Spent *setting.Duration `json:"budget_spent,omitzero"`
	// Open is the same from the moment on in which the breakers are open; nil
	// where no destination of the chain has one.
	Open *OpenPatience `json:"open,omitzero"`
}

// OpenPatience is Patience with every breaker of the chain open: its destinations
// are passed over at once, but for a last one that messages wait for.
type OpenPatience struct {
	// Earliest is when the first message is given up, Latest when one that comes
	// at the beginning is at the latest; nil for never.
	Earliest setting.Duration  `json:"earliest"`
	Latest   *setting.Duration `json:"latest,omitzero"`
	// WaitsAt is the destination that messages wait for, and Places how many of
	// them: then senders are pushed back. "" where none waits.
	WaitsAt string `json:"waits_at,omitzero"`
	Places  int    `json:"places,omitzero"`
}

// Longest bounds how long a message can be open at the chain, whatever happens.
type Longest struct {
	Time setting.Duration `json:"time"`
	// Sum says what it is made of.
	Sum string `json:"sum"`
}

// patienceOf says how long the chain bears that everything is away. w must be the
// walk with a failure that is worth a retry.
func patienceOf(w *walk) *Patience {
	p := &Patience{Tries: w.over, Spent: w.spent()}
	open, guarded := Window{}, false
	for i, d := range w.at {
		guards := breakersOf(d)
		if guards == nil { // it is tried as ever
			open = w.stays[i].left(open, w.ends[i])
			continue
		}
		guarded = true
		if i < len(w.at)-1 || d.Delivery.WhenOpen == config.WhenOpenFail || past(open, w.ends[i]) {
			continue // passed over
		}
		p.Open = w.waitsAt(i, open, guards)
	}
	if guarded && p.Open == nil {
		p.Open = &OpenPatience{Earliest: open.Earliest, Latest: &open.Latest}
	}
	return p
}

// spent is when a message has left every destination, those with a budget after
// their first try; nil where none has one.
func (w *walk) spent() *setting.Duration {
	at, bounded := Window{}, false
	for i, d := range w.at {
		if d.Delivery.RetryBudget == nil {
			at = w.stays[i].left(at, w.ends[i])
			continue
		}
		bounded = true
		at.Earliest += w.stays[i].tries[0].fast
		at.Latest = w.stays[i].left(at, w.ends[i]).Latest
	}
	if !bounded {
		return nil
	}
	return new(min(at.Earliest, w.over.Earliest))
}

// past reports whether the retrying is over before it begins.
func past(entered Window, end *Window) bool { return end != nil && entered.Earliest >= end.Earliest }

// waitsAt is the stay of messages at the open breakers of the last destination.
// Each trial that a message is the one to make costs it a try.
func (w *walk) waitsAt(i int, entered Window, guards []breaker.Settings) *OpenPatience {
	d := w.at[i]
	p := &OpenPatience{WaitsAt: d.Name, Places: d.Delivery.MaxPending}
	at := setting.Duration(0) // the moment of a message's tries, the first of which found it open
	end := w.ends[i]
	var earliest *setting.Duration
	for n, next := range openings(guards, d.Delivery.Retry.Attempts-1) {
		// A wait that would end past the end is not begun, by the first message or
		// by one that comes later. It is seen after the backoff, if not before.
		if end != nil && earliest == nil && entered.Latest+next > end.Earliest {
			seen := at + setting.Duration(d.Delivery.Retry.Decide(away(), n+1, 0).Wait)
			if entered.Latest+seen > end.Earliest {
				seen = at
			}
			earliest = new(max(entered.Earliest+seen, end.Earliest-(next-at)))
		}
		at = next
	}
	p.Earliest = entered.Earliest + max(at, w.stays[i].last.Earliest)
	if earliest != nil {
		p.Earliest = min(p.Earliest, *earliest)
	}
	if end != nil {
		p.Latest = new(end.Latest + w.stays[i].timeout)
	}
	return p
}

// breakersOf returns the breakers of a destination's endpoints; nil where it is
// never open, since one of them has none.
func breakersOf(d *config.Destination) []breaker.Settings {
	if d.Group == nil {
		if d.Delivery.Breaker == nil {
			return nil
		}
		return []breaker.Settings{*d.Delivery.Breaker}
	}
	var all []breaker.Settings
	for i := range d.Group.Members {
		b := d.Group.Members[i].Delivery.Breaker
		if b == nil {
			return nil
		}
		all = append(all, *b)
	}
	return all
}

// openings returns the moments at which the next n rounds of trials may begin,
// from the one in which all the breakers open, where every trial fails at once.
func openings(guards []breaker.Settings, n int) []setting.Duration {
	var all []setting.Duration
	for _, s := range guards {
		all = append(all, openingsOf(s, n)...)
	}
	slices.Sort(all)
	return all[:min(max(n, 0), len(all))]
}

// openingsOf asks the breaker itself.
func openingsOf(s breaker.Settings, n int) (all []setting.Duration) {
	began := time.Unix(0, 0)
	b := breaker.New(s, began)
	fails := func(now time.Time) {
		var p breaker.Permit
		if b.Begin(now, s.Window, breaker.Mark{}, &p) {
			b.End(now, &p, breaker.Sick)
		}
	}
	for range s.MinRequests {
		fails(began)
	}
	for now := began; len(all) < n; {
		look := b.Look(now)
		if look.Answer != breaker.Wait || look.Until.IsZero() {
			break
		}
		now = look.Until
		all = append(all, setting.Duration(now.Sub(began)))
		fails(now)
	}
	return all
}

// longestOf bounds how long a message can be open; nil where nothing does: without
// a deadline it may wait at an open breaker, for a hold or for its turn.
func longestOf(w *walk) *Longest {
	var best *Longest
	if d := setting.Duration(w.at[0].Delivery.Deadline); d > 0 {
		b := &Longest{Time: d}
		var parts []string
		for i := range w.at {
			t := w.stays[i].timeout
			b.Time += t
			parts = append(parts, t.String())
		}
		b.Sum = fmt.Sprintf("deadline %s, and one timeout for each destination: %s", d, strings.Join(parts, " + "))
		best = b
	}
	if t := setting.Duration(w.at[0].Delivery.TTL); t > 0 {
		var longest setting.Duration
		for i := range w.at {
			longest = max(longest, w.stays[i].timeout)
		}
		if best == nil || t+longest < best.Time {
			best = &Longest{t + longest, fmt.Sprintf("ttl %s, and a last timeout of %s", t, longest)}
		}
	}
	return best
}
