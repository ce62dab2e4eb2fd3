package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
	"github.com/pawlhq/pawl/internal/testbed"
)

// Report is what came of a run.
type Report struct {
	Plan Plan
	// Problems are the promises that were not kept.
	Problems []string
	// Story is what happened to the messages concerned, or to all where no
	// problem names one.
	Story string
	// Messages, Attempts, Letters and Late count what there was; Late are the
	// answers with a 504. Limited are attempts that waited for a rate limit, Spent
	// hops for want of a retry budget.
	Messages, Attempts, Letters, Late, Limited, Spent int
	// Hedges are attempts that were, Unwell moves of members to that, Filtered
	// messages that were seen before.
	Hedges, Unwell, Filtered int
	// Together are charges of others that shared budgets were judged with, Alone
	// those that were judged without their store, Runs stretches of sends that say
	// something of shares.
	Together, Alone, Runs int
}

// world is a run.
type world struct {
	plan      Plan
	began     time.Time
	story     *story
	network   testbed.Network
	replicas  []*replica
	store     *store // what two replicas share; nil for one
	endpoints []*endpoint
	records   []*record
	oracle    oracle
	ghosts    sync.WaitGroup // lives that lost their power
	lives     int            // touched by the goroutine of Run and its levers, one after the other

	mu       sync.Mutex
	chances  *rand.Rand
	unsafe   map[int]bool // lives that were cut
	late     int          // answers with a 504
	problems []string
	about    map[string]bool
}

// Run lives through the plan. It must be called in a bubble of testing/synctest.
func Run(plan Plan) Report {
	w := &world{
		plan: plan, began: time.Now(), unsafe: map[int]bool{}, about: map[string]bool{},
		chances: rand.New(rand.NewPCG(plan.Seed, 1)),
	}
	w.story = &story{began: w.began}
	w.oracle.init(w)
	w.replicas = append(w.replicas, w.newReplica(0))
	if plan.Replicas != nil {
		w.replicas, w.store = append(w.replicas, w.newReplica(1)), newStore(plan, w.began)
	}
	letters := 0
	if err := w.live(); err != nil {
		w.wrong("", "%v", err)
	} else if letters, err = w.afterwards(); err != nil {
		w.wrong("", "%v", err)
	}
	w.ghosts.Wait()
	time.Sleep(longest) // trials of a half-open breaker outlive their message
	for _, e := range w.endpoints {
		e.close()
	}
	w.oracle.judgeSends()
	return Report{
		Plan: plan, Problems: w.problems, Story: w.story.about(w.about),
		Messages: len(w.records), Attempts: w.oracle.attempts(), Letters: letters, Late: w.late,
		Limited: w.oracle.limited, Spent: w.oracle.spent,
		Hedges: w.oracle.hedges, Unwell: w.oracle.unwell, Filtered: w.oracle.filtered,
		Together: w.oracle.together, Alone: w.oracle.alone, Runs: w.oracle.runs,
	}
}

// live is everything until the callers have their answers and pawl has stopped.
func (w *world) live() error {
	for _, d := range w.plan.Destinations {
		for _, m := range d.endpoints() {
			e := &endpoint{name: m.Name, began: w.began, spells: m.Spells, checks: m.Checks, batches: d.Batch != nil, story: w.story}
			if err := e.serve(&w.network); err != nil {
				return err
			}
			w.endpoints = append(w.endpoints, e)
		}
	}
	for _, r := range w.replicas {
		p, err := r.start()
		if err != nil {
			return err
		}
		r.become(p)
	}
	var levers, callers sync.WaitGroup
	levers.Go(w.pullLevers)
	for i := range w.plan.Callers {
		c := w.caller(i)
		callers.Go(c.run)
	}
	callers.Wait()
	levers.Wait()
	time.Sleep(time.Until(w.began.Add(length)))
	// The longest a message may still need, with everything well again.
	for _, r := range w.replicas {
		if err := r.running().stop(10 * time.Minute); err != nil {
			return fmt.Errorf("stopping with everything well: %w", err)
		}
	}
	return nil
}

// caller makes the i-th caller with its messages.
func (w *world) caller(i int) *caller {
	c := &caller{w: w, random: rand.New(rand.NewPCG(w.plan.Seed, uint64(100+i)))}
	c.client.Transport = &http.Transport{DialContext: w.network.Dial, DisableKeepAlives: chance(c.random, 0.2)}
	for j := range w.plan.Messages {
		r := &record{number: len(w.records), name: fmt.Sprintf("c%d-%d", i, j), keyed: chance(c.random, 0.8)}
		c.records = append(c.records, r)
		w.records = append(w.records, r)
	}
	return c
}

// pullLevers does what the plan does to pawl.
func (w *world) pullLevers() {
	levers := slices.Clone(w.plan.Levers)
	slices.SortFunc(levers, func(a, b Lever) int { return int(a.At - b.At) })
	for _, l := range levers {
		time.Sleep(time.Until(w.began.Add(l.At)))
		w.story.tell("", "lever: %v", l.What)
		at := w.replicas[l.Replica]
		p := at.running()
		switch l.What {
		case Pause:
			d := w.plan.Destinations[l.Destination]
			name := d.Name
			if d.Group != nil && l.Member >= 0 {
				name = d.Group.Members[l.Member].Name
			}
			p.fleet.Pause(name)
			time.Sleep(l.For)
			p.fleet.Resume(name)
		case Reload:
			at.turn++
			if err := p.configure(); err != nil {
				w.wrong("", "reload: %v", err)
			}
			w.oracle.forget(p.number)
		case Restart:
			if err := p.stop(l.For); err != nil && w.plan.Disk != (DiskPlan{}) {
				w.cutShort(p) // letters of what was cut short may have found no space
			}
			at.restart()
		case PowerCut:
			w.cutShort(p)
			p.cut()
			at.restart()
		}
	}
}

// cutShort remembers that what a life promised with a 504 may be lost: the
// promise of a 504 ends with the power.
func (w *world) cutShort(p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.unsafe[p.number] = true
}

// promise notes that a life answered 504: the message is in pawl's hands.
func (w *world) promise(r *record, life int) {
	r.mu.Lock()
	r.late = life
	r.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.late++
}

// random is the chance of everything inside pawl.
func (w *world) random() float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.chances.Float64()
}

// wrong notes a promise that was not kept. name is the message, "" for none.
func (w *world) wrong(name, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if name != "" {
		text = name + ": " + text
	}
	w.story.tell(name, "WRONG: %s", text)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.problems = append(w.problems, text)
	if name != "" {
		w.about[name] = true
	}
}

// diskFault is what a disk does.
func (w *world) diskFault(numbers uint64) func(faultfs.Op) faultfs.Fault {
	d, r := w.plan.Disk, rand.New(rand.NewPCG(w.plan.Seed, numbers))
	return func(op faultfs.Op) faultfs.Fault {
		at := time.Since(w.began)
		writes := op.Kind == faultfs.Write || op.Kind == faultfs.Create
		switch {
		case writes && at >= d.FullFrom && at < d.FullFrom+d.FullFor:
			return faultfs.Fault{Err: syscall.ENOSPC, Written: op.Bytes / 2}
		case (writes || op.Kind == faultfs.Sync) && at < length && chance(r, d.Errors):
			return faultfs.Fault{Err: syscall.EIO, Written: r.IntN(op.Bytes + 1)}
		}
		return faultfs.Fault{}
	}
}

// empty checks that a life which stopped left nothing open.
func (w *world) empty(p *process) {
	for _, s := range p.fleet.Status() {
		// Of a race that was won a trial may run on by itself.
		trials := w.oracle.destination(s.Destination).Group != nil
		if s.Pending != 0 || s.Busy != 0 && !trials || s.Waiting != 0 {
			w.wrong("", "lane %s of life %d is not empty: %d places, %d workers, %d waits", s.Destination, p.number, s.Pending, s.Busy, s.Waiting)
		}
	}
	st := p.relay.Status()
	for _, s := range st.Sources {
		if s.InFlight != 0 || s.Bytes != 0 {
			w.wrong("", "life %d has %d messages and %d bytes open", p.number, s.InFlight, s.Bytes)
		}
	}
	if st.Draining != 0 {
		w.wrong("", "%d generations of life %d drain for ever", st.Draining, p.number)
	}
}

// afterwards cuts the power of the machines, looks at what is there, and replays
// every letter with everything well.
func (w *world) afterwards() (letters int, err error) {
	var kept []*message.DeadLetter
	for _, r := range w.replicas {
		r.disk.Crash(r.crash)
		p, err := r.start()
		if err != nil {
			return 0, err
		}
		r.become(p)
		if err := p.store.List(context.Background(), deadletter.Filter{}, func(e deadletter.Entry) error {
			kept = append(kept, e.DeadLetter)
			return nil
		}); err != nil {
			return 0, fmt.Errorf("listing the letters: %w", err)
		}
	}
	w.oracle.judge(kept)
	open := 0
	for _, r := range w.replicas {
		if err := r.running().replayAll(); err != nil {
			return len(kept), err
		}
		open += r.running().store.Stats().Open
	}
	w.oracle.judgeReplayed(open)
	for _, r := range w.replicas {
		if err := r.running().stop(time.Minute); err != nil {
			return len(kept), fmt.Errorf("the last stop: %w", err)
		}
	}
	return len(kept), nil
}

// replayAll replays the letters of a life until none fails again.
func (p *process) replayAll() error {
	for range 20 { // one that meets an open breaker may fail again
		sum, err := p.store.Replay(context.Background(), deadletter.ReplayOptions{
			Deliver: func(ctx context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
				return p.relay.Replay(ctx, l, "")
			},
		})
		if err != nil || sum.Left > 0 {
			return fmt.Errorf("replay: %+v: %w", sum, errors.Join(err, errors.New("letters are left")))
		}
		if sum.FailedAgain == 0 {
			break
		}
		time.Sleep(30 * time.Second)
	}
	return nil
}
