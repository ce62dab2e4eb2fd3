package deadletter

import (
	"cmp"
	"crypto/sha256"
	"encoding/json/v2"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/seglog"
)

// key is a letter's id in 16 bytes: the ULID that it is, or the start of a hash
// of what somebody else wrote there.
type key [16]byte

func keyOf(letter string) key {
	if id, err := ulid.ParseStrict(letter); err == nil && id.String() == letter {
		return key(id)
	}
	sum := sha256.Sum256([]byte(letter))
	return key(sum[:16])
}

// name is a text that keyOf leads back here: the letter's id, or for a hash
// what would be its ULID.
func (k key) name() string { return ulid.ULID(k).String() }

// facts are what a filter asks about a letter.
type facts struct {
	letter, id, destination string
	at                      time.Time
	reason                  message.Reason
}

func factsOf(l *message.DeadLetter) facts {
	return facts{l.Letter, l.Message.ID, l.Destination, l.At, l.Reason}
}

// readFacts reads them from a letter's line without decoding the rest: opening
// a store with a million letters must not take a minute.
func readFacts(line []byte) (facts, error) {
	var w struct {
		ID         string `json:"id"`
		Attributes struct {
			DLQ *struct {
				Letter      string         `json:"letter"`
				At          time.Time      `json:"at"`
				Reason      message.Reason `json:"reason"`
				Destination string         `json:"destination"`
			} `json:"dlq"`
		} `json:"attributes"`
	}
	if err := json.Unmarshal(line, &w); err != nil {
		return facts{}, err
	}
	d := w.Attributes.DLQ
	switch {
	case d == nil:
		return facts{}, errors.New("it has no dlq attribute")
	case d.Letter == "" || w.ID == "":
		return facts{}, errors.New("an id is missing")
	case !slices.Contains(message.Reasons(), d.Reason):
		return facts{}, errors.New("its reason is unknown")
	}
	return facts{d.Letter, w.ID, d.Destination, d.At, d.Reason}, nil
}

// entry is one letter in the index: 48 bytes, and about 40 in byKey.
type entry struct {
	key         key
	offset      int64
	at          int64  // of death, in Unix milliseconds
	id          uint64 // hash of the message's id
	destination uint32 // index into destinations
	reason      uint8  // index into message.Reasons()
	state       State
}

// segment is what the index knows of one file.
type segment struct {
	number  int64
	entries []entry // in the order they were added; nearly that of the file
	bytes   int64   // of the lines that became entries, newlines included
	open    int     // entries with StateOpen
	first   int     // no entry before it is open
}

// ref leads from a key to its entry.
type ref struct{ segment, entry uint32 }

// index knows every letter of the files. It is guarded by the store's mutex.
type index struct {
	seed         maphash.Seed
	segments     []*segment // nil where one was removed; a ref's segment is a place here
	byNumber     map[int64]uint32
	byKey        map[key]ref
	destinations []string
	destination  map[string]uint32
	open         int
}

func newIndex() *index {
	return &index{
		seed: maphash.MakeSeed(), byNumber: map[int64]uint32{}, byKey: map[key]ref{},
		destination: map[string]uint32{},
	}
}

func (x *index) hash(id string) uint64 { return maphash.String(x.seed, id) }

// add enters a letter that stands at the position, in a line of length bytes.
// A letter that is there twice (its first writing could not be undone) counts
// once.
func (x *index) add(f facts, at seglog.Position, length int) {
	place, ok := x.byNumber[at.Segment]
	if !ok {
		place = uint32(len(x.segments))
		x.segments = append(x.segments, &segment{number: at.Segment})
		x.byNumber[at.Segment] = place
	}
	s := x.segments[place]
	s.bytes += int64(length) + 1
	k := keyOf(f.letter)
	if _, twice := x.byKey[k]; twice {
		return
	}
	d, ok := x.destination[f.destination]
	if !ok {
		d = uint32(len(x.destinations))
		x.destinations = append(x.destinations, f.destination)
		x.destination[f.destination] = d
	}
	x.byKey[k] = ref{place, uint32(len(s.entries))}
	s.entries = append(s.entries, entry{
		key: k, offset: at.Offset, at: f.at.UnixMilli(), id: x.hash(f.id), destination: d,
		reason: uint8(slices.Index(message.Reasons(), f.reason)), state: StateOpen,
	})
	s.open++
	x.open++
}

// find returns the entry of a letter and its segment, nil where there is none.
func (x *index) find(k key) (*entry, *segment) {
	r, ok := x.byKey[k]
	if !ok {
		return nil, nil
	}
	s := x.segments[r.segment]
	return &s.entries[r.entry], s
}

// set moves a letter to a state, never back to open.
func (x *index) set(e *entry, s *segment, to State) {
	if e.state == StateOpen {
		s.open--
		x.open--
	}
	e.state = to
}

// remove forgets a segment and its letters.
func (x *index) remove(number int64) {
	place, ok := x.byNumber[number]
	if !ok {
		return
	}
	s := x.segments[place]
	for i := range s.entries {
		delete(x.byKey, s.entries[i].key)
	}
	x.open -= s.open
	x.segments[place] = nil
	delete(x.byNumber, number)
}

// ordered returns the segments by number.
func (x *index) ordered() []*segment {
	ss := make([]*segment, 0, len(x.byNumber))
	for _, s := range x.segments {
		if s != nil {
			ss = append(ss, s)
		}
	}
	slices.SortFunc(ss, func(a, b *segment) int { return cmp.Compare(a.number, b.number) })
	return ss
}

// oldest returns when the first open letter died; zero when none is open.
func (x *index) oldest() time.Time {
	var in *segment
	for _, s := range x.segments {
		if s != nil && s.open > 0 && (in == nil || s.number < in.number) {
			in = s
		}
	}
	if in == nil {
		return time.Time{}
	}
	for in.entries[in.first].state != StateOpen {
		in.first++
	}
	return time.UnixMilli(in.entries[in.first].at).UTC()
}

// matcher is a filter in the index's own terms.
type matcher struct {
	since       int64
	reason      int // -1 for any
	destination int64
	keys        map[key]struct{}
	ids         map[uint64]struct{}
	all         bool
}

// matcher compiles a filter. ok is false when nothing can match.
func (x *index) matcher(f Filter) (m matcher, ok bool) {
	m = matcher{reason: -1, destination: -1, all: f.State == AllStates}
	if !f.Since.IsZero() {
		m.since = f.Since.UnixMilli()
	}
	if f.Reason != "" {
		m.reason = slices.Index(message.Reasons(), f.Reason)
	}
	if f.Destination != "" {
		d, known := x.destination[f.Destination]
		if !known {
			return m, false
		}
		m.destination = int64(d)
	}
	if len(f.IDs) > 0 {
		m.keys, m.ids = map[key]struct{}{}, map[uint64]struct{}{}
		for _, id := range f.IDs {
			m.keys[keyOf(id)] = struct{}{}
			m.ids[x.hash(id)] = struct{}{}
		}
	}
	return m, true
}

func (m *matcher) match(e *entry) bool {
	if !m.all && e.state != StateOpen ||
		e.at < m.since ||
		m.reason >= 0 && int(e.reason) != m.reason ||
		m.destination >= 0 && int64(e.destination) != m.destination {
		return false
	}
	if m.keys == nil {
		return true
	}
	_, letter := m.keys[e.key]
	_, id := m.ids[e.id]
	return letter || id
}

// Check returns what is wrong with the filter.
func (f Filter) Check() error {
	if len(f.IDs) > MaxIDs {
		return fmt.Errorf("%d ids are too many for one call; at most %d", len(f.IDs), MaxIDs)
	}
	if f.Reason != "" && !slices.Contains(message.Reasons(), f.Reason) {
		return fmt.Errorf("unknown reason %q; it is one of %v", string(f.Reason), message.Reasons())
	}
	return nil
}
