package settle_test

// This test catches any order of messages, ends and times in which two relays with
// a store know something else than one map of keys to times would.

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/kv/memory"
	"github.com/pawlhq/pawl/internal/settle"
)

// action is one thing that happens to one key at one of two relays.
type action struct {
	What  string
	Key   string
	Relay int
	Ms    int
}

// Two relays with a store do what one map with times would.
func TestDedupeIsAMapWithTimes(t *testing.T) {
	actions := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) action {
		return action{
			What:  rapid.SampledFrom([]string{"begin", "begin", "settle", "forget", "sleep"}).Draw(t, "what"),
			Key:   rapid.SampledFrom([]string{"x", "y", "z"}).Draw(t, "key"),
			Relay: rapid.IntRange(0, 1).Draw(t, "relay"),
			Ms:    rapid.IntRange(1, 40_000).Draw(t, "ms"),
		}
	}), 20, 100)
	rapid.Check(t, func(rt *rapid.T) {
		story := actions.Draw(rt, "story")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = tell(t.Context(), story) })
		if wrong != "" {
			rt.Fatal(wrong)
		}
	})
}

// tell lets the story happen and returns what was not as in a map with times.
func tell(ctx context.Context, story []action) (wrong string) {
	type known struct {
		claim *settle.Claim // nil: it ended
		until time.Time
	}
	a, b := two(memory.New(memory.Options{}))
	model := map[string]known{}
	defer func() {
		for _, k := range model {
			if k.claim != nil {
				k.claim.Forget(ctx)
			}
		}
	}()
	for i, at := range story {
		k, ok := model[at.Key]
		if ok && k.claim == nil && !time.Now().Before(k.until) {
			delete(model, at.Key)
			ok = false
		}
		switch {
		case at.What == "sleep":
			time.Sleep(time.Duration(at.Ms) * time.Millisecond)
		case at.What == "settle" && k.claim != nil:
			k.claim.Settle(ctx)
			model[at.Key] = known{until: time.Now().Add(time.Minute)}
		case at.What == "forget" && k.claim != nil:
			k.claim.Forget(ctx)
			delete(model, at.Key)
		case at.What == "begin":
			want := settle.First
			if k.claim != nil {
				want = settle.InFlight
			} else if ok {
				want = settle.Settled
			}
			c, found := []*settle.Dedupe{a, b}[at.Relay].Begin(ctx, at.Key)
			if found == settle.First {
				model[at.Key] = known{claim: c}
			}
			if found == settle.InFlight {
				c.Leave()
			}
			if found != want {
				return fmt.Sprintf("step %d: found %d, want %d", i, found, want)
			}
		}
	}
	return ""
}
