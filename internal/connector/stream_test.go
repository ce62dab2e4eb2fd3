package connector

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// Would catch: a reader of standard output that goes away and takes the process
// with it, in the middle of a message or a dead letter. It needs a process of
// its own, since Go treats these descriptors alone so.
func TestStreamSurvivesItsReader(t *testing.T) {
	const survived = 7
	if os.Getenv("PAWL_TEST_STREAM") != "" {
		if err := NewStream(os.Stdout).Write(t.Context(), []byte("line\n")); errors.Is(err, syscall.EPIPE) {
			os.Exit(survived)
		}
		os.Exit(1)
	}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := read.Close(); err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	self := exec.Command(os.Args[0], "-test.run", "^TestStreamSurvivesItsReader$")
	self.Env = append(os.Environ(), "PAWL_TEST_STREAM=1")
	self.Stdout = write
	var exit *exec.ExitError
	if err := self.Run(); !errors.As(err, &exit) || exit.ExitCode() != survived {
		t.Errorf("the writer ended with %v, want the exit code %d", err, survived)
	}
}
