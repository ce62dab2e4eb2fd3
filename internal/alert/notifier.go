package alert

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/deliver"
)

// maxWaiting is how many alerts wait for one destination; further ones are
// dropped. They are already one a window: more than these nobody reads.
const maxWaiting = 256

// Options are what a Notifier works with.
type Options struct {
	// Relay is the name of this relay in the alerts.
	Relay string
	// Destination finds a destination of the configuration in force. It is
	// called without a lock and may wait.
	Destination func(name string) (*deliver.Destination, bool)
	// Events takes event.Alerted; nil drops it.
	Events event.Sink
}

// Notifier sends alerts. One without rules does nothing. Safe for concurrent
// use.
type Notifier struct {
	opts   Options
	ctx    context.Context // of the deliveries; ended by Stop
	cancel context.CancelFunc

	mu      sync.Mutex
	stopped bool
	counter *counter
	waiting map[string]*queue // by destination
	alarm   *time.Timer       // rings when the next window ends
	alarmAt time.Time
	senders sync.WaitGroup
}

// queue is what waits for one destination. A goroutine sends from it while it
// is in the map.
type queue struct{ alerts []Alert }

// New returns a Notifier without rules.
func New(o Options) *Notifier {
	if o.Events == nil {
		o.Events = event.Discard
	}
	n := &Notifier{opts: o, counter: newCounter(), waiting: map[string]*queue{}}
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n
}

// Configure puts rules in force in the place of those before. What was counted
// for rules that stay goes on being counted; what was counted for others is
// told now.
func (n *Notifier) Configure(rules []Rule) {
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		return
	}
	dropped := n.enqueue(n.counter.configure(rules))
	n.arm(time.Now())
	n.mu.Unlock()
	n.tellDropped(dropped, errTooMany)
}

// Observe counts e where a rule wants it. It is an event.Sink: it never waits.
func (n *Notifier) Observe(e event.Event) {
	f, ok := FactOf(e)
	if !ok {
		return
	}
	now := time.Now()
	if f.At.IsZero() {
		f.At = now
	}
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		return
	}
	told, over := n.counter.take(now, f)
	dropped := n.enqueue(told)
	n.arm(now)
	n.mu.Unlock()
	n.tellDropped(dropped, errTooMany)
	n.tellDropped(over, errTooManyWindows)
}

// Stop sends what is counted and what waits until ctx ends, and drops the rest.
// Later events alert nobody.
func (n *Notifier) Stop(ctx context.Context) {
	n.mu.Lock()
	var dropped []Alert
	if !n.stopped {
		n.stopped = true
		dropped = n.enqueue(n.counter.flush())
		if n.alarm != nil {
			n.alarm.Stop()
		}
	}
	n.mu.Unlock()
	n.tellDropped(dropped, errTooMany)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		n.senders.Wait()
	}()
	select {
	case <-sent:
	case <-ctx.Done():
	}
	n.cancel()
	<-sent
}

// ring ends windows.
func (n *Notifier) ring() {
	now := time.Now()
	n.mu.Lock()
	if n.stopped {
		n.mu.Unlock()
		return
	}
	n.alarmAt = time.Time{}
	dropped := n.enqueue(n.counter.due(now))
	n.arm(now)
	n.mu.Unlock()
	n.tellDropped(dropped, errTooMany)
}

// arm sets the alarm to the end of the next window. One that rings too early
// does no harm. The caller holds n.mu.
func (n *Notifier) arm(now time.Time) {
	at := n.counter.next()
	if at.IsZero() || (!n.alarmAt.IsZero() && !at.Before(n.alarmAt)) {
		return
	}
	n.alarmAt = at
	if n.alarm == nil {
		n.alarm = time.AfterFunc(at.Sub(now), n.ring)
		return
	}
	n.alarm.Reset(at.Sub(now))
}

// enqueue puts alerts to those that wait and returns what there is no room for.
// The caller holds n.mu.
func (n *Notifier) enqueue(alerts []Alert) (dropped []Alert) {
	for _, a := range alerts {
		q := n.waiting[a.To]
		if q == nil {
			q = &queue{}
			n.waiting[a.To] = q
			n.senders.Go(func() { n.sendFrom(a.To, q) })
		}
		if len(q.alerts) >= maxWaiting {
			dropped = append(dropped, a)
			continue
		}
		q.alerts = append(q.alerts, a)
	}
	return dropped
}

// sendFrom sends what waits for one destination, one after another, until
// nothing does.
func (n *Notifier) sendFrom(to string, q *queue) {
	for {
		n.mu.Lock()
		if len(q.alerts) == 0 {
			delete(n.waiting, to)
			n.mu.Unlock()
			return
		}
		a := q.alerts[0]
		q.alerts = q.alerts[1:]
		n.mu.Unlock()
		if n.ctx.Err() != nil {
			n.tell(a, event.AlertDropped, errStopped)
			continue
		}
		if err := n.send(a); err != nil {
			n.tell(a, event.AlertFailed, err)
			continue
		}
		n.tell(a, event.AlertSent, nil)
	}
}

var (
	errTooMany        = fmt.Errorf("more than %d alerts wait for this destination", maxWaiting)
	errTooManyWindows = fmt.Errorf("more than %d things are being told of at once", maxWindows)
	errStopped        = errors.New("pawl stopped before it could be sent")
)

// send brings an alert to its destination over its whole path.
func (n *Notifier) send(a Alert) error {
	m, err := messageOf(n.opts.Relay, a, time.Now())
	if err != nil {
		return err
	}
	d, ok := n.opts.Destination(a.To)
	if !ok {
		return errors.New("the destination is not configured any more")
	}
	place, err := d.EnterBriefly(n.ctx)
	switch {
	case n.ctx.Err() != nil:
		place.Leave()
		return errStopped
	case err != nil:
		return errors.New("its lane had no place in time")
	}
	res := d.Deliver(n.ctx, deliver.Request{Message: m, Place: place, Need: deliver.BestEffort, Avoid: a.avoid()})
	if res.Status == deliver.Delivered {
		return nil
	}
	if res.Status == deliver.Cancelled {
		return errStopped
	}
	if _, why := res.Last(); why != "" {
		return errors.New(why)
	}
	return errors.New("no destination of its chain took it")
}

func (n *Notifier) tellDropped(alerts []Alert, why error) {
	for _, a := range alerts {
		n.tell(a, event.AlertDropped, why)
	}
}

// tell says what became of an alert.
func (n *Notifier) tell(a Alert, what event.Alert, err error) {
	e := event.Event{
		Kind: event.Alerted, At: time.Now(), Name: string(a.Event), Destination: a.To, Alert: what, Number: a.Count,
	}
	if err != nil {
		e.Error = err.Error()
	}
	n.opts.Events(e)
}
