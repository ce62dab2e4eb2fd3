package httpapi

import (
	"encoding/json/v2"
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

// marshal sends an answer that is off the hot path.
func (q *request) marshal(status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("writing an answer: %w", err)
	}
	return q.answer(status, b)
}

// slice reads which part of a list by name is wanted.
func (q *request) slice() (jobserver.Slice, error) {
	p := q.query("limit", "cursor")
	part := jobserver.Slice{After: p.text("cursor"), Limit: p.limit(store.MaxPage)}
	name, version, versioned := strings.Cut(part.After, "@") // of a task
	if part.After != "" && (job.BadName(name) != "" || versioned && job.BadName(version) != "") {
		return part, noCursor
	}
	return part, p.err()
}

// noCursor refuses a cursor that somebody made up: a list that began anew for it
// would have no end.
var noCursor = invalid("cursor", "is none that this list gave out; begin without one")

// text writes a length of time; nil was not said.
func text(d *time.Duration) *Duration {
	if d == nil {
		return nil
	}
	return new(Duration(duration.Text(*d)))
}

// textOrNull is null for "".
func textOrNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// numberOrNull is null for 0.
func numberOrNull(n int) *int {
	if n == 0 {
		return nil
	}
	return &n
}

// wireTimeOrNull is null for the zero time.
func wireTimeOrNull(t time.Time) *Time {
	if t.IsZero() {
		return nil
	}
	return new(wireTime(t))
}

func wireManaged(m *jobserver.Managed) Managed {
	return Managed{ManagedBy: textOrNull(string(m.By)), UpdatedAt: wireTimeOrNull(m.UpdatedAt), UpdatedBy: textOrNull(m.UpdatedBy)}
}

func wireRetry(o *job.Overlay) Retry {
	return Retry{MaxAttempts: o.MaxAttempts, Initial: text(o.Initial), Factor: o.Factor, MaxDelay: text(o.MaxDelay), Jitter: o.Jitter}
}

func wirePaused(p *store.Pause) *Paused {
	if p == nil {
		return nil
	}
	return &Paused{By: p.By, Since: wireTime(p.Since)}
}
