package file

// Catches: a line acknowledged and not in the file, lines of two destinations
// run into each other, a log closed under another destination, an I/O error
// without its tag or with the path in its text, settings that are taken and
// can't work.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

func settings(path string) *Settings {
	s := DestinationKind().New().(*Settings)
	s.Path = path
	return s
}

func open(t *testing.T, s *Settings) connector.Destination {
	t.Helper()
	if ps := s.Check(); len(ps) > 0 {
		t.Fatal(ps)
	}
	d, err := DestinationKind().Open(s, connector.Env{Name: "out"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func send(t *testing.T, d connector.Destination, body string) {
	t.Helper()
	if _, err := d.Send(t.Context(), &message.Message{ID: "id-" + body, Source: "s", Body: []byte(body)}); err != nil {
		t.Fatal(err)
	}
}

func TestPlainAndEnvelope(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "down", "out.ndjson")
	plain := open(t, settings(path))
	envelope := settings(path)
	envelope.Format = connector.LineEnvelope
	e := open(t, envelope)
	send(t, plain, "one")
	send(t, e, "two")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(data), "\n")
	if len(lines) != 3 || lines[0] != "one" || lines[2] != "" {
		t.Fatalf("file: %q", data)
	}
	m, err := message.Decode([]byte(lines[1]))
	if err != nil || m.ID != "id-two" || string(m.Body) != "two" {
		t.Errorf("%+v, %v", m, err)
	}
	for name, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
}

func TestSharedPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out")
	a := open(t, settings(path))
	b := open(t, settings(filepath.Join(filepath.Dir(path), ".", "x", "..", "out")))
	var wg sync.WaitGroup
	for i := range 200 {
		wg.Go(func() { send(t, []connector.Destination{a, b}[i%2], strings.Repeat("x", 1000)) })
	}
	wg.Wait()
	if err := errors.Join(a.Close(), a.Close()); err != nil {
		t.Fatal(err)
	}
	send(t, b, "still open")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	_, err := b.Send(t.Context(), &message.Message{ID: "1", Body: []byte("x")})
	if e := failure.From(err); e == nil || !e.Tags.Has(failure.Cancelled) || e.Verdict != failure.Neutral {
		t.Errorf("send after close: %v", err)
	}
	if len(opened.logs) != 0 {
		t.Errorf("%d logs left open", len(opened.logs))
	}
	data, _ := os.ReadFile(path)
	if want := strings.Repeat(strings.Repeat("x", 1000)+"\n", 200) + "still open\n"; string(data) != want {
		t.Errorf("lines are broken: %d bytes, want %d", len(data), len(want))
	}
}

func TestFailures(t *testing.T) {
	tests := []struct {
		on   faultfs.Kind
		err  error
		tags failure.Tags
	}{
		{faultfs.Write, syscall.ENOSPC, failure.Tags{"file", "file:ENOSPC"}},
		{faultfs.Sync, syscall.EIO, failure.Tags{"file", "file:EIO"}},
		{faultfs.Create, syscall.EACCES, failure.Tags{"file", "file:EACCES"}},
		{faultfs.Create, syscall.EROFS, failure.Tags{"file", "file:EROFS"}},
		{faultfs.Write, syscall.Errno(113), failure.Tags{"file", "file:113"}},
		{faultfs.Write, errors.New("odd"), failure.Tags{"file", "file:OTHER"}},
		{faultfs.Write, context.DeadlineExceeded, failure.Tags{failure.Timeout}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprint(tt.on, tt.err), func(t *testing.T) {
			disk := faultfs.New()
			r := registry{fs: disk, logs: map[string]*shared{}}
			d, err := r.open(settings("/private/out"), connector.Env{})
			if err != nil {
				t.Fatal(err)
			}
			disk.Inject(func(op faultfs.Op) faultfs.Fault {
				if op.Kind == tt.on {
					return faultfs.Fault{Err: tt.err}
				}
				return faultfs.Fault{}
			})
			_, err = d.Send(t.Context(), &message.Message{ID: "1", Body: []byte("x")})
			var e *failure.Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if d := cmp.Diff(tt.tags, e.Tags); d != "" || e.Class != failure.Transient || e.Verdict != failure.Sick {
				t.Errorf("%+v", e)
			}
			if strings.Contains(e.Error(), "private") {
				t.Errorf("the path is in %q", e.Error())
			}
			for _, tag := range e.Tags {
				if !tag.Valid() {
					t.Errorf("tag %q is not valid", tag)
				}
			}
			disk.Inject(nil)
			send(t, d, "after")
			if got := string(disk.Get("/private/out")); got != "after\n" {
				t.Errorf("file: %q", got)
			}
		})
	}
}

func TestCancelledSend(t *testing.T) {
	d := open(t, settings(filepath.Join(t.TempDir(), "out")))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := d.Send(ctx, &message.Message{ID: "1", Body: []byte("x")})
	if e := failure.From(err); e == nil || !e.Tags.Has(failure.Cancelled) || e.Verdict != failure.Neutral {
		t.Errorf("got %v", err)
	}
}

// A path that can't be opened does not stop a start.
func TestUnwritablePath(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, tag := range map[string]failure.Tag{
		filepath.Join(dir, "file", "out"): "file:ENOTDIR",
		dir:                               "file:EISDIR",
	} {
		d := open(t, settings(path))
		_, err := d.Send(t.Context(), &message.Message{ID: "1", Body: []byte("x")})
		if err == nil || !failure.From(err).Tags.Has(tag) {
			t.Errorf("%s: %v, want %s", path, err, tag)
		}
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		s      Settings
		fields []string
	}{
		{Settings{Path: "x", Format: "plain", Mode: "0600"}, nil},
		{Settings{Path: "x", Format: "envelope", Mode: "0o640"}, nil},
		{Settings{Path: "", Format: "csv", Mode: "rw"}, []string{"path", "format", "mode"}},
		{Settings{Path: "x", Format: "plain", Mode: "0400"}, []string{"mode"}},
		{Settings{Path: "x", Format: "plain", Mode: "1777"}, []string{"mode"}},
		{Settings{Path: "x", Format: "plain", Mode: "999"}, []string{"mode"}},
		{Settings{Path: "x", Format: "plain", Mode: ""}, []string{"mode"}},
	}
	for _, tt := range tests {
		var fields []string
		for _, p := range tt.s.Check() {
			fields = append(fields, p.Field)
		}
		if d := cmp.Diff(tt.fields, fields); d != "" {
			t.Errorf("%+v (-want +got):\n%s", tt.s, d)
		}
	}
}
