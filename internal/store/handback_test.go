// These tests would catch a run of hand-backs that is counted wrong, or whose own
// notes are lost or pile up.
package store_test

import (
	"testing"

	"github.com/pawlhq/pawl/internal/store"
)

func TestHandBackNote(t *testing.T) {
	note := ""
	for _, c := range []struct{ own, want string }{
		{"", "2 hand-backs in a row"},
		{"its process ended", "3 hand-backs in a row; its process ended"},
		{"", "4 hand-backs in a row"},
	} {
		if note = store.HandBackNote(note, c.own); note != c.want {
			t.Errorf("%q, want %q", note, c.want)
		}
	}
	for _, odd := range []string{"its process ended", "some hand-backs in a row", " hand-backs in a row"} {
		if got := store.HandBackNote(odd, ""); got != "2 hand-backs in a row" {
			t.Errorf("after %q: %q", odd, got)
		}
	}
}
