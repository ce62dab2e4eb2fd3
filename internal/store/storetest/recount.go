package storetest

import (
	"context"
	"fmt"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// Recount counts the jobs of each lane by looking at every job.
func Recount(ctx context.Context, s store.Jobs) (map[lane.Key]store.LaneCount, error) {
	counts := map[lane.Key]store.LaneCount{}
	jobs, err := All(ctx, s, store.Filter{})
	for _, j := range jobs {
		k := lane.Key{Queue: j.Queue, Task: j.Task, Version: j.Version, Endpoint: j.Endpoint, Priority: j.Priority, Synthetic: j.Kind == job.Synthetic}
		c := counts[k]
		c.Lane = k
		switch j.Status {
		case job.Queued:
			c.Ready++
		case job.Running:
			c.Running++
		case job.Succeeded:
			c.Succeeded++
		case job.Failed:
			c.Failed++
		case job.Cancelled:
			c.Cancelled++
		default:
			return nil, fmt.Errorf("%s is %q", j.ID, j.Status)
		}
		counts[k] = c
	}
	return counts, err
}

// All returns every job of a list, page by page.
func All(ctx context.Context, s store.Jobs, f store.Filter) ([]*job.Job, error) {
	var all []*job.Job
	if f.Limit == 0 {
		f.Limit = store.MaxPage
	}
	for {
		page, err := s.List(ctx, f)
		if err != nil {
			return nil, err
		}
		if all = append(all, page.Jobs...); page.Next == "" {
			return all, nil
		}
		f.Cursor = page.Next
	}
}

// CheckCounts compares the kept counts with a recount. Nothing may happen to the
// store meanwhile. It returns what differs.
func CheckCounts(ctx context.Context, s store.Store) error {
	want, err := Recount(ctx, s)
	if err != nil {
		return err
	}
	kept, err := s.Counts(ctx)
	if err != nil {
		return err
	}
	seen := map[lane.Key]bool{}
	for _, c := range kept {
		if seen[c.Lane] {
			return fmt.Errorf("lane %+v is counted twice", c.Lane)
		}
		seen[c.Lane] = true
		w := want[c.Lane]
		w.Lane = c.Lane
		if w == (store.LaneCount{Lane: c.Lane}) {
			return fmt.Errorf("lane %+v has no job and is kept", c.Lane)
		}
		if c != w {
			return fmt.Errorf("kept %+v, counted %+v", c, w)
		}
	}
	for k := range want {
		if !seen[k] {
			return fmt.Errorf("lane %+v has jobs and no counts", k)
		}
	}
	return nil
}
