package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// put stores a definition.
func (r *rig) define(k store.DefinitionKind, name, body, by string) store.Definition {
	r.Helper()
	d, err := r.PutDefinition(r.ctx, store.Definition{Kind: k, Name: name, Body: []byte(body), By: by})
	r.must(err)
	return d
}

// defined returns the definitions of a kind as text.
func (r *rig) defined(k store.DefinitionKind) (all []string) {
	r.Helper()
	list, err := r.Definitions(r.ctx, k)
	r.must(err)
	for _, d := range list {
		all = append(all, fmt.Sprintf("%s %s %s %s %s", d.Name, d.Body, d.By, d.CreatedAt.Sub(Start), d.UpdatedAt.Sub(Start)))
	}
	return all
}

var definitionTests = []test{
	{"are kept, replaced and forgotten, each kind by itself", func(r *rig) {
		r.define(store.QueueDefinition, "b", `{"n":1}`, "ops")
		r.define(store.QueueDefinition, "a", `{}`, "ops")
		r.define(store.EndpointDefinition, "b", `{"e":1}`, "ops")
		r.h.Clock.Pass(time.Minute)
		if d := r.define(store.QueueDefinition, "b", `{"n":2}`, "dev"); !d.CreatedAt.Equal(Start) || !d.UpdatedAt.Equal(Start.Add(time.Minute)) {
			r.Errorf("replaced: %+v", d)
		}
		want := []string{"a {} ops 0s 0s", `b {"n":2} dev 0s 1m0s`}
		r.same("queues", want, r.defined(store.QueueDefinition))
		r.restart(0)
		r.same("queues after a restart", want, r.defined(store.QueueDefinition))
		r.must(r.RemoveDefinition(r.ctx, store.QueueDefinition, "b"))
		if err := r.RemoveDefinition(r.ctx, store.QueueDefinition, "b"); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("removed twice: %v", err)
		}
		r.same("the rest", want[:1], r.defined(store.QueueDefinition))
		r.same("endpoints", []string{`b {"e":1} ops 0s 0s`}, r.defined(store.EndpointDefinition))
	}},
	{"more than one read takes", func(r *rig) {
		for i := range 1100 {
			r.define(store.TaskDefinition, fmt.Sprintf("t-%04d@1", i), "{}", "w")
		}
		all := r.defined(store.TaskDefinition)
		if len(all) != 1100 || all[0][:8] != "t-0000@1" || all[1099][:8] != "t-1099@1" {
			r.Errorf("%d: %s to %s", len(all), all[0], all[len(all)-1])
		}
	}},
	{"schemas by their hash", func(r *rig) {
		if has, err := r.KeepsSchemas(r.ctx); err != nil || has {
			r.Errorf("none yet: %v %v", has, err)
		}
		a, err := r.PutSchema(r.ctx, []byte(`{"type":"object"}`))
		r.must(err)
		b, err := r.PutSchema(r.ctx, []byte(`{"type":"object"}`))
		r.must(err)
		if a != b {
			r.Errorf("one text, two hashes: %x %x", a, b)
		}
		r.restart(0)
		text, err := r.Schema(r.ctx, a)
		if err != nil || string(text) != `{"type":"object"}` {
			r.Errorf("%s: %v", text, err)
		}
		if _, err := r.Schema(r.ctx, [32]byte{1}); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("an unknown hash: %v", err)
		}
		if has, err := r.KeepsSchemas(r.ctx); err != nil || !has {
			r.Errorf("one: %v %v", has, err)
		}
	}},
	{"schemas that nobody needs are forgotten", func(r *rig) { unusedSchemas(r) }},
	{"schemas beside creates", func(r *rig) { schemasBesideCreates(r) }},
	{"what leases are held against", func(r *rig) {
		j := newJob("q")
		j.Policy.Output = [32]byte{1, 2}
		held, plain, gone := r.begin(j), r.begin(newJob("q")), r.begin(newJob("q"))
		r.say(report(store.Release, gone))
		got, err := r.Outputs(r.ctx, []string{plain.Lease, held.Lease, gone.Lease, "lse_none"})
		r.must(err)
		r.same("outputs", [][32]byte{{}, {1, 2}, {}, {}}, [][32]byte{got[0], got[1], got[2], got[3]})
	}},
	{"the oldest due of each queue", func(r *rig) {
		later, sooner := newJob("q"), newJob("q")
		later.Delay, sooner.Delay, sooner.Priority = time.Hour, time.Minute, 3
		r.put(later)
		r.put(sooner)
		r.put(newJob("r"))
		r.begin(newJob("running"))
		got, err := r.OldestDue(r.ctx)
		r.must(err)
		r.same("oldest", map[string]time.Time{"q": Start.Add(time.Minute), "r": Start}, got)
	}},
	{"old events go, and who was away is told", func(r *rig) {
		for range 700 {
			r.must(r.TellGone(r.ctx, "old", ""))
		}
		r.h.Clock.Pass(time.Hour)
		r.must(r.TellGone(r.ctx, "new", ""))
		for more := store.More(true); more; {
			var err error
			more, err = r.Retain(r.ctx, store.Retention{Events: time.Hour})
			r.must(err)
		}
		got := r.read(store.EventFilter{}, 5)
		if len(got.Events) != 1 || got.Events[0].ID != 701 || !got.Gone {
			r.Errorf("%+v", got)
		}
		if got := r.read(store.EventFilter{}, 700); got.Gone {
			r.Errorf("nothing behind it is gone: %+v", got)
		}
	}},
	{"a subscription that is gone is told", func(r *rig) {
		r.must(r.TellGone(r.ctx, "hook", "410"))
		e := r.read(store.EventFilter{}, 0).Events
		if len(e) != 1 || e[0].Type != store.SubscriptionGone || e[0].Subject != "hook" || string(e[0].Data) != `{"why":"410"}` {
			r.Errorf("%+v", e)
		}
	}},
}
