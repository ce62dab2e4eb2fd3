package memory_test

// These tests catch a store that is not what the contract says, one that grows
// past its bound or keeps what is over, and one that gives a lease away before
// its end to make room.

import (
	"testing"
	"testing/synctest"

	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/kvtest"
	"github.com/pawlhq/pawl/internal/kv/memory"
)

func TestContract(t *testing.T) {
	var shared *memory.Store
	kvtest.Run(t, kvtest.Harness{
		Within: func(t *testing.T, f func(*testing.T)) {
			shared = memory.New(memory.Options{})
			synctest.Test(t, f)
		},
		Open: func(testing.TB) kv.Store { return shared },
	})
}
