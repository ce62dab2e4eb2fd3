package seglog

import (
	"bytes"
	"context"
	"fmt"
)

// pending is a record on its way to the disk, or several with newlines between.
type pending struct {
	record []byte
	at     Position
	err    error
	done   chan struct{} // closed when at or err is set
}

// Append adds the record as a line and returns where it begins, once it is on
// the disk. An error means that it is not in the log; but for the end of ctx
// while its group was being written, after which it may be. The log keeps the
// record's bytes until Append returns, and past that when ctx ended it.
func (l *Log) Append(ctx context.Context, record []byte) (Position, error) {
	if err := checkRecord(record); err != nil {
		return Position{}, err
	}
	return l.append(ctx, record)
}

// AppendAll adds the records as lines side by side, in one write. An error means
// that none of them is in the log, with Append's exception. No records are no
// work. They may have MaxRecords together.
func (l *Log) AppendAll(ctx context.Context, records [][]byte) error {
	if len(records) == 0 {
		return nil
	}
	size := 0
	for _, r := range records {
		if err := checkRecord(r); err != nil {
			return err
		}
		size += len(r) + 1
	}
	if size > MaxRecords {
		return fmt.Errorf("seglog: %w: they have %d bytes together, the most is %d", ErrRecord, size, MaxRecords)
	}
	_, err := l.append(ctx, bytes.Join(records, []byte{'\n'}))
	return err
}

// append is Append of what was checked.
func (l *Log) append(ctx context.Context, record []byte) (Position, error) {
	if err := context.Cause(ctx); err != nil {
		return Position{}, fmt.Errorf("seglog: append: %w", err)
	}
	p := &pending{record: record, done: make(chan struct{})}
	if err := l.enqueue(ctx, p); err != nil {
		return Position{}, err
	}
	select {
	case <-p.done:
		return p.at, p.err
	case <-ctx.Done():
	}
	// A record that no group took yet is taken back, so that an error says
	// what it seems to say wherever it can.
	l.withdraw(p)
	return Position{}, fmt.Errorf("seglog: append: %w", context.Cause(ctx))
}

func checkRecord(record []byte) error {
	switch {
	case len(record) == 0:
		return fmt.Errorf("seglog: %w: it is empty", ErrRecord)
	case len(record) > MaxRecord:
		return fmt.Errorf("seglog: %w: it has %d bytes, the most is %d", ErrRecord, len(record), MaxRecord)
	case bytes.IndexByte(record, '\n') >= 0:
		return fmt.Errorf("seglog: %w: it holds a newline", ErrRecord)
	case bytes.IndexByte(record, 0) >= 0:
		return fmt.Errorf("seglog: %w: it holds a NUL byte", ErrRecord)
	}
	return nil
}

// enqueue puts p into the next group, waiting while that is full, and sees to
// it that somebody writes the group.
func (l *Log) enqueue(ctx context.Context, p *pending) error {
	for {
		l.mu.Lock()
		if l.closed {
			l.mu.Unlock()
			return fmt.Errorf("seglog: %w", ErrClosed)
		}
		full := len(l.queue) >= maxGroupRecords || l.queued+len(p.record) > maxGroupBytes
		if len(l.queue) == 0 || !full {
			l.queue = append(l.queue, p)
			l.queued += len(p.record)
			if !l.busy {
				l.busy = true
				l.idle = make(chan struct{})
				go l.flush()
			}
			l.mu.Unlock()
			return nil
		}
		space := l.space
		l.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return fmt.Errorf("seglog: append: %w", context.Cause(ctx))
		}
	}
}

func (l *Log) withdraw(p *pending) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, q := range l.queue {
		if q == p {
			l.queue = append(l.queue[:i], l.queue[i+1:]...)
			l.queued -= len(p.record)
			close(l.space) // who waits for room has some, and may be the last to see to it
			l.space = make(chan struct{})
			return
		}
	}
}

// flush writes group after group until nothing is queued.
func (l *Log) flush() {
	for {
		l.mu.Lock()
		group := l.queue
		if len(group) == 0 {
			l.busy = false
			close(l.idle)
			l.mu.Unlock()
			return
		}
		l.queue, l.queued = nil, 0
		close(l.space)
		l.space = make(chan struct{})
		l.mu.Unlock()

		err := l.write(group)
		for _, p := range group {
			p.err = err
			close(p.done)
		}
	}
}
