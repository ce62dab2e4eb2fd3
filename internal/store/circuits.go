package store

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
)

// Circuits keeps the circuit of each endpoint, durable and the same for every
// worker, and what else stands before a claim: rates, concurrency, holds. The
// numbers of a gate are settings, which SetLimits hands in anew at each start;
// how it stands is kept.
type Circuits interface {
	// SetLimits puts the numbers of all gates in force, in place of those
	// before. A gate that is not named has none, and the circuit of an endpoint
	// that is not named has circuit.Defaults. Doing it again changes nothing.
	SetLimits(ctx context.Context, limits map[lane.Gate]Limits) error
	// Circuit returns how the circuit of an endpoint stands: closed, with
	// nothing counted, for one that was never heard of.
	Circuit(ctx context.Context, endpoint string) (CircuitState, error)
	// Circuits returns every circuit that is kept, by name: those that are not
	// closed with nothing counted. at most circuit.MaxKept.
	Circuits(ctx context.Context) ([]CircuitState, error)
	// ResetCircuit closes a circuit and ends its hold, whatever was counted. It
	// returns how it stands then.
	ResetCircuit(ctx context.Context, endpoint, by string) (CircuitState, error)
	// GateStates returns what stands before the jobs of a lane now, the gates
	// that let it pass left out.
	GateStates(ctx context.Context, k lane.Key) ([]GateState, error)
}

// Limits are the numbers of one gate. nil and zero are none.
type Limits struct {
	// Concurrency is how many attempts may run at once. Checks of an endpoint take
	// no place of its.
	Concurrency int
	// Rate and Circuit are an endpoint's alone.
	Rate    *limit.Rate
	Circuit *circuit.Settings
}

// CircuitState is a circuit with its endpoint.
type CircuitState struct {
	Endpoint string
	circuit.Circuit
}

// Barrier is why a gate lets nobody through.
type Barrier string

// The barriers, in the order in which they are looked at.
const (
	BarrierPause       Barrier = "paused"
	BarrierCircuit     Barrier = "circuit_open"
	BarrierProbe       Barrier = "circuit_half_open" // one job finds out; the others wait for its result
	BarrierHold        Barrier = "held"
	BarrierRate        Barrier = "rate"
	BarrierConcurrency Barrier = "concurrency"
)

// GateState is one thing that stands before a lane.
type GateState struct {
	Gate    lane.Gate
	Barrier Barrier
	Since   time.Time // zero where it is not known
	// Until is when it opens by itself at the earliest; zero where that hangs on
	// a report or on a person.
	Until time.Time
	// By is who paused.
	By string
	// Running of Limit is of BarrierConcurrency.
	Running, Limit int
}
