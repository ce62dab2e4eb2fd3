package guide_test

// Catches: a command of a page that a reader types after its configuration and
// that answers otherwise than the page shows, whatever the page left out.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/cli"
	"github.com/pawlhq/pawl/internal/testbed"
)

// asPawl makes this test binary pawl itself: the pages type its commands.
const asPawl = "PAWL_GUIDE_AS_PAWL"

func TestMain(m *testing.M) {
	if os.Getenv(asPawl) != "" {
		os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// TestPagesPrintWhatTheyShow walks through the pages of jobs: it runs pawl with
// the page's configuration, types every command of its console blocks into one
// shell and compares what comes. What a page leaves out is an … there.
func TestPagesPrintWhatTheyShow(t *testing.T) {
	for _, page := range []string{
		"circuits.md", "first-job.md", "job-dead-letters.md", "job-operations.md", "job-retries.md", "leases.md", "queue.md", "uncertain.md",
	} {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			walk(t, read(t, page))
		})
	}
}

func walk(t *testing.T, page string) {
	var typed []step
	for _, block := range blocks(page, "console") {
		typed = append(typed, steps(block)...)
	}
	if len(typed) == 0 {
		t.Fatal("the page shows no command")
	}
	s := newSite(t, strings.Join(blocks(page, "yaml"), ""))
	for i, got := range s.types(helpers(t), typed) {
		if !shows(typed[i].output, got) {
			t.Errorf("$ %s\nthe page shows\n%s\nand pawl prints\n%s", typed[i].command, typed[i].output, got)
		}
	}
}

// helpers are the shell functions that the first page defines for all.
func helpers(t *testing.T) string {
	for _, block := range blocks(read(t, "first-job.md"), "sh") {
		if strings.Contains(block, "call() {") {
			return block
		}
	}
	t.Fatal("first-job.md does not define call")
	return ""
}

// shows reports whether a page shows what was printed: … stands for anything,
// and how wide a space is says nothing.
func shows(page, printed string) bool {
	pattern := regexp.QuoteMeta(narrow(page))
	return regexp.MustCompile(`(?s)\A` + strings.ReplaceAll(pattern, "…", ".*") + `\z`).MatchString(narrow(printed))
}

// narrow makes each run of spaces one, and none at the end of a line.
func narrow(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

func TestShows(t *testing.T) {
	for _, c := range []struct {
		page, printed string
		want          bool
	}{
		{"a:  …\n", "a:     7   \n", true},
		{"{…\"x\":1…}\n", "{\"y\":2,\"x\":1,\n\"z\":3}\n", true},
		{"a.c\n", "abc\n", false},
		{"a\n", "a\nb\n", false},
		{"a\n", "", false},
	} {
		if got := shows(c.page, c.printed); got != c.want {
			t.Errorf("%q shows %q: %v", c.page, c.printed, got)
		}
	}
}

// site is a folder with a configuration that a pawl runs.
type site struct {
	testing.TB
	folder, address string
}

func newSite(t testing.TB, config string) *site {
	s := &site{TB: t, folder: t.TempDir(), address: testbed.FreeAddress(t)}
	s.write("pawl.yaml", fmt.Sprintf("http: { listen: %q }\n%s", s.address, config), 0o600)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s.write("bin/pawl", fmt.Sprintf("#!/bin/sh\n%s=1 exec '%s' \"$@\"\n", asPawl, self), 0o700)
	s.run()
	return s
}

func (s *site) write(name, text string, mode os.FileMode) {
	path := filepath.Join(s.folder, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		s.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		s.Fatal(err)
	}
}

// run starts pawl, waits until it is ready and stops it when the test ends.
func (s *site) run() {
	var log bytes.Buffer
	pawl := exec.Command("bin/pawl", "run")
	pawl.Dir, pawl.Stdout, pawl.Stderr = s.folder, &log, &log
	if err := pawl.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- pawl.Wait() }()
	s.Cleanup(func() {
		_ = pawl.Process.Signal(syscall.SIGTERM) // it may have ended
		if err := <-ended; err != nil {
			s.Errorf("pawl run: %v\n%s", err, &log)
		}
	})
	for deadline := time.Now().Add(time.Minute); !s.ready(); time.Sleep(10 * time.Millisecond) {
		select {
		case err := <-ended:
			ended <- err
			s.Fatal("pawl did not start")
		default:
		}
		if time.Now().After(deadline) {
			s.Fatal("pawl did not get ready within a minute")
		}
	}
}

// ready reports whether pawl can be called. The key comes last.
func (s *site) ready() bool {
	if _, err := os.Stat(filepath.Join(s.folder, "pawl-data", "pawl.key")); err != nil {
		return false
	}
	answer, err := http.Get("http://" + s.address + "/readyz")
	if err != nil {
		return false
	}
	_, _ = io.Copy(io.Discard, answer.Body)
	return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
}

// types runs the commands in one shell, after those that define what they use,
// and returns what each printed.
func (s *site) types(before string, typed []step) []string {
	const mark = "=== the end of a step ===\n"
	script := "exec 2>&1\n" + before
	for _, step := range typed {
		script += step.command + "\nprintf '" + strings.TrimSpace(mark) + `\n` + "'\n"
	}
	script = strings.ReplaceAll(script, "127.0.0.1:7077", s.address)
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", script)
	shell.Dir = s.folder
	shell.Env = append(os.Environ(), "PATH="+filepath.Join(s.folder, "bin")+":"+os.Getenv("PATH"), "NO_PROXY=*", "PAWL_SERVER=")
	out, err := shell.Output()
	if err != nil {
		s.Fatalf("bash: %v\n%s", err, out)
	}
	printed := strings.Split(string(out), mark)
	if len(printed) != len(typed)+1 {
		s.Fatalf("%d commands printed %d answers:\n%s", len(typed), len(printed)-1, out)
	}
	return printed[:len(typed)]
}
