package app

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLogQueue: lines come out in their order and whole, and none after close.
func TestLogQueue(t *testing.T) {
	var out bytes.Buffer
	q := newLogQueue(&out)
	var want strings.Builder
	line := make([]byte, 0, 16)
	for i := range 100 {
		line = fmt.Appendf(line[:0], "line %d\n", i) // the same memory each time
		if n, err := q.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
		want.Write(line)
	}
	must(t, q.close())
	must(t, q.close())
	if _, err := q.Write([]byte("late\n")); err != nil {
		t.Error(err)
	}
	if out.String() != want.String() {
		t.Errorf("came out as\n%s", out.String())
	}
}

// TestLogQueueAsleep: with a reader that does not read, writing goes on, close
// ends in time, and what was left out is told once he is back.
func TestLogQueueAsleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		q := newLogQueue(writer)
		for range 2*maxLogQueue + 1 {
			if _, err := q.Write([]byte("x\n")); err != nil {
				t.Fatal(err)
			}
		}
		began := time.Now()
		must(t, q.close())
		if took := time.Since(began); took != logFlush {
			t.Errorf("closing took %v", took)
		}
		read := make(chan string)
		go func() {
			text, err := io.ReadAll(reader)
			if err != nil {
				t.Error(err)
			}
			read <- string(text)
		}()
		<-q.done
		must(t, writer.Close())
		text := <-read
		lines := strings.Count(text, "x\n")
		if lost := fmt.Sprintf("pawl: %d log lines were left out", 2*maxLogQueue+1-lines); lines < maxLogQueue || !strings.Contains(text, lost) {
			t.Errorf("%d lines came, and no %q", lines, lost)
		}
	})
}
