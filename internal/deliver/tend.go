package deliver

import (
	"context"
	"slices"
	"strings"
	"sync"
)

// tend starts and ends what the lane does beside its deliveries, as a spec says
// that is in force from now on. It is called with each Install.
func (l *lane) tend(spec *Spec) {
	l.share(spec)
	l.watch(spec)
}

// chores are a lane's goroutines beside its deliveries, one a name. Safe for
// concurrent use. The zero value has none.
type chores struct {
	opts    *Options
	mu      sync.Mutex
	ended   bool
	running map[string]*chore
	all     sync.WaitGroup
}

type chore struct{ stop context.CancelFunc }

// keep runs the chore of the name from now on; one that runs already goes on as it
// is. run returns soon after its ctx has ended. After end nothing is begun.
func (c *chores) keep(name string, run func(ctx context.Context)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.running[name] != nil {
		return
	}
	if c.running == nil {
		c.running = map[string]*chore{}
	}
	ctx, stop := context.WithCancel(context.Background())
	c.running[name] = &chore{stop}
	c.all.Go(func() { run(ctx) })
}

// drop ends the chore of the name, where one runs, without waiting for it.
func (c *chores) drop(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.running[name]; one != nil {
		one.stop()
		delete(c.running, name)
	}
}

// only ends the chores whose name begins with prefix, but for those named.
func (c *chores) only(prefix string, names []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, one := range c.running {
		if strings.HasPrefix(name, prefix) && !slices.Contains(names, name) {
			one.stop()
			delete(c.running, name)
		}
	}
}

// end ends all of them and returns when they have.
func (c *chores) end() {
	c.mu.Lock()
	c.ended = true
	for _, one := range c.running {
		one.stop()
	}
	clear(c.running)
	c.mu.Unlock()
	c.all.Wait()
}
