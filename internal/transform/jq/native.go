package jq

import (
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/itchyny/gojq"
)

// natives are the functions that guards call. Each returns its input, or an
// error that ends the evaluation. Those that count are given its watch, in a
// variable that a program can't name.
func natives() []gojq.CompilerOption {
	return append(expressions(),
		gojq.WithFunction(own+"made", 1, 1, made),
		gojq.WithFunction(own+"whole", 0, 0, func(v any, _ []any) any { return orError(v, whole(v)) }),
		gojq.WithFunction(own+"text", 0, 0, fitText),
		gojq.WithFunction(own+"times", 3, 3, fitTimes),
		gojq.WithFunction(own+"minus", 2, 2, fitPairs),
		gojq.WithFunction(own+"join", 2, 2, fitJoin),
		gojq.WithFunction(own+"add", 1, 1, fitAdd),
		gojq.WithFunction(own+"transpose", 0, 0, fitTranspose),
		gojq.WithFunction(own+"explode", 0, 0, fitExplode),
		gojq.WithFunction(own+"number", 0, 0, fitNumber),
		gojq.WithFunction(own+"index", 0, 0, fitIndex),
		gojq.WithFunction(own+"path", 0, 0, fitPath),
		compare("eq", func(c int) bool { return c == 0 }),
		compare("ne", func(c int) bool { return c != 0 }),
		compare("gt", func(c int) bool { return c > 0 }),
		compare("lt", func(c int) bool { return c < 0 }),
		compare("ge", func(c int) bool { return c >= 0 }),
		compare("le", func(c int) bool { return c <= 0 }),
	)
}

func orError(v any, err error) any {
	if err != nil {
		return err
	}
	return v
}

// compare is a comparison of two values that are weighed first.
func compare(name string, is func(int) bool) gojq.CompilerOption {
	return gojq.WithFunction(own+name, 2, 2, func(_ any, args []any) any {
		l, r := args[0], args[1]
		if err := whole(l); err != nil {
			return err
		}
		if err := whole(r); err != nil {
			return err
		}
		return is(gojq.Compare(l, r))
	})
}

// size is what the value itself takes, without what it holds.
func size(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case []any:
		return slot * len(v)
	case map[string]any:
		return 2 * slot * len(v)
	case *big.Int:
		return v.BitLen() / 8
	}
	return 0
}

// slow is from how many bytes on a step of the engine may have taken long
// enough to look at the clock.
const slow = 64 << 10

// charge counts n bytes that an operator makes.
func charge(of any, n int) error {
	if n > MaxText {
		return fmt.Errorf("%w: it builds a value of %d bytes; %d is the most", ErrLimit, n, MaxText)
	}
	w, ok := of.(*watch)
	if !ok {
		return errUnwatched
	}
	if n > slow {
		w.look()
	}
	return w.spend(n)
}

// errUnwatched is never seen: the guards hand on the watch.
var errUnwatched = fmt.Errorf("%w: it is not watched", ErrLimit)

// made charges a value that an operator just built. Its parts were bounded
// themselves, so it is at most twice too large here.
func made(v any, args []any) any { return orError(v, charge(args[0], size(v))) }

// fitText checks a value that is written out as text.
func fitText(v any, _ []any) any {
	if weigh(v, MaxText) > MaxText {
		return fmt.Errorf("%w: it writes out a value of more than %d MiB, or nested more than %d deep", ErrLimit, MaxText>>20, maxDepth)
	}
	return v
}

// fitTimes checks text times a number before it is made.
func fitTimes(v any, args []any) any {
	text, n := args[0], args[1]
	if _, ok := text.(string); !ok {
		text, n = n, text
	}
	s, ok := text.(string)
	if !ok {
		return v
	}
	times, ok := gojq.ToFloat64(n)
	if !ok || times <= 0 {
		return v
	}
	if float64(len(s))*times > MaxText {
		return fmt.Errorf("%w: it repeats a text of %d bytes %.0f times; %d bytes are the most", ErrLimit, len(s), times, MaxText)
	}
	return v
}

// fitPairs checks what compares each part of one value to each of another:
// the difference of arrays, contains, inside, index.
func fitPairs(v any, args []any) any {
	l, r := args[0], args[1]
	switch l.(type) {
	case []any, map[string]any:
	default:
		return v
	}
	switch r.(type) {
	case []any, map[string]any:
	default:
		return v
	}
	if err := whole(l); err != nil {
		return err
	}
	if err := whole(r); err != nil {
		return err
	}
	const most = MaxPairs * slot // weights of a pair's sides have a slot each
	a, b := weigh(l, most)/slot, weigh(r, most)/slot
	if a > 0 && b > MaxPairs/a {
		return fmt.Errorf("%w: it compares each of about %d values to each of %d; %d pairs are the most", ErrLimit, a, b, MaxPairs)
	}
	return v
}

// fitJoin checks an array and its separator.
func fitJoin(v any, args []any) any {
	vs, ok := v.([]any)
	if !ok {
		return v
	}
	separator, _ := args[0].(string)
	total := len(separator) * max(len(vs)-1, 0)
	for _, x := range vs {
		if total += texts(x); total > MaxText {
			break
		}
	}
	return orError(v, charge(args[1], total))
}

// texts is the length of a text or number as join writes it.
func texts(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case json.Number:
		return len(v)
	}
	return slot
}

// fitAdd checks the values that add puts together.
func fitAdd(v any, args []any) any {
	total := 0
	each := func(x any) bool {
		total += size(x)
		return total <= MaxText
	}
	switch v := v.(type) {
	case []any:
		for _, x := range v {
			if !each(x) {
				break
			}
		}
	case map[string]any:
		for _, x := range v {
			if !each(x) {
				break
			}
		}
	}
	return orError(v, charge(args[0], total))
}

// fitTranspose checks that rows times the longest row is in proportion.
func fitTranspose(v any, _ []any) any {
	rows, ok := v.([]any)
	if !ok {
		return v
	}
	longest := 0
	for _, row := range rows {
		if row, ok := row.([]any); ok {
			longest = max(longest, len(row))
		}
	}
	if longest > 0 && len(rows) > MaxText/slot/longest {
		return fmt.Errorf("%w: it transposes %d rows of up to %d values; %d values are the most", ErrLimit, len(rows), longest, MaxText/slot)
	}
	return v
}

// fitExplode checks a text that is taken apart: each byte becomes a value.
func fitExplode(v any, _ []any) any {
	const most = MaxText / slot
	if s, ok := v.(string); ok && len(s) > most {
		return fmt.Errorf("%w: it takes a text of %d bytes apart; %d is the most", ErrLimit, len(s), most)
	}
	return v
}

// fitNumber checks a text that becomes a number.
func fitNumber(v any, _ []any) any {
	if s, ok := v.(string); ok && len(s) > MaxDigits {
		return fmt.Errorf("%w: it makes a number of a text of %d bytes; %d is the most", ErrLimit, len(s), MaxDigits)
	}
	return v
}

// fitIndex checks a place in an array.
func fitIndex(v any, _ []any) any {
	switch v.(type) {
	case int, float64, *big.Int, json.Number:
		if n, ok := gojq.ToFloat64(v); ok && n > MaxIndex {
			return fmt.Errorf("%w: it names place %.0f of an array; %d is the most", ErrLimit, n, MaxIndex)
		}
	}
	return v
}

// fitPath checks each step of a path.
func fitPath(v any, _ []any) any {
	if path, ok := v.([]any); ok {
		for _, step := range path {
			if err, bad := fitIndex(step, nil).(error); bad {
				return err
			}
		}
	}
	return v
}
