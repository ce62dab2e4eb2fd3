package seglog

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"
)

// The bounds of a log.
const (
	// MaxRecord is the longest record in bytes: the largest body that a source
	// may take in, written as base64 with its history, fits well.
	MaxRecord = 64 << 20
	// MaxRecords is the most that AppendAll takes, newlines included: it is in
	// memory twice while it is written.
	MaxRecords = MaxRecord + 1
	// DefaultSegment is the size past which a folder's log starts a new
	// segment: small enough to be removed one by one, large enough that a
	// million letters are a few dozen files.
	DefaultSegment = 64 << 20
	// maxGroupRecords and maxGroupBytes bound what waits for one fsync. A
	// caller past them waits for the group before to end. One fsync takes
	// about as long as writing 8 MiB does, so a larger group gains nothing.
	maxGroupRecords = 1024
	maxGroupBytes   = 8 << 20
)

// Errors to ask for with errors.Is.
var (
	// ErrClosed: the log was closed.
	ErrClosed = errors.New("the log is closed")
	// ErrRecord: the record can't be a line: it is empty, too long, or holds a
	// newline or a NUL byte.
	ErrRecord = errors.New("the record can't be written as a line")
	// ErrChanged: the segment has grown or gone since it was looked at.
	ErrChanged = errors.New("the segment has changed")
	// ErrNotFound: no record begins at the position.
	ErrNotFound = errors.New("no record at this position")
)

// Options are a log's. Exactly one of Dir and Path is set.
type Options struct {
	// Dir is a folder of segments 000001.ndjson, 000002.ndjson, …
	Dir string
	// Path is one file. It grows until something outside rotates it.
	Path string
	// MaxSegment is the size in bytes past which the log in Dir starts a new
	// segment; 0 is DefaultSegment. Path takes no notice of it.
	MaxSegment int64
	// Mode is the files' mode, 0600 unless set. Folders are made 0700.
	Mode fs.FileMode
	// FS is the file system; nil is OS.
	FS FS
	// Report is told of what was repaired, condemned or found damaged. It must
	// not call the log; nil is nobody.
	Report func(Report)
}

// Trouble is what a Report is about.
type Trouble string

// The troubles.
const (
	// TornTail: the end of a segment was cut off and kept in Kept.
	TornTail Trouble = "torn tail"
	// TornLeft: the end of a segment is torn and could not be cut off; it is
	// passed over.
	TornLeft Trouble = "torn tail left in place"
	// Newline: the last record had lost its newline and got it back.
	Newline Trouble = "newline put back"
	// Condemned: fsync or truncate failed, the segment is not written again.
	Condemned Trouble = "segment condemned"
	// Rotated: the file was renamed, removed or cut by somebody else.
	Rotated Trouble = "rotated from outside"
	// DamagedLine: a line is longer than MaxRecord or holds NUL bytes.
	DamagedLine Trouble = "damaged line"
	// Unreadable: reading failed, the rest of the segment is passed over.
	Unreadable Trouble = "unreadable"
)

// Report says what happened to which bytes of which file.
type Report struct {
	Trouble Trouble
	File    string
	Offset  int64
	Length  int64 // 0 where it is not known
	Kept    string
	Err     error
}

// Position is where a record begins. Positions of one log are in the order of
// its records. The zero Position is before every record.
type Position struct {
	Segment int64
	Offset  int64
}

// Compare returns -1, 0 or +1 as p is before, at or after q.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Segment, q.Segment), cmp.Compare(p.Offset, q.Offset))
}

// Segment is one file of the log.
type Segment struct {
	Number int64
	File   string
	// Size is the bytes of it that count: what was synced.
	Size int64
}

// Log is an append-only log of lines. Safe for concurrent use.
type Log struct {
	o   Options
	fs  FS
	dir string

	// io is held by whoever writes, rotates or removes files. It guards file and
	// loose.
	io    sync.Mutex
	file  File // of the last segment, nil when the next group must open one
	loose bool // a name is gone, and no SyncDir said since that it is gone for good

	// mu guards the rest and is never held while a file is touched.
	mu       sync.Mutex
	segments []Segment // by number
	next     int64     // number of the next segment
	queue    []*pending
	queued   int           // bytes in queue
	space    chan struct{} // closed when a group was taken; callers past the bound wait for it
	busy     bool          // a flusher is running
	idle     chan struct{} // closed when it ends
	closed   bool
}

// Open opens the log, repairing what a crash left. It makes no file before the
// first record. An error is of the folder Dir itself: it can't be made or
// listed. What is in the files never stops it, and a Path that can't be opened
// is tried again by each Append.
func Open(o Options) (*Log, error) {
	if (o.Dir == "") == (o.Path == "") {
		return nil, errors.New("seglog: one of Dir and Path must be set")
	}
	if o.MaxSegment <= 0 {
		o.MaxSegment = DefaultSegment
	}
	if o.Mode == 0 {
		o.Mode = 0o600
	}
	if o.FS == nil {
		o.FS = OS{}
	}
	if o.Report == nil {
		o.Report = func(Report) {}
	}
	l := &Log{o: o, fs: o.FS, dir: o.Dir, space: make(chan struct{}), next: 1}
	if o.Path != "" {
		l.dir = filepath.Dir(o.Path)
	}
	if o.Path != "" {
		l.findFile()
		return l, nil
	}
	if err := l.findSegments(); err != nil {
		return nil, fmt.Errorf("seglog: %w", err)
	}
	return l, nil
}

// Segments returns the log's segments, oldest first, at this moment.
func (l *Log) Segments() []Segment {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Segment(nil), l.segments...)
}

// Remove removes a segment that is still as it was when Segments returned it.
// One that has grown or gone since is left alone: ErrChanged. After any other
// error Segments says whether it is still there; where it is not, a crash may
// bring it back until SyncRemovals returns nil.
func (l *Log) Remove(s Segment) error {
	l.io.Lock()
	defer l.io.Unlock()
	l.mu.Lock()
	i := l.at(s.Number)
	if i < 0 || l.segments[i] != s {
		l.mu.Unlock()
		return fmt.Errorf("seglog: %s: %w", s.File, ErrChanged)
	}
	last := i == len(l.segments)-1
	l.mu.Unlock()
	if last {
		l.drop()
	}
	if err := l.fs.Remove(s.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("seglog: %w", err)
	}
	l.forget(s.Number)
	return l.syncRemovals()
}

// SyncRemovals returns nil once no crash brings back a segment that is no longer
// on the list, whoever took it away and whatever went wrong then. Without such a
// one it costs nothing.
func (l *Log) SyncRemovals() error {
	l.io.Lock()
	defer l.io.Unlock()
	return l.syncRemovals()
}

func (l *Log) syncRemovals() error {
	if !l.loose {
		return nil
	}
	if err := l.syncDir(); err != nil {
		return fmt.Errorf("seglog: making removals durable: %w", err)
	}
	return nil
}

// syncDir makes the names in the folder durable. The caller holds io.
func (l *Log) syncDir() error {
	err := l.fs.SyncDir(l.dir)
	if err == nil {
		l.loose = false
	}
	return err
}

// Close writes what is queued, then closes the log. Appends after it fail with
// ErrClosed. Calling it again does nothing.
func (l *Log) Close() error {
	l.mu.Lock()
	l.closed = true
	idle := l.idle
	busy := l.busy
	l.mu.Unlock()
	if busy {
		<-idle
	}
	l.io.Lock()
	defer l.io.Unlock()
	if l.file == nil {
		return nil
	}
	f := l.file
	l.file = nil
	return f.Close()
}

// drop closes the file that is being written, so that the next group opens
// another. The caller holds io. What counts in it was synced: an error of the
// close changes nothing.
func (l *Log) drop() {
	if l.file != nil {
		_ = l.file.Close()
		l.file = nil
	}
}

// at returns the index of the segment with the number, or -1. The caller holds mu.
func (l *Log) at(number int64) int {
	for i := len(l.segments) - 1; i >= 0; i-- {
		if l.segments[i].Number == number {
			return i
		}
	}
	return -1
}

// forget takes a segment off the list. The caller holds io.
func (l *Log) forget(number int64) {
	l.loose = true
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.at(number); i >= 0 {
		l.segments = append(l.segments[:i:i], l.segments[i+1:]...)
	}
}
