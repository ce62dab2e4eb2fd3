// Package connectortest is the suite that every kind of source and destination
// runs, so that the relay may treat them all alike.
//
// A kind writes a harness: how to open one of its destinations in front of a
// far side that plays a script and remembers what it saw, or one of its
// sources with a feed that plays the sender. What a protocol does not have is
// left out of the harness, and the checks that need it are left out with it;
// everything else is checked for every kind.
//
// A harness that says InBubble runs each check in a bubble of testing/synctest:
// connections must then be made in memory and inside of it, no time passes for
// real, and a goroutine that stays behind fails the test by itself.
package connectortest

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
)

// Clock says in what time a harness runs.
type Clock int

// The clocks.
const (
	RealTime Clock = iota // real sockets, files or processes
	InBubble              // testing/synctest
)

// patience is how long a check waits for something that must happen; a kind
// that needs it has failed. In real time it is generous, for a loaded machine.
const patience = 20 * time.Second

// run runs one check in the harness's time.
func run(t *testing.T, clock Clock, name string, check func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		if clock == InBubble {
			synctest.Test(t, check)
			return
		}
		check(t)
	})
}

// within fails the test if f has not returned in time.
func within(t *testing.T, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		t.Fatalf("%s did not return within %v", what, patience)
	}
}

// newMessage is a message as a source makes it.
func newMessage(id string, body []byte) *message.Message {
	return &message.Message{
		ID: id, Source: "suite", Time: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC), Key: "key",
		Headers: map[string][]string{"x-suite": {"1", "2"}}, ContentType: "application/octet-stream", Body: body,
	}
}

// bodies are what a body can be: nothing, every byte, each line ending, what
// looks like the protocol's own, and a mebibyte.
func bodies() [][]byte {
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	return [][]byte{
		{},
		[]byte(`{"n":12345678901234567890,"s":"\u00e9 ü 🦊","d":1.50}`),
		every,
		[]byte("\r\n\r\nPOST / HTTP/1.1\r\n\r\n"),
		[]byte("0\r\n\r\n\n\r\x00"),
		[]byte("\xef\xbb\xbfdata: x\n\n"),
		bytes.Repeat(every, 4096),
	}
}

// short shows a body in an error.
func short(b []byte) string {
	if len(b) > 60 {
		return fmt.Sprintf("%q… (%d bytes)", b[:60], len(b))
	}
	return fmt.Sprintf("%q", b)
}

// written is a message's written form, to compare it by.
func written(t *testing.T, m *message.Message) string {
	t.Helper()
	line, err := message.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	return string(line)
}
