package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/semaphore"
	"github.com/pawlhq/pawl/internal/settle"
)

// Options are what a Relay works with.
type Options struct {
	// Name is the relay's name, in dead letters.
	Name  string
	Fleet *deliver.Fleet
	// Letters keeps dead letters and returns once they are safe. An error is a
	// nack.
	Letters func(context.Context, *message.DeadLetter) error
	// Events takes what happened; nil drops it.
	Events event.Sink
	// Memory joins repeats.
	Memory *settle.Memory
	// Trace is called when a message is begun. The returned context goes with
	// its deliveries; end is called once when it is settled. nil is free.
	Trace func(context.Context, *message.Message) (_ context.Context, end func(event.Settlement, error))
	// Log is for what is no event; nil drops it.
	Log *slog.Logger
}

// Relay settles messages. Safe for concurrent use.
type Relay struct {
	opts Options
	// work ends when stopping gives up on the deliveries, last when it gives
	// up on the letters too.
	work, last       context.Context
	endWork, endLast context.CancelFunc
	background       sync.WaitGroup // best-effort legs
	mu               sync.Mutex
	current          *Generation
	draining         map[*Generation]struct{}
	intakes          map[string]*intake
	stopping         bool
	settling         int           // messages inside Handle
	idle             chan struct{} // closed when stopping and settling is 0
}

// New returns a relay without sources; Swap gives it its first configuration.
func New(o Options) *Relay {
	if o.Events == nil {
		o.Events = event.Discard
	}
	if o.Memory == nil {
		o.Memory = settle.NewMemory(settle.Options{})
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	r := &Relay{opts: o, draining: map[*Generation]struct{}{}, intakes: map[string]*intake{}, idle: make(chan struct{})}
	r.work, r.endWork = context.WithCancel(context.Background())
	r.last, r.endLast = context.WithCancel(context.Background())
	return r
}

// lastWords is how long letters may still be written after the deliveries were
// cancelled: a few fsyncs of a slow disk.
const lastWords = 5 * time.Second

// lastNames is how long those that gave up on their letters have to name the
// messages that are lost in the log.
const lastNames = time.Second

// CutShortError says that a stop did not wait for every message.
type CutShortError struct {
	// CutShort counts the messages whose deliveries were given up. They were
	// given back to their senders or kept as dead letters, but for Unended.
	CutShort int
	// Unended counts those that never came to an end: nobody was told of them.
	Unended int
}

// Error counts both.
func (e *CutShortError) Error() string {
	if e.Unended > 0 {
		return fmt.Sprintf("%d messages were cut short and %d never came to an end", e.CutShort, e.Unended)
	}
	return fmt.Sprintf("%d messages were cut short and given back to their senders", e.CutShort)
}

// Stop ends the relay: new messages are refused, those in flight may finish
// until ctx ends, and the rest is nacked, or dead-lettered where nobody is left
// to nack. It returns a *CutShortError that counts what was cut short.
func (r *Relay) Stop(ctx context.Context) error {
	r.mu.Lock()
	if r.stopping {
		r.mu.Unlock()
		return errors.New("the relay is stopping already")
	}
	r.stopping = true
	for _, in := range r.intakes {
		in.setPaused(false) // who waits there is refused: it was not begun
	}
	if r.settling == 0 {
		close(r.idle)
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		<-r.idle
		r.background.Wait()
		close(done)
	}()
	defer r.endLast()
	defer r.endWork()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	left := r.InFlight()
	r.endWork()
	if endsWithin(done, lastWords) {
		return &CutShortError{CutShort: left}
	}
	unended := r.InFlight()
	r.endLast()
	endsWithin(done, lastNames)
	return &CutShortError{CutShort: left, Unended: unended}
}

// endsWithin waits for done, at most d, and says whether it came.
func endsWithin(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

// InFlight returns how many messages are being settled.
func (r *Relay) InFlight() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settling
}

// SourceSpec is what the relay needs to know of a source.
type SourceSpec struct {
	Name string
	// Push says what a source does when there is no room.
	Push Push
	// MaxInFlight and MaxInFlightBytes bound what the source has open.
	MaxInFlight, MaxInFlightBytes int64
	Unrouted                      Unrouted
	// Dedupe is nil where repeats are not dropped.
	Dedupe *Dedupe
}

// Push is how a source is told that there is no room.
type Push uint8

// The ways.
const (
	// Refuse answers at once: the sender tries again.
	Refuse Push = iota
	// Pause lets the source wait.
	Pause
)

// Unrouted is what becomes of a message that no route takes.
type Unrouted uint8

// The ways.
const (
	AckUnrouted        Unrouted = iota // acked, counted and logged
	DeadLetterUnrouted                 // kept as a dead letter
)

// intake is one source's way in. It outlives configurations.
type intake struct {
	relay     *Relay
	name      string
	room      *semaphore.Semaphore
	bytes     *semaphore.Semaphore
	joins     *semaphore.Semaphore // of repeats that wait, as much again
	joinBytes *semaphore.Semaphore
	mu        sync.Mutex
	spec      SourceSpec
	gone      bool          // the newest configuration has no such source
	paused    chan struct{} // open while paused; nil when not
	warned    time.Time     // of the last warning about an unrouted message
}

// intake returns the source's way in, made or brought up to date. The caller
// holds r.mu.
func (r *Relay) intake(s SourceSpec) *intake {
	in, ok := r.intakes[s.Name]
	if !ok {
		in = &intake{
			relay: r, name: s.Name, room: semaphore.New(s.MaxInFlight), bytes: semaphore.New(s.MaxInFlightBytes),
			joins: semaphore.New(s.MaxInFlight), joinBytes: semaphore.New(s.MaxInFlightBytes),
		}
		r.intakes[s.Name] = in
	}
	in.mu.Lock()
	in.spec, in.gone = s, false
	in.mu.Unlock()
	in.room.Resize(s.MaxInFlight)
	in.bytes.Resize(s.MaxInFlightBytes)
	in.joins.Resize(s.MaxInFlight)
	in.joinBytes.Resize(s.MaxInFlightBytes)
	return in
}

// takeIn makes the ways in of a configuration. One that it does not name takes
// no new message and goes once it is empty: its source is about to stop. The
// caller holds r.mu.
func (r *Relay) takeIn(sources []SourceSpec) {
	named := make(map[string]bool, len(sources))
	for _, s := range sources {
		named[s.Name] = true
		r.intake(s)
	}
	for name, in := range r.intakes {
		if named[name] {
			continue
		}
		in.mu.Lock()
		in.gone = true
		in.mu.Unlock()
		if in.room.Held() == 0 {
			delete(r.intakes, name)
		}
	}
}

// PauseSource makes a source take nothing until ResumeSource. false: there is
// no such source.
func (r *Relay) PauseSource(name string) bool { return r.pauseSource(name, true) }

// ResumeSource lets a paused source go on.
func (r *Relay) ResumeSource(name string) bool { return r.pauseSource(name, false) }

func (r *Relay) pauseSource(name string, paused bool) bool {
	r.mu.Lock()
	in, ok := r.intakes[name]
	r.mu.Unlock()
	if ok {
		in.setPaused(paused)
	}
	return ok
}

func (in *intake) setPaused(paused bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case paused && in.paused == nil:
		in.paused = make(chan struct{})
	case !paused && in.paused != nil:
		close(in.paused)
		in.paused = nil
	}
}

// SourceStatus is how one source stands now.
type SourceStatus struct {
	Source                  string
	InFlight, MaxInFlight   int64
	Bytes, MaxInFlightBytes int64
	Paused                  bool
}

// Status is how the relay stands now.
type Status struct {
	Generation int
	// Draining counts the older configurations that still have messages.
	Draining int
	Stopping bool
	Sources  []SourceStatus
}

// Status returns how the relay stands.
func (r *Relay) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := Status{Draining: len(r.draining), Stopping: r.stopping}
	if r.current != nil {
		s.Generation = r.current.number
	}
	for _, in := range r.intakes {
		in.mu.Lock()
		paused := in.paused != nil
		in.mu.Unlock()
		s.Sources = append(s.Sources, SourceStatus{
			Source: in.name, InFlight: in.room.Held(), MaxInFlight: in.room.Max(),
			Bytes: in.bytes.Held(), MaxInFlightBytes: in.bytes.Max(), Paused: paused,
		})
	}
	slices.SortFunc(s.Sources, func(a, b SourceStatus) int { return strings.Compare(a.Source, b.Source) })
	return s
}
