package sqlite

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlCircuit = `INSERT INTO circuit(endpoint, state, failures, generation, opened_at, retry_at, held_until, probe_at, failed_task, full_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT(endpoint) DO UPDATE SET state=excluded.state, failures=excluded.failures, generation=excluded.generation,
		opened_at=excluded.opened_at, retry_at=excluded.retry_at, held_until=excluded.held_until, probe_at=excluded.probe_at,
		failed_task=excluded.failed_task, full_at=excluded.full_at`
	sqlCircuitGone  = "DELETE FROM circuit WHERE endpoint=?"
	sqlLoadCircuits = `SELECT endpoint, state, failures, generation, opened_at, retry_at, held_until, probe_at, failed_task, full_at FROM circuit`
)

// gate is what stands before a queue or an endpoint: its numbers, how many
// attempts run behind it, and an endpoint's circuit and bucket. It is there while
// anything of it is to be remembered.
type gate struct {
	name    lane.Gate
	lanes   int // behind it
	running int
	gateState
	stored bool       // the row is in the file
	terms  lane.Terms // what the board was told
	checks lane.Terms // and of an endpoint's checks
	// shutAt is since when nobody may pass, heldAt since when its endpoint wants to
	// be left alone: for people, and not known over a restart.
	shutAt, heldAt int64
	turn           int64 // the transaction that touched it last
}

// gateState is what a transaction may have to put back.
type gateState struct {
	limits  store.Limits
	fullAt  int64 // of the bucket, as the file says, until its rate is known
	circuit circuit.Circuit
	bucket  limit.Bucket // of limits.Rate
}

// gateBefore is a gate as it was before a transaction.
type gateBefore struct {
	gate   *gate
	was    gateState
	stored bool
}

// gate returns the gate, made where it is new.
func (s *state) gate(name lane.Gate) *gate {
	g := s.gates[name]
	if g == nil {
		g = &gate{name: name, gateState: gateState{circuit: circuit.Circuit{State: circuit.Closed}}}
		s.gates[name] = g
	}
	return g
}

// dropGate forgets a gate of which nothing is to be remembered.
func (s *state) dropGate(g *gate) {
	if g.lanes == 0 && g.limits == (store.Limits{}) && !g.stored && g.terms == (lane.Terms{}) {
		delete(s.gates, g.name)
	}
}

// attach puts a lane behind its gates.
func (s *state) attach(l *laneRow) {
	l.queue = s.gate(lane.Gate{Kind: lane.QueueGate, Name: l.key.Queue})
	l.queue.lanes++
	if l.key.Endpoint != "" {
		l.endpoint = s.gate(lane.Gate{Kind: lane.EndpointGate, Name: l.key.Endpoint})
		l.endpoint.lanes++
	}
}

// detach takes a lane that goes away from behind its gates.
func (s *state) detach(l *laneRow) {
	for _, g := range [...]*gate{l.queue, l.endpoint} {
		if g != nil {
			g.lanes--
			s.dropGate(g)
		}
	}
}

// counts notes that attempts of the lane begin to run, or end. A check of an
// endpoint is let through when all places are taken, so it takes none.
func (l *laneRow) counts(n int) {
	l.queue.running += n
	if l.endpoint != nil && !l.key.Synthetic {
		l.endpoint.running += n
	}
}

// settings are the circuit's.
func (g *gate) settings() circuit.Settings {
	if g.limits.Circuit != nil {
		return *g.limits.Circuit
	}
	return circuit.Defaults()
}

// free is how many more attempts may run behind the gate; −1 is any number.
func (g *gate) free() int {
	if g.limits.Concurrency == 0 {
		return -1
	}
	return max(g.limits.Concurrency-g.running, 0)
}

// termsOf says what a gate lets through now.
func (s *state) termsOf(g *gate, now time.Time) (t lane.Terms) {
	if _, shut := s.paused[g.name]; shut {
		return lane.Terms{Shut: true}
	}
	free := g.free()
	if free == 0 {
		return lane.Terms{Shut: true}
	}
	t.Most = max(free, 0)
	if g.name.Kind != lane.EndpointGate {
		return t
	}
	opens, look := now, g.circuit.Look(now, g.settings())
	for look.Answer > circuit.OneProbe { // a hold, and then a cooldown
		opens = look.Until
		look = g.circuit.Look(opens, g.settings())
	}
	if look.Answer == circuit.OneProbe {
		t.Most = 1
		if look.Avoid != "" {
			t.Avoid, t.AvoidUntil = taskOf(look.Avoid), look.AvoidUntil
		}
	}
	if g.limits.Rate != nil {
		b := g.bucket // a copy: to look ahead moves its time
		token, left := b.Look(opens), max(b.Left(opens), 1)
		if token.After(opens) {
			opens, left = ceilTime(token), 1
		}
		if t.Most == 0 || left < t.Most {
			t.Most = left
		}
	}
	if opens.After(now) {
		t.Shut, t.Until = true, opens
	}
	return t
}

// openGates tells the board what every gate lets through, once the state was read.
func (s *state) openGates(now time.Time) {
	for name := range s.paused {
		s.gate(name)
	}
	for _, g := range s.gates {
		g.terms, g.checks = s.termsOf(g, now), s.checksOf(g)
		s.setGate(g)
	}
}

// checksOf says what a gate lets through of an endpoint's checks: they pass all but
// a pause.
func (s *state) checksOf(g *gate) lane.Terms {
	_, paused := s.paused[g.name]
	return lane.Terms{Shut: paused}
}

// setGate tells the board the terms of a gate.
func (s *state) setGate(g *gate) {
	s.board.Set(g.name, g.terms)
	if g.name.Kind == lane.EndpointGate {
		s.board.Set(syntheticGate(g), g.checks)
	}
}

func syntheticGate(g *gate) lane.Gate { return lane.Gate{Kind: lane.SyntheticGate, Name: g.name.Name} }

// taskOf reads task@version; a version has no @.
func taskOf(text string) lane.Task {
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '@' {
			return lane.Task{Name: text[:i], Version: text[i+1:]}
		}
	}
	return lane.Task{Name: text}
}

func taskText(k lane.Key) string { return k.Task + "@" + k.Version }

// ceilTime is a time in whole milliseconds, not before it.
func ceilTime(t time.Time) time.Time { return at(ceilMillis(t)) }

// regate tells the board what a gate lets through now, and those who wait where
// that became more.
func (t *tx) regate(g *gate) {
	s := t.w.state
	terms, checks := s.termsOf(g, at(t.now)), s.checksOf(g)
	if terms == g.terms && checks == g.checks {
		return
	}
	if was := g.terms; terms.Shut && (!was.Shut || !was.Until.IsZero() && !was.Until.After(at(t.now))) {
		g.shutAt = t.now
	}
	g.terms, g.checks = terms, checks
	s.setGate(g)
	if len(s.parked.all) == 0 {
		return
	}
	heat := func(id lane.ID) { s.heat(s.lanes[id]) }
	s.board.Behind(g.name, heat)
	if g.name.Kind == lane.EndpointGate {
		s.board.Behind(syntheticGate(g), heat)
	}
}

// regates is regate for the gates of a lane.
func (t *tx) regates(l *laneRow) {
	t.regate(l.queue)
	if l.endpoint != nil {
		t.regate(l.endpoint)
	}
}

// regateAll is regate for the gates that the transaction had to do with.
func (t *tx) regateAll() {
	for _, b := range t.lanes {
		t.regates(b.lane)
	}
	for _, b := range t.gates {
		t.regate(b.gate)
	}
	for _, b := range t.pauses {
		t.regate(t.w.state.gate(b.gate))
	}
}

// touchGate keeps a gate as it was before the transaction's first change of it.
func (t *tx) touchGate(g *gate) {
	if g.turn != t.w.state.turn {
		g.turn = t.w.state.turn
		t.gates = append(t.gates, gateBefore{g, g.gateState, g.stored})
	}
}

// admit takes n jobs of a lane through its gates, as the board's plan said, and
// returns what each keeps of its circuit. Checks of an endpoint keep nothing.
func (t *tx) admit(l *laneRow, n int) (ticket circuit.Ticket) {
	g := l.endpoint
	if g == nil || l.key.Synthetic {
		return circuit.Ticket{}
	}
	now := at(t.now)
	if g.circuit.State != circuit.Closed || g.limits.Rate != nil {
		t.touchGate(g)
	}
	var moves []circuit.Move
	ticket, moves = g.circuit.Take(now, g.settings())
	if g.limits.Rate != nil {
		for range n {
			g.bucket.Take(now)
		}
	}
	t.circuitMoved(g, moves, "")
	return ticket
}

// ticket is what the lease keeps of its circuit.
func (l *lease) ticket() circuit.Ticket {
	return circuit.Ticket{Generation: l.generation, Probe: l.probe, At: at(l.claimedAt)}
}

// judged tells an endpoint's circuit how an attempt ended. f is nil where its
// worker reported no failure.
func (t *tx) judged(l *lease, x job.Transition, f *job.Failure) {
	g := l.lane.endpoint
	if g == nil || l.lane.key.Synthetic {
		return
	}
	outcome, hold := x.Endpoint(f)
	if outcome == circuit.Nothing && hold == 0 && !l.probe {
		return
	}
	if outcome == circuit.Well && g.circuit.State == circuit.Closed && g.circuit.Failures == 0 {
		return // as almost every time
	}
	t.touchGate(g)
	if now, was := at(t.now), g.circuit.HeldUntil; hold > 0 && g.circuit.Hold(now, l.ticket(), hold) {
		if !was.After(now) {
			g.heldAt = t.now
		}
		t.held(g)
	}
	t.circuitMoved(g, g.circuit.End(at(t.now), g.settings(), l.ticket(), outcome, taskText(l.lane.key)), "")
}

// unadmit takes back what admit did for one job whose claim was undone.
func (t *tx) unadmit(l *lease) {
	g := l.lane.endpoint
	if g == nil || l.lane.key.Synthetic {
		return
	}
	t.touchGate(g)
	if g.limits.Rate != nil {
		g.bucket.Put(at(t.now), at(l.claimedAt))
	}
	g.circuit.End(at(t.now), g.settings(), l.ticket(), circuit.Nothing, "")
}

// flushGates writes the circuits that this transaction changed.
func (t *tx) flushGates() error {
	for _, b := range t.gates {
		g := b.gate
		if g.gateState == b.was && g.stored == b.stored {
			continue
		}
		now, full := at(t.now), g.fullAt
		if g.limits.Rate != nil {
			full = ceilMillis(g.bucket.FullAt(now))
		}
		if g.circuit.Plain(now) && full <= t.now {
			if !g.stored {
				continue
			}
			g.stored = false
			if _, err := t.exec(sqlCircuitGone, g.name.Name); err != nil {
				return err
			}
			continue
		}
		g.stored = true
		c := g.circuit
		if _, err := t.exec(sqlCircuit, g.name.Name, string(c.State), c.Failures, c.Generation, millis(c.OpenedAt), millis(c.RetryAt),
			millis(c.HeldUntil), millis(c.ProbeAt), c.FailedTask, full); err != nil {
			return err
		}
	}
	return nil
}

// loadCircuits reads the circuits. Buckets begin where they were once their rate
// is known: see setLimits.
func (s *state) loadCircuits(c *conn) error {
	return c.each(sqlLoadCircuits, func(r *row) error {
		g := s.gate(lane.Gate{Kind: lane.EndpointGate, Name: r.text(0)})
		g.stored, g.fullAt = true, r.int(9)
		g.circuit = circuit.Circuit{
			State: circuit.State(r.text(1)), Failures: int(r.int(2)), Generation: r.int(3), OpenedAt: at(r.int(4)), RetryAt: at(r.int(5)),
			HeldUntil: at(r.int(6)), ProbeAt: at(r.int(7)), FailedTask: r.text(8),
		}
		return nil
	})
}
