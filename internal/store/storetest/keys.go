package storetest

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// key is an API key whose hash begins with a byte.
func key(id, name string, hash byte) store.Key {
	return store.Key{
		ID: id, Name: name, Hash: [32]byte{hash}, Scopes: []store.Scope{store.ScopeProduce, store.ScopeWork},
		Queues: []string{"q"}, CreatedAt: Start, ExpiresAt: Start.Add(time.Hour),
	}
}

var keyTests = []test{
	{"kept and found", func(r *rig) {
		a, b := key("key_a", "first", 1), key("key_b", "second", 2)
		b.Scopes, b.Queues, b.ExpiresAt = []store.Scope{store.ScopeAdmin}, nil, time.Time{}
		r.must(r.AddKey(r.ctx, a))
		r.must(r.AddKey(r.ctx, b))
		for range 2 {
			all, err := r.Store.Keys(r.ctx)
			r.must(err)
			r.same("keys, oldest first", []store.Key{a, b}, all)
			for _, k := range []store.Key{a, b} {
				got, err := r.KeyByHash(r.ctx, k.Hash)
				r.must(err)
				r.same("by its hash", k, got)
			}
			r.restart(0)
		}
		for _, no := range [][32]byte{{}, {3}, {31: 1}} {
			if _, err := r.KeyByHash(r.ctx, no); !errors.Is(err, store.ErrNotFound) {
				r.Errorf("an unknown hash: %v", err)
			}
		}
	}},
	{"each name and hash once", func(r *rig) {
		r.must(r.AddKey(r.ctx, key("key_a", "first", 1)))
		for name, k := range map[string]store.Key{"the name": key("key_b", "first", 2), "the hash": key("key_b", "second", 1)} {
			if err := r.AddKey(r.ctx, k); !errors.Is(err, store.ErrExists) {
				r.Errorf("%s again: %v", name, err)
			}
		}
		if _, err := r.KeyByHash(r.ctx, [32]byte{2}); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("a key that was refused: %v", err)
		}
	}},
	{"revoked by an id that is another's name", func(r *rig) {
		a, b := key("key_a", "first", 1), key("key_b", "key_a", 2)
		r.must(r.AddKey(r.ctx, a))
		r.must(r.AddKey(r.ctx, b))
		r.must(r.RevokeKey(r.ctx, "key_a"))
		for _, k := range []store.Key{a, b} {
			got, err := r.KeyByHash(r.ctx, k.Hash)
			r.must(err)
			if revoked := !got.Revoked.IsZero(); revoked != (k.ID == "key_a") {
				r.Errorf("the key %s, named %s: revoked %t", k.ID, k.Name, revoked)
			}
		}
	}},
	{"revoked", func(r *rig) {
		for i, by := range []string{"first", "key_b"} {
			k := key([]string{"key_a", "key_b"}[i], []string{"first", "second"}[i], byte(i+1))
			r.must(r.AddKey(r.ctx, k))
			if _, err := r.KeyByHash(r.ctx, k.Hash); err != nil { // so that it is cached
				r.Fatal(err)
			}
			r.h.Clock.Pass(time.Minute)
			now := r.Now()
			r.must(r.RevokeKey(r.ctx, by))
			for _, when := range []string{"at once", "after a restart"} {
				got, err := r.KeyByHash(r.ctx, k.Hash)
				r.must(err)
				if !got.Revoked.Equal(now) {
					r.Errorf("%s: revoked at %v, want %v", when, got.Revoked, now)
				}
				r.restart(0)
			}
			if err := r.AddKey(r.ctx, k); !errors.Is(err, store.ErrExists) {
				r.Errorf("added again: %v", err)
			}
		}
		if err := r.RevokeKey(r.ctx, "nobody"); !errors.Is(err, store.ErrNotFound) {
			r.Errorf("an unknown key: %v", err)
		}
		all, err := r.Store.Keys(r.ctx)
		r.must(err)
		if len(all) != 2 {
			r.Errorf("%d keys are listed, want the revoked ones too", len(all))
		}
	}},
}
