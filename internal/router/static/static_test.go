package static

// These tests would catch a static router that chooses nothing or whose list
// changes under it.

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/router"
)

func TestRouter(t *testing.T) {
	to := []string{"a", "b"}
	r, err := New(to)
	if err != nil {
		t.Fatal(err)
	}
	to[0] = "changed"
	got, err := r.Route(t.Context(), nil)
	want := router.Decision{Targets: []string{"a", "b"}, By: "static", Reason: "always"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := New(nil); err == nil {
		t.Error("a router to nowhere is made")
	}
}
