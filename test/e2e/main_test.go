// These tests run the real binary against real sockets and files. They catch: a
// message that was acknowledged and is neither delivered nor a dead letter after
// kill -9, SIGTERM or a full disk; a file that stops a start; a command whose
// exit code, output or JSON is not what the help says; a reload that turns a
// request away; a secret in any output; after kill -9, a job that was answered and
// is lost, an event that a follower skips or sees twice, a webhook that is not
// delivered, a dead letter that a replay passes over or brings back twice, and a
// circuit that lets two probes out, or opens or closes by nothing that was told.
//
// PAWL_KILL_ROUNDS=n sets the rounds of kill -9, PAWL_E2E_SEED=n repeats the
// random moments of a run, PAWL_LONG=1 takes the long outage, PAWL_E2E_RACE=1
// puts pawl itself under the race detector.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// binary is the pawl under test.
var binary string

// Environment variables between this test and itself: see limitAndExec and
// serveClaims.
const (
	envExec    = "PAWL_E2E_EXEC"
	envFsize   = "PAWL_E2E_FSIZE"
	envClaimer = "PAWL_E2E_CLAIMER"
)

func TestMain(m *testing.M) {
	if os.Getenv(envExec) != "" {
		limitAndExec()
	}
	if url := os.Getenv(envClaimer); url != "" {
		os.Exit(serveClaims(url))
	}
	os.Exit(runAll(m))
}

// limitAndExec turns this process into pawl with a soft limit on the size of
// its files: what is written past it fails like a full disk, for root and
// anybody else. The limit can be lifted from outside.
func limitAndExec() {
	size, err := strconv.ParseUint(os.Getenv(envFsize), 10, 64)
	if err == nil {
		var limit syscall.Rlimit
		if err = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &limit); err == nil {
			limit.Cur = size
			err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
		}
	}
	if err == nil {
		program := os.Getenv(envExec)
		err = syscall.Exec(program, append([]string{program}, os.Args[1:]...), os.Environ())
	}
	fmt.Fprintln(os.Stderr, "starting pawl with a limit:", err)
	os.Exit(99)
}

func runAll(m *testing.M) int {
	folder, err := os.MkdirTemp("", "pawl-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	binary = filepath.Join(folder, "pawl")
	args := []string{"build", "-o", binary}
	if os.Getenv("PAWL_E2E_RACE") == "1" { // pawl itself under the race detector
		args = append(args, "-race")
	}
	build := exec.Command("go", append(args, "github.com/pawlhq/pawl/cmd/pawl")...)
	if text, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "go build: %v\n%s", err, text)
		return 1
	}
	return m.Run()
}
