// These tests catch: a fact that is in no alert or in two; an alert that comes
// while its window runs; one that waits though nothing was told; an alert about
// a destination that goes there; windows that are never closed; a reload that
// loses or repeats what was counted.
package alert

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var midnight = time.Date(2030, 1, 2, 0, 0, 0, 0, time.UTC)

// model is the rule of relay.md §8 said slowly: one history for each watch and
// subject.
type model struct {
	every   map[watch]time.Duration
	history map[windowKey]*history
}

type history struct {
	open        bool
	began, ends time.Time
	counted     []Fact
}

func (m *model) tell(k windowKey, h *history) Alert {
	a := Alert{Fact: h.counted[len(h.counted)-1], To: k.to, Since: h.counted[0].At, Count: len(h.counted)}
	h.counted = nil
	return a
}

func (m *model) take(now time.Time, f Fact) (told []Alert) {
	for w, every := range m.every {
		if w.event != f.Event || w.to == f.Destination {
			continue
		}
		k := windowKey{w, f.subject()}
		h := m.history[k]
		if h == nil {
			h = &history{}
			m.history[k] = h
		}
		h.counted = append(h.counted, f)
		if !h.open {
			told = append(told, m.tell(k, h))
			h.open, h.began, h.ends = true, now, now.Add(every)
		}
	}
	return told
}

func (m *model) due(now time.Time) (told []Alert) {
	for k, h := range m.history {
		switch {
		case !h.open || now.Before(h.ends):
		case len(h.counted) == 0:
			h.open = false
		default:
			told = append(told, m.tell(k, h))
			h.began, h.ends = now, now.Add(m.every[k.watch])
		}
	}
	return told
}

func (m *model) configure(every map[watch]time.Duration) (told []Alert) {
	m.every = every
	for k, h := range m.history {
		each, stays := every[k.watch]
		if stays {
			h.ends = h.began.Add(each)
			continue
		}
		if len(h.counted) > 0 {
			told = append(told, m.tell(k, h))
		}
		h.open = false
	}
	return told
}

func sorted(alerts []Alert) []string {
	var all []string
	for _, a := range alerts {
		all = append(all, fmt.Sprintf("%+v", a))
	}
	slices.Sort(all)
	return all
}

// drawRules draws a configuration, and says what each destination is told of at
// which distance.
func drawRules(t *rapid.T) ([]Rule, map[watch]time.Duration) {
	every := map[watch]time.Duration{}
	var rules []Rule
	for range rapid.IntRange(0, 3).Draw(t, "rules") {
		r := Rule{
			On:    rapid.SliceOfNDistinct(rapid.SampledFrom(Events()[:3]), 1, 3, rapid.ID).Draw(t, "on"),
			To:    rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "b", "c"}), 1, 3, rapid.ID).Draw(t, "to"),
			Every: time.Duration(rapid.IntRange(1, 5).Draw(t, "every")) * time.Second,
		}
		rules = append(rules, r)
		for _, on := range r.On {
			for _, to := range r.To {
				w := watch{on, to}
				if old, ok := every[w]; !ok || r.Every < old {
					every[w] = r.Every
				}
			}
		}
	}
	return rules, every
}

func drawFact(t *rapid.T, at time.Time, n int) Fact {
	f := Fact{Event: rapid.SampledFrom(Events()[:4]).Draw(t, "event"), At: at, MessageID: fmt.Sprint(n)}
	name := rapid.SampledFrom([]string{"a", "b", "x"}).Draw(t, "name")
	switch rapid.IntRange(0, 2).Draw(t, "subject") {
	case 0:
		f.Destination, f.Route = name, "r"
	case 1:
		f.Route = name
	default:
		f.Source = name
	}
	return f
}

func TestCounterDoesAsTheRuleSays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newCounter()
		m := &model{history: map[windowKey]*history{}}
		now := midnight
		wanted, told := 0, 0 // facts
		same := func(what string, got, want []Alert) {
			t.Helper()
			if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
				t.Fatalf("%s (-want +got):\n%s", what, diff)
			}
			for _, a := range got {
				told += a.Count
				if a.To == a.Destination {
					t.Fatalf("an alert about %s goes there", a.To)
				}
			}
		}
		for n := range rapid.IntRange(1, 60).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "pause")) * time.Millisecond)
			// Windows end when the alarm rings, which is never before their end.
			same("due", c.due(now), m.due(now))
			if at := c.next(); !at.IsZero() && !at.After(now) {
				t.Fatalf("the next window ends at %v, which is past", at)
			}
			if rapid.IntRange(0, 9).Draw(t, "what") == 0 {
				rules, every := drawRules(t)
				same("configure", c.configure(rules), m.configure(every))
				continue
			}
			f := drawFact(t, now, n)
			for w := range m.every {
				if w.event == f.Event && w.to != f.Destination {
					wanted++
				}
			}
			got, over := c.take(now, f)
			same("take", got, m.take(now, f))
			if over != nil {
				t.Fatalf("no room for %v", over)
			}
		}
		var left []Alert
		for k, h := range m.history {
			if len(h.counted) > 0 {
				left = append(left, m.tell(k, h))
			}
		}
		same("flush", c.flush(), left)
		if told != wanted {
			t.Fatalf("%d facts were told, of %d", told, wanted)
		}
		if !c.next().IsZero() || len(c.windows) != 0 {
			t.Fatal("after a flush there are windows")
		}
	})
}

// TestDistance looks at the alerts alone: the first at once, and never two of
// one kind about one thing within one window, however facts fall.
func TestDistance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const every = 10 * time.Second
		c := newCounter()
		c.configure([]Rule{{On: []Event{DeadLetter}, To: []string{"ops"}, Every: every}})
		now, last := midnight, time.Time{}
		see := func(alerts []Alert) {
			for range alerts {
				if !last.IsZero() && now.Sub(last) < every {
					t.Fatalf("two alerts within %v", now.Sub(last))
				}
				last = now
			}
		}
		for range 50 {
			until := now.Add(time.Duration(rapid.IntRange(1, 15000).Draw(t, "pause")) * time.Millisecond)
			for at := c.next(); !at.IsZero() && !at.After(until); at = c.next() {
				now = at
				see(c.due(now))
			}
			now = until
			quiet := last.IsZero() || now.Sub(last) > 2*every
			got, _ := c.take(now, Fact{Event: DeadLetter, Destination: "ledger", At: now})
			if quiet && len(got) != 1 {
				t.Fatalf("after %v without a word the next waits", now.Sub(last))
			}
			see(got)
		}
	})
}

func TestWindowsAreBounded(t *testing.T) {
	c := newCounter()
	c.configure([]Rule{{On: []Event{SourceDown}, To: []string{"ops"}, Every: time.Minute}})
	for i := range maxWindows {
		if told, over := c.take(midnight, Fact{Event: SourceDown, Source: fmt.Sprint(i)}); len(told) != 1 || over != nil {
			t.Fatalf("fact %d: told %v, over %v", i, told, over)
		}
	}
	told, over := c.take(midnight, Fact{Event: SourceDown, Source: "one more"})
	if told != nil || len(over) != 1 || over[0].Count != 1 || over[0].To != "ops" {
		t.Fatalf("one past the bound: told %v, over %v", told, over)
	}
	// What has a window is counted still, and room comes back.
	c.take(midnight, Fact{Event: SourceDown, Source: "0"})
	now := midnight.Add(time.Minute)
	if due := c.due(now); len(due) != 1 || due[0].Source != "0" {
		t.Fatalf("due: %v", due)
	}
	if told, over := c.take(now, Fact{Event: SourceDown, Source: "one more"}); len(told) != 1 || over != nil {
		t.Fatalf("after the windows: told %v, over %v", told, over)
	}
}

func TestShortestEveryCounts(t *testing.T) {
	c := newCounter()
	for _, rules := range [][]Rule{
		{{On: []Event{DeadLetter}, To: []string{"ops"}, Every: time.Minute}, {On: []Event{DeadLetter}, To: []string{"ops"}, Every: time.Second}},
		{{On: []Event{DeadLetter}, To: []string{"ops"}, Every: time.Second}, {On: []Event{DeadLetter}, To: []string{"ops", "ops"}, Every: time.Minute}},
	} {
		c.configure(rules)
		c.flush()
		told, _ := c.take(midnight, Fact{Event: DeadLetter, Route: "r"})
		if len(told) != 1 || !c.next().Equal(midnight.Add(time.Second)) {
			t.Errorf("%d alerts, the window ends %v after", len(told), c.next().Sub(midnight))
		}
	}
}

func TestErrorsAreClipped(t *testing.T) {
	f, ok := FactOf(letter(DeadLetterFailed, "delivery", "ledger", "r", strings.Repeat("x", 10_000)))
	if !ok || len(f.Error) > 1100 {
		t.Errorf("an error of %d bytes", len(f.Error))
	}
}
