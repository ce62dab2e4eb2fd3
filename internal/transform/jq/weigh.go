package jq

import (
	"encoding/json"
	"fmt"
	"math/big"

	"github.com/itchyny/gojq"
)

// The bounds of what an evaluation builds, in bytes.
const (
	// MaxOutput is the longest result as JSON: the most that a message's body
	// can sensibly be, and 16 times what a source takes unless told.
	MaxOutput = 16 << 20
	// MaxText is the longest string or array that + and * may build.
	MaxText = 16 << 20
	// MaxBuilt is how much + and * and strings with \( ) may build together:
	// what copying achieves in about MaxTime.
	MaxBuilt = 256 << 20
	// MaxValue is the largest value that a function may walk as a whole. It is
	// counted as held in memory were nothing in it shared.
	MaxValue = 64 << 20
	// MaxIndex is the last place of an array that a program may name: writing
	// there allocates all places before it.
	MaxIndex = 1_000_000
	// MaxPairs bounds comparing each element of one array to each of another.
	MaxPairs = 4_000_000
	// MaxDigits is the longest text that becomes a number; the time for that
	// grows with its square.
	MaxDigits = 4096
)

// slot is what one value takes in an array: an interface of two words.
const slot = 16

// maxDepth is how deep values may be nested: what pawl itself reads back.
const maxDepth = 10_000

// weigh returns how many bytes v takes, or more than most as soon as it is
// clear that it takes more or is nested too deep. The time is bounded by most,
// not by v.
func weigh(v any, most int) int { return weighAt(v, most, maxDepth) }

func weighAt(v any, most, depth int) int {
	if depth == 0 {
		return most + 1
	}
	switch v := v.(type) {
	case string:
		return slot + len(v)
	case json.Number:
		return slot + len(v)
	case *big.Int:
		return slot + v.BitLen()/8
	case []any:
		total := slot
		for _, x := range v {
			if total += weighAt(x, most-total, depth-1); total > most {
				return total
			}
		}
		return total
	case map[string]any:
		total := slot
		for k, x := range v {
			if total += slot + len(k) + weighAt(x, most-total, depth-1); total > most {
				return total
			}
		}
		return total
	}
	return slot
}

// whole is an error where v is too large to be walked.
func whole(v any) error {
	switch v.(type) {
	case []any, map[string]any:
		if weigh(v, MaxValue) > MaxValue {
			return fmt.Errorf("%w: a value takes more than %d MiB written out, or is nested more than %d deep", ErrLimit, MaxValue>>20, maxDepth)
		}
	}
	return nil
}

// encode writes a result as compact JSON, names sorted.
func encode(v any) ([]byte, error) {
	if weigh(v, MaxValue) > MaxValue {
		return nil, fmt.Errorf("%w: the result takes more than %d MiB written out, or is nested more than %d deep", ErrLimit, MaxValue>>20, maxDepth)
	}
	text, err := gojq.Marshal(v)
	if err != nil {
		return nil, err
	}
	if len(text) > MaxOutput {
		return nil, fmt.Errorf("%w: the result has %d bytes; %d is the most", ErrLimit, len(text), MaxOutput)
	}
	return text, nil
}
