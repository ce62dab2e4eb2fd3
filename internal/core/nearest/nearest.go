// Package nearest finds the name that was probably meant by a mistyped one.
//
// The package is pure.
package nearest

import (
	"slices"
	"strings"
)

// To returns the candidate that is most probably meant by word, or "". Ties go
// to the first in sorted order, so that the answer never changes.
func To(word string, candidates []string) string {
	const longest = 64 // no key or name that a person mistypes is longer
	if len(word) > longest {
		return ""
	}
	sorted := slices.Sorted(slices.Values(candidates))
	best, bestAt := "", 1000
	for _, c := range sorted {
		if c == "" || c == word || len(c) > longest {
			continue
		}
		a, b := strings.ToLower(word), strings.ToLower(c)
		// A third of the letters may differ, or half where the beginning is the
		// same: retires is near to retry, stores is not to sources.
		limit := max(1, (max(len(a), len(b))+1)/3)
		if len(a) > 3 && len(b) > 3 && a[:3] == b[:3] {
			limit = max(len(a), len(b)) / 2
		}
		if d := distance(a, b); d <= limit && d < bestAt {
			best, bestAt = c, d
		}
	}
	return best
}

// distance is the optimal string alignment distance: insertions, deletions,
// substitutions and swaps of neighbours, one each (Damerau 1964, restricted).
func distance(a, b string) int {
	ra, rb := []rune(a), []rune(b)
	before, last, row := make([]int, len(rb)+1), make([]int, len(rb)+1), make([]int, len(rb)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(ra); i++ {
		row[0] = i
		for j := 1; j <= len(rb); j++ {
			cost := 1
			if ra[i-1] == rb[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && ra[i-1] == rb[j-2] && ra[i-2] == rb[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(rb)]
}
