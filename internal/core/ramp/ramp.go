// Package ramp lets traffic back to an endpoint after a hold, a closed breaker
// or a recovery: one attempt in flight, twice as many with each one that
// passes, half as many when the endpoint says that it is too much, until the
// limit reaches what the endpoint may have anyway.
//
// It is pure. A Ramp is not safe for concurrent use: the caller locks.
package ramp

// Result is what an attempt says about how much the endpoint can take.
type Result uint8

// The results. The zero value moves nothing.
const (
	// Other says nothing: a failure of any other kind, a cancelled attempt.
	Other Result = iota
	// Passed doubles the limit.
	Passed
	// Throttled halves it: a 429, a broker's throttle.
	Throttled
)

// String returns the result's name.
func (r Result) String() string {
	switch r {
	case Passed:
		return "passed"
	case Throttled:
		return "throttled"
	case Other:
	}
	return "other"
}

// Ticket is what Take hands out and Put wants back. It says under which Start
// the attempt began. The zero value is a take under no Start.
type Ticket struct{ start uint64 }

// Ramp bounds the attempts in flight to one endpoint while traffic comes back.
// Off, it bounds nothing and only counts. The zero value is off with a ceiling
// of 1.
type Ramp struct {
	limit    int // 0 is off
	ceiling  int
	inFlight int
	start    uint64
}

// SetCeiling sets the limit at which the ramp ends: what may be in flight to
// the endpoint at other times. Less than 1 is taken as 1. A ramp whose limit
// has reached it ends at once.
func (r *Ramp) SetCeiling(n int) {
	r.ceiling = max(n, 1)
	r.settle()
}

// Start begins the ramp, or begins it anew: the limit is 1. Attempts already in
// flight no longer count and their results no longer move it: one that hangs
// must not keep the traffic from coming back. With a ceiling of 1 there is
// nothing to ramp and it stays off.
func (r *Ramp) Start() {
	r.start++
	r.limit = 1
	r.inFlight = 0
	r.settle()
}

// settle ends the ramp once its limit bounds nothing any more.
func (r *Ramp) settle() {
	if r.limit >= max(r.ceiling, 1) {
		r.limit = 0
	}
}

// Off ends the ramp: nothing is bounded until the next Start.
func (r *Ramp) Off() { r.limit = 0 }

// Take asks for a place for one attempt. False means that as many are in
// flight as the ramp lets through, and nothing is taken; true must be followed
// by exactly one Put of the ticket.
func (r *Ramp) Take() (Ticket, bool) {
	if r.limit > 0 && r.inFlight >= r.limit {
		return Ticket{}, false
	}
	r.inFlight++
	return Ticket{r.start}, true
}

// Put gives a place back and says how the attempt went. One that began before
// the last Start holds no place any more and moves nothing. A Put without a Take
// is a programming error and panics.
func (r *Ramp) Put(t Ticket, res Result) {
	if t.start != r.start {
		return
	}
	if r.inFlight == 0 {
		panic("ramp: Put without a Take")
	}
	r.inFlight--
	if r.limit == 0 {
		return
	}
	switch res {
	case Passed:
		// While on, the limit is below the ceiling: doubling stops there.
		r.limit += min(r.limit, r.ceiling-r.limit)
		r.settle()
	case Throttled:
		r.limit = max(r.limit/2, 1)
	case Other:
	}
}

// Limit returns how many attempts may be in flight, and false when the ramp is
// off and bounds nothing.
func (r *Ramp) Limit() (int, bool) { return r.limit, r.limit > 0 }

// InFlight returns how many places were taken since the last Start and not given
// back, on or off.
func (r *Ramp) InFlight() int { return r.inFlight }
