package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
)

// delivery is a message that a life delivered, from when it came to its end.
type delivery struct {
	life     int
	id       string
	from, to time.Time
}

// delivered notes what a life with power delivered.
func (o *oracle) delivered(p *process, e event.Event) {
	if e.Kind != event.Settled || e.Settlement != event.SettledDelivered {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.deliveries = append(o.deliveries, delivery{p.number, e.MessageID, e.At.Add(-e.Took), e.At})
}

// judgeTwice checks that no two lives delivered one message, while the store that
// they share was there. names are those of the ids.
func (o *oracle) judgeTwice(names map[string]string) {
	if o.w.store == nil {
		return
	}
	byName := map[string][]delivery{}
	for _, d := range o.deliveries {
		if name, known := names[d.id]; known {
			byName[name] = append(byName[name], d)
		}
	}
	for name, all := range byName {
		slices.SortFunc(all, func(a, b delivery) int { return a.to.Compare(b.to) })
		for i, b := range all {
			for _, a := range all[:i] {
				if a.life == b.life {
					continue // judgeOnce
				}
				if from := slices.MinFunc([]time.Time{a.from, b.from}, time.Time.Compare); !o.w.store.troubled(from, b.to) {
					o.w.wrong(name, "life %d delivered it as %s at %v, and life %d as %s at %v, with their store there all the time",
						a.life, a.id, a.to.Sub(o.w.began), b.life, b.id, b.to.Sub(o.w.began))
				}
			}
		}
	}
}

// ended notes that a life sends and tells its store nothing any more.
func (o *oracle) ended(life int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over[life] = time.Now()
}

// spending is what a life charged to a budget.
type spending struct {
	life            int
	firsts, charged []time.Time
}

// judgeSharedBudget checks a budget that relays count together. A life knows what
// the others charged once both have told the store; with the store away it counts
// alone.
func (o *oracle) judgeSharedBudget(d DestinationPlan, byLife map[int][]span) {
	b := d.Budget
	var all []spending
	for life, sends := range byLife {
		firsts, charged := charges(sends)
		all = append(all, spending{life, firsts, charged})
	}
	slices.SortFunc(all, func(a, b spending) int { return cmp.Compare(a.life, b.life) })
	width := b.Window / 20 // of what is told to the store at once
	told := 2 * (min(max(width, 50*time.Millisecond), time.Second) + 2*storeTook)
	for _, mine := range all {
		for _, t := range mine.charged {
			since := t.Add(-b.Window)
			n, firsts := count(mine.charged, since, t), count(mine.firsts, since, t)
			listens := count(mine.firsts, since, t.Add(-told))+count(mine.charged, since, t.Add(-told)) > 0
			heard := listens && !o.w.store.troubled(since.Add(-told), t)
			alone := o.w.store.gone(since.Add(-2*width), t)
			for _, other := range all {
				if other.life == mine.life || alone {
					continue
				}
				firsts += count(other.firsts, since, t)
				if heard {
					others := count(other.charged, since, o.last(other.life, t).Add(-told))
					n += others
					o.together += others
				}
			}
			if alone {
				o.alone++
			}
			if most := b.Ratio*float64(firsts) + b.MinPerSecond*b.Window.Seconds(); float64(n) > most+rounding {
				o.w.wrong("", "life %d charged retry %d at %s in the %v before %v, the shared budget allows %.3f (alone: %v)",
					mine.life, n, d.Name, b.Window, t.Sub(o.w.began), most, alone)
				return
			}
		}
	}
}

// last is the moment, or the end of the life where that was before.
func (o *oracle) last(life int, at time.Time) time.Time {
	if over, ok := o.over[life]; ok && over.Before(at) {
		return over
	}
	return at
}

// count is how many of the times are from the one to the other, both included.
func count(times []time.Time, from, to time.Time) (n int) {
	for _, t := range times {
		if !t.Before(from) && !t.After(to) {
			n++
		}
	}
	return n
}
