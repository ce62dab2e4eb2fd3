package sqlite

import (
	"testing"

	"github.com/pawlhq/pawl/internal/store"
)

// A list that is of one moment ends at what was the last place then; a page that
// is to be short is.
func TestLettersUpToAPlace(t *testing.T) {
	s := testStore(t, Options{})
	if last, err := s.LastLetter(t.Context()); err != nil || last != 0 {
		t.Errorf("the last of none is %d, %v", last, err)
	}
	for n := range 6 {
		if err := s.AddLetter(t.Context(), testLetter(n)); err != nil {
			t.Fatal(err)
		}
	}
	all, err := s.Letters(t.Context(), store.LetterFilter{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if last, err := s.LastLetter(t.Context()); err != nil || last != all[5].Place {
		t.Errorf("the last is %d, %v; want %d", last, err, all[5].Place)
	}
	for _, test := range []struct {
		filter      store.LetterFilter
		page, count int
	}{
		{store.LetterFilter{UpTo: all[3].Place}, 4, 4},
		{store.LetterFilter{UpTo: all[3].Place, Limit: 2}, 2, 4},
		{store.LetterFilter{UpTo: all[3].Place, IDs: []string{"letter-2", "letter-5"}}, 1, 1},
		{store.LetterFilter{State: store.LetterOpen, Limit: 1}, 1, 6},
		{store.LetterFilter{Limit: store.LettersPage + 1}, 6, 6},
	} {
		page, err := s.Letters(t.Context(), test.filter, 0)
		if err != nil || len(page) != test.page {
			t.Errorf("%+v: a page of %d, %v; want %d", test.filter, len(page), err, test.page)
		}
		if n, err := s.CountLetters(t.Context(), test.filter); err != nil || n != test.count {
			t.Errorf("%+v: counted %d, %v; want %d", test.filter, n, err, test.count)
		}
	}
}
