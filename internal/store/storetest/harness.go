package storetest

import (
	"sync"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/store"
)

// Harness is one place that a store is kept in. Its stores run on Clock, and
// jitter with Half.
type Harness struct {
	Clock *Clock
	// Open opens the store on what is there: after Close, a restart.
	Open func(t *testing.T) store.Store
	// OpenBackup opens a store of its own on a file that Backup made.
	OpenBackup func(t *testing.T, file string) store.Store
	// Inject makes a fault begin, for what is written from now on, and returns
	// what ends it.
	Inject func(f Fault) (end func())
}

// Half is the random number of a store under test: no jitter.
func Half() float64 { return 0.5 }

// Fault is what goes wrong under a store.
type Fault string

// The faults. Each lasts until it is ended, where nothing else is said.
const (
	FailedWrite Fault = "failed write"
	FailedSync  Fault = "failed sync"
	FullDisk    Fault = "full disk"
	// Busy: somebody else holds a lock for a moment. The store waits.
	Busy Fault = "busy"
	// LostAnswer is one commit that happens and is answered with an error.
	LostAnswer Fault = "commit whose answer is lost"
)

// Faults lists every fault.
func Faults() []Fault { return []Fault{FailedWrite, FailedSync, FullDisk, Busy, LostAnswer} }

// Clock is what a store takes for the machine's clocks. It is safe for
// concurrent use.
type Clock struct {
	mu   sync.Mutex
	wall time.Time
	mono time.Duration
}

// Start is when a clock starts.
var Start = time.Date(2026, 12, 1, 9, 0, 0, 0, time.UTC)

// NewClock returns a clock that stands at Start.
func NewClock() *Clock { return &Clock{wall: Start} }

// Wall is the wall clock.
func (c *Clock) Wall() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.wall
}

// Mono is the clock that never jumps.
func (c *Clock) Mono() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mono
}

// Pass lets time pass.
func (c *Clock) Pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall, c.mono = c.wall.Add(d), c.mono+d
}

// Jump sets the wall clock forward, or back.
func (c *Clock) Jump(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.wall = c.wall.Add(d)
}

// Run runs the whole suite, tests of one part in parallel. open makes a new
// place, with nothing in it.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, part := range []struct {
		name  string
		tests []test
	}{
		{"create", createTests}, {"claim", claimTests}, {"wait", waitTests}, {"report", reportTests}, {"hand-backs", handBackTests}, {"lapse", lapseTests},
		{"logs", logTests}, {"read", readTests}, {"gates", gateTests}, {"circuits", circuitTests}, {"by hand", handTests}, {"events", eventTests}, {"replays", replayTests}, {"definitions", definitionTests}, {"keys", keyTests}, {"letters", letterTests},
		{"upkeep", upkeepTests}, {"restart", restartTests}, {"together", togetherTests},
	} {
		t.Run(part.name, func(t *testing.T) {
			for _, c := range part.tests {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					c.run(newRig(t, open(t)))
				})
			}
		})
	}
	t.Run("faults", func(t *testing.T) { runFaults(t, open) })
}

// test is one test of the suite, on a place of its own.
type test struct {
	name string
	run  func(r *rig)
}
