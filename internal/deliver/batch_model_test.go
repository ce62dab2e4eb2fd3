package deliver

// See batch_test.go for what these tests catch: here against a model.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// Whatever comes, and whatever becomes of it: no batch is over its bounds or more
// than the workers, each message has one outcome, which is the one that was made
// for it, and nothing is left.
func TestBatchesAgainstAModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		most, crew := rapid.IntRange(2, 5).Draw(rt, "messages"), rapid.IntRange(1, 3).Draw(rt, "workers")
		n := rapid.IntRange(1, 12).Draw(rt, "n")
		fates := rapid.SliceOfN(rapid.SampledFrom([]string{"ok", "ok", "422", "once 503", "poison"}), n, n).Draw(rt, "fates")
		gaps := rapid.SliceOfN(rapid.SampledFrom([]time.Duration{0, 0, 10, 49, 50, 200}), n, n).Draw(rt, "gaps")
		takes := rapid.SampledFrom([]time.Duration{0, 30, 300}).Draw(rt, "takes") * time.Millisecond
		cancelled := rapid.IntRange(0, n).Draw(rt, "cancelled") // 0: none
		inBubble(t, func(r *rig) {
			tried := map[string]int{}
			b := r.bulk(nil)
			b.fate = func(_ int, ids []string) (time.Duration, []error, error) {
				b.mu.Lock()
				defer b.mu.Unlock()
				each := make([]error, len(ids))
				for i, id := range ids {
					tried[id]++
					k := 0
					_, _ = fmt.Sscanf(id, "m%d", &k)
					switch fates[k-1] {
					case "422":
						each[i] = failure.FromStatus(422, 0)
					case "once 503":
						if tried[id] == 1 {
							each[i] = failure.FromStatus(503, 0)
						}
					case "poison":
						return takes, nil, failure.FromStatus(400, 0)
					}
				}
				return takes, each, nil
			}
			r.configure(spec("a", b, batched(most), workers(crew)))
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			var all []<-chan Result
			for i := range n {
				time.Sleep(gaps[i] * time.Millisecond)
				if i+1 == cancelled {
					all = append(all, r.start(ctx, "a"))
					time.AfterFunc(20*time.Millisecond, cancel)
					continue
				}
				all = append(all, r.start(r.Context(), "a"))
			}
			for i, done := range all {
				res := <-done
				switch bad := fates[i] == "422" || fates[i] == "poison"; {
				case i+1 == cancelled && reasons(res) == "a cancelled":
				case bad && reasons(res) != "a permanent", !bad && res.Status != Delivered:
					rt.Fatalf("m%d, which is %s: %v %s", i+1, fates[i], res.Status, reasons(res))
				}
				if most := retry.Resolve().Attempts + 1; res.Attempts > most {
					rt.Fatalf("m%d: %d attempts", i+1, res.Attempts)
				}
			}
			for _, one := range b.seen() {
				if ids := strings.Fields(one)[1:]; len(ids) > most || len(slices.Compact(ids)) != len(ids) {
					rt.Fatalf("a batch of %q", one)
				}
			}
			if b.peak > crew {
				rt.Fatalf("%d batches at once with %d workers", b.peak, crew)
			}
			synctest.Wait()
			for name, l := range r.fleet.lanes {
				if len(l.batches.open) != 0 {
					rt.Fatalf("a batch is left in %s", name)
				}
			}
		})
	})
}
