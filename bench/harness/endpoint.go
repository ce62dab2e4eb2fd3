package harness

import (
	"bufio"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"time"
)

// State is what an endpoint does with a request.
type State string

// The states of an endpoint.
const (
	Well        State = "well"    // 200
	Refusing    State = "refused" // nobody listens
	Hanging     State = "hanging" // taken and never answered
	Unavailable State = "503"     // 503 with Retry-After
)

// Arrival is something that reached an endpoint, or was refused before its door.
type Arrival struct {
	At    time.Time
	State State // of the endpoint
	// ID is the message's; "" for a check of health, and in state Refusing, where
	// nobody reads it.
	ID string
	// Check is set for a check of health: any request that is no POST. A check
	// that was refused is not known as one.
	Check bool
}

// Endpoint is a server that can be made sick and well again, and keeps a log of
// what arrived. Safe for concurrent use.
type Endpoint struct {
	address    string
	retryAfter time.Duration

	mu       sync.Mutex
	state    State
	listener net.Listener // nil in state Refusing
	open     map[net.Conn]struct{}
	arrivals []Arrival
	refusals chan struct{} // closed to end the count of refusals
	counted  chan struct{} // closed once it has ended
}

// StartEndpoint listens on the loopback, well. retryAfter is what it asks for in
// state Unavailable, in whole seconds.
func StartEndpoint(retryAfter time.Duration) (*Endpoint, error) {
	e := &Endpoint{retryAfter: retryAfter, state: Well, open: map[net.Conn]struct{}{}}
	for range 100 {
		// Below the kernel's ports for outgoing connections: while nobody listens,
		// a caller whose own port happens to be this one would reach itself.
		address := fmt.Sprintf("127.0.0.1:%d", 20000+rand.IntN(12000))
		if l, err := net.Listen("tcp", address); err == nil {
			e.address = address
			e.listen(l)
			return e, nil
		}
	}
	return nil, fmt.Errorf("no free port of the loopback below 32000")
}

// Address is host:port.
func (e *Endpoint) Address() string { return e.address }

// Close stops it for good.
func (e *Endpoint) Close() { _ = e.Set(Refusing); e.endRefusals() }

// Set changes the state. Whoever refused or hung and does so no more was started
// anew: its connections end.
func (e *Endpoint) Set(s State) error {
	if s != Refusing {
		e.endRefusals()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	was := e.state
	e.state = s
	if s == Refusing && was != Refusing {
		refused := failedConnects() // before the first can be
		e.listener.Close()
		e.listener = nil
		e.refusals, e.counted = make(chan struct{}), make(chan struct{})
		go e.countRefusals(refused, e.refusals, e.counted)
	}
	if s == Refusing || was == Hanging {
		for c := range e.open {
			c.Close()
		}
	}
	if was == Refusing && s != Refusing {
		l, err := net.Listen("tcp", e.address)
		if err != nil {
			return fmt.Errorf("an endpoint that comes back: %w", err)
		}
		e.listen(l)
	}
	return nil
}

// Arrivals returns what has arrived since the start, in order.
func (e *Endpoint) Arrivals() []Arrival {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]Arrival(nil), e.arrivals...)
}

func (e *Endpoint) listen(l net.Listener) {
	e.listener = l
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go e.serve(c)
		}
	}()
}

func (e *Endpoint) serve(c net.Conn) {
	defer c.Close()
	e.mu.Lock()
	if e.state == Refusing {
		e.mu.Unlock()
		return
	}
	e.open[c] = struct{}{}
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		delete(e.open, c)
		e.mu.Unlock()
	}()
	for r := bufio.NewReaderSize(c, 16<<10); ; {
		q, err := readRequest(r, idSize)
		if err != nil {
			return
		}
		switch e.arrived(q) {
		case Well:
			_, err = c.Write(ok)
		case Unavailable:
			_, err = fmt.Fprintf(c, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: %d\r\nContent-Length: 0\r\n\r\n", int(e.retryAfter.Seconds()))
		default:
			_, _ = io.Copy(io.Discard, c) // until either side ends it
			return
		}
		if err != nil {
			return
		}
	}
}

// arrived logs a request and returns the state that answers it.
func (e *Endpoint) arrived(q request) State {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.arrivals = append(e.arrivals, Arrival{time.Now(), e.state, q.id, q.method != http.MethodPost})
	return e.state
}

// refusalTick is how exactly the time of a refused connection is known.
const refusalTick = 10 * time.Millisecond

// countRefusals logs an arrival for each connection that was refused. Nobody is
// there to see it but the kernel, which counts them for the whole machine: on a
// machine that does something else too the count is too high. last is the kernel's
// count at the begin.
func (e *Endpoint) countRefusals(last int64, end <-chan struct{}, ended chan<- struct{}) {
	defer close(ended)
	tick := time.NewTicker(refusalTick)
	defer tick.Stop()
	for {
		over := false
		select {
		case <-tick.C:
		case <-end:
			over = true
		}
		now := failedConnects()
		e.mu.Lock()
		for ; last < now; last++ {
			e.arrivals = append(e.arrivals, Arrival{At: time.Now(), State: Refusing})
		}
		e.mu.Unlock()
		if over {
			return
		}
	}
}

// endRefusals ends the count, where there is one.
func (e *Endpoint) endRefusals() {
	e.mu.Lock()
	end, ended := e.refusals, e.counted
	e.refusals = nil
	e.mu.Unlock()
	if end != nil {
		close(end)
		<-ended
	}
}
