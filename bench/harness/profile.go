package harness

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profiles is the folder for CPU profiles of pawl, one for each measured
// stretch: BENCH_PROFILE=FOLDER make jobs. Empty is none. Profiling costs a few
// percent, so such a run is for looking, not for results.
var profiles = os.Getenv("BENCH_PROFILE")

// adminFile is where a contender's folder has the address of its pprof.
const adminFile = "admin"

// profile begins to take a profile of three seconds, the shortest stretch, and
// returns what waits for it. It does nothing for a contender without pprof.
func (p *Process) profile(name string, round int) (wait func()) {
	address, err := os.ReadFile(filepath.Join(p.dir, adminFile))
	if profiles == "" || err != nil {
		return func() {}
	}
	done := make(chan error, 1)
	file := filepath.Join(profiles, fmt.Sprintf("%s-%d.pprof", strings.NewReplacer(" ", "-", "/", "-").Replace(name), round))
	go func() { done <- fetch(fmt.Sprintf("http://%s/debug/pprof/profile?seconds=3", address), file) }()
	return func() {
		if err := <-done; err != nil {
			fmt.Fprintln(os.Stderr, "bench: no profile:", err)
		}
	}
}

func fetch(url, file string) error {
	answer, err := http.Get(url)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", answer.Status, text)
	}
	return os.WriteFile(file, text, 0o644)
}
