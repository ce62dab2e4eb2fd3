package app

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/alert"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/deliver"
)

// newAlerts returns what tells people of events, without rules until a
// configuration is in force.
func (a *App) newAlerts(c *config.Config) *alert.Notifier {
	return alert.New(alert.Options{
		Relay:       c.Relay,
		Destination: func(name string) (*deliver.Destination, bool) { return a.engine.Destination(name) },
		// By its name at the time of the call: it is made of this sink too.
		Events: func(e event.Event) { a.events(e) },
	})
}

// configureAlerts puts the rules of a configuration in force.
func (a *App) configureAlerts(c *config.Config) {
	if a.opts.Alerts == AlertNobody {
		return
	}
	a.alerts.Configure(alertRules(c.Notify))
}

func alertRules(notices []config.Notice) []alert.Rule {
	rules := make([]alert.Rule, 0, len(notices))
	for _, n := range notices {
		r := alert.Rule{To: n.To, Every: n.Every}
		for _, on := range n.On {
			r.On = append(r.On, alert.Event(on))
		}
		rules = append(rules, r)
	}
	return rules
}

// lastAlerts bounds how long a stop waits for alerts where shutdown_timeout has
// passed already: those about what it cut short are made only then.
const lastAlerts = 2 * time.Second

// stopAlerts sends the alerts that are left. The lanes must be open still.
func (a *App) stopAlerts(ctx context.Context) {
	if ctx.Err() != nil {
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastAlerts)
		defer cancel()
		ctx = grace
	}
	a.alerts.Stop(ctx)
}

// Alerts says whether notify of the configuration is heeded.
type Alerts uint8

// The settings.
const (
	AlertAsConfigured Alerts = iota
	// AlertNobody is for faults on purpose: a drill wakes nobody.
	AlertNobody
)
