package redis_test

// These tests catch a store that is not what the contract says on a real server
// and on a cluster, one that loses its way when the server is away, slow or
// silent, one that repeats what must not be repeated, and a password in an
// error.

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"go.uber.org/goleak"

	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/kv/kvtest"
	"github.com/pawlhq/pawl/internal/kv/redis"
	"github.com/pawlhq/pawl/internal/setting"
)

func TestMain(m *testing.M) {
	// The library's client of a cluster looks at the nodes again a second after it
	// lost one, closed or not; then that goroutine ends.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}

// service is the address of a Redis server that is nobody's in particular. What
// a test writes there has a prefix of its own, and is gone afterwards.
func service(t *testing.T) (addr, prefix string) {
	t.Helper()
	addr = os.Getenv("PAWL_TEST_REDIS")
	if addr == "" {
		addr = "127.0.0.1:6379"
	}
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		missing(t, fmt.Sprintf("Redis at %s: %v", addr, err))
	}
	prefix = "pawltest" + rand.Text() + ":"
	t.Cleanup(func() {
		defer c.Close()
		clean(t, c, prefix)
	})
	return addr, prefix
}

// missing leaves a test out, or fails it where every service must be there.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("PAWL_REQUIRE_SERVICES") == "1" {
		t.Fatal(what)
	}
	t.Skip("LEFT OUT: there is no " + what)
}

// clean deletes what begins with a prefix.
func clean(t *testing.T, c rueidis.Client, prefix string) {
	ctx := context.Background()
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Match(prefix+"*").Count(1000).Build()).AsScanEntry()
		if err != nil {
			t.Errorf("clean: %v", err)
			return
		}
		for _, key := range page.Elements {
			if err := c.Do(ctx, c.B().Unlink().Key(key).Build()).Error(); err != nil {
				t.Errorf("clean: %v", err)
			}
		}
		if cursor = page.Cursor; cursor == 0 {
			return
		}
	}
}

// open opens a store, or fails the test.
func open(t testing.TB, o redis.Options) *redis.Store {
	t.Helper()
	s, err := redis.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func at(addr string) setting.Secret { return setting.NewSecret("redis://" + addr) }

func TestContract(t *testing.T) {
	addr, prefix := service(t)
	kvtest.Run(t, kvtest.Harness{Open: func(t testing.TB) kv.Store {
		return open(t, redis.Options{URL: at(addr), Prefix: prefix})
	}})
}

func TestNetwork(t *testing.T) {
	server, prefix := service(t)
	kvtest.RunNetwork(t, kvtest.Network{Addr: server, Open: func(t testing.TB, addr string) kv.Store {
		return open(t, redis.Options{URL: at(addr), Prefix: prefix, Silence: time.Second})
	}})
}
