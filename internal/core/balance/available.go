package balance

import "strings"

// Obstacle is a set of what stands between one member and one send. The zero
// value is a member that may be sent to.
type Obstacle uint8

// The obstacles. The first three make the member unavailable to everybody, the
// others matter to this send alone.
const (
	// Shut: its breaker lets nothing through now.
	Shut Obstacle = 1 << iota
	// Unhealthy: its last health check failed.
	Unhealthy
	// Held: it asked to be left alone (Retry-After), or a person paused it.
	Held
	// Full: as many attempts as it may have are in flight: its share of the
	// workers, or what its ramp lets through.
	Full
	// Tried: this send has been there in this round, or is in flight there, or is
	// a hedge that may not go there.
	Tried
	// Out: it answered this message with a permanent failure. In no round does
	// the message go there again, and the rules look at the others alone.
	Out
)

// String returns the names of the obstacles: shut+held; none for none.
func (o Obstacle) String() string {
	var names []string
	for i, name := range []string{"shut", "unhealthy", "held", "full", "tried", "out"} {
		if o&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	if names == nil {
		return "none"
	}
	return strings.Join(names, "+")
}

// Bars returns the obstacles that make a member unavailable now: Shut, Unhealthy
// and Held. Where they leave nobody of those who are not Out, tried or not,
// health is ignored, for a wrong check must not stop delivery: Shut and Held.
func Bars(members []Obstacle) Obstacle {
	const all = Shut | Unhealthy | Held
	for _, o := range members {
		if o&(all|Out) == 0 {
			return all
		}
	}
	return all &^ Unhealthy
}

// Share returns how many of a group's workers one member may hold at once:
// workers ÷ members, rounded up, at least 1. One that hangs can't take them all.
func Share(workers, members int) int {
	if workers < 1 || members < 1 {
		return max(workers, 1)
	}
	return (workers-1)/members + 1
}

// Answer is what a Picker says.
type Answer uint8

// The answers.
const (
	// Goes: send to the member.
	Goes Answer = iota + 1
	// Waits: whom this round may still try is full, or the round has not begun
	// and all that stands before somebody is a hold. Ask again when that ends.
	Waits
	// RoundOver: of those who are not Out every available member was tried in
	// this round, or all are out.
	RoundOver
	// AllShut: of those who are not Out everybody's breaker is open. The group
	// itself is open, as far as this message goes.
	AllShut
)

// String returns the answer's name.
func (a Answer) String() string {
	switch a {
	case Goes:
		return "goes"
	case Waits:
		return "waits"
	case RoundOver:
		return "round_over"
	case AllShut:
		return "all_shut"
	}
	return "none"
}

// judge applies the rules: it returns what bars a member from this send, and what
// to answer where that leaves nobody.
func judge(members []Obstacle) (bars Obstacle, otherwise Answer) {
	bars = Bars(members)
	someone, begun, full, held := false, false, false, false
	otherwise = AllShut
	for _, o := range members {
		if o&Out != 0 {
			continue
		}
		if o&Shut == 0 {
			otherwise = RoundOver
		}
		someone = true
		switch {
		case o&Tried != 0:
			begun = true
		case o&bars == 0: // so it is full, where nobody is left
			full = true
		case o&bars == Held:
			held = true
		}
	}
	switch {
	case !someone: // all are out
		otherwise = RoundOver
	case full, held && !begun:
		otherwise = Waits
	}
	return bars | Full | Tried | Out, otherwise
}
