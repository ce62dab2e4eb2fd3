package sqlite

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// picture is a state without what is in memory alone, to compare.
type picture struct {
	Lanes   map[lane.Key]string
	Running map[int64]string
	Paused  map[lane.Gate]store.Pause
	Commits int64
}

func (s *state) picture() picture {
	p := picture{Lanes: map[lane.Key]string{}, Running: map[int64]string{}, Paused: s.paused, Commits: s.commits}
	for _, l := range s.lanes[1:] {
		if l == nil {
			continue
		}
		head := l.head
		if l.tally.ready == 0 {
			head = 0
		}
		p.Lanes[l.key] = fmt.Sprintf("%d: %+v from %d", l.id, l.tally, head)
	}
	for seq, l := range s.running {
		p.Running[seq] = fmt.Sprintf("lane %d run_at %d attempt %d counts %+v policy %d timeout %d limit %d bytes %d worker %q of %q claim %q claimed %d started %d heard %t lease %d cut %t",
			l.lane.id, l.runAt, l.attempt, l.counts, l.policy, l.timeout, l.limit, l.bytes, l.worker, l.caller, l.claim, l.claimedAt, l.startedAt, l.heardAt != 0, l.length, l.log.cut)
	}
	return p
}

// checkBoard fails the test where the board plans, or sleeps, otherwise than one
// that was made of what the file says.
func checkBoard(t *testing.T, m, f *state, now int64) {
	t.Helper()
	m.board.Opened(at(now))
	f.board.Opened(at(now))
	seen := map[lane.Key]bool{}
	lanes := 0
	for id, l := range m.lanes {
		if l == nil {
			if id > 0 && !slices.Contains(m.unused, lane.ID(id)) {
				t.Errorf("the place of lane %d is lost", id)
			}
			continue
		}
		lanes++
		if of, known := m.board.Find(l.key); !known || of != l.id || int(l.id) != id {
			t.Errorf("lane %d, at %d: the board has %d", l.id, id, of)
		}
		group := lane.Key{Queue: l.key.Queue, Task: l.key.Task, Version: l.key.Version}
		if seen[group] {
			continue
		}
		seen[group] = true
		w := lane.Want{Queues: []string{group.Queue}, Tasks: []lane.Task{{Name: group.Task, Version: group.Version}}, Max: 1 << 20}
		if diff := cmp.Diff(f.board.Plan(at(now), w), m.board.Plan(at(now), w)); diff != "" {
			t.Errorf("the plan for %v (-file +memory):\n%s", group, diff)
		}
	}
	if n := m.board.Len(); n != lanes || len(m.unused)+lanes != len(m.lanes)-1 {
		t.Errorf("%d lanes, %d on the board, %d places unused of %d", lanes, n, len(m.unused), len(m.lanes)-1)
	}
	due, some := m.board.NextDue()
	if want, is := f.board.NextDue(); some != is || !due.Equal(want) {
		t.Errorf("comes due at %v, %v; by the file at %v, %v", due, some, want, is)
	}
}

// checkMemory fails the test where the writer's memory is otherwise than the file,
// or disagrees with itself.
func checkMemory(t *testing.T, s *Store) {
	t.Helper()
	err := s.writer.submit(t.Context(), 0, func(x *tx) error {
		m := x.w.state
		f, err := loadState(x.w.conn)
		if err != nil {
			return err
		}
		for name, g := range m.gates {
			if g.limits != (store.Limits{}) {
				of := f.gate(name)
				of.limits, of.bucket = g.limits, g.bucket
			}
		}
		f.openGates(at(x.now))
		if diff := cmp.Diff(f.gatePicture(), m.gatePicture()); diff != "" {
			t.Errorf("the gates are not what the file says (-file +memory):\n%s", diff)
		}
		if diff := cmp.Diff(f.picture(), m.picture()); diff != "" {
			t.Errorf("memory is not what the file says (-file +memory):\n%s", diff)
		}
		if m.seq < f.seq || m.attempt < f.attempt {
			t.Errorf("memory would give out seq %d and n %d again: the file has %d and %d", m.seq+1, m.attempt+1, f.seq, f.attempt)
		}
		checkBoard(t, m, f, x.now)
		lengths, claims := map[int64]int{}, 0
		for _, l := range m.running {
			lengths[l.length]++
			if l.claim != "" {
				claims++
			}
			if l.place == 0 || m.ends.items[l.place-1] != l {
				t.Errorf("job %d is not where the sweep finds it", l.seq)
			}
		}
		for _, of := range m.claims {
			claims -= len(of)
		}
		if diff := cmp.Diff(lengths, m.lengths); diff != "" || claims != 0 || len(m.ends.items) != len(m.running) {
			t.Errorf("leases: %d claim ids too many, %d ends for %d leases; lengths:\n%s", -claims, len(m.ends.items), len(m.running), diff)
		}
		for i := range m.ends.items {
			if i > 0 && m.ends.items[(i-1)/2].end() > m.ends.items[i].end() {
				t.Errorf("the ends of leases are out of order at %d", i)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// gatePicture is what a state holds of its gates, the free ones left out.
func (s *state) gatePicture() map[lane.Gate]string {
	all := map[lane.Gate]string{}
	for name, g := range s.gates {
		c := g.circuit
		text := fmt.Sprintf("%d lanes, %d running, %s %d failures, generation %d, opened %v, retry %v, held %v, probe %v, after %q",
			g.lanes, g.running, c.State, c.Failures, c.Generation, c.OpenedAt, c.RetryAt, c.HeldUntil, c.ProbeAt, c.FailedTask)
		if g.lanes > 0 || g.stored {
			all[name] = text
		}
	}
	return all
}
