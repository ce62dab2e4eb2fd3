package seglog

import (
	"bytes"
	"cmp"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// chunk is how much of a file is read at once.
const chunk = 64 << 10

const suffix = ".ndjson"

// segmentName is 000001.ndjson for 1; past six digits the name grows.
func segmentName(number int64) string { return fmt.Sprintf("%06d%s", number, suffix) }

// segmentNumber is the way back; ok is false for a name that segmentName does
// not make.
func segmentNumber(name string) (number int64, ok bool) {
	digits, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseInt(digits, 10, 64)
	return number, err == nil && number > 0 && segmentName(number) == name
}

// findSegments lists and repairs the segments of Dir. None of them is written
// again: whether an fsync failed on one in an earlier life can't be known, so
// each process writes only to segments that it made.
func (l *Log) findSegments() error {
	if err := l.fs.MkdirAll(l.o.Dir, 0o700); err != nil {
		return err
	}
	entries, err := l.fs.ReadDir(l.o.Dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		number, ok := segmentNumber(e.Name())
		if !ok || e.IsDir() {
			continue
		}
		l.next = max(l.next, number+1)
		s := Segment{Number: number, File: filepath.Join(l.o.Dir, e.Name())}
		f, end, err := l.inspect(s.File)
		if f != nil {
			_ = f.Close()
		}
		if s.Size = end; end == 0 && err == nil {
			// Nothing was ever stored in it: a leftover of a killed process.
			_ = l.fs.Remove(s.File)
			continue
		}
		l.segments = append(l.segments, s)
	}
	slices.SortFunc(l.segments, func(a, b Segment) int { return cmp.Compare(a.Number, b.Number) })
	// What an earlier process removed may still be on the disk. That is no reason
	// not to start: SyncRemovals tries again.
	l.loose = l.fs.SyncDir(l.dir) != nil
	return nil
}

// findFile opens the file at Path where there is one.
func (l *Log) findFile() {
	if _, err := l.fs.Stat(l.o.Path); err != nil {
		return // none yet, or none to be had: the first Append says which
	}
	f, end, err := l.inspect(l.o.Path)
	if f == nil {
		return
	}
	if err != nil || l.fs.SyncDir(l.dir) != nil {
		_ = f.Close()
		return
	}
	l.file = f
	l.segments = []Segment{{Number: 1, File: l.o.Path, Size: end}}
	l.next = 2
}

// inspect opens a file and repairs its end. The file is returned whenever it
// could be opened; with an error it must not be written.
func (l *Log) inspect(name string) (File, int64, error) {
	f, err := l.fs.OpenFile(name, os.O_RDWR|os.O_APPEND, l.o.Mode)
	if err != nil {
		l.o.Report(Report{Trouble: Unreadable, File: name, Err: err})
		return nil, l.sizeOf(name), err
	}
	end, err := l.repair(f, name)
	if err == nil {
		// What a killed process left in the system's cache becomes durable
		// before anybody is shown it.
		err = f.Sync()
		if err != nil {
			l.o.Report(Report{Trouble: Condemned, File: name, Offset: end, Err: err})
		}
	}
	return f, end, err
}

// sizeOf returns the length of a file that can't be opened for writing; it may
// be readable all the same.
func (l *Log) sizeOf(name string) int64 {
	info, err := l.fs.Stat(name)
	if err != nil {
		return 0
	}
	return info.Size()
}

// repair makes the file end with a whole line and returns its length then. On
// an error the length is where its last whole line ends, and what stands
// behind it is still there.
func (l *Log) repair(f File, name string) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		l.o.Report(Report{Trouble: Unreadable, File: name, Err: err})
		return 0, err
	}
	size := info.Size()
	end, err := lastLineEnd(f, size)
	if err != nil {
		l.o.Report(Report{Trouble: Unreadable, File: name, Err: err})
		return size, err // what can be read of it is still shown
	}
	if end == size {
		return end, nil
	}
	torn := Report{File: name, Offset: end, Length: size - end}
	if whole(f, end, size) {
		if _, err = f.Write([]byte{'\n'}); err == nil {
			torn.Trouble = Newline
			l.o.Report(torn)
			return size + 1, nil
		}
	} else if torn.Kept, err = l.keep(f, name, end, size); err == nil {
		if err = f.Truncate(end); err == nil {
			torn.Trouble = TornTail
			l.o.Report(torn)
			return end, nil
		}
	}
	torn.Trouble, torn.Err = TornLeft, err
	l.o.Report(torn)
	return end, err
}

// lastLineEnd returns the offset behind the last newline of the first size
// bytes, 0 when there is none.
func lastLineEnd(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, min(size, chunk))
	for end := size; end > 0; {
		from := max(0, end-chunk)
		part := buf[:end-from]
		if _, err := f.ReadAt(part, from); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}

// whole reports whether the bytes from from to to are one JSON object: a record
// that lost nothing but its newline. Other JSON values may be cut and still be
// valid.
func whole(f io.ReaderAt, from, to int64) bool {
	if to-from > MaxRecord {
		return false
	}
	tail := make([]byte, to-from)
	if _, err := f.ReadAt(tail, from); err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	return tail[0] == '{' && jsontext.Value(tail).IsValid()
}

// keep copies the bytes from from to to into a file beside name and returns
// its name, once they are durable.
func (l *Log) keep(f io.ReaderAt, name string, from, to int64) (string, error) {
	kept, err := l.spare(name + ".torn")
	if err != nil {
		return "", err
	}
	out, err := l.fs.OpenFile(kept, os.O_WRONLY|os.O_CREATE|os.O_EXCL, l.o.Mode)
	if err != nil {
		return "", err
	}
	_, err = io.Copy(out, io.NewSectionReader(f, from, to-from))
	if err == nil {
		err = out.Sync()
	}
	err = errors.Join(err, out.Close())
	if err == nil {
		err = l.fs.SyncDir(filepath.Dir(kept))
	}
	if err != nil {
		_ = l.fs.Remove(kept) // half a copy helps nobody; the original is still there
		return "", err
	}
	return kept, nil
}
