package sqlite

import (
	"fmt"
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
		if !l.stored {
			continue // one of a transaction that was rolled back
		}
		head := l.head
		if l.tally.ready == 0 {
			head = 0
		}
		p.Lanes[l.key] = fmt.Sprintf("%d: %+v from %d", l.id, l.tally, head)
	}
	for seq, l := range s.running {
		p.Running[seq] = fmt.Sprintf("lane %d run_at %d attempt %d counts %+v policy %d timeout %d bytes %d worker %q claim %q claimed %d started %d heard %t lease %d cut %t",
			l.lane.id, l.runAt, l.attempt, l.counts, l.policy, l.timeout, l.bytes, l.worker, l.claim, l.claimedAt, l.startedAt, l.heardAt != 0, l.length, l.log.cut)
	}
	return p
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
		if diff := cmp.Diff(f.picture(), m.picture()); diff != "" {
			t.Errorf("memory is not what the file says (-file +memory):\n%s", diff)
		}
		if m.seq < f.seq || m.attempt < f.attempt {
			t.Errorf("memory would give out seq %d and n %d again: the file has %d and %d", m.seq+1, m.attempt+1, f.seq, f.attempt)
		}
		for _, l := range m.lanes[1:] {
			n, head := m.board.Ready(l.id)
			if n != l.tally.ready || n > 0 && head.UnixMilli() != l.head {
				t.Errorf("lane %d: the board has %d from %v, the lane %d from %d", l.id, n, head, l.tally.ready, l.head)
			}
			if n > 0 && l.head > x.now && l.waits == 0 {
				t.Errorf("lane %d comes due at %d and nothing waits for that", l.id, l.head)
			}
		}
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
