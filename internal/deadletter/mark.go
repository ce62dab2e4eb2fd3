package deadletter

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"time"
)

// mark says what became of some letters. Its written form is a line of the
// marks' log.
type mark struct {
	Mark    string    `json:"mark"` // replayed or purged
	At      time.Time `json:"at"`
	Outcome string    `json:"outcome,omitempty"` // of a replay: delivered or failed_again
	Letters []string  `json:"letters"`
}

// maxMarked bounds the letters of one mark: a line of some 30 KB.
const maxMarked = 1000

func readMark(line []byte) (mark, error) {
	var m mark
	if err := json.Unmarshal(line, &m); err != nil {
		return m, err
	}
	if m.Mark != StateReplayed.String() && m.Mark != StatePurged.String() {
		return m, errors.New("it is neither replayed nor purged")
	}
	return m, nil
}

func (m mark) state() State {
	if m.Mark == StatePurged.String() {
		return StatePurged
	}
	return StateReplayed
}

// apply enters a mark that is on the disk. Letters that are no longer there are
// passed over. The caller holds mu or is alone.
func (s *Files) apply(m mark) {
	for _, letter := range m.Letters {
		if e, in := s.index.find(keyOf(letter)); e != nil && e.state == StateOpen {
			s.index.set(e, in, m.state())
		}
	}
}

// mark writes a mark and enters it.
func (s *Files) mark(ctx context.Context, m mark) error {
	m.At = time.Now().UTC()
	line, err := json.Marshal(m)
	if err != nil {
		return fmt.Errorf("marking dead letters: %w", err)
	}
	if _, err := s.marks.Append(ctx, line); err != nil {
		return fmt.Errorf("marking dead letters: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.apply(m)
	return nil
}

// Replay implements Store.
func (s *Files) Replay(ctx context.Context, o ReplayOptions) (Summary, error) {
	return replayAll(ctx, s, o)
}

// claim takes an open letter in hand.
func (s *Files) claim(_ context.Context, letter string) (claim, error) {
	k := keyOf(letter)
	s.mu.Lock()
	defer s.mu.Unlock()
	e, _ := s.index.find(k)
	if _, busy := s.claimed[k]; busy || e == nil || e.state != StateOpen {
		return taken, nil
	}
	s.claimed[k] = struct{}{}
	return mine, nil
}

func (s *Files) unclaim(letter string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.claimed, keyOf(letter))
}

// MarkReplayed marks an open letter as replayed and returns once that is on the
// disk. how is Delivered or FailedAgain. A letter that is marked already stays
// as it is; an unknown one is ErrNotFound.
func (s *Files) MarkReplayed(ctx context.Context, letter string, how Verdict) error {
	s.mu.Lock()
	e, _ := s.index.find(keyOf(letter))
	open := e != nil && e.state == StateOpen
	s.mu.Unlock()
	switch {
	case e == nil:
		return fmt.Errorf("%w: %q", ErrNotFound, letter)
	case how == Abandoned:
		return errors.New("marking dead letters: an abandoned replay leaves no mark")
	case !open:
		return nil
	}
	return s.mark(ctx, mark{Mark: StateReplayed.String(), Outcome: how.String(), Letters: []string{letter}})
}
