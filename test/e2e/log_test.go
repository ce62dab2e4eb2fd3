package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"testing"
)

// TestNobodyReadsTheLog: neither a log whose reader is gone nor one whose
// reader has fallen asleep is in the way of messages.
func TestNobodyReadsTheLog(t *testing.T) {
	for _, way := range []string{"gone", "asleep"} {
		t.Run(way, func(t *testing.T) {
			s := newSite(t)
			ep := newEndpoint(t)
			s.write(oneEndpoint(ep) + "log: { access: true }\n")
			reader, writer, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer reader.Close()
			cmd := exec.Command(binary, "run", "-c", s.path("pawl.yaml"))
			cmd.Env, cmd.Stdout, cmd.Stderr = environment(), writer, writer
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			writer.Close()
			done := make(chan struct{})
			go func() { defer close(done); _ = cmd.Wait() }() // its outcome is in cmd.ProcessState
			defer func() { _ = cmd.Process.Kill(); <-done }()
			if way == "gone" {
				reader.Close()
			}
			eventually(t, "it answers", func() bool { return send(s.url(), "first").code == http.StatusOK })
			ep.answers(func(string) int { return http.StatusBadRequest })
			for i := range 400 { // far more lines than a pipe holds
				if a := send(s.url(), fmt.Sprintf("m-%d", i)); a.status != "dead_lettered" {
					t.Fatalf("message %d was answered %+v", i, a)
				}
			}
			if n := len(s.letters()); n != 400 {
				t.Errorf("%d letters", n)
			}
			if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			eventually(t, "it stops", func() bool {
				select {
				case <-done:
					return true
				default:
					return false
				}
			})
			if code := cmd.ProcessState.ExitCode(); code != 0 {
				t.Errorf("it ended with %v", cmd.ProcessState)
			}
		})
	}
}
