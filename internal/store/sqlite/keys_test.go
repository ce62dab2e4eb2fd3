// These tests would catch a key that is good after it was revoked (also one that
// was being added or read at that moment, and after a restart), two keys of one
// name, and a letter that is kept twice, found by no filter, or removed while it
// is open.
package sqlite

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

func testKey(n byte) store.Key {
	return store.Key{
		ID: fmt.Sprintf("key_%d", n), Name: fmt.Sprintf("name-%d", n), Hash: [32]byte{n}, Scopes: []store.Scope{store.ScopeProduce, store.ScopeWork},
		Queues: []string{"a", "b"}, CreatedAt: time.UnixMilli(1000 + int64(n)).UTC(), ExpiresAt: time.UnixMilli(99000).UTC(),
	}
}

func TestKeys(t *testing.T) {
	s := testStore(t, Options{})
	one, two := testKey(1), testKey(2)
	two.Queues, two.ExpiresAt = nil, time.Time{}
	for _, k := range []store.Key{one, two} {
		if err := s.AddKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	for name, k := range map[string]store.Key{
		"the same name": {ID: "key_3", Name: one.Name, Hash: [32]byte{3}},
		"the same hash": {ID: "key_3", Name: "other", Hash: one.Hash},
		"the same id":   {ID: one.ID, Name: "other", Hash: [32]byte{3}},
	} {
		if err := s.AddKey(t.Context(), k); !errors.Is(err, store.ErrExists) {
			t.Errorf("%s: %v, want ErrExists", name, err)
		}
	}
	check := func(s *Store, when string, want ...store.Key) {
		t.Helper()
		keys, err := s.Keys(t.Context())
		if err != nil || !reflect.DeepEqual(normal(keys), normal(want)) {
			t.Errorf("%s: %+v, %v\nwant %+v", when, keys, err, want)
		}
		for _, k := range want {
			if got, err := s.KeyByHash(t.Context(), k.Hash); err != nil || !reflect.DeepEqual(normal([]store.Key{got}), normal([]store.Key{k})) {
				t.Errorf("%s, by hash: %+v, %v", when, got, err)
			}
		}
	}
	check(s, "added", one, two)
	if _, err := s.KeyByHash(t.Context(), [32]byte{9}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown hash: %v", err)
	}
	if err := s.RevokeKey(t.Context(), "nobody"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("an unknown name: %v", err)
	}
	if err := s.RevokeKey(t.Context(), one.Name); err != nil {
		t.Fatal(err)
	}
	if err := s.RevokeKey(t.Context(), two.ID); err != nil {
		t.Fatal(err)
	}
	got, err := s.KeyByHash(t.Context(), one.Hash)
	if err != nil || got.Revoked.IsZero() {
		t.Fatalf("a revoked key: %+v, %v", got, err)
	}
	one.Revoked = got.Revoked
	two.Revoked = got.Revoked
	if k, _ := s.KeyByHash(t.Context(), two.Hash); k.Revoked.IsZero() {
		t.Error("revoked by id it is still good")
	} else {
		two.Revoked = k.Revoked
	}
	if err := s.RevokeKey(t.Context(), one.Name); err != nil {
		t.Errorf("a second time: %v", err)
	}
	check(s, "revoked", one, two)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(testStore(t, Options{Path: s.path}), "after a restart", one, two)
}

// normal makes no difference between no queues and an empty list of them.
func normal(keys []store.Key) []store.Key {
	keys = slices.Clone(keys)
	for i := range keys {
		if len(keys[i].Queues) == 0 {
			keys[i].Queues = nil
		}
	}
	return keys
}

// A read that began before a revocation and ends after it changes nothing.
func TestLateReadOfARevokedKey(t *testing.T) {
	var c keyCache
	good := testKey(1)
	bad := good
	bad.Revoked = time.UnixMilli(5)
	c.read(good)
	c.revoked(bad)
	c.read(good)
	if k, ok := c.get(good.Hash); !ok || k.Revoked.IsZero() {
		t.Errorf("the key is good again: %+v", k)
	}
}

// However reads and revocations meet, none that begins after a revocation finds
// the key good.
func TestRevokedStaysRevoked(t *testing.T) {
	s := testStore(t, Options{})
	var all sync.WaitGroup
	for n := range byte(20) {
		k := testKey(n)
		all.Go(func() {
			if err := s.AddKey(t.Context(), k); err != nil {
				t.Error(err)
				return
			}
			var readers sync.WaitGroup
			for range 3 {
				readers.Go(func() { _, _ = s.KeyByHash(t.Context(), k.Hash) })
			}
			if err := s.RevokeKey(t.Context(), k.Name); err != nil {
				t.Error(err)
			}
			readers.Wait()
			if got, err := s.KeyByHash(t.Context(), k.Hash); err != nil || got.Revoked.IsZero() {
				t.Errorf("good after it was revoked: %+v, %v", got, err)
			}
		})
	}
	all.Wait()
}

func testLetter(n int) store.Letter {
	return store.Letter{
		ID: fmt.Sprintf("letter-%d", n), MessageID: fmt.Sprintf("message-%d", n/2), Reason: "exhausted", Destination: fmt.Sprintf("to-%d", n%2),
		Route: "r", At: letterTime(int64(n)), State: store.LetterOpen, Body: fmt.Appendf(nil, `{"n":%d}`, n),
	}
}

func TestLetters(t *testing.T) {
	s := testStore(t, Options{})
	for n := range 6 {
		for range 2 { // a repeat counts once
			if err := s.AddLetter(t.Context(), testLetter(n)); err != nil {
				t.Fatal(err)
			}
		}
	}
	marked := time.UnixMilli(777).UTC()
	if err := s.MarkLetters(t.Context(), []string{"letter-1", "letter-4", "nobody"}, store.LetterReplayed, marked); err != nil {
		t.Fatal(err)
	}
	// Not open any more: passed over.
	if err := s.MarkLetters(t.Context(), []string{"letter-1", "letter-5"}, store.LetterPurged, marked); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		filter store.LetterFilter
		want   string
	}{
		{store.LetterFilter{}, "0 1 2 3 4 5"},
		{store.LetterFilter{State: store.LetterOpen}, "0 2 3"},
		{store.LetterFilter{State: store.LetterReplayed}, "1 4"},
		{store.LetterFilter{State: store.LetterPurged}, "5"},
		{store.LetterFilter{Destination: "to-1"}, "1 3 5"},
		{store.LetterFilter{Reason: "expired"}, ""},
		{store.LetterFilter{Reason: "exhausted", State: store.LetterPurged}, "5"},
		{store.LetterFilter{Since: letterTime(2)}, "2 3 4 5"},
		{store.LetterFilter{Before: letterTime(2)}, "0 1"},
		{store.LetterFilter{Since: letterTime(1), Before: letterTime(5), State: store.LetterOpen, Destination: "to-0"}, "2"},
		{store.LetterFilter{IDs: []string{"letter-3"}}, "3"},
		{store.LetterFilter{IDs: []string{"message-1", "letter-0", "letter-2", "none"}}, "0 2 3"},
		{store.LetterFilter{IDs: []string{"message-1"}, Destination: "to-1"}, "3"},
	} {
		letters, err := s.Letters(t.Context(), test.filter, 0)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for i, l := range letters {
			got = append(got, strings.TrimPrefix(l.ID, "letter-"))
			var n int
			fmt.Sscan(got[i], &n)
			want := testLetter(n)
			want.Place, want.State = l.Place, l.State
			if !reflect.DeepEqual(l, want) || i > 0 && l.Place <= letters[i-1].Place {
				t.Errorf("letter %d reads as %+v", n, l)
			}
		}
		if text := strings.Join(got, " "); text != test.want {
			t.Errorf("%+v: %q, want %q", test.filter, text, test.want)
		}
		if n, err := s.CountLetters(t.Context(), test.filter); err != nil || n != len(letters) {
			t.Errorf("%+v: counted %d, %v; want %d", test.filter, n, err, len(letters))
		}
	}
	letters, err := s.Letters(t.Context(), store.LetterFilter{State: store.LetterOpen}, 1)
	if err != nil || len(letters) != 2 || letters[0].ID != "letter-2" {
		t.Errorf("after the first: %+v, %v", letters, err)
	}

	if more, err := s.RemoveLetters(t.Context(), letterTime(4)); err != nil || bool(more) {
		t.Errorf("removal: %v, %v", more, err)
	}
	left, err := s.Letters(t.Context(), store.LetterFilter{}, 0)
	if err != nil || len(left) != 5 || left[1].ID != "letter-2" {
		t.Errorf("after removal %d are left, want all but letter-1: %+v, %v", len(left), left, err)
	}
}

// Pages end at letters and at bytes; places are not given out again.
func TestLetterPages(t *testing.T) {
	s := testStore(t, Options{})
	add := func(from, to, bytes int) {
		t.Helper()
		var all sync.WaitGroup
		for n := from; n < to; n++ {
			l := testLetter(n)
			l.Body = make([]byte, bytes)
			all.Go(func() {
				if err := s.AddLetter(t.Context(), l); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	read := func() (sizes []int) {
		t.Helper()
		after := int64(0)
		for {
			page, err := s.Letters(t.Context(), store.LetterFilter{State: store.LetterOpen}, after)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				return sizes
			}
			sizes = append(sizes, len(page))
			after = page[len(page)-1].Place
		}
	}
	add(0, store.LettersPage+100, 10)
	if got := read(); !slices.Equal(got, []int{store.LettersPage, 100}) {
		t.Errorf("pages of %v, want %d and 100", got, store.LettersPage)
	}
	var ids []string
	for n := range store.LettersPage + 100 {
		ids = append(ids, testLetter(n).ID)
	}
	if err := s.MarkLetters(t.Context(), ids, store.LetterPurged, time.UnixMilli(1)); err != nil {
		t.Fatal(err)
	}
	last, err := s.Letters(t.Context(), store.LetterFilter{}, store.LettersPage)
	if err != nil || len(last) != 100 {
		t.Fatal(len(last), err)
	}
	steps := 0
	for more := store.More(true); more; steps++ {
		if more, err = s.RemoveLetters(t.Context(), time.UnixMilli(1<<50)); err != nil {
			t.Fatal(err)
		}
	}
	if n, err := s.CountLetters(t.Context(), store.LetterFilter{}); err != nil || n != 0 || steps < (store.LettersPage+100)/letterRemoves {
		t.Errorf("%d letters left after %d steps, %v", n, steps, err)
	}
	add(1000, 1005, 3<<20)
	if got := read(); !slices.Equal(got, []int{2, 2, 1}) {
		t.Errorf("pages of %v letters of 3 MiB, want 2, 2 and 1", got)
	}
	first, err := s.Letters(t.Context(), store.LetterFilter{}, 0)
	if err != nil || first[0].Place <= last[len(last)-1].Place {
		t.Errorf("place %d was given out again (%v)", first[0].Place, err)
	}
}

// A letter that the filter lets through is found behind more than one step of
// others.
func TestLettersBehindSteps(t *testing.T) {
	s := testStore(t, Options{})
	if err := s.writer.submit(t.Context(), 0, func(tx *tx) error {
		_, err := tx.exec(`WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < ?)
			INSERT INTO letter (id, message_id, reason, destination, route, at, state, body)
			SELECT 'x' || n, 'm', 'exhausted', 'far', 'r', n, 'open', x'00' FROM n`, 2*letterStep+10)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := s.AddLetter(t.Context(), testLetter(1)); err != nil {
		t.Fatal(err)
	}
	got, err := s.Letters(t.Context(), store.LetterFilter{Destination: "to-1"}, 0)
	if err != nil || len(got) != 1 || got[0].ID != "letter-1" {
		t.Errorf("%+v, %v", got, err)
	}
	if n, err := s.CountLetters(t.Context(), store.LetterFilter{}); err != nil || n != 2*letterStep+11 {
		t.Errorf("counted %d, %v", n, err)
	}
}

// letterTime is when the n-th letter died.
func letterTime(n int64) time.Time { return time.UnixMilli(1e12 + n*1000).UTC() }
