package main

import (
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// mood is how an endpoint behaves.
type mood int32

const (
	healthy mood = iota
	flaky        // one request in four fails
	down         // everything fails
)

// act is a part of the demo: from when on the shop is in which mood.
type act struct {
	from  time.Duration
	mood  mood
	words string
}

var acts = []act{
	{0, flaky, "the shop is flaky: one request in four fails; the archive is away"},
	{5 * time.Second, down, "the shop goes down: every request fails"},
	{10 * time.Second, healthy, "the shop is well again"},
}

// endpoints are the other side: a shop, whose mood the acts say, and an archive
// that is down until the end. They remember what they took.
type endpoints struct {
	address       string
	server        *http.Server
	shop, archive atomic.Int32
	mu            sync.Mutex
	took          map[string]bool // by the message's id
}

func startEndpoints() (*endpoints, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	e := &endpoints{address: l.Addr().String(), took: map[string]bool{}}
	e.archive.Store(int32(down))
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, r *http.Request) { e.answer(w, r, mood(e.shop.Load())) })
	mux.HandleFunc("POST /archive", func(w http.ResponseWriter, r *http.Request) { e.answer(w, r, mood(e.archive.Load())) })
	e.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = e.server.Serve(l) }() // ends with Close
	return e, nil
}

func (e *endpoints) answer(w http.ResponseWriter, r *http.Request, m mood) {
	if m == down || m == flaky && rand.IntN(4) == 0 {
		http.Error(w, "come back later", http.StatusInternalServerError)
		return
	}
	e.mu.Lock()
	e.took[r.Header.Get("Idempotency-Key")] = true
	e.mu.Unlock()
	w.WriteHeader(http.StatusNoContent)
}

// has says whether one of the endpoints took the message.
func (e *endpoints) has(id string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.took[id]
}
