package store

import (
	"context"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
)

// Facts tells what a job server has to know of running and waiting jobs at once.
type Facts interface {
	// Outputs returns, for each lease, the hash of the schema that its job's result
	// is held against: zero where there is none, where the lease is not current, or
	// where the job was cancelled.
	Outputs(ctx context.Context, leases []string) ([]job.SchemaHash, error)
	// KeepsSchemas reports whether the store keeps any JSON Schema: where it keeps
	// none, no job has one.
	KeepsSchemas(ctx context.Context) (bool, error)
	// OldestDue returns, by queue, when its job that waits longest was or will be
	// due; queues without a queued job are left out.
	OldestDue(ctx context.Context) (map[string]time.Time, error)
	// TellGone writes the event that a subscription gets nothing any more, and why.
	TellGone(ctx context.Context, subscription, why string) error
}
