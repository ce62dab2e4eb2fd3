package sqlite

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// forever is how long a claim waits that is to be ended by something else.
const forever = time.Hour

func want(queue string, n int, wait time.Duration) store.Want {
	return store.Want{
		Worker: testWorker, Queues: []store.QueueLease{{Queue: queue, Lease: 30 * time.Second}}, Max: n, MaxBytes: 8 << 20, Wait: wait,
	}
}

func newJobLane(queue string) lane.Key {
	j := newJob(queue)
	return lane.Key{Queue: queue, Task: j.Task, Version: j.Version}
}
