package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/seglog"
)

// Purge gives up the letters that died before the given time and returns how
// many of them were open. A segment in which every letter is that old is
// removed; in others the open ones are marked. Letters that a replay has in
// hand are left alone, and so is a segment with lines that can't be read as
// letters. Marks that no letter needs any more go too. After an error a crash may
// bring letters back that are gone, until a purge returns none.
func (s *Files) Purge(ctx context.Context, before time.Time) (int, error) {
	s.dropVanished()
	purged := 0
	for _, seg := range s.letters.Segments() {
		if err := ctx.Err(); err != nil {
			return purged, err
		}
		n, err := s.purgeSegment(ctx, seg, before.UnixMilli())
		purged += n
		if err != nil {
			return purged, err
		}
	}
	return purged, s.purgeMarks(ctx)
}

func (s *Files) purgeSegment(ctx context.Context, seg seglog.Segment, before int64) (int, error) {
	open, whole := s.giveUp(seg, before)
	if whole {
		defer s.release(open)
		err := s.letters.Remove(seg)
		switch {
		case errors.Is(err, seglog.ErrChanged):
			return 0, nil // a letter came just now, or another purge was faster
		case s.there(seg.Number):
			open = nil
		default:
			s.drop(seg.Number)
		}
		if err != nil {
			err = fmt.Errorf("purging dead letters: %w", err)
		}
		return len(open), err
	}
	purged := 0
	for len(open) > 0 {
		part := open[:min(len(open), maxMarked)]
		m := mark{Mark: StatePurged.String()}
		for _, k := range part {
			m.Letters = append(m.Letters, k.name())
		}
		if err := s.mark(ctx, m); err != nil {
			return purged, err
		}
		purged += len(part)
		open = open[len(part):]
	}
	return purged, nil
}

// there reports whether the files still have the segment.
func (s *Files) there(number int64) bool {
	return slices.ContainsFunc(s.letters.Segments(), func(o seglog.Segment) bool { return o.Number == number })
}

// drop forgets the letters of a segment that is gone.
func (s *Files) drop(number int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.remove(number)
}

// dropVanished forgets the letters of files that somebody else removed.
func (s *Files) dropVanished() {
	for _, v := range s.views() {
		if !s.there(v.segment.number) {
			s.o.Log.Warn("dead letters: a file was removed by somebody else", "segment", v.segment.number, "letters", v.entries)
			s.drop(v.segment.number)
		}
	}
}

// giveUp returns the open letters of a segment that are old enough, and whether
// the whole segment can go. Those of one that can are in hand then, so that no
// replay begins one while the file is being removed.
func (s *Files) giveUp(seg seglog.Segment, before int64) (open []key, whole bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	place, ok := s.index.byNumber[seg.Number]
	if !ok {
		return nil, false
	}
	in := s.index.segments[place]
	whole = in.bytes == seg.Size
	for i := range in.entries {
		e := &in.entries[i]
		_, busy := s.claimed[e.key]
		switch {
		case busy, e.at >= before:
			whole = false
		case e.state == StateOpen:
			open = append(open, e.key)
		}
	}
	if whole {
		for _, k := range open {
			s.claimed[k] = struct{}{}
		}
	}
	return open, whole
}

// release is the end of giveUp's hold on the letters of a whole segment.
func (s *Files) release(letters []key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range letters {
		delete(s.claimed, k)
	}
}

// purgeMarks removes the files of marks that speak only of letters that are gone
// for good: one that a crash brought back without its marks would be open again.
func (s *Files) purgeMarks(ctx context.Context) error {
	segments := s.marks.Segments()
	needed := map[int64]bool{}
	err := s.marks.Scan(ctx, seglog.Position{}, func(at seglog.Position, line []byte) error {
		m, err := readMark(line)
		needed[at.Segment] = needed[at.Segment] || err != nil || s.anyLeft(m.Letters)
		return nil
	})
	if err != nil {
		return fmt.Errorf("purging marks of dead letters: %w", err)
	}
	if err := s.letters.SyncRemovals(); err != nil {
		return fmt.Errorf("purging dead letters: %w", err)
	}
	for _, seg := range segments {
		if needed[seg.Number] {
			continue
		}
		if err := s.marks.Remove(seg); err != nil && !errors.Is(err, seglog.ErrChanged) {
			return fmt.Errorf("purging marks of dead letters: %w", err)
		}
	}
	return nil
}

// anyLeft reports whether one of the letters is still in the files.
func (s *Files) anyLeft(letters []string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, letter := range letters {
		if e, _ := s.index.find(keyOf(letter)); e != nil {
			return true
		}
	}
	return false
}
