package kv

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"
)

// These are for implementations: one rule for all of them.

// CheckMark says what is wrong with the arguments of Mark, Keep or Settle, or
// nil.
func CheckMark(key, owner string, span time.Duration) error {
	if err := checkSpan(span); err != nil {
		return err
	}
	return CheckOwner(key, owner)
}

// CheckOwner says what is wrong with the arguments of Forget, or nil.
func CheckOwner(key, owner string) error {
	switch {
	case key == "":
		return fmt.Errorf("%w: an empty key", ErrInvalid)
	case owner == "" || len(owner) > MaxOwner:
		return fmt.Errorf("%w: an owner of %d bytes", ErrInvalid, len(owner))
	}
	return nil
}

// CheckAdd says what is wrong with the arguments of Add, or nil.
func CheckAdd(series string, slots []Slot, ttl time.Duration) error {
	if err := checkSpan(ttl); err != nil {
		return err
	}
	switch {
	case series == "":
		return fmt.Errorf("%w: an empty series", ErrInvalid)
	case len(slots) == 0 || len(slots) > MaxSlots:
		return fmt.Errorf("%w: %d slots", ErrInvalid, len(slots))
	}
	seen := make(map[int64]struct{}, len(slots))
	for _, s := range slots {
		if _, twice := seen[s.Number]; twice {
			return fmt.Errorf("%w: slot %d twice", ErrInvalid, s.Number)
		}
		seen[s.Number] = struct{}{}
		if len(s.Counts) == 0 || len(s.Counts) > MaxCounts {
			return fmt.Errorf("%w: %d counters in a slot", ErrInvalid, len(s.Counts))
		}
		for _, n := range s.Counts {
			if n < 0 || n > MaxDelta {
				return fmt.Errorf("%w: %d to be added", ErrInvalid, n)
			}
		}
	}
	return nil
}

func checkSpan(d time.Duration) error {
	if d < MinSpan || d > MaxSpan {
		return fmt.Errorf("%w: a time of %v", ErrInvalid, d)
	}
	return nil
}

// Millis is a span in whole milliseconds, rounded up: a lease is never shorter
// than it was asked for.
func Millis(d time.Duration) int64 {
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// maxPlain is as long as a message's id may be.
const maxPlain = 256

// Short is what is stored of a key: a long one, which may be a whole message, is
// kept as its SHA-256. Two keys never have one short form.
func Short(key string) string {
	if len(key) <= maxPlain {
		return "=" + key
	}
	sum := sha256.Sum256([]byte(key))
	return "#" + hex.EncodeToString(sum[:])
}
