package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/control"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// storeCalls makes the calls that need the store itself and no key: keys and
// backups.
type storeCalls interface {
	Do(ctx context.Context, method, path string, in, out any) error
	close() error
}

// runningStore asks the pawl that runs, over its control socket.
type runningStore struct{ *control.Client }

func (runningStore) close() error { return nil }

// ownStore works on the store by itself.
type ownStore struct {
	*apiClient
	jobs *app.LocalJobs
}

// missing says what becomes of a state folder or a store that is not there.
type missing string

const (
	// refused: a command that only looks at what there is, or copies it, makes
	// nothing where a path is wrong.
	refused missing = "refused"
	made    missing = "made"
)

func (s ownStore) close() error { return s.jobs.Close() }

// withStore opens the store for one command: through the pawl that runs on the
// state folder, and itself where none does.
func (sh *shell) withStore(ctx context.Context, m missing, do func(storeCalls) error) (err error) {
	log := &heldLog{to: sh.err}
	s, err := sh.store(ctx, m, log)
	if err != nil {
		return err
	}
	defer func() {
		if err = errors.Join(err, s.close()); err == nil {
			log.release()
		}
	}()
	return do(s)
}

func (sh *shell) store(ctx context.Context, m missing, log io.Writer) (storeCalls, error) {
	running, c, err := sh.owner(ctx)
	if err != nil {
		return nil, err
	}
	if running != nil {
		return runningStore{running}, nil
	}
	if c.Jobs == nil {
		return nil, usagef("%w", app.ErrNoJobs)
	}
	absent := absence(c)
	if absent != nil && m == refused {
		return nil, absent
	}
	jobs, err := app.OpenLocalJobs(c, slog.New(telemetry.NewLogHandler(telemetry.LogOptions{
		Out: log, Format: telemetry.LogText, Level: slog.LevelWarn, Redact: c.Secrets.Redact,
	})))
	if err != nil {
		return nil, err
	}
	if absent != nil {
		fmt.Fprintf(sh.err, "made a new job store: %s\n", c.Jobs.File)
	}
	return ownStore{newAPIClient("http://pawl", "", inProcess{jobs.Local(version())}), jobs}, nil
}

// absence says which of the places of a configuration is not there; nil where
// all are.
func absence(c *config.Config) error {
	places := []struct{ what, path string }{{"state folder", c.State}}
	if c.Jobs != nil {
		places = append(places, struct{ what, path string }{"job store", c.Jobs.File})
	}
	for _, p := range places {
		if _, err := os.Stat(p.path); errors.Is(err, fs.ErrNotExist) {
			return usagef("there is no %s %s: pawl run makes it; or name the right one with -c or --state", p.what, p.path)
		}
	}
	return nil
}
