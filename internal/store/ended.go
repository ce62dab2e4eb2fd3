package store

import (
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
)

// Ended is an attempt that is over, as who follows traces is told of it.
type Ended struct {
	Job                                    string
	Queue, Task, Version, Endpoint, Worker string
	Trace                                  job.Trace // the job's
	Number                                 int
	ClaimedAt, EndedAt                     time.Time
	Outcome                                job.Outcome
	Charged                                bool
	Status                                 job.Status // the job's afterwards
	Reason                                 job.Reason // of one that failed for good
	Error                                  *job.Error // what its worker said; nil for nothing
}
