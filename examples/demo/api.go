package main

import (
	"math/rand/v2"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// mood is how the API behaves.
type mood int32

const (
	healthy mood = iota
	flaky        // one request in four fails
	down         // everything fails
)

// flakyAPI is the other side: well, flaky or down, as the demo's script says.
// Its archive is down until the end.
type flakyAPI struct {
	address string
	server  *http.Server
	mood    atomic.Int32
	archive atomic.Int32
}

func startAPI() (*flakyAPI, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	a := &flakyAPI{address: l.Addr().String()}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /orders", func(w http.ResponseWriter, _ *http.Request) { answer(w, mood(a.mood.Load())) })
	mux.HandleFunc("POST /archive", func(w http.ResponseWriter, _ *http.Request) { answer(w, mood(a.archive.Load())) })
	a.archive.Store(int32(down))
	a.server = &http.Server{Handler: mux, ReadHeaderTimeout: time.Second}
	go func() { _ = a.server.Serve(l) }() // ends with Close
	return a, nil
}

func answer(w http.ResponseWriter, m mood) {
	if m == down || m == flaky && rand.IntN(4) == 0 {
		http.Error(w, "come back later", http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// set puts everything in one mood.
func (a *flakyAPI) set(m mood) {
	a.mood.Store(int32(m))
	a.archive.Store(int32(m))
}

// play sets the mood of the orders by the demo's script.
func (a *flakyAPI) play(since time.Duration) {
	m := flaky
	if since > 6*time.Second && since < 12*time.Second {
		m = down
	}
	a.mood.Store(int32(m))
}
