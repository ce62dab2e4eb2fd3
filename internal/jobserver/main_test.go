package jobserver

import (
	"testing"

	"go.uber.org/goleak"
)

// What this would catch: a loop that outlives its Run, a store that outlives
// its Close.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
