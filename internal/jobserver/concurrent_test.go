package jobserver

// What this test would catch: a job that was acknowledged and is gone or done
// twice, one that two workers hold, an answer that went to another caller, kept
// counts that drift, a data race.

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// oracle knows what was promised.
type oracle struct {
	t  *testing.T
	mu sync.Mutex
	// made are the jobs that were acknowledged, by id; the value is what they
	// carry.
	made  map[string]string
	fresh map[string]int    // how often it was said to be made
	keys  map[string]string // the job of each key
	held  map[string]string // who holds a job
	done  map[string]int    // how often its success was acknowledged
	left  int               // jobs that are not done
	over  context.CancelFunc
}

func (o *oracle) created(id, key, content string, answer store.Created) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if first, there := o.keys[key]; there && first != id {
		o.t.Errorf("key %s made %s and then %s", key, first, id)
	}
	o.keys[key] = id
	o.made[id] = content
	if !answer.Found {
		if o.fresh[id]++; o.fresh[id] > 1 {
			o.t.Errorf("%s was made twice", id)
		}
	}
}

func (o *oracle) claimed(id, who, content string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if other := o.held[id]; other != "" {
		o.t.Errorf("%s and %s hold %s", other, who, id)
	}
	o.held[id] = who
	if made, there := o.made[id]; there && made != content {
		o.t.Errorf("%s carries %s, not %s", id, content, made)
	}
}

// ending notes that the lease is about to be ended: the store may give the job
// to another before its answer is here.
func (o *oracle) ending(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.held, id)
}

func (o *oracle) finished(id string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.done[id]++; o.done[id] > 1 {
		o.t.Errorf("%s was done %d times", id, o.done[id])
	}
	if o.left--; o.left == 0 {
		o.over()
	}
}

func TestManyAtOnce(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("SEED=%d replays the draws (not the order in which they met)", seed)
	const producers, workers, perProducer = 6, 6, 40
	config := func(lease time.Duration) Config {
		return Config{Queues: map[string]Queue{"q0": {Lease: lease}, "q1": {Lease: lease, Retry: job.Overlay{MaxAttempts: new(job.MaxAttempts)}}}}
	}
	s := stored(t, config(DefaultLease))
	ctx, over := context.WithCancel(t.Context())
	defer over()
	o := &oracle{
		t: t, made: map[string]string{}, fresh: map[string]int{}, keys: map[string]string{}, held: map[string]string{}, done: map[string]int{},
		left: producers * perProducer, over: over,
	}
	var all sync.WaitGroup
	all.Go(func() {
		if err := s.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	all.Go(func() { // settings change under all of it
		for tick := time.NewTicker(time.Millisecond); ctx.Err() == nil; <-tick.C {
			if err := s.Configure(config(DefaultLease + time.Minute)); err != nil {
				t.Error(err)
			}
		}
	})
	for i := range producers {
		r := rand.New(rand.NewPCG(seed, uint64(i)))
		if i%2 == 0 {
			all.Go(func() { produce(ctx, s, o, r, i, perProducer) })
		} else {
			all.Go(func() { putAll(ctx, s, o, r, i, perProducer) })
		}
	}
	for i := range workers {
		r := rand.New(rand.NewPCG(seed, uint64(100+i)))
		name := fmt.Sprintf("worker-%d", i)
		if i%2 == 0 {
			all.Go(func() { work(ctx, s, o, r, name) })
		} else {
			all.Go(func() { takeAll(ctx, s, o, r, name) })
		}
	}
	all.Wait()
	if t.Failed() {
		return
	}
	if len(o.made) != producers*perProducer {
		t.Fatalf("%d jobs were acknowledged, not %d", len(o.made), producers*perProducer)
	}
	for id := range o.made {
		j, err := s.Job(t.Context(), id)
		if err != nil || j.Status != job.Succeeded || o.done[id] != 1 {
			t.Fatalf("%s was done %d times and is %+v, %v", id, o.done[id], j, err)
		}
		number := 0
		for _, a := range j.Attempts {
			stands := 1 // for how many attempts: of the relay's hand-backs in a row the last is kept
			if n, _, ok := strings.Cut(a.Note, " hand-backs in a row"); ok {
				stands, _ = strconv.Atoi(n)
			}
			if number += stands; a.Number != number || a.Outcome == "" {
				t.Fatalf("attempt %d of %s is %+v", number, id, a)
			}
		}
	}
	counts, err := s.store.Counts(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var sum store.LaneCount
	for _, c := range counts {
		sum.Ready, sum.Running, sum.Succeeded = sum.Ready+c.Ready, sum.Running+c.Running, sum.Succeeded+c.Succeeded
		sum.Failed, sum.Cancelled = sum.Failed+c.Failed, sum.Cancelled+c.Cancelled
	}
	if sum != (store.LaneCount{Succeeded: producers * perProducer}) {
		t.Errorf("the kept counts are %+v", sum)
	}
	if got := s.Totals(); got.Created != producers*perProducer || got.Succeeded != producers*perProducer || got.Invalid != 0 || got.Lost != 0 {
		t.Errorf("the totals are %+v", got)
	}
}

// produce creates n jobs over the API in batches, some of them twice.
func produce(ctx context.Context, s *Server, o *oracle, r *rand.Rand, who, n int) {
	var again []New
	for made := 0; made < n; {
		var batch []New
		for range min(1+r.IntN(8), n-made) {
			batch = append(batch, New{
				Queue: fmt.Sprintf("q%d", r.IntN(2)), Task: fmt.Sprintf("t%d", r.IntN(3)), Priority: r.IntN(3),
				Payload: fmt.Appendf(nil, "[%d,%d]", who, made), Key: fmt.Sprintf("%d/%d", who, made),
			})
			made++
		}
		again = append(again, batch[0])
		for _, jobs := range [][]New{batch, {again[r.IntN(len(again))]}} {
			created, err := s.Create(ctx, Principal{}, jobs)
			if err != nil {
				o.t.Errorf("create: %v", err)
				return
			}
			for i, c := range created {
				o.created(c.ID, "a"+jobs[i].Key, string(jobs[i].Payload), c.Created)
			}
		}
	}
}

// putAll puts n messages, each twice at the same moment.
func putAll(ctx context.Context, s *Server, o *oracle, r *rand.Rand, who, n int) {
	for i := range n {
		p := connector.Put{
			Queue: fmt.Sprintf("q%d", r.IntN(2)), Task: "t0", Key: fmt.Sprintf("%d/%d", who, i),
			Message: aMessage(fmt.Sprintf("[%d,%d]", who, i)),
		}
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				kept, err := s.Messages().Put(ctx, p)
				if err != nil {
					o.t.Errorf("put: %v", err)
					return
				}
				o.created(kept.Job, "r"+p.Key, string(p.Message.Body), store.Created{Found: kept.Found})
			})
		}
		both.Wait()
	}
}

// work claims jobs and reports on them until ctx ends.
func work(ctx context.Context, s *Server, o *oracle, r *rand.Rand, name string) {
	for ctx.Err() == nil {
		got, err := s.Claim(ctx, Want{Worker: name, Queues: []string{"q0", "q1"}, Max: 1 + r.IntN(10), Wait: time.Second})
		if err != nil {
			if ctx.Err() == nil {
				o.t.Errorf("claim: %v", err)
				o.over()
			}
			return
		}
		var reports []store.Report
		for _, c := range got.Jobs {
			o.claimed(c.Job.ID, name, string(c.Job.Content.Payload))
			reports = append(reports, store.Report{Type: store.Start, Lease: c.Lease}, store.Report{Type: store.Heartbeat, Lease: c.Lease},
				store.Report{Type: store.AddLog, Lease: c.Lease, Lines: []job.LogLine{{Seq: 1, Message: "line"}}})
			end := store.Report{Type: store.Complete, Lease: c.Lease, Result: c.Job.Content.Payload}
			switch r.IntN(6) {
			case 0:
				end = store.Report{Type: store.Release, Lease: c.Lease}
			case 1:
				if c.Job.Counts.Charged < 6 { // none is to be given up
					end = store.Report{Type: store.Fail, Lease: c.Lease, Error: &job.Error{Message: "m"}, Failure: job.Failure{RetryIn: new(time.Duration(0))}}
				}
			}
			if c.Job.Content.Head != nil { // a message's body need not be JSON
				end.Result = nil
			}
			reports = append(reports, end)
			o.ending(c.Job.ID)
		}
		if len(reports) == 0 {
			continue
		}
		answers, err := s.Report(context.WithoutCancel(ctx), name, reports)
		if err != nil {
			o.t.Errorf("report: %v", err)
			o.over()
			return
		}
		for i, a := range answers {
			if a.Status != store.ReportTaken {
				o.t.Errorf("%s of a lease that holds is answered %+v", reports[i].Type, a)
			}
			if a.JobStatus == job.Succeeded {
				o.finished(got.Jobs[i/4].Job.ID)
			}
		}
	}
}

// takeAll takes messages and settles them until ctx ends.
func takeAll(ctx context.Context, s *Server, o *oracle, r *rand.Rand, name string) {
	q := s.Messages()
	for ctx.Err() == nil {
		got, err := q.Take(ctx, connector.Take{Queue: fmt.Sprintf("q%d", r.IntN(2)), Worker: name, Max: 1 + r.IntN(10)})
		if err != nil {
			if !errors.Is(err, context.Canceled) {
				o.t.Errorf("take: %v", err)
				o.over()
			}
			return
		}
		var leases []string
		for _, m := range got {
			o.claimed(m.Job, name, string(m.Message.Body))
			leases = append(leases, m.Lease)
		}
		if lost, err := q.Extend(context.WithoutCancel(ctx), leases); len(lost) > 0 || err != nil {
			o.t.Errorf("extend: %d lost, %v", len(lost), err)
		}
		for _, m := range got {
			e := connector.Ending{How: connector.Done}
			if r.IntN(4) == 0 {
				e.How = connector.Back
			}
			o.ending(m.Job)
			if err := q.Settle(context.WithoutCancel(ctx), m.Lease, e); err != nil {
				o.t.Errorf("settle: %v", err)
			}
			if e.How == connector.Done {
				o.finished(m.Job)
			}
		}
	}
}
