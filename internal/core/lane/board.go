package lane

import "time"

// Board knows the lanes of a store, what stands in them and which gates are
// shut. It is made by NewBoard, and not safe for concurrent use.
//
// The store's clock never goes back, and neither does the board's: a now that is
// earlier than one before counts as that one.
type Board struct {
	lanes  map[ID]*line
	ids    map[Key]ID
	queues map[string]*queue
	gates  map[Gate]*gate
	// due are the open queues in which lanes wait for their time, the earliest
	// first; opening the gates that open by themselves.
	due     heap[*queue]
	opening heap[*gate]
	// now is the newest time that was handed in.
	now time.Time
	// opened are the lanes that have opened by themselves since Opened was called.
	opened []ID
	// turns are the places of the queues of a want that begin its next plan.
	turns map[wantName]int
	// plans counts plans, to mark what one has seen.
	plans int64
	// steps counts the lanes, groups and gates that were looked at or moved:
	// the cost that tests hold down.
	steps int
	// ring is reused by every plan.
	ring []*search
}

// line is a lane on the board. It is in its group's heap while it is open, in
// its queue's waiting heap until it is due, and in neither while it is empty or
// its endpoint's gate is shut. The queue's gate moves no lanes: the plan passes
// the whole queue over.
type line struct {
	id    ID
	key   Key
	group *group
	gate  *gate // of its endpoint; nil for none
	// inGate is its place among the gate's lines.
	inGate int
	n      int64
	head   time.Time
	// open and waiting are its places in these heaps.
	open, waiting int
}

// group is the lanes that the same workers want: one queue, task and version.
type group struct {
	queue *queue
	task  *task
	lanes int         // how many there are, open or not
	open  heap[*line] // in the order of claims
	// inQueue is its place among the queue's groups, inTask among the task's.
	inQueue, inTask int
	seen            int64 // the newest plan that looked at it
}

// task is the versions of a task in one queue.
type task struct {
	versions map[string]*group
	open     []*group // those with an open lane, in no order
}

type queue struct {
	name  string
	gate  *gate
	tasks map[string]*task
	// open are the groups that have an open lane, the best lane first; waiting
	// are the lanes that are not due.
	open    heap[*group]
	waiting heap[*line]
	due     int    // its place in the board's heap
	seen    int64  // the newest plan that looked at it
	search  search // of that plan
}

// NewBoard returns a board without lanes, all gates open.
func NewBoard() *Board {
	b := &Board{lanes: map[ID]*line{}, ids: map[Key]ID{}, queues: map[string]*queue{}, gates: map[Gate]*gate{}, turns: map[wantName]int{}}
	b.due = heap[*queue]{
		less:  func(a, b *queue) bool { return waitsLess(a.waiting.first(), b.waiting.first()) },
		place: func(q *queue) *int { return &q.due },
		steps: &b.steps,
	}
	b.opening = heap[*gate]{
		less:  func(a, b *gate) bool { return a.next().Before(b.next()) },
		place: func(g *gate) *int { return &g.place },
		steps: &b.steps,
	}
	return b
}

// claimsLess is the order of claims inside a queue.
func claimsLess(a, b *line) bool {
	if a.key.Priority != b.key.Priority {
		return a.key.Priority > b.key.Priority
	}
	return waitsLess(a, b)
}

// waitsLess is the order in which lanes come due.
func waitsLess(a, b *line) bool {
	if c := a.head.Compare(b.head); c != 0 {
		return c < 0
	}
	return a.id < b.id
}

// Add makes a lane known, with nothing ready in it. An id or a key that is known
// already stays as it is.
func (b *Board) Add(id ID, k Key) {
	if _, known := b.lanes[id]; known {
		return
	}
	if _, known := b.ids[k]; known {
		return
	}
	l := &line{id: id, key: k, group: b.group(k), open: nowhere, waiting: nowhere}
	if k.Endpoint != "" {
		l.gate = b.gate(k.EndpointGate())
		l.inGate = len(l.gate.lines)
		l.gate.lines = append(l.gate.lines, l)
	}
	l.group.lanes++
	b.lanes[id], b.ids[k] = l, id
}

// Find returns the lane of a key; ok is false where it is not known.
func (b *Board) Find(k Key) (id ID, ok bool) {
	id, ok = b.ids[k]
	return id, ok
}

// Remove makes a lane unknown, and whatever was there for its sake alone: what
// the board holds is bounded by the lanes and the shut gates that there are. A
// lane that is not known is passed over.
func (b *Board) Remove(id ID) {
	l := b.lanes[id]
	if l == nil {
		return
	}
	b.leave(l)
	delete(b.lanes, id)
	delete(b.ids, l.key)
	if g := l.gate; g != nil {
		last := len(g.lines) - 1
		moved := g.lines[last]
		g.lines[l.inGate], moved.inGate = moved, l.inGate
		g.lines[last] = nil
		g.lines = g.lines[:last]
		b.drop(g)
	}
	q, t := l.group.queue, l.group.task
	if l.group.lanes--; l.group.lanes > 0 {
		return
	}
	if delete(t.versions, l.key.Version); len(t.versions) > 0 {
		return
	}
	if delete(q.tasks, l.key.Task); len(q.tasks) == 0 {
		b.drop(q.gate)
	}
}

// Len is how many lanes there are.
func (b *Board) Len() int { return len(b.lanes) }

// Looks is how many lanes, groups and gates the board has looked at or moved since
// it was made: what it has cost, counted and not timed.
func (b *Board) Looks() int { return b.steps }

// SetReady says that n jobs are ready in the lane, whatever their due times, and
// that the first of them is due at head, which means nothing where n is 0. A
// lane that is not known is passed over.
func (b *Board) SetReady(id ID, n int64, head time.Time) {
	l := b.lanes[id]
	if l == nil {
		return
	}
	if l.n > 0 && n > 0 && l.head.Equal(head) {
		l.n = n
		return
	}
	if n <= 0 {
		n, head = 0, time.Time{}
	}
	b.leave(l)
	l.n, l.head = n, head
	b.enter(l)
}

// NextDue returns the earliest time at which a lane may open by itself: the first
// of its jobs comes due, or a gate's time is over. It is past where one has and
// Opened has not told yet. Before it none does; at it, a gate may turn out to have
// nothing behind it. ok is false where only SetReady and Open can open one.
func (b *Board) NextDue() (at time.Time, ok bool) {
	if len(b.opened) > 0 {
		return b.now, true
	}
	if b.due.len() > 0 {
		at, ok = b.due.first().waiting.first().head, true
	}
	if b.opening.len() > 0 {
		if next := b.opening.first().next(); !ok || next.Before(at) {
			at, ok = next, true
		}
	}
	return at, ok
}

// Opened returns the lanes that have opened by themselves by now and since it was
// called before. Some may be shut, empty or removed again.
func (b *Board) Opened(now time.Time) []ID {
	b.wake(now)
	opened := b.opened
	b.opened = nil
	return opened
}

// wake opens what opens by itself until now.
func (b *Board) wake(now time.Time) {
	if now.After(b.now) {
		b.now = now
	}
	for b.opening.len() > 0 && !b.opening.first().next().After(b.now) {
		b.inTime(b.opening.first())
	}
	for b.due.len() > 0 {
		l := b.due.first().waiting.first()
		if l.head.After(b.now) {
			return
		}
		b.leave(l)
		b.enter(l)
		b.opened = append(b.opened, l.id)
	}
}

// enter puts a lane where it belongs by now.
func (b *Board) enter(l *line) {
	q := l.group.queue
	switch {
	case l.n == 0, l.gate != nil && l.gate.Shut:
	case l.head.After(b.now):
		q.waiting.push(l)
		b.wait(q)
	default:
		l.group.open.push(l)
		q.show(l.group)
	}
}

// leave takes a lane out of the heap that it is in.
func (b *Board) leave(l *line) {
	q := l.group.queue
	if l.waiting != nowhere {
		// The board's heap compares queues by their first waiting lane, so a
		// queue leaves it before it has none.
		if q.waiting.len() == 1 && q.due != nowhere {
			b.due.remove(q)
		}
		q.waiting.remove(l)
		b.wait(q)
	}
	if l.open != nowhere {
		if l.group.open.len() == 1 {
			q.hide(l.group)
		}
		l.group.open.remove(l)
		q.show(l.group)
	}
}

// wait puts a queue whose waiting lanes have changed in order.
func (b *Board) wait(q *queue) {
	switch {
	case q.gate.Shut || q.waiting.len() == 0:
	case q.due == nowhere:
		b.due.push(q)
	default:
		b.due.fix(q)
	}
}

// show puts a group whose open lanes have changed in order.
func (q *queue) show(g *group) {
	switch {
	case g.open.len() == 0:
	case g.inQueue == nowhere:
		q.open.push(g)
		g.inTask = len(g.task.open)
		g.task.open = append(g.task.open, g)
	default:
		q.open.fix(g)
	}
}

// hide takes a group out that is about to have no open lane.
func (q *queue) hide(g *group) {
	q.open.remove(g)
	last := len(g.task.open) - 1
	moved := g.task.open[last]
	g.task.open[g.inTask], moved.inTask = moved, g.inTask
	g.task.open[last] = nil
	g.task.open = g.task.open[:last]
	g.inTask = nowhere
}

// queue returns the queue, made where it is new.
func (b *Board) queue(name string) *queue {
	if q := b.queues[name]; q != nil {
		return q
	}
	q := &queue{name: name, tasks: map[string]*task{}, due: nowhere}
	q.open = heap[*group]{
		less:  func(a, b *group) bool { return claimsLess(a.open.first(), b.open.first()) },
		place: func(g *group) *int { return &g.inQueue },
		steps: &b.steps,
	}
	q.waiting = heap[*line]{less: waitsLess, place: func(l *line) *int { return &l.waiting }, steps: &b.steps}
	q.gate = &gate{name: Gate{QueueGate, name}, queue: q, place: nowhere}
	b.queues[name] = q
	b.gates[q.gate.name] = q.gate
	return q
}

// group returns the group of a key, made where it is new.
func (b *Board) group(k Key) *group {
	q := b.queue(k.Queue)
	t := q.tasks[k.Task]
	if t == nil {
		t = &task{versions: map[string]*group{}}
		q.tasks[k.Task] = t
	}
	g := t.versions[k.Version]
	if g == nil {
		g = &group{queue: q, task: t, inQueue: nowhere, inTask: nowhere}
		g.open = heap[*line]{less: claimsLess, place: func(l *line) *int { return &l.open }, steps: &b.steps}
		t.versions[k.Version] = g
	}
	return g
}
