package stdio

import (
	"bytes"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// reader is the other end of the pipe, playing a script.
type reader struct {
	script connectortest.Script
	end    chan struct{} // lets go what hangs

	mu    sync.Mutex
	lines [][]byte
}

func (r *reader) Write(p []byte) (int, error) {
	r.mu.Lock()
	step := r.script.At(len(r.lines))
	r.lines = append(r.lines, bytes.Clone(p))
	r.mu.Unlock()
	switch step.Do {
	case connectortest.Fail:
		return 0, syscall.ENOSPC
	case connectortest.Reset:
		return 0, syscall.EPIPE
	case connectortest.Slow:
		time.Sleep(100 * time.Millisecond)
	case connectortest.Hang:
		<-r.end
	}
	return len(p), nil
}

func (r *reader) Requests() []connectortest.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	var rs []connectortest.Request
	for _, written := range r.lines {
		for line := range bytes.Lines(written) {
			m, err := message.Decode(bytes.TrimSuffix(line, []byte("\n")))
			if err != nil {
				panic(err)
			}
			rs = append(rs, connectortest.Request{Key: m.ID, Body: m.Body})
		}
	}
	return rs
}

func TestDestinationSuite(t *testing.T) {
	connectortest.Destination(t, connectortest.DestinationHarness{
		Open: func(t *testing.T, script connectortest.Script) (connector.Destination, connectortest.FarSide) {
			r := &reader{script: script, end: make(chan struct{})}
			t.Cleanup(func() { close(r.end) })
			return &destination{format: connector.LineEnvelope, to: connector.NewStream(r)}, r
		},
		Clock: connectortest.InBubble,
		Keys:  connectortest.Yes,
		Hangs: connectortest.Yes,
		// An id that no envelope holds: the body can be anything.
		Batches: &connectortest.BatchHarness{Unfit: &message.Message{ID: "line\nend", Body: []byte("x")}},
		Failures: []connectortest.Failure{
			{Name: "full", Step: connectortest.Step{Do: connectortest.Fail, Fail: "full"}, Tags: failure.Tags{"file", "file:ENOSPC"}},
			{Name: "nobody reads", Step: connectortest.Step{Do: connectortest.Reset}, Tags: failure.Tags{failure.Connect, "file", "file:EPIPE"}},
		},
	})
}
