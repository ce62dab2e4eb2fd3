package app

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// Local is an Engine for one command, where no pawl runs on the state folder.
type Local struct {
	engine *Engine
	state  *State
	jobs   *Jobs
}

// OpenLocal takes the state folder and opens an engine without sources. A
// folder that a running pawl owns is a *LockedError.
func OpenLocal(c *config.Config, kinds *connector.Registry, stderr io.Writer, events event.Sink,
	wrap WrapFunc) (*Local, error) {
	state, err := OpenState(c.State)
	if err != nil {
		return nil, err
	}
	log := slog.New(telemetry.NewLogHandler(telemetry.LogOptions{
		Out: stderr, Format: telemetry.LogText, Level: slog.LevelWarn, Redact: c.Secrets.Redact,
	}))
	jobs, err := OpenJobs(c, log)
	if err != nil {
		return nil, errors.Join(err, state.Close())
	}
	engine, err := NewEngine(c, EngineOptions{
		Registry: kinds, Events: events, Log: log, Stderr: stderr, Redact: c.Secrets.Redact, Wrap: wrap, Jobs: jobs,
	})
	if err != nil {
		return nil, errors.Join(err, jobs.Close(), state.Close())
	}
	return &Local{engine, state, jobs}, nil
}

// Admin returns what the admin calls work on.
func (l *Local) Admin() adminapi.Options {
	e := l.engine
	return adminapi.Options{
		RelayName: e.Config().Relay, PID: os.Getpid(), Started: time.Now(),
		Relay: e.Relay(), Fleet: e.Fleet(), Letters: e.Letters(), HasDestination: e.hasDestination, Send: e.Send, WriteLetter: e.write,
	}
}

// Close ends what is in flight and gives the folder up.
func (l *Local) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	return errors.Join(l.engine.Stop(ctx), l.jobs.Close(), l.state.Close())
}
