package harness

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Contender is one relay under measurement.
type Contender struct {
	Name    string
	Version string
	// Command starts it so that it listens at listen and sends to sink. dir is
	// a folder of its own.
	Command func(dir, listen, sink string) (*exec.Cmd, error)
	// Letters returns the ids of the messages that it keeps as dead letters, once
	// it has ended. nil for one that keeps none.
	Letters func(ctx context.Context, dir string) (map[string]struct{}, error)
}

// Process is a contender that runs.
type Process struct {
	cmd   *exec.Cmd
	dir   string
	log   *os.File
	ended bool
}

// Start runs the contender and waits until it listens.
func (c Contender) Start(ctx context.Context, listen, sink string) (*Process, error) {
	dir, err := os.MkdirTemp("", "bench-"+c.Name+"-")
	if err != nil {
		return nil, err
	}
	cmd, err := c.Command(dir, listen, sink)
	if err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", c.Name, err)
	}
	p := &Process{cmd: cmd, dir: dir, log: log}
	for until := time.Now().Add(20 * time.Second); ; {
		conn, err := net.Dial("tcp", listen)
		if err == nil {
			conn.Close()
			return p, nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			text, _ := os.ReadFile(log.Name())
			p.Stop()
			return nil, fmt.Errorf("%s does not listen at %s: %s", c.Name, listen, text)
		}
		sleep(ctx, 20*time.Millisecond)
	}
}

// stopGrace is how long a process may take to end when nothing is asked of it any
// more.
const stopGrace = 5 * time.Second

// Stop ends the process and its children and removes its folder. One that has
// ended by itself is shown with what it wrote.
func (p *Process) Stop() {
	p.End(stopGrace)
	p.log.Close()
	_ = os.RemoveAll(p.dir)
}

// End asks the process to end, and kills it and its children after the grace. Its
// folder stays until Stop. It does nothing the second time.
func (p *Process) End(grace time.Duration) {
	if p.ended {
		return
	}
	p.ended = true
	if s, err := readStat(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid)); err != nil || s.dead {
		text, _ := os.ReadFile(p.log.Name())
		fmt.Fprintf(os.Stderr, "bench: %s has ended by itself: %s\n", p.cmd.Path, text)
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	done := make(chan struct{})
	go func() { _ = p.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(grace):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-done
	}
}

// Letters returns the ids of the dead letters that a contender which has ended
// left in its folder.
func (p *Process) Letters(ctx context.Context, c Contender) (map[string]struct{}, error) {
	return c.Letters(ctx, p.dir)
}

// Usage is what a process group has used.
type Usage struct {
	CPU time.Duration
	RSS int64 // bytes, now
}

// Usage adds up the process and its children.
func (p *Process) Usage() Usage {
	var u Usage
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return u
	}
	for _, file := range stats {
		s, err := readStat(file)
		if err != nil || s.group != p.cmd.Process.Pid {
			continue
		}
		u.CPU += s.cpu
		u.RSS += s.rss
	}
	return u
}

type stat struct {
	group int
	cpu   time.Duration
	rss   int64
	dead  bool // ended, and nobody waited for it yet
}

// tick is the kernel's unit of CPU time in /proc, 100 a second everywhere that
// Go runs on Linux.
const tick = 10 * time.Millisecond

func readStat(file string) (s stat, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	_, rest, ok := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if !ok || len(fields) < 22 {
		return s, errors.New("short stat")
	}
	number := func(i int) int64 { n, _ := strconv.ParseInt(fields[i], 10, 64); return n }
	s.dead = fields[0] == "Z"
	s.group = int(number(2))
	s.cpu = time.Duration(number(11)+number(12)) * tick
	s.rss = number(21) * int64(os.Getpagesize())
	return s, nil
}

// Busy returns the CPU time that the whole machine has used.
func Busy() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var busy time.Duration
	for i, f := range strings.Fields(line)[1:] {
		n, _ := strconv.ParseInt(f, 10, 64)
		if i != 3 && i != 4 && i < 8 { // not idle, not waiting for a disk
			busy += time.Duration(n) * tick
		}
	}
	return busy
}

// failedConnects returns how many outgoing connections of this machine were
// refused or given up since it started: AttemptFails of RFC 4022, section 3.
func failedConnects() int64 {
	text, err := os.ReadFile("/proc/net/snmp")
	if err != nil {
		return 0
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[0] != "Tcp:" {
			continue
		}
		if names == nil {
			names = fields
			continue
		}
		if i := slices.Index(names, "AttemptFails"); i > 0 && i < len(fields) {
			n, _ := strconv.ParseInt(fields[i], 10, 64)
			return n
		}
	}
	return 0
}

// Own returns the CPU time of this process: generator and sink.
func Own() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// FreeAddress returns a loopback address that nobody listens at.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
