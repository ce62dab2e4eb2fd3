package lane

// search walks through the open lanes of one queue that a plan wants, in the
// order of claims, and leaves the board's heaps as they are: of each heap it
// knows the items whose parents it has passed, and the least of all is next.
type search struct {
	board *Board
	queue *queue
	nodes heap[node]
	takes []Take
	// lane is that of the newest take, left is what that left in it, which may
	// have been all that was due.
	lane *line
	left int64
	// waits says that a gate let nothing more of a lane through, but may once it is
	// known what of the plan was due.
	waits bool
}

// node is a lane by its place in its group's heap.
type node struct {
	group *group
	lane  int
	// rank is the group's place in the queue's heap where the search goes down
	// that heap, nowhere where it does not.
	rank int
}

func (n node) line() *line { return n.group.open.items[n.lane] }

// state is how far a search is.
type state int

const (
	searching state = iota
	spent           // nothing is left
	stuck           // only new heads can tell what comes next
)

// begin starts the search of a plan.
func (s *search) begin(b *Board, q *queue, tasks []Task) {
	*s = search{board: b, queue: q, nodes: s.nodes, takes: s.takes[:0]}
	s.nodes.items, s.nodes.steps = s.nodes.items[:0], &b.steps
	s.nodes.less = func(a, b node) bool { return claimsLess(a.line(), b.line()) }
	if len(tasks) == 0 {
		s.nodes.push(node{q.open.first(), 0, 0})
		return
	}
	for _, t := range tasks {
		at := q.tasks[t.Name]
		if at == nil {
			continue
		}
		if t.Version != "" {
			s.add(b, at.versions[t.Version])
			continue
		}
		for _, g := range at.open {
			s.add(b, g)
		}
	}
}

// add adds the lanes of a group, once a plan.
func (s *search) add(b *Board, g *group) {
	if g == nil || g.seen == b.plans || g.open.len() == 0 {
		return
	}
	g.seen = b.plans
	s.nodes.push(node{g, 0, nowhere})
}

// next passes the next lane.
func (s *search) next() *line {
	n := s.nodes.pop()
	for child := 2*n.lane + 1; child <= 2*n.lane+2 && child < n.group.open.len(); child++ {
		s.nodes.push(node{n.group, child, nowhere})
	}
	if n.rank != nowhere {
		groups := n.group.queue.open.items
		for child := 2*n.rank + 1; child <= 2*n.rank+2 && child < len(groups); child++ {
			s.nodes.push(node{groups[child], 0, child})
		}
	}
	return n.line()
}

// turn takes up to quota jobs and returns how many: less where it gets stuck or
// is spent.
func (s *search) turn(quota int) int {
	got := 0
	for got < quota && s.state() == searching {
		if s.left > 0 {
			n := s.through(s.lane, int(min(s.left, int64(quota-got))))
			if n == 0 { // another lane used its gate up
				s.left, s.waits = 0, s.lane.gate.guessed(s.board.plans)
				continue
			}
			s.takes[len(s.takes)-1].N += n
			s.left -= int64(n)
			got += n
			continue
		}
		l := s.next()
		n := s.through(l, int(min(l.n, Chunk, int64(quota-got))))
		if n == 0 {
			s.waits = l.gate.guessed(s.board.plans)
			continue
		}
		if l.gate != nil {
			l.gate.heads++
		}
		s.takes = append(s.takes, Take{l.id, n})
		s.lane, s.left = l, l.n-int64(n)
		got += n
	}
	return got
}

// through takes up to n jobs of a lane through its gates and returns how many.
func (s *search) through(l *line, n int) int {
	plan := s.board.plans
	s.board.steps++
	n = s.queue.gate.left(plan, n)
	if l.gate != nil {
		if n = l.gate.left(plan, n); n > 0 && s.board.avoids(l.gate, l) {
			return 0
		}
		l.gate.took(plan, n)
	}
	s.queue.gate.took(plan, n)
	return n
}

// state says how the search goes on. A lane in which something is left goes on
// itself where no other of its priority is open. Where one is, only its new head
// can tell which of them is next; and where one waits for its gate, whether those
// behind it are.
func (s *search) state() state {
	switch {
	case s.waits:
		return stuck
	case s.left == 0 && s.nodes.len() == 0, s.queue.gate.left(s.board.plans, 1) == 0:
		return spent
	case s.left > 0 && s.nodes.len() > 0 && s.nodes.first().line().key.Priority == s.lane.key.Priority:
		return stuck
	default:
		return searching
	}
}
