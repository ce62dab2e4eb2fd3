package harness

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Open is load that does not wait for answers: messages are due at a fixed rate
// whatever became of those before, and a latency counts from when the message
// was due, so that a relay that stalls is not asked less.
type Open struct {
	Address string
	// Paths get a message each in turn.
	Paths     []string
	PerSecond int
	// Callers bounds the messages under way at once, each on a connection of its
	// own. One that is due when none is free is not sent, and says so.
	Callers int
	// Body is the size of a request's body in bytes. It begins with the id,
	// padded to idSize.
	Body int
	// Timeout is when a caller gives an answer up.
	Timeout time.Duration
	// Prefix begins each id. With a number behind it has to fit idSize.
	Prefix string
}

// idSize is how many bytes of a body are its id: a prefix of 20 and the number
// of a message in ten digits.
const idSize = 32

// Fate is what a caller heard of a message.
type Fate int

// The fates of a message.
const (
	Delivered    Fate = iota // 2xx
	DeadLettered             // 2xx, and the answer says that it is kept as a dead letter
	Refused                  // 503
	TimedOut                 // 504, or 408 as Benthos has it
	Failed                   // another status
	NoAnswer                 // none within the timeout, or a broken connection
	Unsent                   // no caller was free
)

// Acked says whether the relay took the message on itself.
func (f Fate) Acked() bool { return f == Delivered || f == DeadLettered }

// Sent is one message of an open load.
type Sent struct {
	ID   string
	Due  time.Duration // since the load began
	Took time.Duration // from when it was due until its answer
	Fate Fate
}

// Run sends for d, waits for the answers, and returns every message in the order
// in which they were due. When ctx ends it stops at once: what is under way then
// counts as NoAnswer.
func (o Open) Run(ctx context.Context, d time.Duration) []Sent {
	sent := make([]Sent, int(d.Seconds()*float64(o.PerSecond)))
	free := callers{address: o.Address, left: o.Callers}
	defer free.close()
	var under sync.WaitGroup
	began := time.Now()
	for i := range sent {
		s := &sent[i]
		s.ID, s.Due = fmt.Sprintf("%s%d", o.Prefix, i), time.Duration(i)*time.Second/time.Duration(o.PerSecond)
		if wait := s.Due - time.Since(began); wait > 0 {
			sleep(ctx, wait)
		}
		if ctx.Err() != nil {
			sent = sent[:i]
			break
		}
		c, ok := free.take()
		if !ok {
			s.Fate = Unsent
			continue
		}
		under.Go(func() {
			s.Fate = o.send(ctx, c, o.Paths[i%len(o.Paths)], s.ID)
			s.Took = time.Since(began) - s.Due
			free.give(c)
		})
	}
	under.Wait()
	return sent
}

// send sends one message.
func (o Open) send(ctx context.Context, c *Client, path, id string) Fate {
	status, body, err := c.Send(ctx, o.request(c.out[:0], path, id), o.Timeout)
	switch {
	case err != nil:
		return NoAnswer
	case status/100 == 2 && bytes.Contains(body, []byte(`"dead_lettered"`)):
		return DeadLettered
	case status/100 == 2:
		return Delivered
	case status == http.StatusServiceUnavailable:
		return Refused
	case status == http.StatusGatewayTimeout, status == http.StatusRequestTimeout:
		return TimedOut
	default:
		return Failed
	}
}

// request appends a request to b.
func (o Open) request(b []byte, path, id string) []byte {
	length := max(o.Body, idSize)
	b = fmt.Appendf(b, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/octet-stream\r\nIdempotency-Key: %s\r\nContent-Length: %d\r\n\r\n%-*s", path, id, length, idSize, id)
	for range length - idSize {
		b = append(b, 'x')
	}
	return b
}

// callers are connections that wait for their next message. The one that was
// used last goes first.
type callers struct {
	address string
	mu      sync.Mutex
	free    []*Client
	left    int // how many more may be made
}

func (p *callers) take() (c *Client, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		c, p.free = p.free[n-1], p.free[:n-1]
		return c, true
	}
	if p.left == 0 {
		return nil, false
	}
	p.left--
	return NewClient(p.address, ""), true
}

func (p *callers) give(c *Client) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.free = append(p.free, c)
}

func (p *callers) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.free {
		c.Close()
	}
}

// Between returns the messages that were due in [from, to), of those in the
// order in which they were due.
func Between(sent []Sent, from, to time.Duration) []Sent {
	at := func(t time.Duration) int {
		i, _ := slices.BinarySearchFunc(sent, t, func(s Sent, t time.Duration) int { return int(s.Due - t) })
		return i
	}
	return sent[at(from):max(at(from), at(to))]
}

// Count returns how many messages had the fate.
func Count(sent []Sent, f Fate) (n int) {
	for _, s := range sent {
		if s.Fate == f {
			n++
		}
	}
	return n
}

// Summary adds up the messages of a stretch of the length. A dead letter counts
// as failed: it is safe, and did not get where it was sent.
func Summary(sent []Sent, length time.Duration) Result {
	r := Result{Took: length}
	for _, s := range sent {
		if s.Fate == Delivered {
			r.took(s.Took)
		} else {
			r.Failed++
		}
	}
	slices.Sort(r.latencies)
	return r
}

// HealthyAgain returns how long after the moment from callers are served as
// before: the begin of the first window in which every message that was due in it
// was delivered and their 99th percentile is at most the limit. ok is false where
// that never comes.
func HealthyAgain(sent []Sent, from, window, limit time.Duration) (after time.Duration, ok bool) {
	if len(sent) == 0 {
		return 0, false
	}
	const step = 100 * time.Millisecond
	for t := from; t+window <= sent[len(sent)-1].Due; t += step {
		r := Summary(Between(sent, t, t+window), window)
		if r.OK > 0 && r.Failed == 0 && r.Quantile(0.99) <= limit {
			return t - from, true
		}
	}
	return 0, false
}
