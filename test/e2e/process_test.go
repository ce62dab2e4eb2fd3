package e2e

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/testbed"
)

// Secrets that every configuration here may use. They must appear in no output,
// no dead letter and no metric.
const (
	inToken  = "in-token-7f3c9a51e2"
	outToken = "out-token-b84d06f77c"
	pathWord = "path-word-59ce1d30aa"
	adminKey = "pawl_e2eW3Zr9Tq6LxB1mVh8Ks4Yd0Fg7Jp2Nc5Ua_KqR3w"
)

var planted = []string{inToken, outToken, pathWord, adminKey}

// patience is how long a condition may take to come true before the test fails.
// It is long for a loaded machine; a test that passes waits for none of it.
const patience = 30 * time.Second

// eventually waits until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	if !inTime(ok) {
		t.Fatalf("not within %v: %s", patience, what)
	}
}

// inTime waits until ok returns true, and tells whether it did.
func inTime(ok func() bool) bool { return inTimeOf(patience, ok) }

func inTimeOf(long time.Duration, ok func() bool) bool {
	end := time.Now().Add(long)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for ; ; <-tick.C {
		if ok() {
			return true
		}
		if time.Now().After(end) {
			return false
		}
	}
}

// output collects what a process writes.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// site is one pawl's place: its configuration, state folder and addresses.
type site struct {
	testing.TB
	folder string
	listen string // of the source web
	admin  string
}

func newSite(t testing.TB) *site {
	t.Helper()
	s := &site{TB: t, folder: t.TempDir(), listen: testbed.FreeAddress(t), admin: testbed.FreeAddress(t)}
	t.Cleanup(s.checkFiles)
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.folder, name) }
func (s *site) state() string           { return s.path("state") }
func (s *site) url() string             { return "http://" + s.listen + "/events" }

// write writes the configuration: head, the source web, and rest. $STATE, $LISTEN
// and $ADMIN stand for this site's own.
func (s *site) write(rest string) {
	s.Helper()
	s.writeRaw(`relay: e2e
state: $STATE
http: { listen: "$ADMIN" }
shutdown_timeout: 10s
sources:
  - { name: web, type: http, listen: "$LISTEN", path: /events }
` + rest)
}

func (s *site) writeRaw(text string) {
	s.Helper()
	text = strings.NewReplacer("$STATE", s.state(), "$LISTEN", s.listen, "$ADMIN", s.admin, "$FOLDER", s.folder).Replace(text)
	if err := os.WriteFile(s.path("pawl.yaml"), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// checkFiles looks for secrets in everything that pawl keeps.
func (s *site) checkFiles() {
	err := filepath.WalkDir(s.state(), func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return nil // a folder that was made unreadable on purpose
		}
		text, err := os.ReadFile(path)
		if err == nil {
			checkSecrets(s.TB, path, string(text))
		}
		return nil
	})
	if err != nil {
		s.Error(err)
	}
}

func checkSecrets(t testing.TB, where, text string) {
	t.Helper()
	for _, secret := range planted {
		if at := strings.Index(text, secret); at >= 0 {
			t.Errorf("%s holds the secret %s: …%s…", where, secret, text[max(0, at-200):min(len(text), at+100)])
		}
	}
}

// environment is what every process gets.
func environment(extra ...string) []string {
	env := append(os.Environ(), "IN_TOKEN="+inToken, "OUT_TOKEN="+outToken, "PATH_WORD="+pathWord, "PAWL_ADMIN_KEY="+adminKey)
	return append(env, extra...)
}

// result is what a command left.
type result struct {
	code        int
	out, errOut string
}

// run runs a command of pawl with the site's configuration to its end.
func (s *site) run(args ...string) result { s.Helper(); return s.runWith("", args...) }

func (s *site) runWith(stdin string, args ...string) result {
	s.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, append([]string{"-c", s.path("pawl.yaml")}, args...)...)
	return s.finish(cmd, stdin)
}

func (s *site) finish(cmd *exec.Cmd, stdin string) result {
	s.Helper()
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Stdin = &out, &errOut, strings.NewReader(stdin)
	cmd.Env, cmd.Dir = environment(), s.folder
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.Fatalf("%v: %v", cmd.Args, err)
	}
	r := result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
	checkSecrets(s.TB, strings.Join(cmd.Args[1:], " "), r.out+r.errOut)
	return r
}

// must runs a command that must exit with code and returns its output.
func (s *site) must(code int, args ...string) string {
	s.Helper()
	r := s.run(args...)
	if r.code != code {
		s.Fatalf("pawl %s exited %d, want %d\n%s%s", strings.Join(args, " "), r.code, code, r.out, r.errOut)
	}
	return r.out
}

// process is a running `pawl run`.
type process struct {
	*site
	cmd      *exec.Cmd
	out, err *output
	done     chan struct{}
}

// launch starts `pawl run` and returns at once.
func (s *site) launch(args ...string) *process {
	s.Helper()
	return s.launchCmd(exec.Command(binary, append([]string{"run", "-c", s.path("pawl.yaml")}, args...)...))
}

func (s *site) launchCmd(cmd *exec.Cmd, env ...string) *process {
	s.Helper()
	p := &process{site: s, cmd: cmd, out: &output{}, err: &output{}, done: make(chan struct{})}
	cmd.Stdout, cmd.Stderr, cmd.Env, cmd.Dir = p.out, p.err, environment(env...), s.folder
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	go func() {
		defer close(p.done)
		_ = cmd.Wait() // its outcome is in cmd.ProcessState
	}()
	s.Cleanup(func() {
		_ = cmd.Process.Kill() // one that has ended already is what most tests leave
		<-p.done
		checkSecrets(s.TB, "pawl run", p.out.String()+p.err.String())
		if strings.Contains(p.err.String(), "panic") || strings.Contains(p.err.String(), "DATA RACE") {
			s.Errorf("pawl run panicked:\n%s", p.err)
		}
		if s.Failed() {
			s.Logf("pawl run wrote:\n%s%s", tail(p.out.String()), tail(p.err.String()))
		}
	})
	return p
}

// tail returns the end of a long text.
func tail(s string) string {
	const room = 6000
	if len(s) > room {
		return "…" + s[len(s)-room:]
	}
	return s
}

// start starts `pawl run` and waits until it is ready.
func (s *site) start(args ...string) *process {
	s.Helper()
	p := s.launch(args...)
	p.waitReady()
	return p
}

func (p *process) waitReady() {
	p.Helper()
	eventually(p.TB, "pawl run is ready", func() bool {
		select {
		case <-p.done:
			p.Fatalf("pawl run ended with %v:\n%s%s", p.cmd.ProcessState, p.out, p.err)
		default:
		}
		return strings.Contains(p.err.String(), "pawl is ready")
	})
}

func (p *process) signal(sig os.Signal) {
	p.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.Fatal(err)
	}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// wait returns the exit code once the process has ended.
func (p *process) wait() int {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(2 * patience):
		p.signal(syscall.SIGQUIT)
		<-p.done
		p.Fatalf("pawl run did not end:\n%s", p.err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop stops it in order.
func (p *process) stop() {
	p.Helper()
	p.signal(syscall.SIGTERM)
	if code := p.wait(); code != 0 {
		p.Errorf("pawl run exited %d after SIGTERM", code)
	}
}

// get fetches an admin path.
func (s *site) get(path string) (status int, body string) {
	s.Helper()
	res, err := http.Get("http://" + s.admin + path)
	if err != nil {
		s.Fatal(err)
	}
	defer res.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(res.Body); err != nil {
		s.Fatal(err)
	}
	checkSecrets(s.TB, path, b.String())
	return res.StatusCode, b.String()
}

// rewrite replaces a text of the configuration, which must be there.
func (s *site) rewrite(old, with string) {
	s.Helper()
	text, err := os.ReadFile(s.path("pawl.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	if !strings.Contains(string(text), old) {
		s.Fatalf("the configuration has no %q", old)
	}
	s.writeRaw(strings.Replace(string(text), old, with, 1))
}
