// These tests would catch: a message that meets its fallbacks in another order
// than its policy says, one that enters a destination twice, a deadline that
// bounds the wrong destinations, and a cycle that is walked for ever.
package chain_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/chain"
)

func TestFlatten(t *testing.T) {
	for _, tt := range []struct {
		name  string
		graph map[string][]string
		want  []chain.Link
	}{
		{"alone", nil, []chain.Link{{"a", -1}}},
		{"in order", map[string][]string{"a": {"b", "c"}}, []chain.Link{{"a", -1}, {"b", 0}, {"c", 0}}},
		{"depth first", map[string][]string{"a": {"b", "c"}, "b": {"d"}}, []chain.Link{{"a", -1}, {"b", 0}, {"d", 1}, {"c", 0}}},
		{"the first place counts", map[string][]string{"a": {"b", "c"}, "b": {"c"}}, []chain.Link{{"a", -1}, {"b", 0}, {"c", 1}}},
		{"named twice", map[string][]string{"a": {"b", "b"}}, []chain.Link{{"a", -1}, {"b", 0}}},
	} {
		got, err := chain.Flatten("a", func(name string) []string { return tt.graph[name] })
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", tt.name, err, diff)
		}
	}
	for name, graph := range map[string]map[string][]string{
		"itself":               {"a": {"a"}},
		"two":                  {"a": {"b"}, "b": {"a"}},
		"further down":         {"a": {"b"}, "b": {"c"}, "c": {"d"}, "d": {"b"}},
		"beside the first way": {"a": {"b", "c"}, "b": {"d"}, "c": {"d", "c"}},
	} {
		got, err := chain.Flatten("a", func(name string) []string { return graph[name] })
		if err == nil || !strings.HasSuffix(err.Error(), "falls back to itself") || got != nil {
			t.Errorf("a cycle, %s: %v, %v", name, got, err)
		}
	}
}

// TestChainOfAnyGraph: each destination that can be reached is there once, where
// a plain walk of every way meets it first; a graph with a cycle has no chain.
func TestChainOfAnyGraph(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "destinations")
		graph := map[string][]string{}
		for i := range n {
			for _, to := range rapid.SliceOfN(rapid.IntRange(0, n-1), 0, 3).Draw(t, fmt.Sprint("of ", i)) {
				// Mostly downwards, so that many graphs have no cycle.
				if to > i || rapid.IntRange(0, 19).Draw(t, "up") == 0 {
					graph[fmt.Sprint(i)] = append(graph[fmt.Sprint(i)], fmt.Sprint(to))
				}
			}
		}
		var met []string // in the order of a walk that remembers nothing but its way
		cycle := false
		var walk func(way []string)
		walk = func(way []string) {
			name := way[len(way)-1]
			if cycle = cycle || slices.Contains(way[:len(way)-1], name); cycle {
				return
			}
			met = append(met, name)
			for _, next := range graph[name] {
				walk(append(slices.Clone(way), next))
			}
		}
		walk([]string{"0"})
		got, err := chain.Flatten("0", func(name string) []string { return graph[name] })
		if (err != nil) != cycle {
			t.Fatalf("%v; a cycle: %v", err, cycle)
		}
		if cycle {
			return
		}
		var want, names []string
		for _, name := range met {
			if !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		for i, l := range got {
			names = append(names, l.Name)
			if l.Parent >= i || (l.Parent < 0) != (i == 0) || i > 0 && !slices.Contains(graph[got[l.Parent].Name], l.Name) {
				t.Errorf("%q is the fallback of place %d", l.Name, l.Parent)
			}
		}
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}
