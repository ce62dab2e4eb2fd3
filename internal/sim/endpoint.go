package sim

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/testbed"
)

// Mood is how an endpoint treats requests.
type Mood uint8

// The moods.
const (
	Well       Mood = iota
	Failing         // 500
	Rejecting       // 400
	Throttled       // 429 with Retry-After
	Busy            // 503 with Retry-After
	Hanging         // no answer at all
	Crawling        // an answer after a second
	Flapping        // every other request fails
	Resetting       // the connection breaks after the request was taken
	Away            // nobody listens
	moods           // how many of them come at random
	Straggling      // every third answer takes longer than most hedges wait
)

func (m Mood) String() string {
	return [...]string{"well", "failing", "rejecting", "throttled", "busy", "hanging", "crawling", "flapping", "resetting", "away", "", "straggling"}[m]
}

// endpoint is an HTTP server that lives through its spells.
type endpoint struct {
	name    string
	began   time.Time
	spells  []Spell
	checks  Checks
	batches bool // its requests hold several messages
	story   *story
	server  http.Server

	mu    sync.Mutex
	count int
	seen  []arrival
}

// arrival is a request that an endpoint took.
type arrival struct {
	id, body string
	accepted bool // it was answered with success
}

// serve opens the endpoint on the network.
func (e *endpoint) serve(n *testbed.Network) error {
	l, err := n.Listen("tcp", e.address())
	if err != nil {
		return err
	}
	e.server.Handler = e
	go func() { _ = e.server.Serve(l) }() // ends with Close
	return nil
}

func (e *endpoint) address() string { return e.name + ".test:80" }

func (e *endpoint) close() { _ = e.server.Close() }

// mood is how the endpoint feels now.
func (e *endpoint) mood() (m Mood) {
	at := time.Since(e.began)
	for _, s := range e.spells {
		if s.From <= at {
			m = s.Mood
		}
	}
	return m
}

// readyPath is what health checks ask for.
const readyPath = "/ready"

// check answers a health check.
func (e *endpoint) check(w http.ResponseWriter) {
	well := e.checks == Always || e.checks == Truly && (e.mood() == Well || e.mood() == Straggling)
	if !well {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

// ServeHTTP takes a request.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == readyPath {
		e.check(w)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	all := []arrival{{id: r.Header.Get("Idempotency-Key"), body: string(body)}}
	if e.batches {
		if all, err = items(body); err != nil {
			e.story.tell("", "%s: %v", e.name, err)
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	e.mu.Lock()
	e.count++
	odd, third := e.count%2 == 1, e.count%3 == 0
	at := len(e.seen)
	e.seen = append(e.seen, all...)
	e.mu.Unlock()
	if e.batches && e.mood() == Flapping {
		each(w, all)
	} else if e.answer(w, r, odd, third) {
		for i := range all {
			all[i].accepted = true
		}
	}
	e.mu.Lock()
	copy(e.seen[at:], all)
	e.mu.Unlock()
}

// straggles is longer than most hedges wait and shorter than every timeout.
const straggles = 150 * time.Millisecond

// answer does what the mood says. The relay may not hear of an acceptance.
func (e *endpoint) answer(w http.ResponseWriter, r *http.Request, odd, third bool) (accepted bool) {
	wait := time.Duration(0)
	switch e.mood() {
	case Well:
		wait = 2 * time.Millisecond
	case Failing:
		w.WriteHeader(http.StatusInternalServerError)
		return false
	case Rejecting:
		w.WriteHeader(http.StatusBadRequest)
		return false
	case Throttled:
		w.Header().Set("Retry-After", "1")
		w.WriteHeader(http.StatusTooManyRequests)
		return false
	case Busy:
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusServiceUnavailable)
		return false
	case Hanging:
		<-r.Context().Done()
		return false
	case Straggling:
		if third {
			wait = straggles
		}
	case Crawling:
		wait = time.Second
	case Flapping:
		if odd {
			w.WriteHeader(http.StatusBadGateway)
			return false
		}
	case Resetting, Away:
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			c.(*testbed.Conn).Reset()
		}
		return false
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		w.WriteHeader(http.StatusOK)
		return true
	case <-r.Context().Done():
		return false
	}
}

// arrivals returns what the endpoint took so far.
func (e *endpoint) arrivals() []arrival {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]arrival(nil), e.seen...)
}

// dial connects to an endpoint over the network, unless it is away.
func (w *world) dial(ctx context.Context, network, address string) (net.Conn, error) {
	for _, e := range w.endpoints {
		if e.address() == address && e.mood() == Away {
			return nil, &net.OpError{Op: "dial", Net: network, Err: fmt.Errorf("%s: %w", address, syscall.ECONNREFUSED)}
		}
	}
	return w.network.Dial(ctx, network, address)
}
