package seglog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Scan calls fn with each record from the position on, oldest first, that was
// in the log when Scan was called. The log may be appended meanwhile. The bytes
// are valid until fn returns. It uses the memory of the longest record.
//
// A damaged line is reported and passed over. Where reading fails, that is
// reported, the rest of that segment is passed over, and the error is returned
// at the end, so that as much as possible is seen and nothing is thought
// complete that is not. An error of fn and the end of ctx stop the scan and are
// returned as they are.
func (l *Log) Scan(ctx context.Context, from Position, fn func(Position, []byte) error) error {
	var trouble []error
	sc := scanner{r: bufio.NewReaderSize(nil, chunk), fn: fn}
	for _, s := range l.Segments() {
		if s.Number < from.Segment {
			continue
		}
		start := int64(0)
		if s.Number == from.Segment {
			start = from.Offset
		}
		err := l.scanSegment(ctx, s, start, &sc)
		var stop stopped
		switch {
		case errors.As(err, &stop):
			return stop.error
		case err != nil:
			trouble = append(trouble, err)
		}
	}
	return errors.Join(trouble...)
}

// stopped carries an error that ends a scan, as opposed to one of a segment.
type stopped struct{ error }

// scanner is what a scan takes along from segment to segment.
type scanner struct {
	r    *bufio.Reader
	line []byte // the latest line, its memory used again for the next
	fn   func(Position, []byte) error
}

func (l *Log) scanSegment(ctx context.Context, s Segment, start int64, sc *scanner) error {
	f, err := l.fs.OpenFile(s.File, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) && l.gone(s) {
		return nil // removed since the list was made
	}
	if err != nil {
		l.o.Report(Report{Trouble: Unreadable, File: s.File, Err: err})
		return fmt.Errorf("seglog: %w", err)
	}
	defer f.Close()
	sc.r.Reset(io.NewSectionReader(f, start, s.Size-start))
	for at := start; at < s.Size; {
		if err := ctx.Err(); err != nil {
			return stopped{err}
		}
		line, length, err := readLine(sc.r, sc.line[:0])
		sc.line = line
		if err != nil {
			l.o.Report(Report{Trouble: Unreadable, File: s.File, Offset: at, Err: err})
			return fmt.Errorf("seglog: %s at %d: %w", s.File, at, err)
		}
		switch {
		case length > MaxRecord || bytes.IndexByte(line, 0) >= 0:
			l.o.Report(Report{Trouble: DamagedLine, File: s.File, Offset: at, Length: length})
		case length > 0:
			if err := sc.fn(Position{s.Number, at}, line); err != nil {
				return stopped{err}
			}
		}
		at += length + 1
	}
	return nil
}

// gone reports whether a segment is no longer on the list.
func (l *Log) gone(s Segment) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at(s.Number) < 0
}

// readLine reads a line into buf and returns it without its newline, and its
// length. Of a line longer than MaxRecord the rest is read and thrown away. A
// line that ends with the file instead of a newline is io.ErrUnexpectedEOF.
func readLine(r *bufio.Reader, buf []byte) (line []byte, length int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		length += int64(len(part))
		if room := MaxRecord + 1 - len(buf); len(part) > room {
			part = part[:room]
		}
		buf = append(buf, part...)
		switch {
		case err == nil:
			if length--; length <= MaxRecord {
				buf = buf[:length]
			}
			return buf, length, nil
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return buf, length, io.ErrUnexpectedEOF
		default:
			return buf, length, err
		}
	}
}

// Read returns the record that begins at the position. A position where none
// begins any more is ErrNotFound; one that never was a record's gives whatever
// stands there.
func (l *Log) Read(at Position) ([]byte, error) {
	l.mu.Lock()
	i := l.at(at.Segment)
	var s Segment
	if i >= 0 {
		s = l.segments[i]
	}
	l.mu.Unlock()
	if i < 0 || at.Offset < 0 || at.Offset >= s.Size {
		return nil, fmt.Errorf("seglog: %w", ErrNotFound)
	}
	f, err := l.fs.OpenFile(s.File, os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) && l.gone(s) {
		return nil, fmt.Errorf("seglog: %w", ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("seglog: %w", err)
	}
	defer f.Close()
	line, length, err := readLine(bufio.NewReader(io.NewSectionReader(f, at.Offset, s.Size-at.Offset)), nil)
	switch {
	case err != nil:
		return nil, fmt.Errorf("seglog: %s at %d: %w", s.File, at.Offset, err)
	case length > MaxRecord:
		return nil, fmt.Errorf("seglog: %s at %d: %w: it is too long", s.File, at.Offset, ErrRecord)
	}
	return line, nil
}
