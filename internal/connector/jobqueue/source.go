package jobqueue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// Waits of a source whose queue does not answer, each twice the one before.
const (
	firstPause = 100 * time.Millisecond
	// lastPause is soon enough after the store is back.
	lastPause = 5 * time.Second
)

// Rests of a job whose message could be neither delivered nor kept, each twice
// the one before: pawl's own trouble, which is not charged to the job.
const (
	firstRest = time.Second
	// lastRest is soon enough after a full disk was cleared.
	lastRest = 30 * time.Second
)

// SourceKind declares the source of type queue.
func SourceKind() connector.SourceKind {
	return connector.SourceKind{
		Type:   kindName,
		Doc:    "Takes the jobs of a durable queue; each is a message, done once it is settled.",
		New:    func() connector.Settings { return &SourceSettings{} },
		Pauses: true,
		Open: func(s connector.Settings, env connector.Env) (connector.Source, error) {
			settings, ok := s.(*SourceSettings)
			if !ok {
				return nil, fmt.Errorf("queue source: settings of type %T", s)
			}
			return OpenSource(settings.Queue, settings.tasks(), env)
		},
	}
}

// Source takes messages from a queue.
type Source struct {
	name, queue string
	tasks       []lane.Task
	most        int // jobs in hand
	queues      connector.Queues
	log         *slog.Logger
	emit        func(event.Event)

	life context.Context // ends with Close
	end  context.CancelFunc

	freed  chan struct{} // has a value after a hand went
	sooner chan struct{} // has a value after lookAt came nearer

	idle atomic.Int32 // goroutines that wait for a job

	mu    sync.Mutex       // guards the rest, and of each hand what its lease is
	hands map[string]*hand // by job
	bytes int64            // of their bodies
	// lookAt is when the leases are to be looked at: no later than the first of
	// them is to be lengthened. Zero while there is none.
	lookAt time.Time
	back   int       // jobs in a row that went back with nothing done for them, brakeAfter at most
	brake  time.Time // nothing is taken before it
}

// OpenSource returns a source of the queue, whatever its name; tasks empty is
// all of them. Env.Queues must be there.
func OpenSource(queue string, tasks []lane.Task, env connector.Env) (*Source, error) {
	if env.Queues == nil {
		return nil, errNoJobs
	}
	s := &Source{
		name: env.Name, queue: queue, tasks: tasks, most: maxInHand, queues: env.Queues,
		log: env.Logger(), emit: env.Emit, hands: map[string]*hand{},
		freed: make(chan struct{}, 1), sooner: make(chan struct{}, 1),
	}
	if env.MaxInFlight > 0 {
		s.most = min(s.most, env.MaxInFlight)
	}
	s.life, s.end = context.WithCancel(context.Background())
	return s, nil
}

// Run implements connector.Source. When ctx ends it hands back at once what it
// was given too late, and what its handler gives up because of that.
func (s *Source) Run(ctx context.Context, h connector.Handler) error {
	var hands, keeper sync.WaitGroup
	over, next := make(chan struct{}), make(chan *hand)
	keeper.Go(func() { s.keep(over) })
	defer keeper.Wait()
	defer close(over)
	defer hands.Wait()
	defer close(next)
	for trouble := (trouble{}); ; {
		n, ok := s.room(ctx)
		if !ok {
			return nil
		}
		got, err := s.queues.Take(ctx, connector.Take{
			Queue: s.queue, Tasks: s.tasks, Worker: job.RelayPrefix + s.name, Max: n,
		})
		switch {
		case ctx.Err() != nil:
			for _, t := range got {
				if it := s.begin(t); it != nil {
					hands.Go(func() { s.handBack(it) })
				}
			}
			return nil
		case err != nil:
			s.down(&trouble, err)
			if !sleep(ctx, trouble.next()) {
				return nil
			}
			continue
		}
		s.up(&trouble)
		for _, t := range got {
			if it := s.begin(t); it != nil {
				select {
				case next <- it:
				default:
					hands.Go(func() { s.workOn(ctx, h, it, next) })
				}
			}
		}
	}
}

// trouble is a queue that does not answer. The zero value is none.
type trouble struct{ pause time.Duration }

func (t *trouble) next() time.Duration {
	t.pause = min(max(2*t.pause, firstPause), lastPause)
	return t.pause
}

func (s *Source) down(t *trouble, err error) {
	if t.pause == 0 {
		s.emit(event.Event{Kind: event.SourceDown, At: time.Now(), Source: s.name, Error: err.Error()})
	}
}

func (s *Source) up(t *trouble) {
	if t.pause > 0 {
		t.pause = 0
		s.emit(event.Event{Kind: event.SourceUp, At: time.Now(), Source: s.name})
	}
}

// maxIdle is how many goroutines wait for the next job: as many as there are
// commonly in flight at one destination.
const maxIdle = 64

// workOn works a job and then those that come by next, until it is closed: a
// delivery needs a stack that would grow anew in a goroutine of its own.
func (s *Source) workOn(ctx context.Context, h connector.Handler, it *hand, next <-chan *hand) {
	for it != nil {
		s.work(ctx, h, it)
		if s.idle.Add(1) > maxIdle {
			s.idle.Add(-1)
			return
		}
		it = <-next
		s.idle.Add(-1)
	}
}

// work has one job settled.
func (s *Source) work(ctx context.Context, h connector.Handler, it *hand) {
	defer s.drop(it)
	e := endingOf(s.handle(ctx, h, it), it.attempt, ctx.Err())
	s.note(e)
	s.settle(it, e)
}

// handle calls the handler. One that panics must not take the process with it.
func (s *Source) handle(ctx context.Context, h connector.Handler, it *hand) (outcome connector.Settlement) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("a handler panicked", "id", it.message.ID, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			outcome = connector.Settlement{Status: event.SettledNacked, ID: it.message.ID}
		}
	}()
	d := connector.Delivery{Message: it.message, MaxWait: connector.MaxWait}
	if it.left == 1 {
		// Put off, the job would fail. Waited for, the message comes to the end
		// that the relay's policies give it: delivered, or a dead letter.
		d.MaxWait = 0
	}
	return h.Handle(ctx, d)
}

// endingOf says how a lease ends. stopped is not nil once the source stops: what
// is given up then goes back at once.
func endingOf(s connector.Settlement, attempt int, stopped error) connector.Ending {
	switch {
	case s.Status == event.SettledDelivered:
		return connector.Ending{How: connector.Done}
	case s.Acked():
		return connector.Ending{How: connector.Done, As: s.Status}
	case s.Status == event.SettledDeferred && s.Attempts > 0:
		e := connector.Ending{How: connector.Again, After: s.RetryAfter}
		if s.Err != nil {
			e.Error = s.Err.Error()
		}
		return e
	case s.Status == event.SettledDeferred && s.RetryAfter > 0:
		return connector.Ending{How: connector.Back, After: s.RetryAfter}
	case s.Status == event.SettledDeferred:
		return connector.Ending{How: connector.Back, After: rest(attempt)}
	case stopped != nil:
		return connector.Ending{How: connector.Back}
	}
	return connector.Ending{How: connector.Back, After: max(s.RetryAfter, rest(attempt))}
}

// rest is how long a job rests before its next attempt.
func rest(attempt int) time.Duration {
	d := firstRest
	for ; attempt > 1 && d < lastRest; attempt-- {
		d *= 2
	}
	return min(d, lastRest)
}

// settle ends the lease of a job. It goes on trying while the store does not
// answer: what became of the message is known here alone.
func (s *Source) settle(it *hand, e connector.Ending) {
	for trouble := (trouble{}); ; {
		s.mu.Lock()
		lease := it.lease
		s.mu.Unlock()
		err := s.queues.Settle(s.life, lease, e)
		switch {
		case err == nil:
			return
		case errors.Is(err, connector.ErrLeaseLost):
			if s.lose(it, lease) {
				return
			}
			continue // it has a newer one
		}
		if trouble.pause == 0 {
			s.log.Warn("a job's end can't be written down; trying again", "source", s.name, "job", it.job, "error", err)
		}
		if errors.Is(err, store.ErrClosed) || !sleep(s.life, trouble.next()) {
			s.log.Error("a job's end could not be written down before pawl stopped; the job will be worked on again",
				"source", s.name, "job", it.job, "end", string(e.How), "error", err)
			return
		}
	}
}

// lose notes that the lease is lost, unless the job has a newer one: false.
func (s *Source) lose(it *hand, lease string) bool {
	s.mu.Lock()
	if it.lease != lease {
		s.mu.Unlock()
		return false
	}
	told := it.lost
	it.lost = true
	s.mu.Unlock()
	if !told {
		s.emit(event.Event{
			Kind: event.LeaseLost, At: time.Now(), Source: s.name, MessageID: it.message.ID, Detail: it.job,
		})
	}
	return true
}

// handBack ends the lease of a job that was taken too late to be begun.
func (s *Source) handBack(it *hand) {
	defer s.drop(it)
	s.settle(it, connector.Ending{How: connector.Back})
}

// Close implements connector.Source: what could not be written down yet is given
// up, and the jobs will be worked on again.
func (s *Source) Close() error {
	s.end()
	return nil
}

// signal puts a value where none is.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// sleep waits and says whether ctx outlived the wait.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
