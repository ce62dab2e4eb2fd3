package deadletter

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// lowSpace is the free space below which Writable warns: room for a few
// thousand letters of common size, and for the operator to act.
const lowSpace = 64 << 20

// probeEvery bounds how often a failing disk is tried from Writable.
const probeEvery = time.Second

// health is what is known of the disk.
type health struct {
	failed error // of the last write or probe; nil when it went well
	size   int   // of the largest letter that failed since one was written; 0 for none
	probed time.Time
}

// wrote takes the result of writing a letter of that many bytes.
func (s *Files) wrote(err error, size int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.failed, s.health.size = err, max(s.health.size, size)
	if err == nil {
		s.health.size = 0
	}
}

// Writable returns nil when the next letter can be stored, as far as can be
// told cheaply. After a failed write the disk is tried with a file as large as
// the letter that failed, at most once a second, so that the answer turns good
// again without a letter, and not on a disk that has room for small ones alone.
// ErrLowSpace is a warning: writing still works.
func (s *Files) Writable() error {
	s.mu.Lock()
	failed, size := s.health.failed, s.health.size
	try := failed != nil && time.Since(s.health.probed) >= probeEvery
	if try {
		s.health.probed = time.Now()
	}
	s.mu.Unlock()
	if try {
		failed = s.probe(size)
		s.wrote(failed, size)
	}
	if failed != nil {
		return fmt.Errorf("dead letters can't be written: %w", failed)
	}
	free, err := s.o.Free(s.dir)
	switch {
	case err != nil:
		return nil // unknown is not a reason to refuse traffic
	case free < lowSpace:
		return fmt.Errorf("%w: %d MiB in %s", ErrLowSpace, free>>20, s.dir)
	}
	return nil
}

// block is the least that a probe writes: less may fit into one that exists.
const block = 4096

// probe writes and syncs a file of that many bytes at least, and removes it.
func (s *Files) probe(size int) error {
	name := filepath.Join(s.dir, "probe")
	f, err := s.o.FS.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	zeros := make([]byte, 16*block) // a part, where the letter was large
	for left := max(size, block); left > 0 && err == nil; left -= len(zeros) {
		_, err = f.Write(zeros[:min(left, len(zeros))])
	}
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), s.o.FS.Remove(name))
}
