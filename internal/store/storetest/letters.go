package storetest

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

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
			r.must(r.AddLetter(r.ctx, letter(fmt.Sprint("l", i), "m", "d", 0)))
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
