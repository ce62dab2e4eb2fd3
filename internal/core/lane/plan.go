package lane

import "time"

// Chunk is how many jobs a plan takes from one lane before it looks at the next
// of the same priority, and from one queue before the next: only the store knows
// when the jobs behind a lane's head are due. So a job is overtaken by at most
// Chunk−1 younger ones of each other lane of its queue and priority, and a claim
// of 1,000 jobs from full lanes reads 63 heads, not 1,000.
const Chunk = 16

// Plan says what a worker that asks for w takes now. It takes
//
//   - inside a queue strictly by priority, then by the due times of the lanes'
//     heads, Chunk jobs a lane, and all of a lane where no other is left;
//   - through a gate with Terms.Most no more than that, over all lanes;
//   - from the queues of w in turn, Chunk jobs a turn; each plan begins with the
//     queue after the one that began the plan before for the same queues and
//     tasks, so a queue waits for as many plans as it has others beside it.
//
// A lane is in a plan once, and the sum of all N is at most w.Max. A lane's N
// may be more than what is due in it, and a plan less than what there is, where
// it needs a new head to go on. So the store takes what is due, in the order of
// the plan, calls SetReady for each lane, and plans again for the rest until a
// plan is empty. At least one job of each lane of a plan is due.
func (b *Board) Plan(now time.Time, w Want) []Take {
	b.wake(now)
	ring := b.searches(w)
	going := len(ring)
	for i, left := 0, w.Max; left > 0 && going > 0; i = (i + 1) % len(ring) {
		s := ring[i]
		at := s.state()
		if at == stuck {
			break // or the others would run ahead of it
		}
		if at == spent {
			continue
		}
		quota := left
		if going > 1 {
			quota = min(quota, Chunk)
		}
		left -= s.turn(quota)
		if s.state() == spent {
			going--
		}
	}
	n := 0
	for _, s := range ring {
		n += len(s.takes)
	}
	takes := make([]Take, 0, n)
	for _, s := range ring {
		takes = append(takes, s.takes...)
	}
	return takes
}

// searches returns a search for each queue of w that has an open lane for it,
// the one first whose turn it is to begin.
func (b *Board) searches(w Want) []*search {
	b.plans++
	b.ring = b.ring[:0]
	if w.Max <= 0 {
		return nil
	}
	turn, name := b.turn(w)
	for i := range w.Queues {
		at := (turn + i) % len(w.Queues)
		q := b.queues[w.Queues[at]]
		if q == nil || q.seen == b.plans || q.gate.Shut || q.open.len() == 0 {
			continue
		}
		q.seen = b.plans
		if q.search.begin(b, q, w.Tasks); q.search.nodes.len() == 0 {
			continue
		}
		if b.ring = append(b.ring, &q.search); len(b.ring) == 1 {
			b.begun(w, name, at)
		}
	}
	return b.ring
}

// maxTurns bounds the wants whose turns are kept: more than a fleet has kinds of
// worker.
const maxTurns = 4096

// turn returns which of w's queues may begin its next plan, and the name under
// which begun keeps the one after. A want whose turns are not kept begins
// anywhere.
func (b *Board) turn(w Want) (turn int, name wantName) {
	if len(w.Queues) <= 1 {
		return 0, 0
	}
	name = nameOf(w)
	if turn, ok := b.turns[name]; ok {
		return turn % len(w.Queues), name
	}
	return int(b.plans % int64(len(w.Queues))), name
}

// begun gives the next turn of a want to the queue after the one at this place.
func (b *Board) begun(w Want, name wantName, at int) {
	if len(w.Queues) <= 1 {
		return
	}
	if _, ok := b.turns[name]; !ok && len(b.turns) >= maxTurns {
		clear(b.turns)
	}
	b.turns[name] = at + 1
}

// wantName stands for a want's queues and tasks. Two wants of one name, which is
// as likely as any two 64-bit numbers being the same, would share their turns.
type wantName uint64

// nameOf is the FNV-1a hash of all that a want names.
func nameOf(w Want) wantName {
	h := uint64(14695981039346656037)
	add := func(text string) {
		for i := range len(text) {
			h = (h ^ uint64(text[i])) * 1099511628211
		}
		h = (h ^ 0xff) * 1099511628211 // no byte of a name: it ends one
	}
	for _, q := range w.Queues {
		add(q)
	}
	add("")
	for _, t := range w.Tasks {
		add(t.Name)
		add(t.Version)
	}
	return wantName(h)
}
