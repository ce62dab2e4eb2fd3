package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// Reload loads the configuration anew and swaps it in: messages in flight keep
// the one they began with. It returns the configuration's number. An error says
// everything that is wrong, and then nothing has changed. One reload runs at a
// time, and none before Run has begun.
func (a *App) Reload(ctx context.Context) (generation int, err error) {
	defer func() { err = scrubError(a.redact.Redact, err) }()
	select {
	case <-a.begun:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	a.reload.Lock()
	defer a.reload.Unlock()
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	if a.stopped {
		return 0, errors.New("pawl is stopping")
	}
	c, report := a.opts.Load()
	a.logProblems(report)
	if n := report.Errors(); n > 0 {
		why := "it has an error"
		if n > 1 {
			why = fmt.Sprintf("it has %d errors", n)
		}
		a.events(event.Event{Kind: event.Reloaded, At: time.Now(), Error: why + "; the one in force goes on"})
		var text strings.Builder
		if err := report.Write(&text, config.Plain); err != nil {
			return 0, err
		}
		return 0, fmt.Errorf("the configuration has errors:\n%s", strings.TrimSpace(text.String()))
	}
	e := event.Event{Kind: event.Reloaded}
	if generation, err = a.apply(c); err != nil {
		e.Error = strings.ReplaceAll(err.Error(), "\n", "; ") // joined errors have a line each
	}
	e.Number, e.At = generation, time.Now()
	a.events(e)
	return generation, err
}

// maxLogged bounds the problems of one configuration that are logged, a line
// each; pawl lint shows them all.
const maxLogged = 20

// logProblems logs what is wrong with a configuration.
func (a *App) logProblems(r *config.Report) {
	for i, p := range r.Problems {
		if i == maxLogged {
			a.log.Warn("configuration: more problems that are not shown; pawl lint shows them", "problems", len(r.Problems)-i+r.Left)
			return
		}
		level := map[config.Severity]slog.Level{
			config.Error: slog.LevelError, config.Warning: slog.LevelWarn, config.Info: slog.LevelInfo,
		}[p.Severity]
		at := p.File
		if p.Line > 0 {
			at = fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Column)
		}
		a.log.Log(context.Background(), level, "configuration: "+p.Text(), "at", at)
	}
}

// Files returns the files of the configuration in force.
func (a *App) Files() []string { return a.engine.Config().Files }

// apply swaps a checked configuration in.
func (a *App) apply(c *config.Config) (int, error) {
	old := a.engine.Config()
	a.redact.try(c.Secrets)
	if err := a.engine.mayApply(c); err != nil { // what follows counts on it
		return 0, err
	}
	if err := a.jobs.checkKey(context.Background(), c); err != nil {
		return 0, err
	}
	release := a.hub.Hold()
	defer release()
	next, err := a.sources.prepare(c)
	if err != nil {
		return 0, err
	}
	unmount, err := a.mountAll(c)
	if err != nil {
		return 0, a.takeBack(next, nil, err)
	}
	a.older = a.stillDraining()
	number := a.engine.Relay().Status().Generation
	a.metrics.SetTopology(topology(append(configs(a.older), old, c)...))
	// Queues first: a message that goes into a new one must find it. So must one
	// of the configurations before this, into a queue that is new no more.
	if err := a.jobs.configure(c, append(configs(a.older), old)); err != nil {
		return 0, a.takeBack(next, unmount, err)
	}
	a.retainLevers() // of what has drained since the last: it may come back, and anew
	generation, err := a.engine.Apply(c)
	if err != nil {
		if back := a.jobs.configure(old, configs(a.older)); back != nil {
			a.log.Error("the queues of a refused configuration stay in force", "error", back)
		}
		a.metrics.SetTopology(topology(append(configs(a.older), old)...))
		return 0, a.takeBack(next, unmount, err)
	}
	release() // not after the swap, which waits for the sources before
	a.older = append(a.older, numbered{number, old})
	if err := a.sources.swap(c, next); err != nil {
		return generation, err
	}
	a.redact.keep(c.Secrets)
	a.retainLevers()
	for _, un := range a.unmount {
		un()
	}
	a.unmount = unmount
	a.level.Set(c.Log.Level)
	a.lines.SetAccess(accessLog(c.Log.Access))
	a.configureAlerts(c)
	// The key last: that of a configuration that was refused is good for nothing.
	if err := a.jobs.storeKey(context.Background(), c); err != nil {
		return generation, fmt.Errorf("the new configuration is in force without its admin key; reload again: %w", err)
	}
	return generation, nil
}

// retainLevers forgets the levers of names that neither the relay nor the fleet
// has any more. A name that went and whose last message is on its way has its
// levers still, should it come back.
func (a *App) retainLevers() {
	there := map[string]struct{}{}
	for _, s := range a.engine.Relay().Status().Sources {
		there[s.Source] = struct{}{}
	}
	for _, l := range a.engine.Fleet().Status() {
		there[l.Destination] = struct{}{}
		for _, e := range l.Endpoints {
			there[e.Name] = struct{}{}
		}
	}
	a.levers.Retain(func(name string) bool { _, ok := there[name]; return ok })
}

// numbered is a configuration that was in force, and its number.
type numbered struct {
	number int
	config *config.Config
}

// stillDraining returns the older configurations that still have messages. The
// metrics keep their names, and the newest one's until the next reload: what its
// last messages counted must be scraped before it goes. The caller holds
// a.reload.
func (a *App) stillDraining() (still []numbered) {
	for _, n := range a.older {
		if a.engine.Relay().Drains(n.number) {
			still = append(still, n)
		}
	}
	return still
}

func configs(of []numbered) []*config.Config {
	all := make([]*config.Config, 0, len(of)+2)
	for _, n := range of {
		all = append(all, n.config)
	}
	return all
}

// takeBack closes what was opened for a configuration that was refused.
func (a *App) takeBack(next map[string]*running, unmount []func(), err error) error {
	for _, un := range unmount {
		un()
	}
	if closing := a.sources.discard(next); closing != nil {
		a.log.Warn("closing what a refused configuration opened", "error", closing)
	}
	return err
}

// redactor hides the secrets of every configuration that was in force, and of
// the one that is being tried. Safe for concurrent use.
type redactor struct {
	kept  atomic.Pointer[[]*config.Redactor] // the newest first
	tried atomic.Pointer[config.Redactor]
}

// try hides the secrets of a configuration that may be refused, until another
// one is tried: what is said about the refusal may come late.
func (r *redactor) try(c *config.Redactor) { r.tried.Store(c) }

// keep adds the secrets of a configuration that is in force. Older ones stay:
// their messages may still be in flight.
func (r *redactor) keep(c *config.Redactor) {
	list := []*config.Redactor{c}
	if old := r.kept.Load(); old != nil {
		for _, o := range *old {
			if !o.Same(c) && len(list) <= maxRedactors {
				list = append(list, o)
			}
		}
	}
	r.kept.Store(&list)
}

// maxRedactors bounds how many older sets of secrets are remembered: more than
// there are configurations with other ones that drain at once.
const maxRedactors = 32

// Redact returns the text without secrets.
func (r *redactor) Redact(s string) string {
	s = r.tried.Load().Redact(s)
	if list := r.kept.Load(); list != nil {
		for _, c := range *list {
			s = c.Redact(s)
		}
	}
	return s
}

// redacted is a writer of whole lines that hides secrets.
type redacted struct {
	out io.Writer
	by  *redactor
}

// Write writes b without secrets.
func (w redacted) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.out, w.by.Redact(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}

func accessLog(a config.Access) telemetry.AccessLog {
	if a == config.AccessOn {
		return telemetry.AccessOn
	}
	return telemetry.AccessOff
}

// logFormat picks text on a terminal and JSON elsewhere where nothing is said.
func logFormat(f config.LogFormat, out io.Writer) telemetry.LogFormat {
	switch f {
	case config.LogText:
		return telemetry.LogText
	case config.LogJSON:
		return telemetry.LogJSON
	case config.LogAuto:
	}
	if file, ok := out.(*os.File); ok && term.IsTerminal(int(file.Fd())) {
		return telemetry.LogText
	}
	return telemetry.LogJSON
}
