package lane

import "time"

// Terms are what a gate lets through. The zero value is anything.
type Terms struct {
	// Shut lets nothing through before Until, or, where that is zero, until the
	// gate is set again. The other terms hold from then on.
	Shut  bool
	Until time.Time
	// Most is how many jobs the plans take through it in all, until it is set
	// again; 0 is any number. Who took jobs sets it to what is left.
	Most int
	// Avoid is a task whose jobs stay where they are before AvoidUntil, while
	// another task of the endpoint has one that is due.
	Avoid      Task
	AvoidUntil time.Time
}

// gate is a gate that has terms or lanes behind it.
type gate struct {
	name  Gate
	queue *queue  // the queue that it stands before, or
	lines []*line // the lanes of its endpoint
	Terms
	place int // among those whose terms change by themselves
	// planned is how many jobs the plan took through it, of lanes as many as heads.
	planned, heads int
	plan           int64
	// another says that a task which is not avoided has a job that is due, in the
	// plan that looked last.
	looked  int64
	another bool
}

// next is when the terms change by themselves; zero for never.
func (g *gate) next() time.Time {
	if g.Shut {
		return g.Until
	}
	return g.AvoidUntil
}

// left is how many jobs the plan may still take through the gate, up to n.
func (g *gate) left(plan int64, n int) int {
	if g.Most == 0 {
		return n
	}
	if g.plan != plan {
		g.plan, g.planned, g.heads = plan, 0, 0
	}
	return min(n, max(g.Most-g.planned, 0))
}

// guessed reports whether the plan used the gate up with jobs of which some may not be
// due: of a lane only the head is known to be.
func (g *gate) guessed(plan int64) bool {
	return g != nil && g.left(plan, 1) == 0 && g.planned > g.heads
}

// took counts what the plan takes.
func (g *gate) took(plan int64, n int) {
	if g.left(plan, 1); g.Most > 0 {
		g.planned += n
	}
}

// avoids reports whether a lane behind the gate stays where it is for another. All
// lanes of the task do or none, as long as the plan lasts: one look is enough.
func (b *Board) avoids(g *gate, l *line) bool {
	if g.Avoid == (Task{}) || g.Avoid.Name != l.key.Task || g.Avoid.Version != l.key.Version {
		return false
	}
	if g.looked != b.plans {
		g.looked, g.another = b.plans, b.another(g)
	}
	return g.another
}

// another reports whether a task that the gate does not avoid has a job that is due.
func (b *Board) another(g *gate) bool {
	for _, other := range g.lines {
		b.steps++
		if k := other.key; other.n > 0 && !other.head.After(b.now) && !other.group.queue.gate.Shut &&
			(k.Task != g.Avoid.Name || k.Version != g.Avoid.Version) {
			return true
		}
	}
	return false
}

// Set puts the terms of a gate in force, in place of those before.
func (b *Board) Set(name Gate, t Terms) {
	g := b.gates[name]
	if g == nil {
		if t == (Terms{}) {
			return
		}
		g = b.gate(name)
	}
	if g.place != nowhere {
		b.opening.remove(g)
	}
	switch was := g.Shut; {
	case was && !t.Shut:
		g.Terms = t
		b.unshut(g)
	case !was && t.Shut:
		b.shut(g)
		g.Terms = t
	default:
		g.Terms = t
	}
	if !g.next().IsZero() {
		b.opening.push(g)
	}
	b.drop(g)
}

// Shut shuts a gate until the time, or, where that is zero, until it is set
// again. What other terms it had are gone.
func (b *Board) Shut(g Gate, until time.Time) { b.Set(g, Terms{Shut: true, Until: until}) }

// Open lets everything through a gate.
func (b *Board) Open(g Gate) { b.Set(g, Terms{}) }

// shut takes the lanes behind a gate out of the heaps.
func (b *Board) shut(g *gate) {
	if g.queue != nil && g.queue.due != nowhere {
		b.due.remove(g.queue)
	}
	for _, l := range g.lines {
		b.steps++
		b.leave(l)
	}
}

// unshut puts the lanes behind a gate that is not shut any more in their heaps.
func (b *Board) unshut(g *gate) {
	if g.queue != nil && g.queue.waiting.len() > 0 {
		b.due.push(g.queue)
	}
	for _, l := range g.lines {
		b.steps++
		b.enter(l)
	}
}

// inTime changes the terms of a gate whose time has come, and tells of the lanes
// behind it.
func (b *Board) inTime(g *gate) {
	b.opening.remove(g)
	if g.Shut {
		g.Shut, g.Until = false, time.Time{}
		b.unshut(g)
	} else {
		g.Avoid, g.AvoidUntil = Task{}, time.Time{}
	}
	for _, l := range g.lines {
		b.steps++
		b.opened = append(b.opened, l.id)
	}
	if g.queue != nil {
		for _, at := range g.queue.open.items {
			for _, l := range at.open.items {
				b.opened = append(b.opened, l.id)
			}
		}
	}
	if !g.next().IsZero() {
		b.opening.push(g)
	}
	b.drop(g)
}

// drop forgets a gate without terms, and the queue behind it, that has no lane.
func (b *Board) drop(g *gate) {
	if g.Terms != (Terms{}) || len(g.lines) > 0 || g.queue != nil && len(g.queue.tasks) > 0 {
		return
	}
	delete(b.gates, g.name)
	if g.queue != nil {
		delete(b.queues, g.queue.name)
	}
}

// gate returns the gate, made where it is new.
func (b *Board) gate(g Gate) *gate {
	if at := b.gates[g]; at != nil {
		return at
	}
	if g.Kind == QueueGate {
		return b.queue(g.Name).gate
	}
	at := &gate{name: g, place: nowhere}
	b.gates[g] = at
	return at
}

// Behind hands out the lanes that are of use to one who waits, now that a gate
// has room: of an endpoint all, of a queue the first of each task and version.
func (b *Board) Behind(name Gate, visit func(ID)) {
	g := b.gates[name]
	if g == nil || g.Shut {
		return
	}
	for _, l := range g.lines {
		b.steps++
		if l.open != nowhere {
			visit(l.id)
		}
	}
	if g.queue != nil {
		for _, at := range g.queue.open.items {
			b.steps++
			visit(at.open.first().id)
		}
	}
}

// Beside returns the lane that goes first of those with the lane's queue, task and
// version; ok is false where none is open.
func (b *Board) Beside(id ID) (first ID, ok bool) {
	l := b.lanes[id]
	if l == nil || l.group.queue.gate.Shut || l.group.open.len() == 0 {
		return 0, false
	}
	return l.group.open.first().id, true
}

// IsOpen reports whether a plan may take of the lane, as of the newest time that
// the board was told.
func (b *Board) IsOpen(id ID) bool {
	l := b.lanes[id]
	return l != nil && l.open != nowhere && !l.group.queue.gate.Shut
}
