package seglog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// tries is how many segments one group is written to: the one at hand and,
// after an fsync error, a new one. When that fails too the disk is at fault.
const tries = 2

// write brings a group to the disk and sets its positions. On an error nothing
// of it is visible.
func (l *Log) write(group []*pending) error {
	l.io.Lock()
	defer l.io.Unlock()
	size := 0
	for _, p := range group {
		size += len(p.record) + 1
	}
	buf := make([]byte, 0, size)
	for _, p := range group {
		buf = append(append(buf, p.record...), '\n')
	}
	var err error
	for range tries {
		var s Segment
		if s, err = l.ready(); err != nil {
			return fmt.Errorf("seglog: %w", err)
		}
		n, werr := l.file.Write(buf)
		if werr == nil && n < len(buf) {
			werr = io.ErrShortWrite
		}
		if werr != nil {
			if terr := l.file.Truncate(s.Size); terr != nil {
				l.condemn(s, terr)
			}
			return fmt.Errorf("seglog: %w", werr)
		}
		if err = l.file.Sync(); err == nil {
			l.publish(s, group)
			return nil
		}
		l.condemn(s, err)
	}
	return fmt.Errorf("seglog: %w", err)
}

// publish makes a synced group visible.
func (l *Log) publish(s Segment, group []*pending) {
	at := s.Size
	for _, p := range group {
		p.at = Position{s.Number, at}
		at += int64(len(p.record)) + 1
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.at(s.Number); i >= 0 {
		l.segments[i].Size = at
	}
}

// ready returns the segment that the next group goes to, with its file open
// and its end where the segment says.
func (l *Log) ready() (Segment, error) {
	if l.file != nil {
		s := l.last()
		if l.ours(s) {
			if l.o.Path != "" || s.Size < l.o.MaxSegment {
				return s, nil
			}
			l.drop()
		}
	}
	return l.create()
}

// last returns the newest segment.
func (l *Log) last() Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.segments[len(l.segments)-1]
}

// ours reports whether the open file is still the one that its name leads to,
// as long as we left it. A file of another length was cut or written by
// somebody else; what they left is theirs, and looked at afresh.
func (l *Log) ours(s Segment) bool {
	named, err := l.fs.Stat(s.File)
	if err == nil {
		var open fs.FileInfo
		if open, err = l.file.Stat(); err == nil && l.fs.SameFile(named, open) && named.Size() == s.Size {
			return true
		}
	}
	l.drop()
	l.o.Report(Report{Trouble: Rotated, File: s.File, Offset: s.Size, Err: err})
	if errors.Is(err, fs.ErrNotExist) || l.o.Path != "" {
		l.forget(s.Number)
	}
	return false
}

// create opens a fresh segment: a new file in Dir, or the file at Path.
func (l *Log) create() (Segment, error) {
	if err := l.fs.MkdirAll(l.dir, 0o700); err != nil {
		return Segment{}, err
	}
	l.mu.Lock()
	number := l.next
	l.mu.Unlock()
	if l.o.Path != "" {
		return l.reopen(number)
	}
	name := filepath.Join(l.o.Dir, segmentName(number))
	f, err := l.fs.OpenFile(name, os.O_RDWR|os.O_APPEND|os.O_CREATE|os.O_EXCL, l.o.Mode)
	if err != nil {
		if errors.Is(err, fs.ErrExist) {
			l.took(number) // somebody put a file there: the next group passes over it
		}
		return Segment{}, err
	}
	return l.adopt(f, Segment{Number: number, File: name})
}

// reopen opens the file at Path, which may be another than before, and repairs
// its end.
func (l *Log) reopen(number int64) (Segment, error) {
	s := Segment{Number: number, File: l.o.Path}
	f, err := l.fs.OpenFile(s.File, os.O_RDWR|os.O_APPEND|os.O_CREATE, l.o.Mode)
	if err != nil {
		return Segment{}, err
	}
	end, err := l.repair(f, s.File)
	if err != nil {
		_ = f.Close()
		return Segment{}, fmt.Errorf("%s: its torn end can't be cut off: %w", s.File, err)
	}
	s.Size = end
	return l.adopt(f, s)
}

// adopt makes f the file that is written, once its name is durable.
func (l *Log) adopt(f File, s Segment) (Segment, error) {
	if err := l.syncDir(); err != nil {
		_ = f.Close()
		if l.o.Path == "" {
			_ = l.fs.Remove(s.File) // empty; a leftover is passed over by number
			l.took(s.Number)
		}
		return Segment{}, err
	}
	l.file = f
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.o.Path != "" {
		l.segments = nil // one file, one segment
	}
	l.segments = append(l.segments, s)
	l.next = s.Number + 1
	return s, nil
}

// took passes over a number that can't be used.
func (l *Log) took(number int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.next = max(l.next, number+1)
}

// condemn cuts the segment back to its synced end and stops writing it. What
// can't be cut stays, and is not shown as long as the log is open.
func (l *Log) condemn(s Segment, cause error) {
	err := l.file.Truncate(s.Size)
	if err == nil {
		// So that a crash does not bring the group back beside its second
		// copy. It is a try: nothing is built on its success.
		err = l.file.Sync()
	}
	l.drop()
	l.o.Report(Report{Trouble: Condemned, File: s.File, Offset: s.Size, Err: errors.Join(cause, err)})
	switch {
	case s.Size == 0:
		if l.fs.Remove(s.File) == nil {
			l.forget(s.Number)
		}
	case l.o.Path != "":
		if kept, err := l.spare(s.File + ".condemned"); err == nil && l.fs.Rename(s.File, kept) == nil {
			l.forget(s.Number)
		}
	}
}

// maxSpares bounds how many files of one name are kept aside: past it the
// operator has not looked for a long time, and the disk must not fill with them.
const maxSpares = 1000

// spare returns a name that no file has: base, base-2, base-3, …
func (l *Log) spare(base string) (string, error) {
	name := base
	for n := 2; n < maxSpares+2; n++ {
		if _, err := l.fs.Stat(name); errors.Is(err, fs.ErrNotExist) {
			return name, nil
		} else if err != nil {
			return "", err
		}
		name = fmt.Sprintf("%s-%d", base, n)
	}
	return "", fmt.Errorf("there are %d files %s* already; move them away", maxSpares, base)
}
