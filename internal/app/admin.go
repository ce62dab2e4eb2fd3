package app

import (
	"context"
	"crypto/tls"
	"encoding/json/v2"
	"errors"
	"fmt"
	"net/http"
	"net/http/pprof"
	"os"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// Admin returns what the admin calls look at and act on.
func (a *App) Admin() adminapi.Options {
	var jobs func(context.Context) (adminapi.JobsStatus, error)
	if a.jobs != nil {
		jobs = func(ctx context.Context) (adminapi.JobsStatus, error) {
			return a.jobs.status(ctx, a.engine.Config())
		}
	}
	return adminapi.Options{
		Jobs:      jobs,
		RelayName: a.engine.Config().Relay, Version: a.opts.Version, PID: os.Getpid(), Started: a.started,
		Relay: a.engine.Relay(), Fleet: a.engine.Fleet(), Letters: a.engine.Letters(), Tail: a.tail, Levers: a.levers,
		Events: a.events, Reload: a.Reload, HasDestination: a.engine.hasDestination, Send: a.engine.Send, WriteLetter: a.engine.write,
	}
}

func (a *App) api() *adminapi.API { return adminapi.New(a.Admin()) }

// mountAdmin opens the admin listener of a configuration. Health and metrics
// are served anywhere; what changes something or shows messages only where the
// address is this machine's own, or to those who have a key.
func (a *App) mountAdmin(c *config.Config) (unmount []func(), err error) {
	if c.HTTP.Listen == "" {
		return nil, nil
	}
	conf, err := c.HTTP.TLS.Config()
	if err != nil {
		return nil, fmt.Errorf("http: %w", err)
	}
	paths := map[string]http.Handler{
		"/metrics": a.metrics.Handler(),
		"/healthz": http.HandlerFunc(a.healthz),
		"/readyz":  http.HandlerFunc(a.readyz),
	}
	if c.HTTP.Local() {
		paths["/debug/pprof/"] = adminapi.LocalOnly(profiles())
	}
	if api := a.adminCalls(c); api != nil {
		paths["/v3/"] = api
	}
	if c.Jobs != nil && c.Jobs.Shares(c.HTTP) {
		paths["/v3/"] = a.sharedCalls(paths["/v3/"])
	}
	return a.mount(c.HTTP.Listen, conf, paths, "http.listen")
}

// mountJobs opens the listener of the job API where it has its own.
func (a *App) mountJobs(c *config.Config) (unmount []func(), err error) {
	if c.Jobs == nil || c.Jobs.Shares(c.HTTP) {
		return nil, nil
	}
	conf, err := c.Jobs.TLS.Config()
	if err != nil {
		return nil, fmt.Errorf("jobs: %w", err)
	}
	return a.mount(c.Jobs.Listen, conf, map[string]http.Handler{
		"/v3/":     httpapi.Handler(a.jobs.API(a.opts.Version)),
		"/metrics": a.metrics.Handler(),
		"/healthz": http.HandlerFunc(a.healthz),
		"/readyz":  http.HandlerFunc(a.readyz),
	}, "jobs.listen")
}

// mountAll opens both listeners.
func (a *App) mountAll(c *config.Config) (unmount []func(), err error) {
	unmount, err = a.mountAdmin(c)
	if err != nil {
		return nil, err
	}
	more, err := a.mountJobs(c)
	if err != nil {
		for _, un := range unmount {
			un()
		}
		return nil, err
	}
	return append(unmount, more...), nil
}

// mount serves the paths at an address, all or none.
func (a *App) mount(address string, conf *tls.Config, paths map[string]http.Handler, what string) (unmount []func(), err error) {
	for path, h := range paths {
		un, err := a.hub.Mount(address, conf, path, h)
		if err != nil {
			for _, un := range unmount {
				un()
			}
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		unmount = append(unmount, un)
	}
	return unmount, nil
}

// adminCalls returns the admin calls as they are guarded at http.listen; nil
// where they are not served there.
func (a *App) adminCalls(c *config.Config) http.Handler {
	api := a.api().Handler()
	keys := make([]string, len(c.HTTP.Keys))
	for i, key := range c.HTTP.Keys {
		keys[i] = key.Reveal()
	}
	shared := c.Jobs != nil && c.Jobs.Shares(c.HTTP)
	switch {
	case shared: // one address, one way in: a key, from this machine too
		api = adminapi.RequireKey(keys, a.operator, api)
	case len(keys) > 0:
		api = adminapi.RequireKey(keys, nil, api)
	case !c.HTTP.Local():
		return nil
	}
	if c.HTTP.Local() {
		api = adminapi.LocalOnly(api)
	}
	return api
}

// sharedCalls puts the admin calls and the job API on one address.
func (a *App) sharedCalls(admin http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/v3/", httpapi.Handler(a.jobs.API(a.opts.Version)))
	for _, path := range adminapi.Paths() {
		mux.Handle(path, admin)
	}
	return problem.ExactPaths(mux)
}

// operator lets a key of the store make admin calls: one of scope operate, or
// admin. A key that is limited to queues has no say in the relay.
func (a *App) operator(ctx context.Context, token string) error {
	p, err := a.jobs.server.Authenticate(ctx, token)
	switch {
	case errors.Is(err, jobserver.ErrUnauthenticated):
		return adminapi.ErrUnknownKey
	case err != nil:
		return err
	case !p.Has(store.ScopeOperate) || len(p.Queues) > 0:
		return adminapi.ErrMayNot
	}
	return nil
}

// profiles serves Go's profiles of this process.
func profiles() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	return mux
}

// healthz says that the process is up. It never depends on anything else.
func (a *App) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n")) // a prober that is gone learns nothing
}

// readiness is the answer of /readyz.
type readiness struct {
	Ready bool `json:"ready"`
	// Problems say what is in the way, Warnings what soon may be.
	Problems []string `json:"problems,omitzero"`
	Warnings []string `json:"warnings,omitzero"`
}

// readyz says whether messages and jobs should be sent here: not draining, and
// jobs and dead letters can be kept.
func (a *App) readyz(w http.ResponseWriter, req *http.Request) {
	var r readiness
	if a.engine.Relay().Status().Stopping {
		r.Problems = append(r.Problems, "pawl is stopping")
	}
	if a.jobs != nil {
		switch err := a.jobs.store.Ready(req.Context()); {
		case err == nil:
		case errors.Is(err, store.ErrReserve): // workers can go on
			r.Warnings = append(r.Warnings, "jobs: "+err.Error())
		default:
			r.Problems = append(r.Problems, "jobs: "+err.Error())
		}
	}
	switch err := a.engine.Letters().Writable(); {
	case err == nil:
	case errors.Is(err, deadletter.ErrLowSpace): // writing works still
		r.Warnings = append(r.Warnings, err.Error())
	default:
		r.Problems = append(r.Problems, err.Error())
	}
	r.Ready = len(r.Problems) == 0
	status := http.StatusOK
	if !r.Ready {
		status = http.StatusServiceUnavailable
	}
	text, err := json.Marshal(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(text, '\n')) // a prober that is gone learns nothing
}

// snapshot is the engines' state for a scrape.
func (a *App) snapshot() telemetry.State {
	if a.engine == nil {
		return telemetry.State{}
	}
	rs := a.engine.Relay().Status()
	s := telemetry.State{Generation: rs.Generation}
	for _, src := range rs.Sources {
		s.Sources = append(s.Sources, telemetry.SourceState{Name: src.Source, InFlight: int(src.InFlight)})
	}
	for _, l := range a.engine.Fleet().Status() {
		s.Lanes = append(s.Lanes, telemetry.LaneState{
			Destination: l.Destination, Pending: l.Pending, Places: l.MaxPending, Working: l.Busy, Workers: l.Workers,
			RetriesLeft: l.Retries,
		})
		for _, e := range l.Endpoints {
			s.Endpoints = append(s.Endpoints, telemetry.EndpointState{
				Destination: l.Destination, Name: e.Name, Breaker: e.Breaker, HeldUntil: e.HeldUntil, Health: e.Health,
			})
		}
	}
	stats := a.engine.Letters().Stats()
	s.DeadLetters = telemetry.LetterState{Open: stats.Open, Oldest: stats.Oldest}
	s.Jobs = a.jobs.snapshot()
	return s
}

// endpointNames are what attempts of a destination are made at, as events name
// them.
func endpointNames(d *config.Destination) []string {
	if d.Group == nil {
		return []string{d.Name}
	}
	var all []string
	for i := range d.Group.Members {
		all = append(all, d.Group.Members[i].Name)
	}
	return all
}

// topology is every name that metrics may have: those of the configuration and
// of older ones whose messages still count.
func topology(all ...*config.Config) telemetry.Topology {
	var t telemetry.Topology
	for _, c := range all {
		for i := range c.Sources {
			t.Sources = append(t.Sources, c.Sources[i].Name)
		}
		for i := range c.Destinations {
			t.Destinations = append(t.Destinations, telemetry.Destination{Name: c.Destinations[i].Name, Endpoints: endpointNames(&c.Destinations[i])})
		}
		for i := range c.Routes {
			r := telemetry.Route{Name: c.Routes[i].Name}
			for _, router := range c.Routes[i].Routers[min(1, len(c.Routes[i].Routers)):] {
				r.Fallbacks = append(r.Fallbacks, string(router.Type))
			}
			t.Routes = append(t.Routes, r)
		}
		for i := range c.Stores {
			t.Stores = append(t.Stores, c.Stores[i].Name)
		}
	}
	return t
}
