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
	probed time.Time
}

// wrote takes the result of a write.
func (s *Files) wrote(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.health.failed = err
}

// Writable returns nil when the next letter can be stored, as far as can be
// told cheaply. After a failed write the disk is tried with a small file, at
// most once a second, so that the answer turns good again without a letter.
// ErrLowSpace is a warning: writing still works.
func (s *Files) Writable() error {
	s.mu.Lock()
	failed := s.health.failed
	try := failed != nil && time.Since(s.health.probed) >= probeEvery
	if try {
		s.health.probed = time.Now()
	}
	s.mu.Unlock()
	if try {
		failed = s.probe()
		s.wrote(failed)
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

// probe writes and syncs a small file, and removes it.
func (s *Files) probe() error {
	name := filepath.Join(s.dir, "probe")
	f, err := s.o.FS.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, 4096)) // a block: less may fit into one that exists
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), s.o.FS.Remove(name))
}
