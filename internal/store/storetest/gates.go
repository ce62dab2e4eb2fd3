package storetest

import (
	"errors"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

var gateTests = []test{
	{"a queue", func(r *rig) {
		g := lane.Gate{Kind: lane.QueueGate, Name: "q"}
		running := r.begin(newJob("q"))
		id, other := r.put(newJob("q")), r.put(newJob("other"))
		r.must(r.Pause(r.ctx, g, "ops"))
		r.same("claimed", []string{other}, ids(r.claim(want("q", "other"))))
		if a := r.say(report(store.Complete, running)); a.JobStatus != job.Succeeded {
			r.Errorf("what runs already: %+v", a)
		}
		later := r.put(newJob("q"))
		if got := r.claim(want("q")); len(got) != 0 {
			r.Errorf("claimed of a paused queue: %v", ids(got))
		}
		r.must(r.Resume(r.ctx, g))
		r.same("after it", []string{id, later}, ids(r.claim(want("q"))))
	}},
	{"an endpoint", func(r *rig) {
		behind, free := newJob("q"), newJob("q")
		behind.Endpoint, behind.Priority = "e", 50
		b, f := r.put(behind), r.put(free)
		g := lane.Gate{Kind: lane.EndpointGate, Name: "e"}
		r.must(r.Pause(r.ctx, g, "ops"))
		r.same("claimed", []string{f}, ids(r.claim(want("q"))))
		// A queue of the same name is another gate.
		r.put(newJob("e"))
		r.take("e")
		r.must(r.Resume(r.ctx, g))
		r.same("after it", []string{b}, ids(r.claim(want("q"))))
	}},
	{"both gates must be open", func(r *rig) {
		n := newJob("q")
		n.Endpoint = "e"
		id := r.put(n)
		queue, endpoint := lane.Gate{Kind: lane.QueueGate, Name: "q"}, lane.Gate{Kind: lane.EndpointGate, Name: "e"}
		r.must(r.Pause(r.ctx, queue, ""))
		r.must(r.Pause(r.ctx, endpoint, ""))
		r.must(r.Resume(r.ctx, queue))
		if got := r.claim(want("q")); len(got) != 0 {
			r.Error("claimed through one of two gates")
		}
		r.must(r.Resume(r.ctx, endpoint))
		r.same("open", []string{id}, ids(r.claim(want("q"))))
	}},
	{"who and since when, over a restart", func(r *rig) {
		a, b := lane.Gate{Kind: lane.QueueGate, Name: "q"}, lane.Gate{Kind: lane.EndpointGate, Name: "q"}
		r.must(r.Pause(r.ctx, a, "ops"))
		r.h.Clock.Pass(time.Minute)
		r.must(r.Pause(r.ctx, b, ""))
		r.must(r.Pause(r.ctx, a, "somebody else"))
		want2 := []store.Pause{{Gate: a, By: "ops", Since: Start}, {Gate: b, Since: Start.Add(time.Minute)}}
		check := func(when string, want []store.Pause) {
			got, err := r.Paused(r.ctx)
			r.must(err)
			r.same(when, want, got)
		}
		check("paused", want2)
		r.put(newJob("q"))
		r.restart(time.Hour)
		check("after a restart", want2)
		if got := r.claim(want("q")); len(got) != 0 {
			r.Error("a restart opened a gate")
		}
		r.must(r.Resume(r.ctx, a))
		r.must(r.Resume(r.ctx, a))
		r.must(r.Resume(r.ctx, lane.Gate{Kind: lane.QueueGate, Name: "never paused"}))
		check("after a resume", want2[1:])
		r.take("q")
		r.restart(0)
		check("after another restart", want2[1:])
	}},
}

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

// letter is a dead letter of the relay.
func letter(id, messageID, destination string, at time.Duration) store.Letter {
	return store.Letter{
		ID: id, MessageID: messageID, Reason: message.ReasonDelivery, Destination: destination, Route: "r", At: Start.Add(at),
		State: store.LetterOpen, Body: []byte("body of " + id + "\x00"),
	}
}

var letterTests = []test{
	{"kept once, in the order of storing", func(r *rig) {
		want := []store.Letter{letter("l1", "m1", "d", 2*time.Hour), letter("l2", "m1", "e", 0), letter("l3", "m2", "d", time.Hour)}
		for _, l := range want {
			r.must(r.AddLetter(r.ctx, l))
			again := l
			again.Body = []byte("another")
			r.must(r.AddLetter(r.ctx, again))
		}
		for range 2 {
			got := r.letters(store.LetterFilter{}, 0)
			for i := range got {
				if got[i].Place <= 0 || i > 0 && got[i].Place <= got[i-1].Place {
					r.Errorf("places do not grow: %d", got[i].Place)
				}
			}
			r.same("after a place", got[1:], r.letters(store.LetterFilter{}, got[0].Place))
			for i := range got {
				got[i].Place = 0
			}
			r.same("letters", want, got)
			r.restart(0)
		}
	}},
	{"by each filter", func(r *rig) {
		for _, l := range []store.Letter{letter("l1", "m1", "d", 0), letter("l2", "m1", "e", time.Hour), letter("l3", "m2", "d", 2*time.Hour)} {
			if l.ID == "l3" {
				l.Reason = message.ReasonNoRoute
			}
			r.must(r.AddLetter(r.ctx, l))
		}
		r.must(r.MarkLetters(r.ctx, []string{"l2"}, store.LetterReplayed, Start))
		for name, c := range map[string]struct {
			f    store.LetterFilter
			want string
		}{
			"all": {store.LetterFilter{}, "l1 l2 l3"}, "since": {store.LetterFilter{Since: Start.Add(time.Hour)}, "l2 l3"},
			"before": {store.LetterFilter{Before: Start.Add(time.Hour)}, "l1"}, "reason": {store.LetterFilter{Reason: message.ReasonNoRoute}, "l3"},
			"destination": {store.LetterFilter{Destination: "d"}, "l1 l3"}, "state": {store.LetterFilter{State: store.LetterOpen}, "l1 l3"},
			"another state": {store.LetterFilter{State: store.LetterReplayed}, "l2"}, "ids of letters": {store.LetterFilter{IDs: []string{"l3", "l1", "x"}}, "l1 l3"},
			"ids of messages": {store.LetterFilter{IDs: []string{"m1"}}, "l1 l2"},
			"all of it": {store.LetterFilter{
				Since: Start, Before: Start.Add(time.Minute), Reason: message.ReasonDelivery, Destination: "d", IDs: []string{"m1", "l3"}, State: store.LetterOpen,
			}, "l1"},
			"nothing": {store.LetterFilter{Destination: "x"}, ""},
		} {
			got := ""
			for i, l := range r.letters(c.f, 0) {
				if i > 0 {
					got += " "
				}
				got += l.ID
			}
			n, err := r.CountLetters(r.ctx, c.f)
			r.must(err)
			if got != c.want || n != (len(c.want)+2)/3 {
				r.Errorf("%s: %q, counted %d; want %q", name, got, n, c.want)
			}
		}
	}},
	{"only open ones are marked", func(r *rig) {
		r.must(r.AddLetter(r.ctx, letter("l1", "m1", "d", 0)))
		r.must(r.AddLetter(r.ctx, letter("l2", "m2", "d", 0)))
		r.must(r.MarkLetters(r.ctx, []string{"l1", "none"}, store.LetterReplayed, Start))
		r.must(r.MarkLetters(r.ctx, []string{"l1", "l2"}, store.LetterPurged, Start))
		got := r.letters(store.LetterFilter{}, 0)
		if got[0].State != store.LetterReplayed || got[1].State != store.LetterPurged {
			r.Errorf("%s, %s", got[0].State, got[1].State)
		}
		if string(got[0].Body) != "body of l1\x00" {
			r.Errorf("a mark rewrote the letter: %q", got[0].Body)
		}
	}},
	{"old ones are removed, open ones never", func(r *rig) {
		for i, id := range []string{"l1", "l2", "l3", "l4"} {
			r.must(r.AddLetter(r.ctx, letter(id, "m", "d", time.Duration(i)*time.Hour)))
		}
		r.must(r.MarkLetters(r.ctx, []string{"l1", "l2", "l4"}, store.LetterPurged, Start))
		for more := store.More(true); more; {
			var err error
			more, err = r.RemoveLetters(r.ctx, Start.Add(3*time.Hour))
			r.must(err)
		}
		got := r.letters(store.LetterFilter{}, 0)
		if len(got) != 2 || got[0].ID != "l3" || got[1].ID != "l4" {
			r.Errorf("left: %+v", got)
		}
		last := got[1].Place
		r.must(r.AddLetter(r.ctx, letter("l5", "m", "d", 0)))
		if got = r.letters(store.LetterFilter{}, last); len(got) != 1 || got[0].ID != "l5" {
			r.Errorf("after the last place: %+v", got)
		}
	}},
	{"more than a page", func(r *rig) {
		for i := range store.LettersPage + 3 {
			r.must(r.AddLetter(r.ctx, letter("l"+string(rune('0'+i/100))+string(rune('0'+i/10%10))+string(rune('0'+i%10)), "m", "d", 0)))
		}
		first := r.letters(store.LetterFilter{}, 0)
		if len(first) != store.LettersPage {
			r.Fatalf("%d letters", len(first))
		}
		if rest := r.letters(store.LetterFilter{}, first[len(first)-1].Place); len(rest) != 3 {
			r.Errorf("%d letters follow, want 3", len(rest))
		}
		if n, err := r.CountLetters(r.ctx, store.LetterFilter{}); err != nil || n != store.LettersPage+3 {
			r.Errorf("%d, %v", n, err)
		}
	}},
}

func (r *rig) letters(f store.LetterFilter, after int64) []store.Letter {
	r.Helper()
	got, err := r.Letters(r.ctx, f, after)
	r.must(err)
	return got
}
