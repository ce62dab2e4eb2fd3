package deliver

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// batcher has the batches of a lane that still take messages. Safe for concurrent
// use. The zero value has none.
type batcher struct {
	mu   sync.Mutex
	open map[batchKey]*batch
}

// batchKey says who may go together: messages of one configuration that may go to
// the same members and do the same at an open breaker.
type batchKey struct {
	to   *Destination
	hops hops
	been string // "" for those that come anew
}

// batch is messages that go in one attempt: through the gates as one send, with
// one worker, one token of the rate limit and one permit of the breaker. It
// gathers for at most MaxWait, then stands at the gates, and takes more messages
// until it is full or sent.
type batch struct {
	key    batchKey
	ctx    context.Context // ends when all have left
	cancel context.CancelFunc
	due    time.Time
	timer  *time.Timer   // fires at due
	full   chan struct{} // closed when nobody fits in any more

	// Under the lock of the batcher.
	riders []*rider
	bytes  int64
	sent   bool // nobody can leave
}

// join puts a message into the batch that it may go with, which gathers no longer
// than half of the time that the message has.
func (bs *batcher) join(one *rider, limit time.Time) *batch {
	s := one.stay
	most, size := s.at.spec.Batch, int64(len(s.req.Message.Body))
	key := batchKey{s.at, s.w.hops, s.w.company()}
	now := time.Now()
	due := now.Add(most.MaxWait)
	if !limit.IsZero() {
		due = earlier(due, now.Add(limit.Sub(now)/2))
	}
	bs.mu.Lock()
	defer bs.mu.Unlock()
	b := bs.open[key]
	if b != nil && b.bytes+size > most.MaxBytes {
		bs.shut(b)
		b = nil
	}
	if b == nil {
		b = &batch{key: key, due: due, timer: time.NewTimer(due.Sub(now)), full: make(chan struct{})}
		b.ctx, b.cancel = context.WithCancel(context.Background())
		if bs.open == nil {
			bs.open = map[batchKey]*batch{}
		}
		bs.open[key] = b
		go s.at.lane.carry(b, slices.Clone(s.w.been), s.w.begun)
	}
	if due.Before(b.due) {
		b.due = due
		b.timer.Reset(due.Sub(now))
	}
	b.riders = append(b.riders, one)
	b.bytes += size
	if len(b.riders) >= most.MaxMessages || b.bytes >= most.MaxBytes {
		bs.shut(b)
	}
	return b
}

// shut lets nobody else into a batch. The caller holds the lock.
func (bs *batcher) shut(b *batch) {
	if bs.open[b.key] == b {
		delete(bs.open, b.key)
		close(b.full)
	}
}

// leave takes a message out of its batch; false where that is being sent, or is
// over. The last to leave ends it.
func (bs *batcher) leave(one *rider, b *batch) bool {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b.sent {
		return false
	}
	b.riders = slices.DeleteFunc(b.riders, func(o *rider) bool { return o == one })
	b.bytes -= int64(len(one.stay.req.Message.Body))
	if len(b.riders) == 0 {
		bs.shut(b)
		b.cancel()
	}
	return true
}

// asks is a copy of what a message in a batch asks; false where that is being sent
// and may touch the message's own.
func (bs *batcher) asks(b *batch, a *ask) (ask, bool) {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	if b.sent {
		return ask{}, false
	}
	mine := *a
	mine.been = slices.Clone(a.been)
	return mine, true
}

// take ends the gathering: from now on nobody joins or leaves.
func (bs *batcher) take(b *batch) []*rider {
	bs.mu.Lock()
	defer bs.mu.Unlock()
	bs.shut(b)
	b.sent = true
	return b.riders
}

// company names who may go with the message: those that were where it was.
func (w *waiter) company() string {
	if len(w.been) == 0 && !w.begun {
		return ""
	}
	var all []string
	for i := range w.been {
		if b := &w.been[i]; b.tried || b.out {
			all = append(all, fmt.Sprintf("%q %v %v", b.at.name, b.tried, b.out))
		}
	}
	if len(all) == 0 && !w.begun {
		return ""
	}
	slices.Sort(all)
	return fmt.Sprint(w.begun, " ", strings.Join(all, ","))
}

// carry takes a batch through the gates and sends it. It is the batch's own
// goroutine, and ends with it.
func (l *lane) carry(b *batch, been []been, begun bool) {
	defer b.cancel()
	defer b.timer.Stop()
	select {
	case <-b.full:
	case <-b.timer.C:
	}
	for i := range been { // the breaker counts the batch anew
		been[i].guard, been[i].mark = nil, breaker.Mark{}
	}
	var p pass
	w := waiter{ask: ask{been: been, begun: begun, try: repeating, pass: &p}, hops: b.key.hops}
	how := l.post.enter(b.ctx, &w, time.Time{})
	riders := l.batches.take(b)
	switch {
	case how != entered:
		for _, one := range riders {
			one.done <- arrival{how: how}
		}
	case len(riders) == 0:
		l.post.abandon(&p, nobodyLeft)
	default:
		l.send(b.key.to, &p, riders, w.forToken(time.Now()))
	}
}

// nobodyLeft ends a send of which every message has left.
var nobodyLeft = &failure.Error{
	Tags: failure.Tags{failure.Cancelled}, Verdict: failure.Neutral, Message: "every message of the batch was given up",
}

// send makes one attempt with the messages and tells each what became of it.
func (l *lane) send(d *Destination, p *pass, riders []*rider, limited time.Duration) {
	member, e, post := p.at, d.endpoint(p), l.post
	riders = l.board(d, p, riders)
	if len(riders) == 0 {
		post.abandon(p, nobodyLeft)
		return
	}
	opts := &d.fleet.opts
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	left := atomic.Int64{}
	left.Store(int64(len(riders)))
	messages := make([]*message.Message, len(riders))
	ends := make([]func(message.Outcome, *failure.Error), len(riders))
	sending := ctx
	for i, one := range riders {
		a := &one.stay.own
		a.limited = limited
		messages[i] = a.message
		var traced context.Context
		traced, ends[i] = one.stay.trace(ctx, a)
		if len(riders) == 1 {
			sending = traced // a batch of several is in nobody's trace
		}
		one.watch(func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	began := riders[0].stay.own.began
	end := began.Add(e.Timeout)
	each, all := d.sendMany(sending, end, e, p.line, messages)
	ended := time.Now()
	decisions := make([]retry.Decision, len(riders))
	var hold time.Duration
	answered := false
	for i, one := range riders {
		one.gone()
		if f := redacted(opts, each[i]); f != nil {
			each[i] = f
			decisions[i] = d.spec.Retry.Decide(f, one.round, 0)
			hold = max(hold, decisions[i].Hold)
			answered = answered || f.Tags.Highest(e.DeliveredOn) > 0 || f.Tags.Has(failure.Timeout) && !ended.Before(end)
		} else {
			answered = true
		}
	}
	if answered {
		post.observe(member, ended.Sub(began))
	}
	post.leave(p, verdict(each), hold)
	opts.Events(event.Event{
		Kind: event.BatchSent, At: ended, Destination: d.spec.Name, Endpoint: member.name, Number: len(riders), Took: ended.Sub(began),
	})
	for i, one := range riders {
		r := one.stay.own.finish(ended, each[i], decisions[i], ends[i])
		kind := rode
		if f := r.failure; f != nil && all == asOne && len(riders) > 1 && r.outcome == message.OutcomePermanent && f.Verdict == failure.Alive {
			kind = refused
		}
		one.done <- arrival{how: entered, result: r, kind: kind}
	}
}

// board makes ready what goes with the pass and returns it; the others are told.
func (l *lane) board(d *Destination, p *pass, riders []*rider) (on []*rider) {
	now := time.Now()
	firsts := 0
	for _, one := range riders {
		s := one.stay
		if ttl := s.ttl(); !ttl.IsZero() && !now.Before(ttl) {
			one.done <- arrival{how: entered, kind: expired}
			continue
		}
		s.w.begun = true
		s.own.pass = pass{at: p.at, spec: p.spec, trial: p.trial}
		m, f := s.prepared(p.at.name, d.endpoint(p))
		b := s.visited(p.at)
		if f != nil {
			b.tried, b.out, s.last = true, true, f
			one.done <- arrival{how: entered, kind: unmade}
			continue
		}
		b.sends = m
		s.start(&s.own, one.round, noHedge)
		if s.w.try == firstTry {
			firsts++
		}
		s.w.try = repeating
		on = append(on, one)
	}
	l.post.firsts(firsts)
	return on
}

// firsts counts messages that go for the first time, in one send.
func (p *post) firsts(n int) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if q := &p.group.quota; q.budget != nil && n > 0 {
		for range n {
			q.budget.First(now)
		}
		q.tells()
	}
}

// verdict is what a batch says of its endpoint: the best that any of its messages
// does, since one outcome is counted. nil for a success.
func verdict(each []*failure.Error) *failure.Error {
	best := each[0]
	for _, f := range each {
		if f == nil {
			return nil
		}
		if rankOf(f.Verdict) < rankOf(best.Verdict) {
			best = f
		}
	}
	return best
}

// rankOf orders verdicts, the best first.
func rankOf(v failure.Verdict) int {
	return slices.Index([]failure.Verdict{failure.Alive, failure.Suspect, failure.Neutral, failure.Sick}, v)
}

// extent says whether a batch has one outcome or each message its own.
type extent uint8

const (
	asOne extent = iota
	oneByOne
)

// sendMany hands a batch to a connector until end and returns how each message
// failed: nil for a success. Where ctx ends first the attempt is cancelled.
func (d *Destination) sendMany(ctx context.Context, end time.Time, e *Endpoint, n *line, batch []*message.Message) (each []*failure.Error, all extent) {
	within, cancel := context.WithDeadline(ctx, end)
	defer cancel()
	each = make([]*failure.Error, len(batch))
	as := func(f *failure.Error) {
		for i := range each {
			if each[i] == nil {
				each[i] = f
			}
		}
	}
	defer func() {
		if p := recover(); p != nil {
			d.fleet.opts.Log.Error("a connector panicked", "destination", d.spec.Name, "endpoint", e.EndpointName, "panic", p, "stack", string(debug.Stack()))
			as(&failure.Error{Message: "the connector panicked; see the log"})
			all = asOne
		}
	}()
	batcher, ok := n.dest.(connector.Batcher)
	if !ok { // a reload put another kind here
		for i, m := range batch {
			answer, err := n.dest.Send(within, m)
			if each[i] = classified(ctx, within, err); each[i] == nil {
				each[i] = e.judge(within, answer)
			}
		}
		return each, oneByOne
	}
	answer, err := batcher.SendBatch(within, batch)
	if err != nil {
		as(classify(ctx, within, err))
		return each, asOne
	}
	for i, err := range answer.Each {
		if i < len(each) {
			each[i] = classified(ctx, within, err)
		}
	}
	if f := e.judge(within, answer.Answer); f != nil {
		as(f)
	}
	return each, oneByOne
}

// classified is classify of an error that may be nil.
func classified(ctx, within context.Context, err error) *failure.Error {
	if err == nil {
		return nil
	}
	return classify(ctx, within, err)
}

// sendOne sends a message alone. Where there are batches it is a batch of one: an
// endpoint that reads a list gets a list.
func (d *Destination) sendOne(ctx context.Context, to connector.Destination, m *message.Message) (connector.Answer, error) {
	b, ok := to.(connector.Batcher)
	if d.spec.Batch == nil || !ok {
		return to.Send(ctx, m)
	}
	answer, err := b.SendBatch(ctx, []*message.Message{m})
	if err == nil && len(answer.Each) > 0 {
		err = answer.Each[0]
	}
	return answer.Answer, err
}
