package deadletter

import (
	"crypto/rand"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"
)

// ids makes ids that sort by the time they were made. Its entropy is
// monotonic and not safe by itself.
var ids = struct {
	sync.Mutex
	entropy *ulid.MonotonicEntropy
}{entropy: ulid.Monotonic(rand.Reader, 0)}

// NewID returns a fresh letter id, a ULID of the time. Safe for concurrent use.
func NewID(at time.Time) string {
	ids.Lock()
	defer ids.Unlock()
	ms := ulid.Timestamp(at)
	id, err := ulid.New(ms, ids.entropy)
	if err != nil {
		// 2^80 ids in one millisecond: start over with fresh entropy.
		ids.entropy = ulid.Monotonic(rand.Reader, 0)
		id = ulid.MustNew(ms, ids.entropy)
	}
	return id.String()
}
