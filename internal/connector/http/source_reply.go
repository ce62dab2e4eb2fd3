package http

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	nethttp "net/http"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/problem"
)

// answerTime is how long a caller may take to take its answer, from the moment
// it may be sent at the latest.
const answerTime = 10 * time.Second

// exchange is a request that waits for the settlement of its message. One word
// decides who answers it: the handler's goroutine with the outcome, or the
// timer with a 504.
type exchange struct {
	w      nethttp.ResponseWriter
	gone   <-chan struct{} // closed when the caller is
	id     string
	keyed  bool // the id is the caller's own
	state  atomic.Uint32
	called chan struct{} // closed once the timer's answer is written
}

// The states of an exchange. waiting moves on once, to any of the others;
// pinned moves on to settled only.
const (
	waiting uint32 = iota
	// pinned: the handler was told that somebody waits for a nack. The timer
	// must not answer any more, or the nack would reach nobody.
	pinned
	// settled: the outcome is, or will be, the answer.
	settled
	// late: the timer answers, or has answered, 504.
	late
)

// nackable reports whether a nack would still reach the caller, and if so sees
// to it that it does. It implements connector.Delivery.Nackable.
func (x *exchange) nackable() bool {
	select {
	case <-x.gone:
		return false
	default:
		return x.state.CompareAndSwap(waiting, pinned) || x.state.Load() == pinned
	}
}

// finish claims the answer for the outcome; false means the timer was first.
func (x *exchange) finish() bool {
	return x.state.CompareAndSwap(waiting, settled) || x.state.CompareAndSwap(pinned, settled)
}

// expire answers 504 unless the outcome is there.
func (x *exchange) expire() {
	if !x.state.CompareAndSwap(waiting, late) {
		return
	}
	// The handler's goroutine holds the connection until the message is
	// settled, so that no other request must come on it.
	x.w.Header().Set("Connection", "close")
	x.writeLate()
	_ = nethttp.NewResponseController(x.w).Flush() // a caller that is gone is nobody to tell
	close(x.called)
}

func (x *exchange) writeLate() {
	// Without a key nothing can be promised but the try: until it is settled
	// the message is in memory alone.
	detail := "the message is taken and not settled yet, and has no key: sent again it would be a second message; send an idempotency key to be able to ask"
	if x.keyed {
		detail = "the message is taken and not settled yet; send it again with the same key to learn its outcome"
	}
	problem.Document{Type: problem.StillWorking, Detail: detail, ID: x.id}.Write(x.w)
}

// settle hands a message over and answers with its outcome. It leaves the
// flight when the handler is done.
//
// Over HTTP/1.1 the handler runs on the request's own goroutine and a timer
// writes the 504: net/http lets any goroutine write, one at a time, until
// ServeHTTP returns, and ServeHTTP waits for the timer's write. A stream of
// HTTP/2 ends only when ServeHTTP returns, so there the handler gets a
// goroutine of its own.
func (s *Source) settle(w nethttp.ResponseWriter, r *nethttp.Request, d connector.Delivery) {
	x := &exchange{w: w, gone: r.Context().Done(), id: d.Message.ID, keyed: d.Keyed, called: make(chan struct{})}
	d.Nackable = x.nackable
	s.allowTime(w)
	if r.ProtoMajor >= 2 {
		s.settleApart(x, r, d)
		return
	}
	defer s.inFlight.leave()
	timer := time.AfterFunc(s.ackTimeout, x.expire)
	outcome := s.handle(r.Context(), d)
	if !x.finish() {
		<-x.called
		return
	}
	timer.Stop()
	s.write(w, outcome, x.id)
}

// handle calls the handler. One that panics must not take the process with it,
// nor leave its caller without an answer: the message is not acknowledged.
func (s *Source) handle(ctx context.Context, d connector.Delivery) (outcome connector.Settlement) {
	defer func() {
		if v := recover(); v != nil {
			s.log.Error("a handler panicked", "id", d.Message.ID, "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			outcome = connector.Settlement{Status: event.SettledNacked, ID: d.Message.ID}
		}
	}()
	return s.handler.Handle(ctx, d)
}

// settleApart is settle for HTTP/2.
func (s *Source) settleApart(x *exchange, r *nethttp.Request, d connector.Delivery) {
	done := make(chan connector.Settlement, 1)
	// The request's ctx ends with ServeHTTP, the message goes on.
	ctx := context.WithoutCancel(r.Context())
	go func() {
		defer s.inFlight.leave()
		done <- s.handle(ctx, d)
	}()
	timer := time.NewTimer(s.ackTimeout)
	defer timer.Stop()
	select {
	case outcome := <-done:
		x.state.Store(settled)
		s.write(x.w, outcome, x.id)
	case <-timer.C:
		if x.state.CompareAndSwap(waiting, late) {
			x.writeLate()
			return
		}
		s.write(x.w, <-done, x.id) // pinned: the nack is on its way
	}
}

// allowTime sets the bound on writing anew, from when the answer must be out.
// The one on reading ended with the body: net/http watches for the caller
// without a deadline from then on.
func (s *Source) allowTime(w nethttp.ResponseWriter) {
	// A listener without deadlines has none to move.
	_ = nethttp.NewResponseController(w).SetWriteDeadline(time.Now().Add(s.ackTimeout + answerTime))
}

// write answers with the outcome of a message. id is the one it came with.
func (s *Source) write(w nethttp.ResponseWriter, outcome connector.Settlement, id string) {
	if outcome.ID != "" {
		id = outcome.ID
	}
	switch outcome.Status {
	case event.SettledDelivered, event.SettledDeadLettered, event.SettledFiltered, event.SettledUnrouted:
		s.answer.write(w, outcome.Status, id)
		return
	case event.SettledStored:
		s.stored.write(w, outcome.Status, id)
		return
	case event.SettledConflict:
		problem.Document{Type: problem.Conflict, Detail: "this key was used with another body", ID: id}.Write(w)
		return
	case event.SettledRefused:
		if errors.Is(outcome.Err, connector.ErrPaused) {
			s.comeBack(w, outcome, id, "the source is paused; send the message again later")
			return
		}
		s.comeBack(w, outcome, id, "there is no room for the message; send it again")
	case event.SettledNacked, event.SettledJoined, event.SettledInvalid, event.SettledDeferred:
		s.comeBack(w, outcome, id, "the message could be neither delivered nor kept; send it again")
	default:
		s.log.Error("a message ended in a way that this source does not know", "id", id, "status", string(outcome.Status))
		s.comeBack(w, outcome, id, "the message could be neither delivered nor kept; send it again")
	}
}

// comeBack answers 503. It does not say why: that is for the log, not for a
// stranger.
func (s *Source) comeBack(w nethttp.ResponseWriter, outcome connector.Settlement, id, detail string) {
	w.Header().Set("Retry-After", problem.RetryAfter(outcome.RetryAfter))
	problem.Document{Type: problem.Unavailable, Detail: detail, ID: id}.Write(w)
}

// reply is what an acknowledged request is answered.
type reply struct {
	status int
	body   []byte // nil: the object with id and status
	header nethttp.Header
}

// newReply makes the reply of the settings; status is that of a reply whose own
// they do not set.
func newReply(a *Answer, status int) reply {
	p := reply{status: status, header: nethttp.Header{"Content-Type": {"application/json"}}}
	if a == nil {
		return p
	}
	if a.Status != 0 {
		p.status = a.Status
	}
	if a.Body != nil {
		p.body = []byte(*a.Body)
		if !jsontext.Value(p.body).IsValid() {
			p.header.Set("Content-Type", "text/plain; charset=utf-8")
		}
	}
	if bodyless(p.status) {
		p.body = []byte{}
	}
	for name, value := range sorted(a.Headers) {
		p.header.Set(name, value)
	}
	return p
}

func (p *reply) write(w nethttp.ResponseWriter, status event.Settlement, id string) {
	h := w.Header()
	for name, values := range p.header {
		h[name] = values
	}
	body := p.body
	if body == nil {
		body = make([]byte, 0, 64+len(id))
		body = append(body, `{"id":`...)
		body = appendText(body, id)
		body = append(body, `,"status":"`...)
		body = append(body, status...)
		body = append(body, `"}`...)
	}
	if bodyless(p.status) {
		delete(h, "Content-Type")
	} else {
		h["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(p.status)
	if len(body) > 0 {
		_, _ = w.Write(body) // a caller that is gone is nobody to tell: the message is settled
	}
}

// fixedAnswer answers a handshake.
type fixedAnswer struct{ contentType, body string }

func (a fixedAnswer) write(w nethttp.ResponseWriter) {
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	h.Set("X-Content-Type-Options", "nosniff")
	_, _ = w.Write([]byte(a.body))
}
