package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/http"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/egress"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/setting"
)

const (
	// webhookTimeout bounds one request to a webhook: as long as senders of webhooks
	// commonly wait.
	webhookTimeout = 15 * time.Second
	// webhookWorkers is how many requests one webhook gets at once.
	webhookWorkers = 8
	// maxWebhooks bounds the webhooks that are kept open. It is above what can be
	// subscribed at a time: those of subscriptions that are gone are the first to
	// be closed.
	maxWebhooks = 2 * jobserver.MaxSubscriptions
	// maxEventWait is the longest wait inside one delivery to a destination of the
	// relay; a longer one is made in the store.
	maxEventWait = 10 * time.Second
)

// eventDeliverer sends the events of subscriptions: to webhooks by lanes of its
// own, each with a breaker, and to destinations of the relay as the relay does.
// Safe for concurrent use.
type eventDeliverer struct {
	fleet    *deliver.Fleet
	stopping context.Context

	mu       sync.Mutex
	relay    func(name string) (*deliver.Destination, bool) // nil before the relay is there
	private  config.PrivateWebhooks
	webhooks map[string]*webhook // by subscription
	set      *deliver.Set        // what is installed of them; nil for none
}

var _ jobserver.Deliverer = (*eventDeliverer)(nil)

// webhook is one webhook with what it was opened for.
type webhook struct {
	url, secret string
	private     config.PrivateWebhooks
	spec        deliver.Spec
	used        time.Time
}

func newEventDeliverer(c *config.Jobs, stopping context.Context, log *slog.Logger) *eventDeliverer {
	return &eventDeliverer{
		fleet: deliver.NewFleet(deliver.Options{Log: log}), stopping: stopping, private: c.PrivateWebhooks, webhooks: map[string]*webhook{},
	}
}

// configure puts the settings of a configuration in force for what is sent from
// now on.
func (d *eventDeliverer) configure(c *config.Jobs) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.private = c.PrivateWebhooks
}

// attach says where destinations of the relay are found.
func (d *eventDeliverer) attach(relay func(name string) (*deliver.Destination, bool)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.relay = relay
}

// CheckHost implements jobserver.Deliverer.
func (d *eventDeliverer) CheckHost(host string) error {
	d.mu.Lock()
	private := d.private
	d.mu.Unlock()
	if private == config.PrivateWebhooksAllowed {
		return nil
	}
	if err := egress.CheckPublic(host); err != nil {
		return fmt.Errorf("%w, and jobs.allow_private_webhooks is not set", err)
	}
	return nil
}

// Close closes every connection to a webhook.
func (d *eventDeliverer) Close() { d.fleet.Close() }

// DeliverEvent implements jobserver.Deliverer.
func (d *eventDeliverer) DeliverEvent(ctx context.Context, e jobserver.Delivery) jobserver.Verdict {
	if d.stopping.Err() != nil {
		return jobserver.Verdict{How: jobserver.NotNow, Error: "pawl is stopping"}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(d.stopping, cancel)()
	if e.To != "" {
		return d.toRelay(ctx, e)
	}
	to, err := d.webhook(e)
	if err != nil {
		return jobserver.Verdict{How: jobserver.Never, Error: err.Error()}
	}
	return d.send(ctx, to, e.Message, 0)
}

// toRelay delivers to a destination of the relay, over its whole chain.
func (d *eventDeliverer) toRelay(ctx context.Context, e jobserver.Delivery) jobserver.Verdict {
	d.mu.Lock()
	find := d.relay
	d.mu.Unlock()
	if find == nil {
		return jobserver.Verdict{How: jobserver.NotNow, Error: "the relay has not begun yet"}
	}
	to, there := find(e.To)
	if !there { // between two configurations
		return jobserver.Verdict{How: jobserver.TryAgain, Error: fmt.Sprintf("no destination %q is configured", e.To)}
	}
	return d.send(ctx, to, e.Message, maxEventWait)
}

// send makes one delivery. A wait that is longer than longest, where that is not
// 0, ends it.
func (d *eventDeliverer) send(ctx context.Context, to *deliver.Destination, m *message.Message, longest time.Duration) jobserver.Verdict {
	place, err := to.EnterBriefly(ctx)
	if err != nil {
		return jobserver.Verdict{How: jobserver.NotNow, After: to.RetryAfter(time.Now()), Error: "no place was free in time"}
	}
	res := to.Deliver(ctx, deliver.Request{Message: m, Place: place, Since: time.Now(), MaxWait: longest})
	return verdict(&res, to.RetryAfter(time.Now()))
}

// verdict is what became of a delivery. hold is how long the destination is not
// to be asked again.
func verdict(res *deliver.Result, hold time.Duration) jobserver.Verdict {
	tags, text := res.Last()
	v := jobserver.Verdict{How: jobserver.TryAgain, Error: text}
	switch {
	case res.Status == deliver.Delivered:
		return jobserver.Verdict{How: jobserver.Delivered}
	case res.Status == deliver.Cancelled:
		v.How = jobserver.NotNow
	case res.Attempts == 0 && !permanent(res):
		v.How, v.After = jobserver.NotNow, max(res.After, hold)
	case tags.Has(statusGone):
		v.How = jobserver.Gone
	case permanent(res) && len(tags) == 0: // a request that can't be made, or may not go there
		v.How = jobserver.Never
	case res.Status == deliver.Deferred:
		v.After = res.After
	}
	return v
}

// statusGone says that nobody wants events there any more.
const statusGone failure.Tag = "410"

// permanent reports whether the last destination was left for what no try helps
// with.
func permanent(res *deliver.Result) bool {
	return len(res.Hops) > 0 && res.Hops[len(res.Hops)-1].Reason == message.HopPermanent
}

// webhook returns the lane of a subscription's webhook. One whose address, secret
// or guard has changed is opened anew and keeps its breaker.
func (d *eventDeliverer) webhook(e jobserver.Delivery) (*deliver.Destination, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	w := d.webhooks[e.Subscription]
	if w == nil || w.url != e.URL || w.secret != e.Secret || w.private != d.private {
		next, err := d.open(e)
		if err != nil {
			return nil, err
		}
		next.used = now
		if err := d.install(e.Subscription, next); err != nil {
			return nil, errors.Join(err, next.spec.Connector.Close())
		}
		w = next
	}
	w.used = now
	to, _ := d.set.Destination(e.Subscription) // it was installed
	return to, nil
}

// open makes the connector of a webhook. d.mu is held.
func (d *eventDeliverer) open(e jobserver.Delivery) (*webhook, error) {
	kinds := http.DestinationKinds()
	settings, ok := kinds[0].New().(*http.DestinationSettings) // of type http, which takes TLS too
	if !ok {
		return nil, fmt.Errorf("destinations of type %s have other settings", kinds[0].Type)
	}
	// Braces are no expression here: the URL is a stranger's.
	settings.URL = strings.NewReplacer("{", "%7B", "}", "%7D").Replace(e.URL)
	settings.Sign = &http.Sign{StandardWebhooks: &http.Secrets{Secret: setting.NewSecret(e.Secret)}}
	settings.DenyPrivate = d.private != config.PrivateWebhooksAllowed
	to, err := http.OpenDestination(settings, connector.Env{Name: e.Subscription, ForwardHeaders: []string{"pawl-event"}})
	if err != nil {
		return nil, fmt.Errorf("the webhook can't be opened: %w", err)
	}
	circuit := breaker.Defaults()
	policy := retry.Resolve()
	policy.Attempts = 1 // the store waits, over restarts
	return &webhook{url: e.URL, secret: e.Secret, private: d.private, spec: deliver.Spec{
		Name: e.Subscription, Endpoint: deliver.Endpoint{Connector: to, Timeout: webhookTimeout, Breaker: &circuit},
		Retry: policy, Workers: webhookWorkers, MaxPending: 2 * webhookWorkers, WhenOpen: deliver.FailWhenOpen,
	}}, nil
}

// install puts a webhook in force beside the others. d.mu is held.
func (d *eventDeliverer) install(name string, w *webhook) error {
	all := maps.Clone(d.webhooks)
	all[name] = w
	for len(all) > maxWebhooks {
		oldest := name
		for other, o := range all {
			if o.used.Before(all[oldest].used) {
				oldest = other
			}
		}
		delete(all, oldest)
	}
	specs := make([]deliver.Spec, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		specs = append(specs, all[name].spec)
	}
	set, err := d.fleet.Configure(specs)
	if err != nil {
		return fmt.Errorf("the webhook can't be used: %w", err)
	}
	before := d.set
	d.webhooks, d.set = all, set
	if before != nil {
		d.fleet.Retire(before)
	}
	return nil
}
