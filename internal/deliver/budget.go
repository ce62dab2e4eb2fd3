package deliver

import (
	"context"
	"net/url"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/kv"
)

// shareChore is the name of what exchanges a lane's retry budget.
const shareChore = "budget"

const (
	// shareFast and shareSlow bound how often a budget is exchanged, which is once
	// a slot: a short window must not keep the store busy, and a long one not let
	// several relays spend the whole budget before they hear of each other.
	shareFast = 50 * time.Millisecond
	shareSlow = time.Second
	// shareRest is how long a store that failed is left alone.
	shareRest = time.Second
)

// share has the lane's retry budget counted together with that of the relays that
// have the same store, from now on or no more. The budget never waits for that:
// it decides by what it knows, and with the store away what it knows of the others
// leaves its window.
func (l *lane) share(spec *Spec) {
	if spec.BudgetCounters == nil || spec.RetryBudget == nil {
		l.chores.drop(shareChore)
		return
	}
	l.post.change(func(g *group, _ time.Time) {
		if g.quota.counted == nil {
			g.quota.counted = make(chan struct{}, 1)
		}
	})
	l.chores.keep(shareChore, l.shareBudget)
}

// shareBudget exchanges the budget while sends are counted, and for a window
// after the last: nobody is to be told of nothing.
func (l *lane) shareBudget(ctx context.Context) {
	l.post.mu.Lock()
	counted := l.post.group.quota.counted
	l.post.mu.Unlock()
	for {
		select {
		case <-counted:
		case <-ctx.Done():
			return
		}
		for last := time.Now(); ; {
			window, rest := l.exchange(ctx)
			if !sleep(ctx, rest) {
				return
			}
			select {
			case <-counted:
				last = time.Now()
			default:
			}
			if time.Since(last) > window {
				break
			}
		}
	}
}

// exchange tells the store what was counted here and hears what the others
// counted. It returns the budget's window and when to exchange again.
func (l *lane) exchange(ctx context.Context) (window, rest time.Duration) {
	spec := l.spec.Load()
	if spec.BudgetCounters == nil || spec.RetryBudget == nil {
		return 0, shareSlow // a reload ends this one
	}
	window = spec.RetryBudget.Window
	q := &l.post.group.quota
	l.post.mu.Lock()
	budget := q.budget
	if budget == nil {
		l.post.mu.Unlock()
		return 0, shareSlow
	}
	added := budget.Export(time.Now(), nil)
	l.post.mu.Unlock()
	width := added[0].Width
	ttl := max(time.Duration(len(added))*width, kv.MinSpan) // a window and two slots
	totals, err := spec.BudgetCounters.Add(ctx, budgetSeries(spec.Name, width), toStore(added), ttl)
	if err != nil {
		return window, max(width, shareRest)
	}
	l.post.mu.Lock()
	defer l.post.mu.Unlock()
	if q.budget == budget { // else a reload put another one here
		budget.Import(time.Now(), added, fromStore(totals, width))
	}
	return window, min(max(width, shareFast), shareSlow)
}

// budgetSeries names a budget among those of one relay: numbers of slots of two
// widths don't compare.
func budgetSeries(destination string, width time.Duration) string {
	return url.PathEscape(destination) + "/" + strconv.FormatInt(int64(width), 10)
}

func toStore(slots []limit.Slot) []kv.Slot {
	out := make([]kv.Slot, len(slots))
	for i, s := range slots {
		out[i] = kv.Slot{Number: s.Number, Counts: []int64{min(s.Firsts, kv.MaxDelta), min(s.Taken, kv.MaxDelta)}}
	}
	return out
}

func fromStore(slots []kv.Slot, width time.Duration) []limit.Slot {
	out := make([]limit.Slot, len(slots))
	for i, s := range slots {
		out[i] = limit.Slot{Number: s.Number, Width: width, Counts: limit.Counts{Firsts: s.Counts[0], Taken: s.Counts[1]}}
	}
	return out
}
