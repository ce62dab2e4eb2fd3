package sqlite

// What this would catch: replays that are kept for ever, one that is not over and is
// forgotten, and a job that can't end because the replay that brought it back is
// forgotten.

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pawlhq/pawl/internal/store"
)

func TestOldReplaysAreForgotten(t *testing.T) {
	s := testStore(t, Options{})
	finish(t, s, newJob("q"), giveUp)
	add := func(id string, state store.ReplayState) {
		t.Helper()
		if err := s.AddReplay(t.Context(), store.Replay{ID: id, State: state, Action: store.ActionRetry}); err != nil {
			t.Fatal(err)
		}
	}
	add("brought", store.ReplayRunning)
	if r, err := s.StepReplay(t.Context(), "brought", 10); err != nil || r.Done != 1 || r.State != store.ReplayDone {
		t.Fatalf("%+v, %v", r, err)
	}
	add("paused", store.ReplayPaused)
	if err := s.writer.submit(t.Context(), 0, func(t *tx) error {
		for i := range store.KeptReplays - 3 {
			id := fmt.Sprintf("over-%d", i)
			if _, err := t.exec(sqlReplayNew, id, string(store.ReplayDone), `{"id":"`+id+`","state":"done"}`); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	has := func(id string, want bool) {
		t.Helper()
		if _, err := s.Replay(t.Context(), id); (err == nil) != want || err != nil && !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: %v", id, err)
		}
	}
	add("last that fits", store.ReplayCancelled)
	has("brought", true)
	for i := range 3 {
		add(fmt.Sprintf("newer-%d", i), store.ReplayCancelled)
	}
	has("brought", false)
	has("paused", true) // it is not over
	has("over-0", false)
	has("over-1", true)
	done := succeed
	done.Lease = take(t, s, "q", 1)[0].Lease
	say(t, s, done)
}
