package jobqueue_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/jobqueue"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
)

// queue is a queue in virtual time, with the faults that a test sets.
type queue struct {
	connector.Queues // Put is not asked for

	mu      sync.Mutex
	waiting []connector.Taken
	more    chan struct{}
	takes   []connector.Take
	takeErr error
	// takesLate: Take gives what waits though ctx ended.
	takesLate bool

	held      map[string]time.Time // leases and when they end
	stolen    map[string]bool      // leases that somebody else has
	extends   []int                // leases of each Extend
	extendErr error
	endings   map[string]connector.Ending // by lease
	settleErr error
	settles   int
}

const leaseFor = 30 * time.Second

func newQueue() *queue {
	return &queue{
		more: make(chan struct{}, 1), held: map[string]time.Time{}, stolen: map[string]bool{}, endings: map[string]connector.Ending{},
	}
}

// offer puts a job there, under a lease of its own.
func (q *queue) offer(job, lease string, change ...func(*connector.Taken)) {
	t := connector.Taken{
		Message: &message.Message{ID: "m-" + job, Source: "web", Time: time.Now(), Body: []byte(job)},
		Job:     job, Attempt: 1, Lease: lease, LeaseFor: leaseFor,
	}
	for _, c := range change {
		c(&t)
	}
	q.mu.Lock()
	q.waiting = append(q.waiting, t)
	q.mu.Unlock()
	select {
	case q.more <- struct{}{}:
	default:
	}
}

func (q *queue) Take(ctx context.Context, t connector.Take) ([]connector.Taken, error) {
	q.mu.Lock()
	q.takes = append(q.takes, t)
	err := q.takeErr
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for {
		q.mu.Lock()
		n := min(len(q.waiting), t.Max)
		got := slices.Clone(q.waiting[:n])
		if ctx.Err() == nil || q.takesLate {
			q.waiting = q.waiting[n:]
			for _, g := range got {
				q.held[g.Lease] = time.Now().Add(g.LeaseFor)
			}
		}
		late := q.takesLate
		q.mu.Unlock()
		if n > 0 && (ctx.Err() == nil || late) {
			return got, nil
		}
		select {
		case <-q.more:
		case <-ctx.Done():
			if !late {
				return nil, ctx.Err()
			}
		}
	}
}

// holds says whether the lease is good now. The caller holds mu.
func (q *queue) holds(lease string) bool {
	until, ok := q.held[lease]
	return ok && time.Now().Before(until) && !q.stolen[lease]
}

func (q *queue) Extend(_ context.Context, leases []string) (lost []string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.extends = append(q.extends, len(leases))
	if q.extendErr != nil {
		return nil, q.extendErr
	}
	for _, l := range leases {
		if q.holds(l) {
			q.held[l] = time.Now().Add(leaseFor)
		} else {
			lost = append(lost, l)
		}
	}
	return lost, nil
}

func (q *queue) Settle(ctx context.Context, lease string, e connector.Ending) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.settles++
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case q.settleErr != nil:
		return q.settleErr
	case !q.holds(lease):
		return connector.ErrLeaseLost
	}
	delete(q.held, lease)
	q.endings[lease] = e
	return nil
}

// set changes the queue.
func (q *queue) set(change func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change()
}

// ended are the endings until now.
func (q *queue) ended() map[string]connector.Ending {
	q.mu.Lock()
	defer q.mu.Unlock()
	return maps.Clone(q.endings)
}

// asked returns what the queue was asked for until now.
func (q *queue) asked() (takes []connector.Take, extends []int, settles int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return slices.Clone(q.takes), slices.Clone(q.extends), q.settles
}

// rig is a source at work on a queue.
type rig struct {
	*testing.T
	q      *queue
	source connector.Source
	stop   context.CancelFunc
	done   chan error

	mu      sync.Mutex
	events  []event.Event
	handled []connector.Delivery
	open    int
	peak    int
	settle  func(ctx context.Context, d connector.Delivery) connector.Settlement
}

// inBubble runs a source in virtual time, and stops it at the end.
func inBubble(t *testing.T, settle func(context.Context, connector.Delivery) connector.Settlement, test func(r *rig), change ...func(*connector.Env)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{T: t, q: newQueue(), settle: settle, done: make(chan error, 1)}
		env := connector.Env{Name: "in", Queues: r.q, Events: func(e event.Event) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.events = append(r.events, e)
		}}
		for _, c := range change {
			c(&env)
		}
		s, err := jobqueue.OpenSource("relay:web", []lane.Task{{Name: "t"}}, env)
		if err != nil {
			t.Fatal(err)
		}
		r.source = s
		ctx, cancel := context.WithCancel(t.Context())
		r.stop = cancel
		go func() { r.done <- s.Run(ctx, r) }()
		synctest.Wait()
		test(r)
		cancel()
		if err := <-r.done; err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Handle implements connector.Handler.
func (r *rig) Handle(ctx context.Context, d connector.Delivery) connector.Settlement {
	r.mu.Lock()
	r.handled = append(r.handled, d)
	r.open++
	r.peak = max(r.peak, r.open)
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.open--
	}()
	return r.settle(ctx, d)
}

func (r *rig) told(k event.Kind) (n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if e.Kind == k {
			n++
		}
	}
	return n
}

func (r *rig) deliveries() []connector.Delivery {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.handled)
}

// ends fails the test unless the leases ended so, and no other did.
func (r *rig) ends(want map[string]connector.Ending) {
	r.Helper()
	synctest.Wait()
	if diff := cmp.Diff(want, r.q.ended()); diff != "" {
		r.Errorf("endings (-want +got)\n%s", diff)
	}
}

func settles(s connector.Settlement) func(context.Context, connector.Delivery) connector.Settlement {
	return func(context.Context, connector.Delivery) connector.Settlement { return s }
}

// taking settles as delivered after a while.
func taking(d time.Duration) func(context.Context, connector.Delivery) connector.Settlement {
	return func(context.Context, connector.Delivery) connector.Settlement {
		time.Sleep(d)
		return connector.Settlement{Status: event.SettledDelivered}
	}
}

func TestEndings(t *testing.T) {
	why := errors.New("HTTP 503")
	for name, c := range map[string]struct {
		settled connector.Settlement
		attempt int
		want    connector.Ending
	}{
		"delivered":     {connector.Settlement{Status: event.SettledDelivered}, 1, connector.Ending{How: connector.Done}},
		"dead letter":   {connector.Settlement{Status: event.SettledDeadLettered, Err: why}, 1, connector.Ending{How: connector.Done, As: event.SettledDeadLettered}},
		"filtered":      {connector.Settlement{Status: event.SettledFiltered}, 1, connector.Ending{How: connector.Done, As: event.SettledFiltered}},
		"unrouted":      {connector.Settlement{Status: event.SettledUnrouted}, 1, connector.Ending{How: connector.Done, As: event.SettledUnrouted}},
		"tried":         {connector.Settlement{Status: event.SettledDeferred, RetryAfter: time.Minute, Attempts: 3, Err: why}, 1, connector.Ending{How: connector.Again, After: time.Minute, Error: "HTTP 503"}},
		"only waited":   {connector.Settlement{Status: event.SettledDeferred, RetryAfter: time.Minute, Err: why}, 1, connector.Ending{How: connector.Back, After: time.Minute}},
		"nacked":        {connector.Settlement{Status: event.SettledNacked, Err: why}, 1, connector.Ending{How: connector.Back, After: time.Second}},
		"nacked again":  {connector.Settlement{Status: event.SettledNacked, Err: why}, 3, connector.Ending{How: connector.Back, After: 4 * time.Second}},
		"at most":       {connector.Settlement{Status: event.SettledNacked, Err: why}, 1 << 30, connector.Ending{How: connector.Back, After: 30 * time.Second}},
		"as it asked":   {connector.Settlement{Status: event.SettledRefused, RetryAfter: 5 * time.Second}, 1, connector.Ending{How: connector.Back, After: 5 * time.Second}},
		"what is that?": {connector.Settlement{Status: "what"}, 1, connector.Ending{How: connector.Back, After: time.Second}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, settles(c.settled), func(r *rig) {
				r.q.offer("a", "l1", func(t *connector.Taken) { t.Attempt = c.attempt })
				r.ends(map[string]connector.Ending{"l1": c.want})
			})
		})
	}
}

func TestAHandlerThatPanicsTakesNothingWithIt(t *testing.T) {
	inBubble(t, func(context.Context, connector.Delivery) connector.Settlement { panic("boom") }, func(r *rig) {
		r.q.offer("a", "l1")
		r.ends(map[string]connector.Ending{"l1": {How: connector.Back, After: time.Second}})
	})
}

func TestWhatIsHandedOver(t *testing.T) {
	inBubble(t, settles(connector.Settlement{Status: event.SettledDelivered}), func(r *rig) {
		r.q.offer("a", "l1")
		r.q.offer("b", "l2", func(t *connector.Taken) { t.Message = &message.Message{ID: "job_b", Time: time.Now()} })
		synctest.Wait()
		got := map[string]string{}
		for _, d := range r.deliveries() {
			got[d.Message.ID] = d.Message.Source
			if d.MaxWait != connector.MaxWait || d.Keyed || d.Nackable != nil {
				r.Errorf("handed over as %+v", d)
			}
		}
		if diff := cmp.Diff(map[string]string{"m-a": "web", "job_b": "in"}, got); diff != "" {
			r.Errorf("sources (-want +got)\n%s", diff)
		}
		want := connector.Take{Queue: "relay:web", Tasks: []lane.Task{{Name: "t"}}, Worker: "relay:in", Max: 64}
		takes, _, _ := r.q.asked()
		if diff := cmp.Diff(want, takes[0]); diff != "" {
			r.Errorf("asked for (-want +got)\n%s", diff)
		}
	})
}

// The last attempt of a job is not put off: the relay brings it to its end.
func TestTheLastAttemptWaits(t *testing.T) {
	inBubble(t, settles(connector.Settlement{Status: event.SettledDelivered}), func(r *rig) {
		for left, want := range map[int]time.Duration{0: connector.MaxWait, 1: 0, 2: connector.MaxWait, 50: connector.MaxWait} {
			r.q.offer(fmt.Sprint("j", left), fmt.Sprint("l", left), func(t *connector.Taken) { t.Left = left })
			synctest.Wait()
			ds := r.deliveries()
			if got := ds[len(ds)-1].MaxWait; got != want {
				r.Errorf("with %d attempts left it may wait for %v, want %v", left, got, want)
			}
		}
	})
}

func TestLeasesAreLengthenedTogether(t *testing.T) {
	inBubble(t, taking(time.Minute), func(r *rig) {
		for i := range 10 {
			r.q.offer(fmt.Sprint("j", i), fmt.Sprint("l", i))
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(70 * time.Second)
		synctest.Wait()
		if n := len(r.q.ended()); n != 10 {
			r.Errorf("%d jobs are done, want 10", n)
		}
		_, extends, _ := r.q.asked()
		if n := len(extends); n < 4 || n > 8 {
			r.Errorf("%d calls for 10 leases of 30s over a minute, want about one per 10s", n)
		}
		if most := slices.Max(extends); most != 10 {
			r.Errorf("%d leases in one call at most, want all 10", most)
		}
	})
}

func TestNothingIsLengthenedWithEmptyHands(t *testing.T) {
	inBubble(t, taking(time.Second), func(r *rig) {
		r.q.offer("a", "l1")
		time.Sleep(time.Hour)
		if _, extends, _ := r.q.asked(); len(extends) != 0 {
			r.Errorf("%d calls for a job of a second", len(extends))
		}
	})
}

// Jobs that are done meanwhile neither hide the one that goes on nor have its
// lease lengthened before its time.
func TestALongJobBehindShortOnes(t *testing.T) {
	inBubble(t, func(_ context.Context, d connector.Delivery) connector.Settlement {
		if d.Message.ID == "m-long" {
			time.Sleep(55 * time.Second)
		}
		return connector.Settlement{Status: event.SettledDelivered}
	}, func(r *rig) {
		for i := range 300 {
			if i == 37 {
				r.q.offer("long", "ll")
			}
			r.q.offer(fmt.Sprint("j", i), fmt.Sprint("l", i))
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if e := r.q.ended(); len(e) != 301 || e["ll"].How != connector.Done {
			r.Errorf("%d have an end, want all 301", len(e))
		}
		_, extends, _ := r.q.asked()
		// One more may be in hand at that moment: the short one of that second.
		if len(extends) != 5 || slices.Max(extends) > 2 {
			r.Errorf("leases lengthened in calls of %v, want five of the long one's", extends)
		}
	})
}

// A lease that is shorter than those in hand is kept as well.
func TestAShorterLeaseBehindALongOne(t *testing.T) {
	inBubble(t, taking(8*time.Second), func(r *rig) {
		r.q.offer("a", "l1")
		time.Sleep(time.Second)
		r.q.offer("b", "l2", func(t *connector.Taken) { t.LeaseFor = 3 * time.Second })
		time.Sleep(10 * time.Second)
		r.ends(map[string]connector.Ending{"l1": {How: connector.Done}, "l2": {How: connector.Done}})
	})
}

func TestAStoreThatIsAwayForAWhileCostsNoLease(t *testing.T) {
	inBubble(t, taking(time.Minute), func(r *rig) {
		r.q.set(func() { r.q.extendErr = store.ErrUnavailable })
		r.q.offer("a", "l1")
		time.Sleep(25 * time.Second)
		r.q.set(func() { r.q.extendErr = nil })
		time.Sleep(time.Minute)
		r.ends(map[string]connector.Ending{"l1": {How: connector.Done}})
	})
}

// A job whose lease was lost while it is under way goes on under its next one:
// it is not handed over a second time beside itself.
func TestALostLease(t *testing.T) {
	inBubble(t, taking(time.Minute), func(r *rig) {
		r.q.offer("a", "l1")
		time.Sleep(time.Second)
		r.q.set(func() { r.q.stolen["l1"] = true })
		time.Sleep(20 * time.Second)
		if n := r.told(event.LeaseLost); n != 1 {
			r.Errorf("told %d times of the lost lease", n)
		}
		r.q.offer("a", "l2")
		time.Sleep(time.Minute)
		r.ends(map[string]connector.Ending{"l2": {How: connector.Done}})
		if n := len(r.deliveries()); n != 1 {
			r.Errorf("handed over %d times", n)
		}
	})
}

// It is told of once, whoever notices: the lengthening or the end.
func TestALeaseThatIsLostForGood(t *testing.T) {
	for _, takes := range []time.Duration{time.Second, 15 * time.Second} {
		inBubble(t, taking(takes), func(r *rig) {
			r.q.offer("a", "l1")
			synctest.Wait()
			r.q.set(func() { r.q.stolen["l1"] = true })
			time.Sleep(takes + time.Second)
			r.ends(map[string]connector.Ending{})
			if n := r.told(event.LeaseLost); n != 1 {
				r.Errorf("told %d times of the lost lease", n)
			}
			r.q.offer("a", "l2") // it is worked on again
			time.Sleep(takes + time.Second)
			r.ends(map[string]connector.Ending{"l2": {How: connector.Done}})
		})
	}
}

func TestAnEndIsWrittenDownOnceTheStoreAnswers(t *testing.T) {
	inBubble(t, settles(connector.Settlement{Status: event.SettledDelivered}), func(r *rig) {
		r.q.set(func() { r.q.settleErr = store.ErrUnavailable })
		r.q.offer("a", "l1")
		time.Sleep(2 * time.Minute) // four leases
		r.q.set(func() { r.q.settleErr = nil })
		time.Sleep(10 * time.Second)
		r.ends(map[string]connector.Ending{"l1": {How: connector.Done}})
		if _, _, n := r.q.asked(); n > 40 {
			r.Errorf("%d tries within two minutes", n)
		}
	})
}

func TestCloseGivesUpWhatCanNotBeWrittenDown(t *testing.T) {
	inBubble(t, settles(connector.Settlement{Status: event.SettledDelivered}), func(r *rig) {
		r.q.set(func() { r.q.settleErr = store.ErrUnavailable })
		r.q.offer("a", "l1")
		synctest.Wait()
		r.stop()
		time.Sleep(time.Minute)
		select {
		case err := <-r.done:
			r.Fatalf("Run ended with an end not written down: %v", err)
		default:
		}
		_ = r.source.Close()
		synctest.Wait()
		select {
		case err := <-r.done:
			r.done <- err
		default:
			r.Fatal("Run goes on after Close")
		}
	})
}

func TestAClosedStoreIsNotAskedAgain(t *testing.T) {
	inBubble(t, settles(connector.Settlement{Status: event.SettledDelivered}), func(r *rig) {
		r.q.set(func() { r.q.settleErr = store.ErrClosed })
		r.q.offer("a", "l1")
		time.Sleep(time.Minute)
		if _, _, n := r.q.asked(); n != 1 {
			r.Errorf("%d tries", n)
		}
	})
}

// At a stop everything that was not begun goes back at once, uncharged: what was
// taken too late, and what the handler gives up because of it.
func TestAStopHandsBack(t *testing.T) {
	waits := func(ctx context.Context, _ connector.Delivery) connector.Settlement {
		<-ctx.Done()
		return connector.Settlement{Status: event.SettledRefused, RetryAfter: time.Second}
	}
	inBubble(t, waits, func(r *rig) {
		r.q.set(func() { r.q.takesLate = true })
		r.q.offer("a", "l1")
		synctest.Wait()
		r.q.mu.Lock()
		r.q.waiting = append(r.q.waiting, connector.Taken{Message: &message.Message{ID: "late"}, Job: "b", Lease: "l2", LeaseFor: leaseFor})
		r.q.mu.Unlock()
		r.stop()
		r.ends(map[string]connector.Ending{"l1": {How: connector.Back}, "l2": {How: connector.Back}})
		if n := len(r.deliveries()); n != 1 {
			r.Errorf("%d were begun, want the one before the stop", n)
		}
	})
}

// A wait that the endpoint asked for outlives a stop.
func TestAStopKeepsWhatWasPutOff(t *testing.T) {
	putOff := func(ctx context.Context, _ connector.Delivery) connector.Settlement {
		<-ctx.Done()
		return connector.Settlement{Status: event.SettledDeferred, RetryAfter: time.Hour}
	}
	inBubble(t, putOff, func(r *rig) {
		r.q.offer("a", "l1")
		synctest.Wait()
		r.stop()
		r.ends(map[string]connector.Ending{"l1": {How: connector.Back, After: time.Hour}})
	})
}

func TestAQueueThatDoesNotAnswer(t *testing.T) {
	inBubble(t, settles(connector.Settlement{Status: event.SettledDelivered}), func(r *rig) {
		r.q.set(func() { r.q.takeErr = store.ErrUnavailable })
		r.q.offer("a", "l1") // ends the Take that waits
		time.Sleep(time.Minute)
		r.q.offer("b", "l2")
		if n := r.told(event.SourceDown); n != 1 {
			r.Errorf("told %d times that it is down", n)
		}
		if takes, _, _ := r.q.asked(); len(takes) < 10 || len(takes) > 30 {
			r.Errorf("%d tries within a minute", len(takes))
		}
		r.q.set(func() { r.q.takeErr = nil })
		time.Sleep(10 * time.Second)
		r.ends(map[string]connector.Ending{"l1": {How: connector.Done}, "l2": {How: connector.Done}})
		if n := r.told(event.SourceUp); n != 1 {
			r.Errorf("told %d times that it is up", n)
		}
	})
}

func TestNoMoreInHandThanAskedFor(t *testing.T) {
	inBubble(t, taking(time.Second), func(r *rig) {
		for i := range 100 {
			r.q.offer(fmt.Sprint("j", i), fmt.Sprint("l", i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		r.mu.Lock()
		peak := r.peak
		r.mu.Unlock()
		if n := len(r.q.ended()); n != 100 || peak != 7 {
			r.Errorf("%d done, %d at once at most; want 100 and 7", n, peak)
		}
	}, func(e *connector.Env) { e.MaxInFlight = 7 })
}

func TestNoMoreIsTakenWhileTheBytesInHandAreMany(t *testing.T) {
	inBubble(t, taking(time.Second), func(r *rig) {
		big := func(t *connector.Taken) {
			t.Message = t.Message.With(func(m *message.Message) { m.Body = make([]byte, 32<<20) })
		}
		r.q.offer("a", "l1", big)
		synctest.Wait()
		r.q.offer("b", "l2")
		synctest.Wait()
		if takes, _, _ := r.q.asked(); len(takes) != 1 {
			r.Errorf("%d Takes with 32 MiB in hand, want the one that brought them", len(takes))
		}
		time.Sleep(time.Minute)
		r.ends(map[string]connector.Ending{"l1": {How: connector.Done}, "l2": {How: connector.Done}})
	})
}

// While nothing can be done for any job, a long queue is not taken out and put
// back as fast as it goes; when something can, it is at once.
func TestAnOutageDoesNotTurnTheQueueOver(t *testing.T) {
	var mu sync.Mutex
	away := true
	inBubble(t, func(context.Context, connector.Delivery) connector.Settlement {
		mu.Lock()
		defer mu.Unlock()
		if away {
			return connector.Settlement{Status: event.SettledDeferred, RetryAfter: time.Minute}
		}
		return connector.Settlement{Status: event.SettledDelivered}
	}, func(r *rig) {
		for i := range 2000 {
			r.q.offer(fmt.Sprint("j", i), fmt.Sprint("l", i))
		}
		time.Sleep(time.Minute - time.Second)
		synctest.Wait()
		// What was in hand when the brake came, and a batch for each 10 s.
		if n := len(r.q.ended()); n < 6*64 || n > 256+6*64 {
			r.Errorf("%d jobs were taken and handed back in a minute, want 64 for each 10s", n)
		}
		mu.Lock()
		away = false
		mu.Unlock()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if n := len(r.q.ended()); n != 2000 {
			r.Errorf("%d jobs have an end 10s after the outage, want all", n)
		}
	})
}

// One that can be delivered in between says that the others wait for something
// of their own.
func TestASickDestinationBrakesNobodyElse(t *testing.T) {
	inBubble(t, func(_ context.Context, d connector.Delivery) connector.Settlement {
		if len(d.Message.Body)%2 == 0 {
			return connector.Settlement{Status: event.SettledDelivered}
		}
		return connector.Settlement{Status: event.SettledDeferred, RetryAfter: time.Minute}
	}, func(r *rig) {
		for i := range 2000 {
			r.q.offer(fmt.Sprint("j", i), fmt.Sprint("l", i), func(t *connector.Taken) {
				t.Message = t.Message.With(func(m *message.Message) { m.Body = make([]byte, i%2) })
			})
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n := len(r.q.ended()); n != 2000 {
			r.Errorf("%d of 2000 have an end after a second", n)
		}
	})
}
