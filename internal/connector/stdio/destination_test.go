package stdio

// Catches: lines that run into each other, a reader that went away taken for
// success or ending the process, and a reader that does not read holding up a
// caller past its timeout.

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

func msg(body string) *message.Message {
	return &message.Message{ID: "id", Source: "s", Body: []byte(body)}
}

// dribble writes byte by byte, so that two writers at once would mix.
type dribble struct{ bytes.Buffer }

func (d *dribble) Write(p []byte) (int, error) {
	for _, b := range p {
		_ = d.WriteByte(b)
	}
	return len(p), nil
}

func TestWholeLines(t *testing.T) {
	var out dribble
	to := connector.NewStream(&out)
	var wg sync.WaitGroup
	for range 100 {
		d := &destination{format: connector.LinePlain, to: to}
		wg.Go(func() {
			if _, err := d.Send(t.Context(), msg("abcdefgh")); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if want := strings.Repeat("abcdefgh\n", 100); out.String() != want {
		t.Errorf("lines are broken: %q", out.String())
	}
}

func TestEnvelope(t *testing.T) {
	var out bytes.Buffer
	d := &destination{format: connector.LineEnvelope, to: connector.NewStream(&out)}
	if _, err := d.Send(t.Context(), msg("a\nb")); err != nil {
		t.Fatal(err)
	}
	m, err := message.Decode(bytes.TrimSuffix(out.Bytes(), []byte("\n")))
	if err != nil || string(m.Body) != "a\nb" || m.ID != "id" {
		t.Errorf("%+v, %v", m, err)
	}
}

// The newline must not be written into the array behind a body that is shared.
func TestBodyIsNotWrittenTo(t *testing.T) {
	backing := []byte("bodyX")
	d := &destination{format: connector.LinePlain, to: connector.NewStream(&bytes.Buffer{})}
	if _, err := d.Send(t.Context(), &message.Message{ID: "1", Body: backing[:4]}); err != nil {
		t.Fatal(err)
	}
	if string(backing) != "bodyX" {
		t.Errorf("now %q", backing)
	}
}

type stuck struct{ gate chan struct{} }

func (s stuck) Write(p []byte) (int, error) { <-s.gate; return len(p), nil }

func TestNobodyReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		d := &destination{format: connector.LinePlain, to: connector.NewStream(stuck{gate})}
		began := time.Now()
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := d.Send(ctx, msg("x"))
				if e := failure.From(err); e == nil || !e.Tags.Has(failure.Timeout) || e.Verdict != failure.Sick {
					t.Errorf("got %v", err)
				}
			})
		}
		wg.Wait()
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v", took)
		}
		close(gate)
	})
}

type broken struct{ err error }

func (b broken) Write([]byte) (int, error) { return 0, b.err }

func TestFailures(t *testing.T) {
	for err, tags := range map[error]failure.Tags{
		&os.PathError{Op: "write", Err: syscall.EPIPE}:  {failure.Connect, "file", "file:EPIPE"},
		&os.PathError{Op: "write", Err: syscall.ENOSPC}: {"file", "file:ENOSPC"},
		errors.New("odd"): {"file", "file:EIO"},
	} {
		d := &destination{format: connector.LinePlain, to: connector.NewStream(broken{err})}
		_, got := d.Send(t.Context(), msg("x"))
		if diff := cmp.Diff(tags, failure.From(got).Tags); diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestClosed(t *testing.T) {
	d := &destination{format: connector.LinePlain, to: connector.NewStream(&bytes.Buffer{})}
	if err := errors.Join(d.Close(), d.Close()); err != nil {
		t.Fatal(err)
	}
	_, err := d.Send(t.Context(), msg("x"))
	if e := failure.From(err); e == nil || !e.Tags.Has(failure.Cancelled) {
		t.Errorf("got %v", err)
	}
}

func TestKinds(t *testing.T) {
	for _, k := range DestinationKinds() {
		s := k.New()
		if !k.Pipe || k.Doc == "" || len(s.Check()) > 0 {
			t.Errorf("%+v", k)
		}
		s.(*Settings).Format = "csv"
		if ps := s.Check(); len(ps) != 1 || ps[0].Field != "format" {
			t.Errorf("%v", ps)
		}
	}
}

// A real stdout whose reader went away: the process lives on and Send fails.
func TestBrokenPipe(t *testing.T) {
	const child = "PAWL_TEST_STDIO_CHILD"
	if os.Getenv(child) != "" {
		k := DestinationKinds()[0]
		d, err := k.Open(k.New(), connector.Env{})
		if err != nil {
			os.Exit(3)
		}
		_, err = d.Send(context.Background(), msg("x"))
		if err != nil && failure.From(err).Tags.Has("file:EPIPE") {
			os.Exit(0)
		}
		os.Exit(4)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	defer w.Close()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "-test.run=^TestBrokenPipe$")
	cmd.Env = append(os.Environ(), child+"=1")
	cmd.Stdout = w
	if err := cmd.Run(); err != nil {
		t.Errorf("the child: %v", err)
	}
}
