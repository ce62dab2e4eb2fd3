package jobserver

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/store"
)

// Bounds of subscriptions.
const (
	// MaxSubscriptions is how many may be defined over the API: each has a loop of
	// its own and a worker.
	MaxSubscriptions = 100
	MaxURL           = 2048
	// maxSubscription is how long a name may be: the name of its queue has it in it.
	maxSubscription = 64
	maxTo           = 10
)

// Subscription says which events go where: to a webhook, or to destinations of
// the relay.
type Subscription struct {
	Events []store.EventType // at least one
	Queues []string          // events of these queues alone; empty is every queue
	To     []string          // destinations of the relay; the configuration's alone
	URL    string            // of the webhook
	// Secret signs what goes to the webhook: whsec_ and base64.
	Secret string
	// Disabled is why nothing is sent any more; "" while it is.
	Disabled string
}

// SubscriptionState is a subscription and how it stands.
type SubscriptionState struct {
	Name string
	Subscription
	Managed
	CreatedAt time.Time // zero for the configuration's
	// Behind is how many events have happened that it has not looked at.
	Behind int64
	// Deliveries are those of its deliveries that wait, run, and are dead letters.
	Deliveries Counts
}

// Delivery is one event on its way to one place.
type Delivery struct {
	// Subscription is whose, by name. To is a destination of the relay; "" is the
	// webhook at URL, signed with Secret.
	Subscription, To, URL, Secret string
	// Message carries the event: its id is the same at every try, its body the event
	// as JSON, as /v3/events writes it.
	Message *message.Message
	Attempt int
}

// Verdict is what became of a delivery.
type Verdict struct {
	How VerdictKind
	// After is how long the other side asked to be left alone; 0 for nothing said.
	After time.Duration
	// Error says what went wrong; "" for Delivered.
	Error string
}

// VerdictKind is how a delivery went.
type VerdictKind string

// The verdicts.
const (
	Delivered VerdictKind = "delivered"
	TryAgain  VerdictKind = "retry"
	// NotNow: it was not tried, because a breaker is open or the process ends. It
	// costs no try.
	NotNow VerdictKind = "not_now"
	Never  VerdictKind = "permanent" // no try helps: a dead letter
	Gone   VerdictKind = "gone"      // HTTP 410: the subscription is disabled
)

// Deliverer sends events. It is safe for concurrent use, and returns soon once
// ctx has ended, with NotNow or what is known.
type Deliverer interface {
	DeliverEvent(ctx context.Context, d Delivery) Verdict
	// CheckHost returns an error for the host of a webhook to which nothing is ever
	// delivered, whatever its name resolves to.
	CheckHost(host string) error
}

// eventQueue is what each queue of deliveries is like: twelve tries over about 23
// hours.
func eventQueue() Queue {
	return Queue{Lease: DefaultLease, Timeout: DefaultTimeout, Retry: job.Overlay{
		MaxAttempts: new(12), Initial: new(10 * time.Second), Factor: new(2.5), MaxDelay: new(8 * time.Hour), Jitter: new(0.25),
	}}
}

// subscription is one that is in force.
type subscription struct {
	Subscription
	Managed
	name string
}

func (s *subscription) queue() string { return store.EventQueue + s.name }

// places are where its events go.
func (s *subscription) places() []string {
	if s.URL != "" {
		return []string{webhook}
	}
	return s.To
}

// webhook is the place that is no destination of the relay.
const webhook = ""

func (s Subscription) check(c *checker, name string) {
	c.theName(name)
	if len(name) > maxSubscription {
		c.add("", "the name is longer than %d characters", maxSubscription)
	}
	if len(s.Events) == 0 {
		c.add("/events", "is empty; name some of %s", eventList())
	}
	for i, e := range s.Events {
		if !slices.Contains(store.EventTypes(), e) {
			text := fmt.Sprintf("unknown type of event %q", e)
			if near := nearest.To(string(e), eventNames()); near != "" {
				text += fmt.Sprintf("; did you mean %q?", near)
			}
			c.add(fmt.Sprintf("/events/%d", i), "%s", text)
		} else if slices.Contains(s.Events[:i], e) {
			c.add(fmt.Sprintf("/events/%d", i), "is there twice")
		}
	}
	if len(s.Queues) > MaxQueues {
		c.add("/queues", "holds %d queues; at most %d are allowed", len(s.Queues), MaxQueues)
	} else {
		for i, q := range s.Queues {
			if bad := job.BadName(q); bad != "" {
				c.add(fmt.Sprintf("/queues/%d", i), "%s", bad)
			}
		}
	}
	switch {
	case s.URL == "" && len(s.To) == 0:
		c.add("/url", "is missing")
	case s.URL != "" && len(s.To) > 0:
		c.add("/to", "can't be said beside url")
	case s.URL != "":
		c.webhook(s.URL, s.Secret)
	case len(s.To) > maxTo:
		c.add("/to", "holds %d destinations; at most %d are allowed", len(s.To), maxTo)
	}
}

// webhook checks where a webhook goes and what signs it.
func (c *checker) webhook(to, secret string) {
	switch u, err := url.Parse(to); {
	case len(to) > MaxURL:
		c.add("/url", "is longer than %d characters", MaxURL)
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		c.add("/url", "must be an http or https URL with a host")
	case u.User != nil:
		c.add("/url", "must carry no user and no password; what is sent is signed")
	case u.Fragment != "":
		c.add("/url", "must carry no fragment")
	}
	text, ok := strings.CutPrefix(secret, secretPrefix)
	if raw, err := base64.StdEncoding.DecodeString(text); !ok || err != nil || len(raw) < minSecretBytes || len(raw) > maxSecretBytes {
		c.add("/secret", "must be %s and the base64 of %d to %d bytes", secretPrefix, minSecretBytes, maxSecretBytes)
	}
}

// The form of a secret, by Standard Webhooks.
const (
	secretPrefix                   = "whsec_"
	minSecretBytes, maxSecretBytes = 24, 64
)

// newSecret makes the secret of a webhook.
func newSecret() string {
	var random [32]byte
	_, _ = rand.Read(random[:]) // never fails: the process would end
	return secretPrefix + base64.StdEncoding.EncodeToString(random[:])
}

func eventNames() []string {
	var names []string
	for _, e := range store.EventTypes() {
		names = append(names, string(e))
	}
	return names
}

func eventList() string { return strings.Join(eventNames(), ", ") }

// AddSubscription subscribes a webhook to events from now on. A secret is made
// where none is said; the answer has it. A key that is limited to queues has to
// name some of them. Errors: *InvalidError, ErrManagedByFile, store.ErrTooMany;
// a name that is taken by another subscription is a *store.ConflictError.
func (s *Server) AddSubscription(ctx context.Context, by Principal, name string, ask Subscription) (SubscriptionState, error) {
	if ask.Secret == "" {
		ask.Secret = newSecret()
	}
	ask.Disabled = ""
	var c checker
	if len(ask.To) > 0 {
		c.add("/to", "can't be said over the API; the configuration sends events to destinations of the relay")
	}
	ask.check(&c, name)
	if u, err := url.Parse(ask.URL); err == nil && ask.URL != "" && s.deliver != nil {
		if err := s.deliver.CheckHost(u.Hostname()); err != nil {
			c.add("/url", "would never be called: %v", err)
		}
	}
	if len(by.Queues) > 0 {
		if len(ask.Queues) == 0 {
			c.add("/queues", "is empty; the key %q is limited to queues: name some of them", by.Name)
		}
		for i, q := range ask.Queues {
			if !by.Sees(q) {
				c.add(fmt.Sprintf("/queues/%d", i), "is not one of the key's")
			}
		}
	}
	if err := c.err(); err != nil {
		return SubscriptionState{}, err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	if _, named := s.config.Subscriptions[name]; named {
		return SubscriptionState{}, &ManagedError{store.SubscriptionDefinition, name}
	}
	if _, there := s.defined.subs[name]; there {
		return SubscriptionState{}, &store.ConflictError{Key: name}
	}
	if len(s.defined.subs) >= MaxSubscriptions {
		return SubscriptionState{}, fmt.Errorf("%w: %d subscriptions", store.ErrTooMany, MaxSubscriptions)
	}
	if err := s.begin(ctx, name); err != nil {
		return SubscriptionState{}, err
	}
	d, err := keep(ctx, s.store, store.SubscriptionDefinition, name, by.Name, ask)
	if err != nil {
		return SubscriptionState{}, err
	}
	s.defined.subs = with(s.defined.subs, name, d)
	return SubscriptionState{Name: name, Subscription: ask, Managed: d.Managed, CreatedAt: d.created}, s.changed(ctx)
}

// Subscriptions lists the subscriptions that the key sees, by name, without their
// secrets: a key that is limited to queues sees those of its queues alone.
func (s *Server) Subscriptions(ctx context.Context, by Principal) ([]SubscriptionState, error) {
	now := s.settings.Load()
	last, err := s.store.LastEvent(ctx)
	if err != nil {
		return nil, err
	}
	lanes, err := s.store.Counts(ctx)
	if err != nil {
		return nil, err
	}
	deliveries := map[string]*Counts{}
	for _, l := range lanes {
		if name, ok := strings.CutPrefix(l.Lane.Queue, store.EventQueue); ok {
			if deliveries[name] == nil {
				deliveries[name] = &Counts{}
			}
			deliveries[name].add(l)
		}
	}
	var all []SubscriptionState
	for _, name := range slices.Sorted(maps.Keys(now.subs)) {
		sub := now.subs[name]
		if !by.seesSubscription(sub.Subscription) {
			continue
		}
		at, begun, err := s.cursor(ctx, name)
		if err != nil {
			return nil, err
		}
		if !begun {
			at = last
		}
		st := SubscriptionState{Name: name, Subscription: sub.Subscription, Managed: sub.Managed, Behind: max(last-at, 0)}
		st.Secret = ""
		if d := deliveries[name]; d != nil {
			st.Deliveries = *d
		}
		all = append(all, st)
	}
	return all, nil
}

func (p Principal) seesSubscription(s Subscription) bool {
	if len(p.Queues) == 0 {
		return true
	}
	return len(s.Queues) > 0 && !slices.ContainsFunc(s.Queues, func(q string) bool { return !p.Sees(q) })
}

// HasSubscription reports whether there is one of the name, disabled or not.
func (s *Server) HasSubscription(name string) bool { return s.settings.Load().subs[name] != nil }

// Subscription returns one. store.ErrNotFound, as an *UnknownError.
func (s *Server) Subscription(ctx context.Context, by Principal, name string) (SubscriptionState, error) {
	all, err := s.Subscriptions(ctx, by)
	if err != nil {
		return SubscriptionState{}, err
	}
	if i := slices.IndexFunc(all, func(st SubscriptionState) bool { return st.Name == name }); i >= 0 {
		return all[i], nil
	}
	return SubscriptionState{}, &UnknownError{Kind: store.SubscriptionDefinition, Name: name}
}

// ResumeSubscription lets a subscription go on that was disabled, from where it
// stood: deliveries that it still had are made, and events that came since follow.
// One that is not disabled stays as it is. Errors: store.ErrNotFound,
// ErrManagedByFile.
func (s *Server) ResumeSubscription(ctx context.Context, by Principal, name string) (SubscriptionState, error) {
	if err := s.enable(ctx, by, name); err != nil {
		return SubscriptionState{}, err
	}
	return s.Subscription(ctx, by, name)
}

func (s *Server) enable(ctx context.Context, by Principal, name string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.mayChange(by, name); err != nil {
		return err
	}
	d := s.defined.subs[name]
	if d.value.Disabled == "" {
		return nil
	}
	d.value.Disabled = ""
	next, err := keep(ctx, s.store, store.SubscriptionDefinition, name, by.Name, d.value)
	if err != nil {
		return err
	}
	s.defined.subs = with(s.defined.subs, name, next)
	s.log.Info("a subscription goes on", "subscription", name, "by", by.Name)
	return s.changed(ctx)
}

// mayChange returns nil for a subscription that the key sees and that the API made.
// s.changing is held.
func (s *Server) mayChange(by Principal, name string) error {
	sub := s.settings.Load().subs[name]
	switch {
	case sub == nil || !by.seesSubscription(sub.Subscription):
		return &UnknownError{Kind: store.SubscriptionDefinition, Name: name}
	case sub.By == ByFile:
		return &ManagedError{store.SubscriptionDefinition, name}
	}
	return nil
}

// RemoveSubscription ends a subscription. Deliveries that it still had are
// cancelled. Errors: store.ErrNotFound, ErrManagedByFile.
func (s *Server) RemoveSubscription(ctx context.Context, by Principal, name string) error {
	s.changing.Lock()
	defer s.changing.Unlock()
	if err := s.mayChange(by, name); err != nil {
		return err
	}
	if err := s.store.RemoveDefinition(ctx, store.SubscriptionDefinition, name); err != nil {
		return err
	}
	s.defined.subs = without(s.defined.subs, name)
	if err := s.changed(ctx); err != nil {
		return err
	}
	if err := s.store.DropCursor(ctx, readerOf(name)); err != nil {
		return err
	}
	_, err := s.AddReplay(ctx, Principal{Name: by.Name}, NewReplay{
		Action: store.ActionCancel, Selection: store.Selection{Filter: store.Filter{Queue: store.EventQueue + name}},
	})
	if err != nil {
		s.log.Warn("what a subscription still had to deliver could not be cancelled, and waits", "subscription", name, "error", err)
	}
	return nil
}
