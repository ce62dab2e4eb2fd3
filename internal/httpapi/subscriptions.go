package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

var subscriptionMembers = []string{"name", "url", "events", "queues", "secret"}

// readSubscription reads where events should go.
func readSubscription(r *wirejson.Reader) (name string, s jobserver.Subscription) {
	seen := r.Object(subscriptionMembers, func(member string) {
		switch member {
		case "name":
			name = nameOf(r)
		case "url":
			s.URL = said(r)
		case "events":
			r.Array(len(store.EventTypes()), "types", func(int) { s.Events = append(s.Events, oneOf(r, store.EventTypes()...)) })
		case "queues":
			r.Choice(jobserver.MaxQueues, "queues", func(int) { s.Queues = append(s.Queues, nameOf(r)) })
		case "secret":
			s.Secret = said(r)
		}
	})
	for i, member := range subscriptionMembers[:3] {
		if !seen.Has(i) {
			r.WrongMember(member, "is missing")
		}
	}
	return name, s
}

// subscribe makes a subscription.
func (a *api) subscribe(q *request) error {
	var (
		name string
		s    jobserver.Subscription
	)
	err := q.read(wirejson.Refuse, func(r *wirejson.Reader) { name, s = readSubscription(r) })
	if hidden := q.sees(s.Queues...); hidden != nil {
		return hidden
	}
	if err != nil {
		return err
	}
	made, err := a.server.AddSubscription(q.Context(), q.who, name, s)
	if wrong, ok := errors.AsType[*jobserver.InvalidError](err); ok {
		for i := range wrong.Problems {
			if wrong.Problems[i].Pointer == "" { // of the name, which other definitions have in their path
				wrong.Problems[i].Pointer = "/name"
			}
		}
	}
	if errors.As(err, new(*store.ConflictError)) {
		return &refusal{problem.Document{Type: problem.Exists, Detail: fmt.Sprintf("there is a subscription %q already; delete it first, or choose another name", name)}}
	}
	if err != nil {
		return tooMany(err, errSubscriptions)
	}
	answer := wireSubscription(&made)
	answer.Secret = made.Secret
	q.w.Header()["Location"] = []string{"/v3/subscriptions/" + name}
	return q.marshal(http.StatusCreated, answer)
}

// wireSubscription is a subscription as the wire has it, without its secret.
func wireSubscription(s *jobserver.SubscriptionState) Subscription {
	w := Subscription{
		Name: s.Name, Managed: wireManaged(&s.Managed), URL: textOrNull(s.URL), To: s.To, Events: s.Events, Queues: s.Queues,
		Disabled: textOrNull(s.Disabled), Behind: s.Behind, Deliveries: Counts(s.Deliveries),
	}
	if w.To == nil {
		w.To = []string{}
	}
	if w.Queues == nil {
		w.Queues = []string{}
	}
	return w
}

// listSubscriptions returns the subscriptions that the key sees.
func (a *api) listSubscriptions(q *request) error {
	states, err := a.server.Subscriptions(q.Context(), q.who)
	if err != nil {
		return err
	}
	answer := Subscriptions{Subscriptions: make([]Subscription, 0, len(states))}
	for i := range states {
		answer.Subscriptions = append(answer.Subscriptions, wireSubscription(&states[i]))
	}
	return q.marshal(http.StatusOK, answer)
}

func (a *api) getSubscription(q *request) error {
	s, err := a.server.Subscription(q.Context(), q.who, q.PathValue("subscription"))
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireSubscription(&s))
}

// resumeSubscription lets a subscription go on.
func (a *api) resumeSubscription(q *request) error {
	if err := q.nothing(); err != nil {
		return err
	}
	s, err := a.server.ResumeSubscription(q.Context(), q.who, q.PathValue("subscription"))
	if err != nil {
		return err
	}
	return q.marshal(http.StatusOK, wireSubscription(&s))
}

// unsubscribe ends a subscription.
func (a *api) unsubscribe(q *request) error {
	if err := q.nothing(); err != nil {
		return err
	}
	if err := a.server.RemoveSubscription(q.Context(), q.who, q.PathValue("subscription")); err != nil {
		return err
	}
	return q.done()
}
