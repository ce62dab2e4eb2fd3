package http

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/connector"
)

// problems gathers what is wrong with settings.
type problems []connector.Problem

func (p *problems) add(field, format string, args ...any) {
	*p = append(*p, connector.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// check adds err as a problem of field where there is one.
func (p *problems) check(field string, err error) {
	if err != nil {
		p.add(field, "%v", err)
	}
}

// sorted walks a map in the order of its keys.
func sorted[V any](m map[string]V) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, k := range slices.Sorted(maps.Keys(m)) {
			if !yield(k, m[k]) {
				return
			}
		}
	}
}

// checkID says what is wrong with an id that a caller gave. limit is how many
// bytes it may have.
func checkID(id string, limit int) error {
	switch {
	case len(id) > limit:
		return fmt.Errorf("it has %d bytes, at most %d are allowed", len(id), limit)
	case !utf8.ValidString(id):
		return errors.New("it is not UTF-8")
	case strings.IndexFunc(id, unicode.IsControl) >= 0:
		return errors.New("it holds a control character")
	}
	return nil
}
