package metamorphic

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

// history is one seed's way through a store and the model.
type history struct {
	*testing.T
	*rand.Rand
	ctx   context.Context
	clock *storetest.Clock
	files func() store.Store // opens what is there
	leave func()             // copies the files, and opens the copy from then on
	store store.Store
	model *model
	keep  store.Retention
	// said are the final reports so far, to be repeated; leases every token.
	said   []store.Report
	leases []string
	// claimed is the newest claim with an id.
	claimed *store.Want
	serial  int
	// seen is the newest event that was held against the model's; opened that the
	// reader has read nothing since the store was opened.
	seen   int64
	opened bool
	story  []string
	happened
}

// happened counts what a history met, so that one can tell when histories have
// become too tame.
type happened map[string]int

func (h *history) tell(format string, args ...any) {
	h.story = append(h.story, fmt.Sprintf("%10v  ", h.model.now.Sub(storetest.Start))+fmt.Sprintf(format, args...))
}

// must ends the history at an error that none was to be.
func (h *history) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func (h *history) same(what string, want, got any) {
	h.Helper()
	if reflect.DeepEqual(want, got) { // what cmp says too, in a tenth of its time
		return
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		h.Fatalf("%s (-model +store):\n%s", what, diff)
	}
}

// steps are what a history is made of, a file each subject, and how often each comes.
var steps = []struct {
	weight int
	do     func(*history)
}{
	{16, func(h *history) { h.create(1) }},
	{6, func(h *history) { h.create(2 + h.IntN(12)) }},
	{20, (*history).claim},
	{24, (*history).report},
	{14, (*history).pass},
	{6, (*history).sweep},
	{1, (*history).jump},
	{1, (*history).outage},
	{4, (*history).gate},
	{2, (*history).limit},
	{3, (*history).trouble},
	{5, (*history).probe},
	{2, (*history).resetCircuit},
	{5, (*history).cancel},
	{4, (*history).retry},
	{2, (*history).delete},
	{1, (*history).disaster},
	{4, (*history).newReplay},
	{8, (*history).stepReplay},
	{6, (*history).moveReplay},
	{1, (*history).want},
	{5, (*history).readOn},
	{2, (*history).restart},
	{2, (*history).retain},
}

func (h *history) step() {
	all := 0
	for _, s := range steps {
		all += s.weight
	}
	n := h.IntN(all)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			s.do(h)
			return
		}
	}
}

// run makes a history of so many steps.
func (h *history) run(length int) {
	h.open()
	defer func() { h.store.Close() }()
	h.time()
	h.model.reopen()
	for i := range length {
		h.step()
		h.check()
		if i%25 == 24 {
			h.checkAll()
		}
	}
	h.checkAll()
	h.must(storetest.CheckCounts(h.ctx, h.store))
}

// time tells the model the store's time, which must be what a clock may say.
func (h *history) time() {
	h.Helper()
	now := h.store.Now()
	if now.Before(h.model.now) {
		h.Fatalf("the store's clock went back from %v to %v", h.model.now, now)
	}
	h.model.now = now
}

func (h *history) chance(p float64) bool { return h.Float64() < p }

func pick[T any](h *history, of ...T) T { return of[h.IntN(len(of))] }
