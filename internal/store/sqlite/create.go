package sqlite

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"fmt"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	sqlIdem = `SELECT i.seq, i.hash, j.created_at FROM idem i CROSS JOIN job j ON j.seq=i.seq WHERE i.key=?`
	// sqlIdemNew changes nothing where the key is there.
	sqlIdemNew = "INSERT INTO idem(key, seq, hash) VALUES (?, ?, ?) ON CONFLICT(key) DO NOTHING"
	sqlLaneNew = "INSERT INTO lane(lane, queue, task, version, endpoint, priority, kind) VALUES (?, ?, ?, ?, ?, ?, ?)"
	sqlJobNew  = `INSERT INTO job(seq, lane, run_at, created_at, policy, timeout_ms, key, uniq, trace, tags, head, payload)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	sqlReadyNew = `INSERT INTO ready(lane, run_at, seq, attempt, charged, lost, lost_row, unreceived, policy, timeout_ms, bytes)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
)

// jobOverhead is what a job adds to a group beside its content, about.
const jobOverhead = 200

// Create stores all of the jobs or none.
func (s *Store) Create(ctx context.Context, jobs []store.NewJob) ([]store.Created, error) {
	if len(jobs) == 0 {
		return nil, nil
	}
	c, size, err := newCreation(s.ids, jobs)
	if err != nil {
		return nil, err
	}
	given, err := s.space.take(size)
	if err != nil {
		return nil, err
	}
	defer given()
	if err := s.writer.submit(ctx, size, c.run); err != nil {
		return nil, err
	}
	for i := range c.made {
		c.made[i].ID = s.ids.Make(at(c.rows[i].at), c.rows[i].seq)
		if !c.made[i].Found {
			c.made[i].CreatedAt = at(c.rows[i].at)
		}
	}
	return c.made, nil
}

// creation is a Create on its way through the writer.
type creation struct {
	ids  job.IDs
	jobs []store.NewJob
	tags []any // as JSON; nil for none
	made []store.Created
	rows []madeRow // what the ids are computed from, outside of the writer
}

type madeRow struct{ seq, at int64 }

// newCreation makes the creation of jobs, and says how much it writes in bytes.
func newCreation(ids job.IDs, jobs []store.NewJob) (c creation, size int, err error) {
	c = creation{ids: ids, jobs: jobs, tags: make([]any, len(jobs)), made: make([]store.Created, len(jobs)), rows: make([]madeRow, len(jobs))}
	for i := range jobs {
		size += jobs[i].Content.Size() + jobOverhead
		if len(jobs[i].Tags) == 0 {
			continue
		}
		text, err := json.Marshal(jobs[i].Tags)
		if err != nil {
			return c, 0, fmt.Errorf("tags: %w", err)
		}
		c.tags[i] = string(text)
	}
	return c, size, nil
}

func (c *creation) run(t *tx) error {
	clear(c.made)
	clear(c.rows)
	if len(c.jobs) == 1 {
		return c.single(t)
	}
	// All keys first: a conflict ends the call before anything is written.
	first := map[string]int{} // the first job of each key
	for i := range c.jobs {
		j := &c.jobs[i]
		if j.Key == "" {
			continue
		}
		k, twice := first[j.Key]
		if !twice {
			first[j.Key] = i
			if err := c.find(t, i); err != nil {
				return err
			}
		} else if c.jobs[k].Hash != j.Hash {
			return c.twins(i, k)
		}
	}
	if err := c.room(t); err != nil {
		return err
	}
	for i := range c.jobs {
		j := &c.jobs[i]
		if c.made[i].Found {
			continue
		}
		if k, keyed := first[j.Key]; keyed && k != i {
			c.made[i].Found, c.rows[i] = true, c.rows[k]
			continue
		}
		if err := c.create(t, i); err != nil {
			return err
		}
		if j.Key == "" || c.made[i].Found {
			continue
		}
		n, err := t.exec(sqlIdemNew, j.Key, t.w.state.seq, j.Hash[:])
		if err != nil {
			return err
		}
		if n != 1 {
			return t.diverge("the idempotency key %q is there, but was not", j.Key)
		}
	}
	return nil
}

// single creates one job. Its key is looked up by writing it, which saves a
// statement where it is new.
func (c *creation) single(t *tx) error {
	if err := c.room(t); err != nil {
		if c.jobs[0].Key == "" {
			return err
		}
		if found := c.find(t, 0); found != nil || c.made[0].Found {
			return found
		}
		return err
	}
	if j := &c.jobs[0]; j.Key != "" && j.Unique != "" {
		return c.singleOfTwoKeys(t)
	} else if j.Key != "" {
		n, err := t.exec(sqlIdemNew, j.Key, t.w.state.seq+1, j.Hash[:])
		if err != nil {
			return err
		}
		if n == 0 {
			if err := c.find(t, 0); err != nil {
				return err
			}
			if !c.made[0].Found {
				return t.diverge("the idempotency key %q leads to no job", j.Key)
			}
			return nil
		}
	}
	return c.create(t, 0)
}

// singleOfTwoKeys creates a job with an idempotency key and a unique one. A job
// that the second finds does not get the first.
func (c *creation) singleOfTwoKeys(t *tx) error {
	if err := c.find(t, 0); err != nil || c.made[0].Found {
		return err
	}
	if err := c.create(t, 0); err != nil || c.made[0].Found {
		return err
	}
	_, err := t.exec(sqlIdemNew, c.jobs[0].Key, t.w.state.seq, c.jobs[0].Hash[:])
	return err
}

// room is an error where the lanes of the jobs that are to be made would be more
// than there may be. It is asked before anything is written.
func (c *creation) room(t *tx) error {
	s := t.w.state
	if s.board.Len()+len(c.jobs) <= t.w.maxLanes {
		return nil
	}
	fresh := map[lane.Key]struct{}{}
	for i := range c.jobs {
		k := laneOf(&c.jobs[i])
		if _, known := s.board.Find(k); !known && !c.made[i].Found {
			fresh[k] = struct{}{}
		}
	}
	if n := s.board.Len() + len(fresh); len(fresh) > 0 && n > t.w.maxLanes {
		return fmt.Errorf("%w: %d kinds of jobs, which differ in queue, task, version, endpoint or priority; the most is %d",
			store.ErrTooMany, n, t.w.maxLanes)
	}
	return nil
}

func laneOf(j *store.NewJob) lane.Key {
	return lane.Key{Queue: j.Queue, Task: j.Task, Version: j.Version, Endpoint: j.Endpoint, Priority: j.Priority, Synthetic: j.Kind == job.Synthetic}
}

// find looks whether the key of a job is there already.
func (c *creation) find(t *tx, i int) error {
	j := &c.jobs[i]
	var hash []byte
	_, err := t.one(sqlIdem, func(r *row) error {
		hash = r.blob(1)
		c.made[i].Found, c.rows[i] = true, madeRow{r.int(0), r.int(2)}
		return nil
	}, j.Key)
	if err == nil && hash != nil && !bytes.Equal(hash, j.Hash[:]) {
		return c.conflict(i, c.rows[i])
	}
	return err
}

// conflict says that a key stands for another request, of the job in a row.
func (c *creation) conflict(i int, of madeRow) error {
	return &store.ConflictError{Index: i, Key: c.jobs[i].Key, ID: c.ids.Make(at(of.at), of.seq)}
}

// twins says that a key stands for two requests of this call, of which the first
// may be a repeat of one that is stored.
func (c *creation) twins(i, first int) error {
	if of := c.rows[first]; of.seq != 0 {
		return c.conflict(i, of)
	}
	return &store.ConflictError{Index: i, Key: c.jobs[i].Key, Twin: &first}
}

// create writes one job.
func (c *creation) create(t *tx, i int) error {
	s, j := t.w.state, &c.jobs[i]
	if j.Unique != "" {
		other, err := t.claimUnique(laneOf(j), j.Unique, s.seq+1)
		if err != nil {
			return err
		}
		if other != (madeRow{}) {
			c.made[i].Found, c.rows[i] = true, other
			return nil
		}
	}
	l, err := t.lane(laneOf(j))
	if err != nil {
		return err
	}
	policy, err := t.policyID(j.Policy)
	if err != nil {
		return err
	}
	runAt := t.now
	if !j.RunAt.IsZero() {
		runAt = max(runAt, j.RunAt.UnixMilli())
	} else if j.Delay > 0 {
		runAt += j.Delay.Milliseconds()
	}
	seq, timeout := s.seq+1, max(j.Timeout.Milliseconds(), 1)
	payload := j.Content.Payload
	if payload == nil {
		payload = []byte{}
	}
	if _, err := t.exec(sqlJobNew, seq, int64(l.id), runAt, t.now, int64(policy), timeout,
		orNull(j.Key), orNull(j.Unique), orNull(string(j.Trace)), c.tags[i], j.Content.Head, payload); err != nil {
		return err
	}
	s.seq = seq
	t.created = append(t.created, createdJob{j, t.now})
	c.rows[i], c.made[i].RunAt = madeRow{seq, t.now}, at(runAt)
	t.jobEvent(store.JobCreated, seq, t.now, l, eventData{RunAt: stamp(runAt)})
	return t.ready(l, runAt, seq, 0, job.Counts{}, int64(policy), timeout, int64(j.Content.Size()))
}

// createdJob is a job that this transaction made: one that is claimed in it
// needs no read.
type createdJob struct {
	job *store.NewJob
	at  int64
}

// orNull is NULL for "".
func orNull(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// lane returns the lane of a key, made where it is new, to be changed.
func (t *tx) lane(k lane.Key) (*laneRow, error) {
	s := t.w.state
	var l *laneRow
	if id, known := s.board.Find(k); known {
		l = s.lanes[id]
	} else {
		l = s.newLane(k)
	}
	t.touch(l)
	if l.stored {
		return l, nil
	}
	if _, err := t.exec(sqlLaneNew, int64(l.id), k.Queue, k.Task, k.Version, k.Endpoint, k.Priority, kindColumn(k)); err != nil {
		return nil, err
	}
	l.stored = true
	return l, nil
}

// kindColumn is the kind of a lane's jobs as its row has it.
func kindColumn(k lane.Key) string {
	if k.Synthetic {
		return string(job.Synthetic)
	}
	return string(job.Ordinary)
}

// ready puts a job into the line of its lane. The lane was touched.
func (t *tx) ready(l *laneRow, runAt, seq int64, attempt int, c job.Counts, policy, timeout, bytes int64) error {
	if _, err := t.exec(sqlReadyNew, int64(l.id), runAt, seq, attempt, c.Charged, c.Lost, c.LostInRow, c.Unreceived, policy, timeout, bytes); err != nil {
		return err
	}
	t.queued(l, runAt)
	return nil
}

// queued counts a job that came to stand ready in the lane.
func (t *tx) queued(l *laneRow, runAt int64) {
	s := t.w.state
	head := runAt
	if l.tally.ready > 0 {
		head = min(head, l.head)
	}
	s.setReady(l, l.tally.ready+1, head)
	if runAt <= t.now {
		s.heat(l)
	}
}
