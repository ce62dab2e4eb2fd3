package telemetry

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
)

const (
	// linesPerSecond is how many lines one kind of event about one thing may
	// write in a second: enough to see what is going on, few enough that an
	// endpoint that fails ten thousand times a second fills no disk.
	linesPerSecond = 5
	// logQueue is how many events wait for a slow log, some 400 KB of them.
	logQueue = 1024
	// maxSubjects bounds the things that lines are counted for in a second.
	maxSubjects = 4096
	// outageEvery is how often a store that is away is told of: the relay goes on
	// without it, with each message.
	outageEvery = time.Minute
	// maxOutages bounds the stores and operations that are remembered for that.
	maxOutages = 256
)

// AccessLog says whether settled messages get a line each.
type AccessLog uint8

// The settings of the access log.
const (
	AccessOff AccessLog = iota
	AccessOn
)

// EventLog writes log lines of events. Make it with NewEventLog, close it with
// Close. Safe for concurrent use.
type EventLog struct {
	log    *slog.Logger
	access atomic.Uint32 // an AccessLog
	queue  chan event.Event
	lost   atomic.Uint64
	stop   sync.Once
	quit   chan struct{}
	done   chan struct{}
}

// NewEventLog returns an EventLog that writes to log, which should stand on a
// NewLogHandler: ids and errors come from outside.
func NewEventLog(log *slog.Logger, access AccessLog) *EventLog {
	l := &EventLog{
		log:   log,
		queue: make(chan event.Event, logQueue),
		quit:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	l.SetAccess(access)
	go l.run()
	return l
}

// SetAccess switches the access log, on a reload say.
func (l *EventLog) SetAccess(access AccessLog) { l.access.Store(uint32(access)) }

// Observe queues a line for e where there is one to write. It is an
// event.Sink: it never blocks. While the log is slower than what happens,
// lines are left out, and a line tells how many.
func (l *EventLog) Observe(e event.Event) {
	if !l.wants(e) {
		return
	}
	select {
	case l.queue <- e:
	default:
		l.lost.Add(1)
	}
}

// Close writes what is queued and returns. Events after it are not written.
// Calling it again does nothing.
func (l *EventLog) Close() {
	l.stop.Do(func() { close(l.quit) })
	<-l.done
}

// wants reports whether e has a line at the level that is logged.
func (l *EventLog) wants(e event.Event) bool {
	if e.Kind == event.Settled {
		return AccessLog(l.access.Load()) == AccessOn
	}
	level, has := levelOf(e)
	return has && l.log.Enabled(context.Background(), level)
}

func (l *EventLog) run() {
	defer close(l.done)
	b := newBrake(time.Now())
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case e := <-l.queue:
			l.take(b, e)
		case now := <-tick.C:
			l.flush(b, now)
		case <-l.quit:
			for {
				select {
				case e := <-l.queue:
					l.take(b, e)
				default:
					l.flush(b, time.Now())
					return
				}
			}
		}
	}
}

// take writes e unless its subject has written enough in this second. A
// second that ended while the queue was full is flushed here, for the tick
// may come late.
func (l *EventLog) take(b *brake, e event.Event) {
	if now := time.Now(); now.Sub(b.since) >= time.Second {
		l.flush(b, now)
	}
	if e.Kind == event.StoreFailed && !b.outage(e) {
		return
	}
	if e.Kind == event.Settled || b.admit(subjectOf(e)) {
		l.write(e)
	}
}

// flush ends the brake's second and tells what it kept back.
func (l *EventLog) flush(b *brake, now time.Time) {
	for s, n := range b.next(now) {
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "lines left out: too many of one kind",
			slog.String("of", s.kind), slog.String("about", s.name), slog.Int("lines", n))
	}
	if n := l.lost.Swap(0); n > 0 {
		l.log.LogAttrs(context.Background(), slog.LevelWarn, "lines left out: the log is too slow",
			slog.Uint64("lines", n))
	}
}

// subject is what lines are counted by.
type subject struct{ kind, name string }

// brake counts lines by subject within one second. Not safe for concurrent use.
type brake struct {
	since time.Time
	lines map[subject]int
	// outages is when a store's failures were last told of, by operation.
	outages map[subject]time.Time
}

func newBrake(now time.Time) *brake {
	return &brake{since: now, lines: map[subject]int{}, outages: map[subject]time.Time{}}
}

// outage reports whether a store's failure is the first in outageEvery.
func (b *brake) outage(e event.Event) bool {
	s := subject{e.Name, e.Detail}
	now := time.Now()
	told, known := b.outages[s]
	switch {
	case known && now.Sub(told) < outageEvery:
		return false
	case !known && len(b.outages) >= maxOutages:
		clear(b.outages)
	}
	b.outages[s] = now
	return true
}

// admit counts a line and reports whether it may be written. Past maxSubjects
// new ones share one.
func (b *brake) admit(s subject) bool {
	if _, known := b.lines[s]; !known && len(b.lines) >= maxSubjects {
		s = subject{kind: s.kind, name: "others"}
	}
	b.lines[s]++
	return b.lines[s] <= linesPerSecond
}

// next begins a new second and returns how many lines each subject lost in
// the one before.
func (b *brake) next(now time.Time) map[subject]int {
	var kept map[subject]int
	for s, n := range b.lines {
		if n > linesPerSecond {
			if kept == nil {
				kept = map[subject]int{}
			}
			kept[s] = n - linesPerSecond
		}
	}
	b.since = now
	clear(b.lines)
	return kept
}
