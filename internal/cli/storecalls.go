package cli

import (
	"context"
	"errors"
	"log/slog"

	"github.com/pawlhq/pawl/internal/app"
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

func (s ownStore) close() error { return s.jobs.Close() }

// withStore opens the store for one command: through the pawl that runs on the
// state folder, and itself where none does.
func (sh *shell) withStore(ctx context.Context, do func(storeCalls) error) (err error) {
	s, err := sh.store(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	return do(s)
}

func (sh *shell) store(ctx context.Context) (storeCalls, error) {
	running, c, err := sh.owner(ctx)
	if err != nil {
		return nil, err
	}
	if running != nil {
		return runningStore{running}, nil
	}
	log := slog.New(telemetry.NewLogHandler(telemetry.LogOptions{
		Out: sh.err, Format: telemetry.LogText, Level: slog.LevelWarn, Redact: c.Secrets.Redact,
	}))
	jobs, err := app.OpenLocalJobs(c, log)
	if errors.Is(err, app.ErrNoJobs) {
		return nil, usagef("%w", err)
	}
	if err != nil {
		return nil, err
	}
	return ownStore{newAPIClient("http://pawl", "", inProcess{jobs.Local(version())}), jobs}, nil
}
