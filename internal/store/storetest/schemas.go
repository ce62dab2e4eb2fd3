package storetest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

func schemaText(n int) []byte { return fmt.Appendf(nil, `{"const":%d}`, n) }

func (r *rig) putSchema(n int) job.SchemaHash {
	r.Helper()
	hash, err := r.PutSchema(r.ctx, schemaText(n))
	r.must(err)
	return hash
}

// keeps fails the test unless the store has a schema, or has it no more.
func (r *rig) keeps(what string, hash job.SchemaHash, want bool) {
	r.Helper()
	if _, err := r.Schema(r.ctx, hash); err != nil && !errors.Is(err, store.ErrNotFound) || (err == nil) != want {
		r.Errorf("the schema %s: %v, kept should be %t", what, err, want)
	}
}

// unusedSchemas lets schemas of every kind of need grow old.
func unusedSchemas(r *rig) {
	of := func(queue string, input, output job.SchemaHash) store.NewJob {
		j := newJob(queue)
		j.Policy.Input, j.Policy.Output = input, output
		return j
	}
	input, output, again, lonely := r.putSchema(1), r.putSchema(2), r.putSchema(3), r.putSchema(4)
	r.put(of("waits", input, output))
	runs, done := r.putSchema(5), r.putSchema(6)
	r.begin(of("runs", job.SchemaHash{}, runs))
	r.say(report(store.Complete, r.begin(of("done", done, done))))
	many := make([]job.SchemaHash, 250) // more than one step
	for i := range many {
		many[i] = r.putSchema(100 + i)
	}
	r.h.Clock.Pass(store.SchemaRest / 2)
	r.retain(0, 0)
	r.keeps("that was put lately", lonely, true)
	r.putSchema(3)
	r.h.Clock.Pass(store.SchemaRest/2 + time.Second)
	steps := 0
	for more := store.More(true); more; steps++ {
		var err error
		more, err = r.Retain(r.ctx, store.Retention{})
		r.must(err)
	}
	if steps < 3 {
		r.Errorf("%d schemas went in %d steps", len(many), steps)
	}
	for range 2 {
		r.keeps("that nobody needs", lonely, false)
		r.keeps("that was put again", again, true)
		for what, hash := range map[string]job.SchemaHash{"of the input": input, "of the output": output, "of one that runs": runs, "of one that is done": done} {
			r.keeps(what, hash, true)
		}
		for _, hash := range many {
			r.keeps("of many", hash, false)
		}
		r.restart(0)
	}
	// What is forgotten can be put again.
	r.keeps("that is put once more", r.putSchema(4), true)
}

// schemasBesideCreates lets jobs be made, each under a schema that was put before, while
// retention forgets those that are not needed: no job is without its own.
func schemasBesideCreates(r *rig) {
	const rounds = 40
	var wg sync.WaitGroup
	var over atomic.Bool
	wg.Go(func() {
		for !over.Load() {
			if _, err := r.Retain(r.ctx, store.Retention{}); err != nil {
				r.Error(err)
				return
			}
		}
	})
	for n := range rounds {
		for i := range 5 {
			r.putSchema(1000*n + i)
		}
		r.h.Clock.Pass(store.SchemaRest + time.Minute) // they are old, and go
		hash := r.putSchema(1000 * n)
		j := newJob("q")
		j.Policy.Output = hash
		r.put(j)
	}
	r.until("retention looks again", func() bool {
		r.h.Clock.Pass(store.SchemaRest)
		_, err := r.Schema(r.ctx, r.hash(1000*(rounds-1)+1))
		return errors.Is(err, store.ErrNotFound)
	})
	over.Store(true)
	wg.Wait()
	for n := range rounds {
		r.keeps(fmt.Sprint("of job ", n), r.hash(1000*n), true)
		r.keeps(fmt.Sprint("beside job ", n), r.hash(1000*n+1), false)
	}
}

func (r *rig) hash(n int) job.SchemaHash { return sha256.Sum256(schemaText(n)) }
