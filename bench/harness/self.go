package harness

import (
	"bufio"
	"context"
	"encoding/json/v2"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// SelfRun starts a program that puts its own load on what it measures, since
// that is a library, and returns its row. The program says "begin" on its
// standard output when the measured stretch begins, and "end" and a SelfResult
// in JSON when it is over. dir is a folder of its own for it.
func SelfRun(ctx context.Context, name string, round int, command func(dir string) *exec.Cmd) (Row, error) {
	dir, err := os.MkdirTemp("", "bench-")
	if err != nil {
		return Row{}, err
	}
	defer os.RemoveAll(dir)
	cmd := command(dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return Row{}, err
	}
	if err := cmd.Start(); err != nil {
		return Row{}, fmt.Errorf("%s: %w", name, err)
	}
	p := &Process{cmd: cmd}
	row, err := follow(p, name, round, out)
	if err != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
	}
	if ended := cmd.Wait(); err == nil && ended != nil {
		err = fmt.Errorf("%s: %w", name, ended)
	}
	return row, err
}

// SelfResult is what the program saw.
type SelfResult struct {
	OK     int64 `json:"ok"`
	Failed int64 `json:"failed"`
	TookUS int64 `json:"took_us"`
	P50US  int64 `json:"p50_us"`
	P99US  int64 `json:"p99_us"`
}

func follow(p *Process, name string, round int, out io.Reader) (row Row, err error) {
	var begin meter
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch said, rest, _ := strings.Cut(lines.Text(), " "); said {
		case "begin":
			begin = p.meter()
		case "end":
			end := p.meter()
			var s SelfResult
			if err := json.Unmarshal([]byte(rest), &s); err != nil {
				return Row{}, fmt.Errorf("%s: %w", name, err)
			}
			micro := func(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
			row = end.row(begin, name, round, Result{OK: s.OK, Failed: s.Failed, Took: micro(s.TookUS)})
			row.P50, row.P99 = micro(s.P50US), micro(s.P99US)
		}
	}
	if row.Contender == "" {
		return row, fmt.Errorf("%s ended without a result", name)
	}
	return row, nil
}
