package sim

import (
	"slices"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// oracle knows what pawl promises and compares it with what happened.
type oracle struct {
	w  *world
	mu sync.Mutex
	// By life and endpoint:
	sends   map[place][]span
	moves   map[place][]event.Event
	batches map[place][]event.Event
	// again counts sends that were repeated on a fresh connection, by endpoint.
	again map[string]int
	tries map[trial]int // attempts by endpoint and message id
	// homes are the destinations of endpoints.
	homes map[string]DestinationPlan
	// states is what each endpoint went through, by life.
	states map[place]*past
	// ends counts the messages that were delivered.
	ends map[ending]int
	// deliveries are those of lives that had power then; over is when a life ended,
	// and turns what its reloads put in force.
	deliveries []delivery
	over       map[int]time.Time
	turns      map[int][]turned
	// Charges of others that a shared budget was judged with, those that were judged
	// alone, and stretches of sends that were long enough to judge shares by.
	together, alone, runs int
	// Attempts that waited for a rate limit, hops for want of a retry budget,
	// hedges, moves of members to unwell, and messages that were seen.
	limited, spent, hedges, unwell, filtered int
}

// ending is the end of a message in a life.
type ending struct {
	life int
	id   string
}

type place struct {
	life     int
	endpoint string
}

type trial struct{ endpoint, id string }

// span is one attempt.
type span struct {
	id         string
	begin, end time.Time
	// number counts the message's tries here, ready is when it began to wait for
	// this one: a retry was scheduled then.
	number   int
	ready    time.Time
	endpoint string
	route    string
	hedge    bool
	outcome  message.Outcome
}

func (o *oracle) init(w *world) {
	o.w, o.sends, o.moves = w, map[place][]span{}, map[place][]event.Event{}
	o.batches = map[place][]event.Event{}
	o.again, o.tries = map[string]int{}, map[trial]int{}
	o.homes, o.states, o.ends = map[string]DestinationPlan{}, map[place]*past{}, map[ending]int{}
	o.over, o.turns = map[int]time.Time{}, map[int][]turned{}
	for _, d := range w.plan.Destinations {
		for _, m := range d.endpoints() {
			o.homes[m.Name] = d
		}
	}
}

// take notes an event of a life.
func (o *oracle) take(p *process, e event.Event) {
	life := p.number
	o.mu.Lock()
	defer o.mu.Unlock()
	at := place{life, e.Endpoint}
	switch e.Kind {
	case event.AttemptEnded:
		o.sends[at] = append(o.sends[at], span{
			id: e.MessageID, begin: e.At.Add(-e.Took), end: e.At, number: e.Number, ready: e.At.Add(-e.Took - e.Waited),
			endpoint: e.Endpoint, route: e.Route, hedge: e.Hedge, outcome: e.Outcome,
		})
		o.tries[trial{e.Endpoint, e.MessageID}]++
		if _, most := o.homes[e.Endpoint].most(); e.Number > most {
			o.w.wrong(e.MessageID, "attempt %d at %s, whose policy has %d", e.Number, e.Endpoint, most)
		}
		if e.Hedge {
			o.hedges++
			if g := o.homes[e.Endpoint].Group; g == nil || g.Hedge == nil {
				o.w.wrong(e.MessageID, "a hedge to %s, where nothing is hedged", e.Endpoint)
			}
		}
		if e.Limited > 0 {
			o.limited++
		}
	case event.Hopped:
		if e.Hop == message.HopBudget {
			o.spent++
		}
	case event.BreakerMoved:
		o.moves[at] = append(o.moves[at], e)
		o.past(at).breaker.add(e.At, e.Breaker == event.BreakerClosed)
	case event.HoldSet:
		o.past(at).holds = append(o.past(at).holds, hold{e.At, e.At.Add(e.Took)})
	case event.HealthMoved:
		o.past(at).health.add(e.At, e.Health == event.Healthy)
		if e.Health == event.Unhealthy {
			o.unwell++
		}
	case event.Delivered, event.DeliveryFailed:
		o.judgeChain(e)
	case event.BatchSent:
		o.batches[at] = append(o.batches[at], e)
		o.judgeBatch(e)
	case event.Raced:
		if g := o.destination(e.Destination).Group; g == nil || g.Hedge == nil || e.Number > g.Hedge.Max {
			o.w.wrong(e.MessageID, "%d hedges in a race at %s, more than there may be", e.Number, e.Destination)
		}
	case event.Settled:
		switch e.Settlement {
		case event.SettledDelivered:
			o.ends[ending{life, e.MessageID}]++
		case event.SettledFiltered:
			o.filtered++
		default:
		}
	case event.ConnectionRetried:
		o.again[e.Endpoint]++
	}
}

// The most that an attempt at an endpoint which is always well may take and
// wait: it answers after 2 ms, and a full lane before one worker is served in
// well under a second.
const (
	mostTook   = 100 * time.Millisecond
	mostWaited = time.Second
)

// isolated checks that an endpoint which is always well feels nothing of the
// sick ones beside it.
func (o *oracle) isolated(e event.Event) {
	if e.Kind != event.AttemptEnded || e.Outcome == message.OutcomeCancelled || !alwaysWell(o.endpoint(e.Endpoint).Spells) {
		return
	}
	home := o.homes[e.Endpoint]
	alone := len(home.endpoints()) == 1 // what it waits for is itself alone
	switch {
	case e.Outcome != message.OutcomeOK:
		o.w.wrong(e.MessageID, "failed at %s, which is always well: %s", e.Endpoint, e.Error)
	case e.Took > mostTook:
		o.w.wrong(e.MessageID, "took %v at %s, which is always well", e.Took, e.Endpoint)
	case alone && e.Waited-e.Limited > mostWaited && !o.w.plan.pauses(home.Name):
		o.w.wrong(e.MessageID, "waited %v for %s, which is always well", e.Waited, e.Endpoint)
	}
}

func (o *oracle) attempts() (n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, t := range o.tries {
		n += t
	}
	return n
}

func (o *oracle) destination(name string) DestinationPlan {
	for _, d := range o.w.plan.Destinations {
		if d.Name == name {
			return d
		}
	}
	panic("sim: no destination " + name)
}

// endpoint returns the plan of an endpoint.
func (o *oracle) endpoint(name string) MemberPlan {
	for _, m := range o.homes[name].endpoints() {
		if m.Name == name {
			return m
		}
	}
	panic("sim: no endpoint " + name)
}

// chain lists the endpoints that may get what is meant for the i-th destination.
func (o *oracle) chain(i int) map[string]bool {
	d := o.w.plan.Destinations[i]
	all := map[string]bool{}
	for _, m := range d.endpoints() {
		all[m.Name] = true
	}
	for _, to := range d.Fallback {
		for name := range o.chain(to) {
			all[name] = true
		}
	}
	return all
}

// arrived says which messages each endpoint accepted, by name, and checks keys.
func (o *oracle) arrived() map[string]map[string]bool {
	owner := map[string]string{} // the message of each key
	got := map[string]map[string]bool{}
	for _, e := range o.w.endpoints {
		got[e.name] = map[string]bool{}
		for _, a := range e.arrivals() {
			number, name, err := parse([]byte(a.body))
			switch {
			case err != nil || number >= len(o.w.records) || o.w.records[number].body() != a.body:
				o.w.wrong("", "%s got a body that nobody sent: %q", e.name, a.body)
				continue
			case a.id == "", o.w.records[number].keyed && a.id != name:
				o.w.wrong(name, "%s got it under the key %q", e.name, a.id)
			case owner[a.id] != "" && owner[a.id] != name:
				o.w.wrong(name, "shares the key %q with %s", a.id, owner[a.id])
			}
			owner[a.id] = name
			if !o.mayGet(e.name, number) {
				o.w.wrong(name, "%s got it, which no route sends it to", e.name)
			}
			if a.accepted {
				got[e.name][name] = true
			}
		}
	}
	return got
}

// mayGet says whether some route sends the message to the endpoint.
func (o *oracle) mayGet(endpoint string, number int) bool {
	for _, r := range o.w.plan.Routes {
		for _, to := range slices.Concat(r.Required, r.BestEffort) {
			if r.takes(number) && o.chain(to)[endpoint] {
				return true
			}
		}
	}
	return false
}

// end is one required delivery.
type end struct{ name, route, destination string }

// judge compares what the callers were told with where the messages are.
func (o *oracle) judge(letters []*message.DeadLetter) {
	kept := map[end]int{}
	for _, l := range letters {
		_, name, err := parse(l.Message.Body)
		if err != nil || l.Reason != message.ReasonDelivery {
			o.w.wrong("", "a letter that makes no sense: %q, %+v", l.Message.Body, l.Death)
			continue
		}
		kept[end{name, l.Route, l.Destination}]++
		o.judgeLetter(name, l)
	}
	got := o.arrived()
	o.eachRequired(func(r *record, e end, chain map[string]bool) {
		arrived := o.anywhere(got, chain, r.name)
		if promised := o.promised(r); promised != "" && !arrived && kept[e] == 0 {
			o.w.wrong(r.name, "lost: told %s, but it is neither at %s nor among the letters", promised, e.destination)
		}
		if n := kept[e]; n > r.posts {
			o.w.wrong(r.name, "%d letters for %s of %s, though it was sent %d times", n, e.destination, e.route, r.posts)
		}
		if r.acked == string(event.SettledDelivered) && !arrived {
			o.w.wrong(r.name, "told delivered, but it is not at %s", e.destination)
		}
		delete(kept, e)
	})
	for e, n := range kept {
		o.w.wrong(e.name, "%d letters for %s of %s, which does not have to get it", n, e.destination, e.route)
	}
}

// judgeLetter checks the story that a letter tells.
func (o *oracle) judgeLetter(name string, l *message.DeadLetter) {
	n := 0
	for _, h := range l.Hops {
		n += len(h.Attempts)
		o.judgeHop(name, h)
		o.judgePace(name, h)
	}
	if n != l.Attempts {
		o.w.wrong(name, "letter %s counts %d attempts and tells of %d", l.Letter, l.Attempts, n)
	}
	var left []string
	for _, h := range l.Hops {
		left = append(left, h.Destination)
	}
	path := o.path(l.Destination, nil)
	if last := len(left) - 1; last >= 0 && l.Hops[last].Reason == message.HopCancelled {
		path = path[:min(len(left), len(path))] // pawl stopped on the way
	}
	if !slices.Equal(left, path) {
		o.w.wrong(name, "letter %s tells that %v were left, the chain is %v", l.Letter, left, path)
	}
}

// path is the chain of a destination in order, each where it stands first.
func (o *oracle) path(name string, before []string) []string {
	if slices.Contains(before, name) {
		return before
	}
	before = append(before, name)
	for _, to := range o.destination(name).Fallback {
		before = o.path(o.w.plan.Destinations[to].Name, before)
	}
	return before
}

// promised is what a caller was told that pawl has to keep; "" for nothing.
func (o *oracle) promised(r *record) string {
	switch {
	case r.acked != "":
		return r.acked
	case r.late != 0 && !o.w.unsafe[r.late]:
		return "that it is seen to (504)"
	}
	return ""
}

func (o *oracle) anywhere(got map[string]map[string]bool, chain map[string]bool, name string) bool {
	for endpoint := range chain {
		if got[endpoint][name] {
			return true
		}
	}
	return false
}

// eachRequired calls fn with every required delivery of every message.
func (o *oracle) eachRequired(fn func(r *record, e end, chain map[string]bool)) {
	for _, r := range o.w.records {
		for _, route := range o.w.plan.Routes {
			if !route.takes(r.number) {
				continue
			}
			for _, to := range route.Required {
				fn(r, end{r.name, route.Name, o.w.plan.Destinations[to].Name}, o.chain(to))
			}
		}
	}
}

// judgeReplayed says what is missing after everything was replayed.
func (o *oracle) judgeReplayed(open int) {
	if open != 0 {
		o.w.wrong("", "%d letters are open after the replays", open)
	}
	got := o.arrived()
	o.eachRequired(func(r *record, e end, chain map[string]bool) {
		if promised := o.promised(r); promised != "" && !o.anywhere(got, chain, r.name) {
			o.w.wrong(r.name, "told %s, but even after the replays it is not at %s", promised, e.destination)
		}
	})
}
