package deliver

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
)

// watchChore begins the names of the chores that check members.
const watchChore = "health "

// watchJitter is by how much of an interval two checks of a member may be nearer
// or farther: members of one configuration, and relays that started together,
// must not ask in step for ever.
const watchJitter = 0.1

var (
	errCheckTimeout = errors.New("the health check was not answered in time")
	errCheckHangs   = errors.New("the health check before this one has not returned")
	errCheckPanic   = errors.New("the health check panicked; see the log")
)

// watch has each member of a group with a health check asked how it is, from now
// on as the spec says, or no more. Members start healthy. A reload that changes
// the numbers begins to count passes and failures anew and asks at once; what a
// member was found to be stays. One that nobody checks any more is well.
func (l *lane) watch(spec *Spec) {
	var names []string
	run := map[string]string{}
	if spec.Group != nil && spec.Group.Health != nil {
		for i := range spec.Group.Members {
			member := spec.Group.Members[i].EndpointName
			name := fmt.Sprint(watchChore, member, " ", *spec.Group.Health)
			names = append(names, name)
			run[name] = member
		}
	}
	l.chores.only(watchChore, names)
	if len(names) == 0 {
		l.unwatch()
		return
	}
	for _, name := range names {
		w := &watcher{post: l.post, opts: l.chores.opts, member: run[name], check: *spec.Group.Health}
		l.chores.keep(name, w.run)
	}
}

// unwatch forgets what checks said: nobody will take it back.
func (l *lane) unwatch() {
	l.post.mu.Lock()
	var unwell []string
	for _, m := range l.post.group.members {
		if m.gate.health == event.Unhealthy {
			unwell = append(unwell, m.name)
		}
	}
	l.post.mu.Unlock()
	for _, name := range unwell {
		l.post.setHealth(name, event.Healthy, nil)
	}
	l.post.change(func(g *group, _ time.Time) {
		for _, m := range g.members {
			m.gate.health = 0
		}
	})
}

// watcher asks one member how it is, one check at a time.
//
// A member whose breaker is open is asked: that is how it comes back early. One
// that asked to be left alone is left alone, and so is one that a person paused,
// who knows why: what was counted stays.
type watcher struct {
	post   *post
	opts   *Options
	member string
	check  HealthCheck

	passes, fails int // in a row
	said          event.Health
	running       chan error // of a check that has not returned; nil for none
}

// run asks at once and then each interval, until ctx ends.
func (w *watcher) run(ctx context.Context) {
	for {
		if !w.post.leftAlone(w.member) {
			err := w.ask(ctx)
			if ctx.Err() != nil {
				return
			}
			w.count(ctx, err)
		}
		jitter := 1 + watchJitter*(2*w.opts.Random()-1)
		if !sleep(ctx, time.Duration(float64(w.check.Interval)*jitter)) {
			return
		}
	}
}

// count takes in a check and says so where it makes the member something else.
func (w *watcher) count(ctx context.Context, err error) {
	if err == nil {
		w.passes, w.fails = w.passes+1, 0
	} else {
		w.passes, w.fails = 0, w.fails+1
	}
	switch {
	case w.passes >= w.check.HealthyAfter && w.said != event.Healthy:
		w.said = event.Healthy
		w.post.setHealthIn(ctx, w.member, event.Healthy, nil)
	case w.fails >= w.check.UnhealthyAfter && w.said != event.Unhealthy:
		w.said = event.Unhealthy
		f := redacted(w.opts, failure.From(err))
		w.post.setHealthIn(ctx, w.member, event.Unhealthy, f)
	}
}

// ask makes one check with the member's newest connector, and returns with the
// timeout or ctx whatever the connector does. What can't be asked is well.
func (w *watcher) ask(ctx context.Context) error {
	if w.running != nil {
		select {
		case <-w.running: //nolint:errcheck // that check was over long ago
			w.running = nil
		default:
			return errCheckHangs
		}
	}
	n, ok := w.post.borrow(w.member)
	if !ok {
		return nil
	}
	checker, ok := n.dest.(connector.HealthChecker)
	if !ok {
		w.post.giveBack(n)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, w.check.Timeout)
	done := make(chan error, 1)
	go func() {
		defer cancel()
		defer w.post.giveBack(n)
		defer func() {
			if p := recover(); p != nil {
				w.opts.Log.Error("a health check panicked", "destination", w.post.destination, "endpoint", w.member, "panic", p, "stack", string(debug.Stack()))
				done <- errCheckPanic
			}
		}()
		done <- checker.Check(ctx)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	select {
	case err := <-done: // it knew better, or said so by itself
		return err
	default:
	}
	w.running = done
	return errCheckTimeout
}
