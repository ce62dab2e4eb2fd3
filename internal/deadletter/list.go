package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/seglog"
)

// sparse is how many letters of a segment are read one by one; for more the
// segment is read through. Opening a file for each costs about as much as
// reading a few hundred KiB.
const sparse = 16

// view is what List sees of a segment: the letters that were in it when the
// list began.
type view struct {
	segment *segment
	entries int
}

// List calls fn with each letter that the filter lets through, in the order
// they were stored, as of the moment List was called. It holds no lock while fn
// runs, so fn may use the store, and it uses little memory: 8 bytes for each
// matching letter of one segment. An error of fn ends the list and is returned
// as it is. Letters that can't be read are passed over and make the error
// ErrDamaged at the end.
func (s *Files) List(ctx context.Context, f Filter, fn func(Entry) error) error {
	if err := f.Check(); err != nil {
		return err
	}
	var damaged []error
	for _, v := range s.views() {
		err := s.listSegment(ctx, v, f, fn)
		switch {
		case errors.Is(err, ErrDamaged):
			damaged = append(damaged, err)
		case err != nil:
			return err
		}
	}
	return errors.Join(damaged...)
}

func (s *Files) views() []view {
	s.mu.Lock()
	defer s.mu.Unlock()
	segments := s.index.ordered()
	vs := make([]view, len(segments))
	for i, seg := range segments {
		vs[i] = view{seg, len(seg.entries)}
	}
	return vs
}

// offsets returns where the matching letters of a segment begin, in the order
// of the file.
func (s *Files) offsets(v view, f Filter) []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.index.matcher(f)
	if !ok {
		return nil
	}
	var at []int64
	for i := range v.segment.entries[:v.entries] {
		if e := &v.segment.entries[i]; m.match(e) {
			at = append(at, e.offset)
		}
	}
	slices.Sort(at)
	return at
}

// errEnd ends the scan of a segment.
var errEnd = errors.New("end of segment")

func (s *Files) listSegment(ctx context.Context, v view, f Filter, fn func(Entry) error) error {
	offsets := s.offsets(v, f)
	number := v.segment.number
	var damaged error
	show := func(line []byte, offset int64) error {
		e, err := s.entry(line)
		if err != nil {
			damaged = fmt.Errorf("%w: segment %d at %d: %w", ErrDamaged, number, offset, err)
			return nil
		}
		if !f.exact(e) {
			return nil
		}
		return fn(e)
	}
	if len(offsets) <= sparse {
		for _, offset := range offsets {
			if err := ctx.Err(); err != nil {
				return err
			}
			line, err := s.letters.Read(seglog.Position{Segment: number, Offset: offset})
			switch {
			case errors.Is(err, seglog.ErrNotFound): // purged meanwhile
				continue
			case err != nil:
				damaged = fmt.Errorf("%w: %w", ErrDamaged, err)
				continue
			}
			if err := show(line, offset); err != nil {
				return err
			}
		}
		return damaged
	}
	var failed error // of fn or ctx, as opposed to reading
	err := s.letters.Scan(ctx, seglog.Position{Segment: number, Offset: offsets[0]}, func(at seglog.Position, line []byte) error {
		if at.Segment != number || len(offsets) == 0 {
			return errEnd
		}
		if at.Offset != offsets[0] {
			return nil
		}
		offsets = offsets[1:]
		failed = show(line, at.Offset)
		return failed
	})
	switch {
	case failed != nil:
		return failed
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !errors.Is(err, errEnd):
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return damaged
}

// entry decodes a line and adds the letter's state.
func (s *Files) entry(line []byte) (Entry, error) {
	l, err := message.DecodeLetter(line)
	if err != nil {
		return Entry{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := Entry{DeadLetter: l}
	if known, _ := s.index.find(keyOf(l.Letter)); known != nil {
		e.State = known.state
	}
	return e, nil
}

// exact settles what the index knows only by a hash.
func (f Filter) exact(e Entry) bool {
	return len(f.IDs) == 0 || slices.Contains(f.IDs, e.Letter) || slices.Contains(f.IDs, e.Message.ID)
}

// Count returns how many letters the filter lets through, from the index alone.
func (s *Files) Count(_ context.Context, f Filter) (int, error) {
	if err := f.Check(); err != nil {
		return 0, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m, ok := s.index.matcher(f)
	if !ok {
		return 0, nil
	}
	n := 0
	for _, seg := range s.index.ordered() {
		for i := range seg.entries {
			if m.match(&seg.entries[i]) {
				n++
			}
		}
	}
	return n, nil
}

// Get returns the letter with the id, or all letters of the message with it.
func (s *Files) Get(ctx context.Context, id string) ([]Entry, error) { return get(ctx, s, id) }
