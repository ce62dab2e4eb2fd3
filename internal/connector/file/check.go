package file

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"github.com/pawlhq/pawl/internal/seglog"
)

// errStillChecking is a disk that did not answer the check before.
var errStillChecking = errors.New("the disk has not answered the check before this one")

// probe asks whether the next line would find its file. Safe for concurrent use.
type probe struct {
	fs   seglog.FS
	path string
	mode fs.FileMode

	mu      sync.Mutex
	running bool
}

func newProbe(fsys seglog.FS, path string, mode fs.FileMode) *probe {
	return &probe{fs: fsys, path: path, mode: mode}
}

// Check implements connector.HealthChecker: the file can be opened as the next
// line would open it. It and its folder are made where missing, as they would be
// then. A full disk is not seen: only a line can tell.
func (d *destination) Check(ctx context.Context) error { return d.check.ask(ctx) }

// ask returns with ctx even where the disk hangs: one goroutine stays with it
// then, and no second one joins.
func (p *probe) ask(ctx context.Context) error {
	p.mu.Lock()
	if p.running {
		p.mu.Unlock()
		return errStillChecking
	}
	p.running = true
	p.mu.Unlock()
	done := make(chan error, 1)
	go func() {
		err := p.open()
		p.mu.Lock()
		p.running = false
		p.mu.Unlock()
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return classify(err)
		}
		return nil
	case <-ctx.Done():
		return classify(ctx.Err())
	}
}

func (p *probe) open() error {
	if err := p.fs.MkdirAll(filepath.Dir(p.path), 0o700); err != nil {
		return err
	}
	f, err := p.fs.OpenFile(p.path, os.O_RDWR|os.O_APPEND|os.O_CREATE, p.mode)
	if err != nil {
		return err
	}
	return f.Close()
}
