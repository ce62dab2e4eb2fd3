package limit

import "time"

const (
	// parts is how many slots make a window. A slot that is partly out of the
	// window counts against the caller, so twenty cost about a twentieth of
	// what the formula allows.
	parts = 20
	// ringSize holds the slots of a window that begins and ends within one, and
	// what is left where a window is no multiple of twenty nanoseconds.
	ringSize = parts + 2
	// maxImport bounds a number that comes from a store, so that nonsense there
	// can't overflow a sum.
	maxImport = maxFirsts
)

// Budget is a retry budget: it says whether one more repeat (a retry or a hedge)
// may be sent. Each granted Take keeps this promise: in the stretch of one
// window that ends with it, both ends included,
//
//	repeats ≤ ratio × first attempts + min_per_second × window
//
// whatever comes when. A repeat comes after its first attempt, so no rule can
// hold for every stretch: one that begins between the two has the repeat and not
// the first. What follows for any stretch, of any length t: its repeats are at
// most ratio × the first attempts in it or in the window before it, plus
// min_per_second × (t + window). At steady traffic at least nine tenths of what
// the formula allows are granted, less one a window at most.
//
// It counts in slots, a twentieth of the window each, cut at multiples of their
// width since 1970. A slot that lies partly in the window counts with all its
// repeats and none of its first attempts.
//
// # Several relays
//
// Relays that share a store count together. Now and then, say once a slot, a
// relay calls Export, adds the counts to the counters of their slots in the
// store, reads their totals back, and hands them to Import. A counter is named
// by budget, Slot.Width and Slot.Number, and is needed for a window and two
// slots. Take decides here, by the own counts and the newest known of the
// others, so the sum of all keeps the promise but for what the others took since
// the last Import, and for the difference between the relays' clocks. With the
// store away nothing is to be done: what is known of the others leaves the window
// with its slots, and the budget is a local one.
type Budget struct {
	began   time.Time // the first time it was told; the rest is told from there
	now     time.Time // the latest
	window  time.Duration
	width   int64 // of a slot, in nanoseconds
	formula allowance
	present int64 // the number of the slot of now
	ring    [ringSize]slot
	// rewound is the slot in which the window last changed its length; none is
	// -1. A store may hold first attempts of slots up to it that are kept here
	// already, from when the window had this length once before.
	rewound int64
}

// Counts are first attempts and repeats.
type Counts struct {
	Firsts int64 // first attempts
	Taken  int64 // repeats
}

func (c Counts) plus(o Counts) Counts { return Counts{c.Firsts + o.Firsts, c.Taken + o.Taken} }

// minus is never below nothing.
func (c Counts) minus(o Counts) Counts {
	return Counts{max(c.Firsts-o.Firsts, 0), max(c.Taken-o.Taken, 0)}
}

// Slot is what was counted in one slot.
type Slot struct {
	// Number counts slots of the width since 1970.
	Number int64
	// Width is a twentieth of the window. Numbers of two widths don't compare.
	Width time.Duration
	Counts
}

// slot is a slot of the ring.
type slot struct {
	own Counts // counted here
	// sent is what the store's totals hold of own: at most these first attempts,
	// at least these repeats. So where an answer of the store was lost the budget
	// errs on the strict side.
	sent   Counts
	others Counts // the rest of the store's totals
	kept   Counts // from before the window changed its length
}

// NewBudget returns a budget that begins at now. Numbers out of the bounds of
// BudgetSettings are taken as the nearest bound.
func NewBudget(s BudgetSettings, now time.Time) *Budget {
	b := &Budget{began: now, now: now, rewound: -1}
	b.apply(s)
	return b
}

func (b *Budget) apply(s BudgetSettings) {
	b.window = min(max(s.Window, minWindow), maxWindow)
	b.width = int64(b.window) / parts
	b.formula = s.allowance(b.window)
	b.present = b.clock() / b.width
}

// clock is now in nanoseconds since 1970, by the monotonic clock where the times
// have one: a wall clock that is set must not empty the window.
func (b *Budget) clock() int64 {
	return max(b.began.UnixNano()+int64(b.now.Sub(b.began)), 0)
}

// at returns the slot with a number, which must be in the ring.
func (b *Budget) at(number int64) *slot { return &b.ring[number%ringSize] }

// oldest is the number of the first slot in the ring.
func (b *Budget) oldest() int64 { return max(b.present-ringSize+1, 0) }

// tell moves the budget's time forward and forgets the slots that fell out.
func (b *Budget) tell(now time.Time) {
	if !now.After(b.now) {
		return
	}
	b.now = now
	to := b.clock() / b.width
	if to-b.present >= ringSize {
		b.ring, b.present = [ringSize]slot{}, to
		return
	}
	for b.present < to {
		b.present++
		*b.at(b.present) = slot{}
	}
}

// First counts a first attempt.
func (b *Budget) First(now time.Time) {
	b.tell(now)
	b.at(b.present).own.Firsts++
}

// Take asks for a repeat. False means that the budget is spent, and nothing is
// taken. It allocates nothing.
func (b *Budget) Take(now time.Time) bool {
	if b.Left(now) == 0 {
		return false
	}
	b.at(b.present).own.Taken++
	return true
}

// Left returns how many repeats could be taken now.
func (b *Budget) Left(now time.Time) int {
	b.tell(now)
	return int(b.formula.left(b.counts()))
}

// counts sums up the window: repeats of each slot that has a part in it, first
// attempts of those that have all of theirs in it.
func (b *Budget) counts() (sum Counts) {
	begins := b.clock() - int64(b.window)
	for n := max(begins/b.width, b.oldest()); n <= b.present; n++ {
		s := b.at(n)
		c := s.own.plus(s.others).plus(s.kept)
		sum.Taken += c.Taken
		if n*b.width >= begins {
			sum.Firsts += c.Firsts
		}
	}
	return sum
}

// Configure changes the settings, over a reload say. What was counted stays
// counted; a longer window looks back at first only as far as the shorter one
// did. The slots of another length have other numbers: what others counted in
// them comes with the next Import, and what was counted here before is not
// exported any more.
func (b *Budget) Configure(now time.Time, s BudgetSettings) {
	b.tell(now)
	old := *b
	b.apply(s)
	if b.width == old.width {
		return
	}
	b.ring, b.rewound = [ringSize]slot{}, b.present
	for n := old.oldest(); n <= old.present; n++ {
		was := old.at(n)
		c := was.own.plus(was.others).plus(was.kept)
		// First attempts are forgotten early and repeats late.
		b.keep(n*old.width, Counts{Firsts: c.Firsts})
		b.keep(min((n+1)*old.width-1, b.clock()), Counts{Taken: c.Taken})
	}
}

// keep counts in the slot of a moment, if the ring has it.
func (b *Budget) keep(moment int64, c Counts) {
	if n := moment / b.width; n >= b.oldest() && n <= b.present {
		s := b.at(n)
		s.kept = s.kept.plus(c)
	}
}

// Export appends to dst, oldest first, each slot of the window with what was
// counted here and is not in the store yet, which is mostly nothing. The caller
// adds it to the store's counters in one step with reading their totals, and
// then either calls Import or, where that failed or its outcome is unknown, does
// nothing. One exchange with the store runs at a time.
//
// First attempts are exported once and repeats until an Import says that they
// arrived: a lost answer makes the budget stricter for a window, never looser.
func (b *Budget) Export(now time.Time, dst []Slot) []Slot {
	b.tell(now)
	for n := b.oldest(); n <= b.present; n++ {
		s := b.at(n)
		dst = append(dst, Slot{n, time.Duration(b.width), s.own.minus(s.sent)})
		s.sent.Firsts = s.own.Firsts
	}
	return dst
}

// Import takes in what the store answered: added is what Export returned, and
// totals are the counters after it was added. Slots that the window does not
// hold any more, and those of another width, are passed over.
func (b *Budget) Import(now time.Time, added, totals []Slot) {
	b.tell(now)
	for _, a := range added {
		if s := b.find(a); s != nil {
			s.sent.Taken = min(s.sent.Taken+max(a.Taken, 0), s.own.Taken)
		}
	}
	for _, t := range totals {
		s := b.find(t)
		if s == nil {
			continue
		}
		s.others = Counts{min(t.Firsts, maxImport), min(t.Taken, maxImport)}.minus(s.sent)
		if t.Number <= b.rewound {
			s.others.Firsts = 0
		}
	}
}

// find returns the ring's slot, or nil.
func (b *Budget) find(s Slot) *slot {
	if int64(s.Width) != b.width || s.Number < b.oldest() || s.Number > b.present {
		return nil
	}
	return b.at(s.Number)
}
