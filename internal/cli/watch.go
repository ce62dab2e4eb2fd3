package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/pawlhq/pawl/internal/app"
)

const (
	// settleTime is how long files must be quiet before a reload: editors write
	// in several steps.
	settleTime = 200 * time.Millisecond
	// pollTime is how often files are looked at where the system tells nothing
	// (network file systems, exhausted watches).
	pollTime = 5 * time.Second
)

// watchFiles calls reload when a file of the configuration has changed since it was
// loaded, no earlier than the time.
func watchFiles(ctx context.Context, a *app.App, loaded time.Time, errOut io.Writer, reload func()) {
	var told <-chan fsnotify.Event
	var troubles <-chan error
	w, err := fsnotify.NewWatcher()
	if err != nil {
		fmt.Fprintf(errOut, "pawl: --watch: %v; looking every %s instead\n", err, pollTime)
	} else {
		defer w.Close()
		told, troubles = w.Events, w.Errors
	}
	seen := ""
	look := func() {
		files := a.Files()
		for _, f := range files {
			if w != nil {
				_ = w.Add(filepath.Dir(f)) // what can't be watched is polled
			}
		}
		now := stamp(files)
		if seen == "" && changedSince(files, loaded) || seen != "" && now != seen {
			reload()
			now = stamp(a.Files())
		}
		seen = now
	}
	look()
	tick := time.NewTicker(pollTime)
	defer tick.Stop()
	quiet := time.NewTimer(time.Hour)
	quiet.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-told:
			if !ok {
				told = nil
				continue
			}
			quiet.Reset(settleTime)
		case _, ok := <-troubles:
			if !ok {
				troubles = nil
				continue
			}
			quiet.Reset(settleTime) // events may have been lost: look
		case <-quiet.C:
			look()
		case <-tick.C:
			look()
		}
	}
}

// mtimeTick is how far a file's time may lie behind the clock: systems stamp files by
// one that ticks.
const mtimeTick = 20 * time.Millisecond

// changedSince reports whether a file, or a YAML file beside one, may have changed
// since the time.
func changedSince(files []string, t time.Time) bool {
	for _, f := range files {
		if info, err := os.Stat(f); err != nil || info.ModTime().After(t.Add(-mtimeTick)) {
			return true
		}
		entries, err := os.ReadDir(filepath.Dir(f)) // a folder that is gone has none
		if err != nil {
			continue
		}
		for _, e := range entries {
			if info, err := e.Info(); isYAML(e.Name()) && err == nil && info.ModTime().After(t.Add(-mtimeTick)) {
				return true
			}
		}
	}
	return false
}

// isYAML reports whether a file's name is one that a configuration's may have.
func isYAML(name string) bool {
	ext := filepath.Ext(name)
	return ext == ".yaml" || ext == ".yml"
}

// stamp sums up the files' sizes and times of change, and which YAML files
// stand beside them: a new one may belong to the configuration.
func stamp(files []string) string {
	var b strings.Builder
	folders := map[string]bool{}
	for _, f := range files {
		folders[filepath.Dir(f)] = true
		if info, err := os.Stat(f); err == nil {
			fmt.Fprintf(&b, "%s %d %d\n", f, info.Size(), info.ModTime().UnixNano())
		} else {
			fmt.Fprintf(&b, "%s gone\n", f)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(folders)) {
		entries, err := os.ReadDir(folder) // a folder that is gone has none
		if err != nil {
			continue
		}
		for _, e := range entries {
			if isYAML(e.Name()) {
				fmt.Fprintf(&b, "%s\n", filepath.Join(folder, e.Name()))
			}
		}
	}
	return b.String()
}
