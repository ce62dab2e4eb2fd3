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

// watchFiles calls reload when a file of the configuration has changed.
func watchFiles(ctx context.Context, a *app.App, errOut io.Writer, reload func()) {
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
		if seen != "" && now != seen {
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
			if ext := filepath.Ext(e.Name()); ext == ".yaml" || ext == ".yml" {
				fmt.Fprintf(&b, "%s\n", filepath.Join(folder, e.Name()))
			}
		}
	}
	return b.String()
}
