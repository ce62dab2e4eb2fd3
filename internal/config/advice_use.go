package config

import "github.com/pawlhq/pawl/internal/setting"

// adviseBudget warns of a retry budget that never has room for one retry.
func (l *loader) adviseBudget(e *destinationEntry, d *Destination) {
	b := d.Delivery.RetryBudget
	if b == nil || b.Ratio > 0 || b.MinPerSecond*b.Window.Seconds() >= 1 {
		return
	}
	f, n := l.saidOf(e, d.Delivery.From["retry_budget.ratio"], "retry_budget")
	l.warnf(f, n, "the retry budget of %s is nothing: no retry and no hedge is ever sent; raise its ratio or min_per_second, or say retry.attempts: 1", d.Name)
}

// adviseBatch warns of batches that can't be what was said of them.
func (l *loader) adviseBatch(e *destinationEntry, d *Destination) {
	v := &d.Delivery
	b := v.Batch
	if b == nil {
		return
	}
	if v.Deadline > 0 && b.MaxWait >= v.Deadline {
		f, n := l.saidOf(e, v.From["batch.max_wait"], "batch.max_wait")
		l.warnf(f, n, "batch.max_wait of %s, %s, is no shorter than its deadline, %s: no message can gather for that long; lower it, or raise the deadline",
			d.Name, setting.Duration(b.MaxWait), setting.Duration(v.Deadline))
	}
	if v.MaxPending < b.MaxMessages {
		f, n := l.saidOf(e, v.From["batch.max_messages"], "batch.max_messages")
		l.warnf(f, n, "no batch of %s ever has %d messages: its lane has %d places; raise max_pending, or lower batch.max_messages", d.Name, b.MaxMessages, v.MaxPending)
	}
	if len(v.ForwardHeaders) > 0 {
		f, n := l.saidOf(e, v.From["forward_headers"], "forward_headers")
		l.warnf(f, n, "%s sends batches, and several messages in one request have no headers of one: forward_headers does nothing; put what is needed into the body with a transform, or leave batch out", d.Name)
	}
}

// adviseStores warns of what would be shared in a store that nobody shares.
func (l *loader) adviseStores(c *Config) {
	used := map[string]string{}
	for i := range c.Sources {
		if d := c.Sources[i].Dedupe; d != nil {
			used[d.Store] = "duplicates"
		}
	}
	for i := range c.Destinations {
		used[c.Destinations[i].Delivery.BudgetStore] = "retry budgets"
	}
	for i := range c.Stores {
		s := &c.Stores[i]
		what, is := used[s.Name]
		if s.Type != StoreMemory || !is {
			continue
		}
		e := &l.stores[i]
		l.warnf(e.file, find(e.node, "type"), "the store %s is this relay's own memory: replicas share no %s in it; use type: redis, or leave the store out, as a relay remembers these by itself", s.Name, what)
	}
}

// adviseNotify warns of alerts that go to the only destination: one about that is
// sent nowhere.
func (l *loader) adviseNotify(c *Config) {
	if len(c.Destinations) != 1 {
		return
	}
	for i := range c.Notify {
		e := &l.notices[i]
		l.warnf(e.file, find(e.node, "to"), "notify.to: %s is the only destination, and no alert about a destination goes to itself: nobody is told of its trouble; name another one", c.Destinations[0].Name)
	}
}
