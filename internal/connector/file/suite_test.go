package file

import (
	"bytes"
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

// errnos are the failures that the suite's disk plays, by their names.
var errnos = map[string]syscall.Errno{
	"ENOSPC": syscall.ENOSPC, "EACCES": syscall.EACCES, "EROFS": syscall.EROFS, "EIO": syscall.EIO, "EDQUOT": syscall.EDQUOT,
}

// farDisk is a disk that plays a script, one step for each write.
type farDisk struct {
	disk     *faultfs.Disk
	envelope bool

	mu sync.Mutex
	n  int
}

func (f *farDisk) play(script connectortest.Script) func(faultfs.Op) faultfs.Fault {
	return func(op faultfs.Op) faultfs.Fault {
		if op.Kind != faultfs.Write {
			return faultfs.Fault{}
		}
		f.mu.Lock()
		step := script.At(f.n)
		f.n++
		f.mu.Unlock()
		switch step.Do {
		case connectortest.Fail:
			return faultfs.Fault{Err: errnos[step.Fail], Written: op.Bytes / 2}
		case connectortest.Slow:
			time.Sleep(10 * time.Millisecond)
		}
		return faultfs.Fault{}
	}
}

// Requests reads the file, a line a request.
func (f *farDisk) Requests() []connectortest.Request {
	var rs []connectortest.Request
	for line := range bytes.Lines(f.disk.Get("/out")) {
		line = bytes.TrimSuffix(line, []byte("\n"))
		if !f.envelope {
			rs = append(rs, connectortest.Request{Body: line})
			continue
		}
		m, err := message.Decode(line)
		if err != nil {
			panic(err)
		}
		rs = append(rs, connectortest.Request{Key: m.ID, Body: m.Body})
	}
	return rs
}

func harness(format connector.LineFormat) connectortest.DestinationHarness {
	h := connectortest.DestinationHarness{
		Open: func(t *testing.T, script connectortest.Script) (connector.Destination, connectortest.FarSide) {
			far := &farDisk{disk: faultfs.New(), envelope: format == connector.LineEnvelope}
			far.disk.Inject(far.play(script))
			r := &registry{fs: far.disk, logs: map[string]*shared{}}
			s := settings("/out")
			s.Format = format
			d, err := r.open(s, connector.Env{Name: "out"})
			if err != nil {
				t.Fatal(err)
			}
			return d, far
		},
	}
	h.Batches, h.Health = &connectortest.BatchHarness{}, &connectortest.HealthHarness{}
	if format == connector.LineEnvelope {
		h.Keys = connectortest.Yes
		h.Batches.Unfit = &message.Message{ID: "line\nend", Body: []byte("x")}
	} else {
		h.Wire = func(m *message.Message) []byte {
			line, err := format.Line(m)
			if err != nil {
				panic(err)
			}
			return line
		}
	}
	for name := range errnos {
		h.Failures = append(h.Failures, connectortest.Failure{
			Name: name, Step: connectortest.Step{Do: connectortest.Fail, Fail: name},
			Tags: failure.Tags{"file", failure.Tag("file:" + name)}, Unseen: true,
		})
	}
	return h
}

func TestDestinationSuite(t *testing.T) {
	for _, format := range []connector.LineFormat{connector.LinePlain, connector.LineEnvelope} {
		t.Run(string(format), func(t *testing.T) { connectortest.Destination(t, harness(format)) })
	}
}

// A disk that hangs: Send returns when its time is up.
func TestSendWhileTheDiskHangs(t *testing.T) {
	disk := faultfs.New()
	hang := make(chan struct{})
	disk.Inject(func(op faultfs.Op) faultfs.Fault {
		if op.Kind == faultfs.Sync {
			<-hang
		}
		return faultfs.Fault{}
	})
	r := registry{fs: disk, logs: map[string]*shared{}}
	d, err := r.open(settings("/out"), connector.Env{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = d.Send(ctx, &message.Message{ID: "1", Body: []byte("x")})
	if e := failure.From(err); e == nil || !e.Tags.Has(failure.Timeout) || e.Verdict != failure.Sick {
		t.Errorf("got %v", err)
	}
	close(hang)
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}
