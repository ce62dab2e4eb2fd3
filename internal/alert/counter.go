package alert

import (
	"container/heap"
	"time"
)

// maxWindows bounds the windows that are open at once: every destination, route
// and source of a large configuration, each with several events and several to
// tell. Some 6 MiB.
const maxWindows = 16384

// counter decides which facts are told of when. It is pure and not safe for
// concurrent use.
type counter struct {
	every   map[watch]time.Duration
	windows map[windowKey]*window
	ends    ends
}

// watch is an event that a destination is told of.
type watch struct {
	event Event
	to    string
}

type windowKey struct {
	watch
	about subject
}

// window is the time after an alert in which further facts are counted.
type window struct {
	key   windowKey
	began time.Time
	ends  time.Time
	since time.Time // when the first of those that are counted was
	count int
	last  Fact
}

func newCounter() *counter {
	return &counter{every: map[watch]time.Duration{}, windows: map[windowKey]*window{}}
}

// configure puts rules in force and returns what was counted for those that are
// gone. Windows of those that stay go on; one whose length has changed ends as
// if it had had the new one from its beginning. Where several rules tell one
// destination of one event, the shortest Every counts: nobody is told twice.
func (c *counter) configure(rules []Rule) (told []Alert) {
	c.every = map[watch]time.Duration{}
	for _, r := range rules {
		for _, on := range r.On {
			for _, to := range r.To {
				w := watch{on, to}
				if have, twice := c.every[w]; !twice || r.Every < have {
					c.every[w] = r.Every
				}
			}
		}
	}
	kept := c.ends[:0]
	for _, w := range c.ends {
		every, stays := c.every[w.key.watch]
		if stays {
			w.ends = w.began.Add(every)
			kept = append(kept, w)
			continue
		}
		delete(c.windows, w.key)
		told = w.tell(told)
	}
	clear(c.ends[len(kept):])
	c.ends = kept
	heap.Init(&c.ends)
	return told
}

// take counts a fact and returns the alerts that it makes at once, and those
// that there is no room to count.
func (c *counter) take(now time.Time, f Fact) (told, over []Alert) {
	about := f.subject()
	for w, every := range c.every {
		if w.event != f.Event || w.to == f.Destination {
			continue
		}
		key := windowKey{w, about}
		open := c.windows[key]
		switch {
		case open != nil:
			open.add(f)
		case len(c.windows) >= maxWindows:
			over = append(over, Alert{Fact: f, To: w.to, Since: f.At, Count: 1})
		default:
			open = &window{key: key, began: now, ends: now.Add(every)}
			c.windows[key] = open
			heap.Push(&c.ends, open)
			told = append(told, Alert{Fact: f, To: w.to, Since: f.At, Count: 1})
		}
	}
	return told, over
}

// due ends the windows whose time has come and returns what was counted in
// them. Those with nothing in them are gone, the others begin anew.
func (c *counter) due(now time.Time) (told []Alert) {
	for len(c.ends) > 0 && !now.Before(c.ends[0].ends) {
		w := c.ends[0]
		if w.count == 0 {
			heap.Pop(&c.ends)
			delete(c.windows, w.key)
			continue
		}
		told = w.tell(told)
		w.began, w.ends = now, now.Add(c.every[w.key.watch])
		heap.Fix(&c.ends, 0)
	}
	return told
}

// next returns when the next window ends; zero where none is open.
func (c *counter) next() time.Time {
	if len(c.ends) == 0 {
		return time.Time{}
	}
	return c.ends[0].ends
}

// flush closes every window and returns what was counted, those that end first
// before the others.
func (c *counter) flush() (told []Alert) {
	for len(c.ends) > 0 {
		told = heap.Pop(&c.ends).(*window).tell(told)
	}
	clear(c.windows)
	return told
}

func (w *window) add(f Fact) {
	if w.count == 0 {
		w.since = f.At
	}
	w.count++
	w.last = f
}

// tell appends the alert of what was counted, where anything was, and counts
// from nothing again.
func (w *window) tell(told []Alert) []Alert {
	if w.count == 0 {
		return told
	}
	told = append(told, Alert{Fact: w.last, To: w.key.to, Since: w.since, Count: w.count})
	w.count, w.since, w.last = 0, time.Time{}, Fact{}
	return told
}

// ends is a heap of windows, the one that ends first on top.
type ends []*window

func (e ends) Len() int           { return len(e) }
func (e ends) Less(i, j int) bool { return e[i].ends.Before(e[j].ends) }
func (e ends) Swap(i, j int)      { e[i], e[j] = e[j], e[i] }

// Push appends a window; use heap.Push.
func (e *ends) Push(w any) { *e = append(*e, w.(*window)) }

// Pop takes the last window off; use heap.Pop.
func (e *ends) Pop() any {
	old := *e
	last := old[len(old)-1]
	old[len(old)-1] = nil
	*e = old[:len(old)-1]
	return last
}
