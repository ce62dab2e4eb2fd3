package deadletter

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/seglog"
)

// Options are those of Files. The zero value works.
type Options struct {
	// Log takes what was repaired or can't be read; nil drops it.
	Log *slog.Logger
	// MaxSegment is the size of a segment; 0 is seglog.DefaultSegment.
	MaxSegment int64
	// FS is the file system; nil is the machine's.
	FS seglog.FS
	// Free returns the free bytes where the folder is; nil asks the machine.
	Free func(dir string) (uint64, error)
}

// Files is a Store that keeps letters in a folder. Safe for concurrent use.
type Files struct {
	dir     string
	o       Options
	letters *seglog.Log
	marks   *seglog.Log

	mu      sync.Mutex // guards the rest; never held while a file is touched
	index   *index
	claimed map[key]struct{} // letters that a replay or a purge has in hand
	damaged int
	health  health
}

// marksDir is the folder of the marks, inside the store's.
const marksDir = "marks"

// Open opens or makes the store in the folder dir (mode 0700), repairs what a
// crash left and reads the letters once. Damage inside the files is logged and
// counted; it never stops the start.
func Open(dir string, o Options) (*Files, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.FS == nil {
		o.FS = seglog.OS{}
	}
	if o.Free == nil {
		o.Free = freeBytes
	}
	s := &Files{dir: dir, o: o, index: newIndex(), claimed: map[key]struct{}{}}
	var err error
	if s.letters, err = s.open(dir); err != nil {
		return nil, err
	}
	if s.marks, err = s.open(filepath.Join(dir, marksDir)); err != nil {
		return nil, errors.Join(err, s.letters.Close())
	}
	s.load()
	return s, nil
}

func (s *Files) open(dir string) (*seglog.Log, error) {
	l, err := seglog.Open(seglog.Options{Dir: dir, MaxSegment: s.o.MaxSegment, FS: s.o.FS, Report: s.report})
	if err != nil {
		return nil, fmt.Errorf("dead letters in %s: %w", dir, err)
	}
	return l, nil
}

// report logs what the files' keeper has to say.
func (s *Files) report(r seglog.Report) {
	if r.Trouble == seglog.DamagedLine {
		s.mu.Lock()
		s.damaged++
		s.mu.Unlock()
	}
	s.o.Log.Warn("dead letters: "+string(r.Trouble), "file", r.File, "offset", r.Offset,
		"length", r.Length, "kept", r.Kept, "error", r.Err)
}

// maxDamageLogged bounds the log lines about damage of one pass over the files;
// the rest is counted.
const maxDamageLogged = 20

// load fills the index from the files. Reading errors were reported.
func (s *Files) load() {
	bad := 0
	damage := func(what string, at seglog.Position, err error) {
		s.damaged++
		if bad++; bad <= maxDamageLogged {
			s.o.Log.Warn("dead letters: "+what+" can't be read and is passed over",
				"segment", at.Segment, "offset", at.Offset, "error", err)
		}
	}
	_ = s.letters.Scan(context.Background(), seglog.Position{}, func(at seglog.Position, line []byte) error {
		f, err := readFacts(line)
		if err != nil {
			damage("a letter", at, err)
			return nil
		}
		s.index.add(f, at, len(line))
		return nil
	})
	_ = s.marks.Scan(context.Background(), seglog.Position{}, func(at seglog.Position, line []byte) error {
		m, err := readMark(line)
		if err != nil {
			damage("a mark", at, err)
			return nil
		}
		s.apply(m)
		return nil
	})
	if bad > maxDamageLogged {
		s.o.Log.Warn("dead letters: more damage was counted than logged", "count", bad)
	}
}

// Name returns "file".
func (s *Files) Name() string { return "file" }

// writeTimeout is how long a letter waits for the disk before the write chain
// goes on: far longer than a slow disk takes, short enough for a dead one.
const writeTimeout = 30 * time.Second

// Write is Append, given up after 30 s.
func (s *Files) Write(ctx context.Context, l *message.DeadLetter) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	return s.Append(ctx, l)
}

// Append stores the letter and returns once it is on the disk. An error means
// that it is not stored, but for the end of ctx, after which it may be. A letter
// whose id is there already counts once.
func (s *Files) Append(ctx context.Context, l *message.DeadLetter) error {
	line, err := message.EncodeLetter(l)
	if err != nil {
		return fmt.Errorf("dead letter %s: %w", l.Letter, err)
	}
	if _, err := readFacts(line); err != nil {
		return fmt.Errorf("dead letter %q: %w", l.Letter, err) // could be written, and never found again
	}
	at, err := s.letters.Append(ctx, line)
	if ctx.Err() == nil || err == nil {
		s.wrote(err, len(line))
	}
	if err != nil {
		return fmt.Errorf("dead letter %s: %w", l.Letter, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.index.add(factsOf(l), at, len(line))
	return nil
}

// Stats implements Store.
func (s *Files) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Stats{Open: s.index.open, Oldest: s.index.oldest(), Damaged: s.damaged}
}

// Close gives everything back once what is being written is on the disk.
// Calling it again does nothing.
func (s *Files) Close() error { return errors.Join(s.letters.Close(), s.marks.Close()) }
