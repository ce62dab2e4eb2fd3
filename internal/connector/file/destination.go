// Package file is the destination of type file: a message a line, appended to
// one file. An attempt succeeds once its line is on the disk; attempts share an
// fsync. A file that was renamed, removed or cut by logrotate is noticed before
// the next line.
//
// Two destinations with one path share one log, so that their lines do not run
// into each other.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/seglog"
)

// Settings are a file destination's.
type Settings struct {
	Path   string               `yaml:"path" path:"append" doc:"the file; it and its folder are made where missing"`
	Format connector.LineFormat `yaml:"format" doc:"plain: the body on a line (JSON over several lines is compacted, other text over several lines becomes a JSON string, bytes that are not UTF-8 base64); envelope: the whole message as one JSON object"`
	Mode   string               `yaml:"mode" doc:"the file's mode when it is made, in octal"`
}

// Where implements connector.Located: the file's path.
func (s *Settings) Where() string { return s.Path }

// Shares implements connector.Sharing: the first destination that opens the
// file makes it, in its mode.
func (s *Settings) Shares() (thing, field, value string) {
	mode, err := parseMode(s.Mode)
	if err != nil {
		return "", "", "" // Check says it
	}
	return s.Path, "mode", fmt.Sprintf("%04o", mode)
}

// Check returns every problem of the settings.
func (s *Settings) Check() []connector.Problem {
	var ps []connector.Problem
	if s.Path == "" {
		ps = append(ps, connector.Problem{Field: "path", Message: "path is missing; name the file to append to"})
	}
	if text := s.Format.Check(); text != "" {
		ps = append(ps, connector.Problem{Field: "format", Message: text})
	}
	if _, err := parseMode(s.Mode); err != nil {
		ps = append(ps, connector.Problem{Field: "mode", Message: err.Error()})
	}
	return ps
}

// parseMode reads a mode in octal, with or without 0o in front. The owner must
// be able to read and write: a file is repaired after a crash.
func parseMode(text string) (fs.FileMode, error) {
	digits := text
	if len(digits) > 2 && digits[:2] == "0o" {
		digits = digits[2:]
	}
	mode, err := strconv.ParseUint(digits, 8, 32)
	if err != nil || mode > 0o777 {
		return 0, fmt.Errorf("bad mode %q; write it in octal, like 0600", text)
	}
	if mode&0o600 != 0o600 {
		return 0, fmt.Errorf("mode %q lets the owner not read and write the file; 0600 is the least", text)
	}
	return fs.FileMode(mode), nil
}

// DestinationKind declares the destination of type file.
func DestinationKind() connector.DestinationKind {
	return connector.DestinationKind{
		Type: "file",
		Doc:  "Appends a line for each message to a file; done once the line is on the disk.",
		New:  func() connector.Settings { return &Settings{Format: connector.LinePlain, Mode: "0600"} },
		Open: func(s connector.Settings, env connector.Env) (connector.Destination, error) {
			return opened.open(s.(*Settings), env)
		},
		Batches: true, Checks: true,
	}
}

// opened are the logs of this process.
var opened = registry{fs: seglog.OS{}, logs: map[string]*shared{}}

// registry has one log a path. Safe for concurrent use.
type registry struct {
	fs   seglog.FS
	mu   sync.Mutex
	logs map[string]*shared
}

type shared struct {
	log   *seglog.Log
	check *probe
	uses  int
}

func (r *registry) open(s *Settings, env connector.Env) (*destination, error) {
	path, err := filepath.Abs(s.Path)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	mode, err := parseMode(s.Mode)
	if err != nil {
		return nil, fmt.Errorf("file: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	sh := r.logs[path]
	if sh == nil {
		logger := env.Logger()
		log, err := seglog.Open(seglog.Options{Path: path, Mode: mode, FS: r.fs, Report: func(rep seglog.Report) {
			logger.Warn("file destination: "+string(rep.Trouble), "destination", env.Name,
				"file", rep.File, "offset", rep.Offset, "length", rep.Length, "kept", rep.Kept, "error", rep.Err)
		}})
		if err != nil {
			return nil, fmt.Errorf("file: %w", err)
		}
		sh = &shared{log: log, check: newProbe(r.fs, path, mode)}
		r.logs[path] = sh
	}
	sh.uses++
	return &destination{format: s.Format, log: sh.log, check: sh.check, most: seglog.MaxRecords, release: sync.OnceValue(func() error { return r.release(path) })}, nil
}

// release closes the log of a path with its last use.
func (r *registry) release(path string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	sh := r.logs[path]
	if sh.uses--; sh.uses > 0 {
		return nil
	}
	delete(r.logs, path)
	return sh.log.Close()
}

type destination struct {
	format  connector.LineFormat
	log     *seglog.Log
	check   *probe
	most    int // bytes of one write of a batch
	release func() error
}

// Send appends the message's line. The message's id goes with it in envelope
// format; plain lines have no place for it.
func (d *destination) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	line, err := d.format.Line(m)
	if err != nil {
		return connector.Answer{}, err
	}
	if _, err := d.log.Append(ctx, line); err != nil {
		return connector.Answer{}, classify(err)
	}
	return connector.Answer{}, nil
}

// Close gives the file back; it is closed with its last destination.
func (d *destination) Close() error { return d.release() }

// classify makes the failure of an append. Its text names no path, which may
// hold what was meant to stay hidden.
func classify(err error) *failure.Error {
	var errno syscall.Errno
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return &failure.Error{Tags: failure.Tags{failure.Timeout}, Message: "the line was not on the disk in time", Err: err}
	case errors.Is(err, context.Canceled), errors.Is(err, seglog.ErrClosed):
		return &failure.Error{
			Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral,
			Message: "given up before the line was on the disk", Err: err,
		}
	case errors.As(err, &errno):
		return &failure.Error{Tags: failure.Tags{"file", errnoTag(errno)}, Message: "writing the file: " + errno.Error(), Err: err}
	}
	return &failure.Error{Tags: failure.Tags{"file", "file:OTHER"}, Message: "writing the file failed", Err: err}
}

// names are the error numbers that a disk, a mount or a limit answers with.
var names = map[syscall.Errno]string{
	syscall.EACCES: "EACCES", syscall.EBUSY: "EBUSY", syscall.EDQUOT: "EDQUOT", syscall.EEXIST: "EEXIST",
	syscall.EFBIG: "EFBIG", syscall.EINVAL: "EINVAL", syscall.EIO: "EIO", syscall.EISDIR: "EISDIR",
	syscall.ELOOP: "ELOOP", syscall.EMFILE: "EMFILE", syscall.ENAMETOOLONG: "ENAMETOOLONG", syscall.ENFILE: "ENFILE",
	syscall.ENODEV: "ENODEV", syscall.ENOENT: "ENOENT", syscall.ENOMEM: "ENOMEM", syscall.ENOSPC: "ENOSPC",
	syscall.ENOTDIR: "ENOTDIR", syscall.ENXIO: "ENXIO", syscall.EPERM: "EPERM", syscall.EROFS: "EROFS",
	syscall.ESTALE: "ESTALE", syscall.ETIMEDOUT: "ETIMEDOUT",
}

// errnoTag is file:ENOSPC and the like; a number without a name here is
// file:<number>.
func errnoTag(errno syscall.Errno) failure.Tag {
	if name, ok := names[errno]; ok {
		return failure.Tag("file:" + name)
	}
	return failure.Tag(fmt.Sprintf("file:%d", int(errno)))
}
