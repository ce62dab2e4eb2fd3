package sim

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

// replica is one of the relays of a plan, through all its lives: an address and a
// disk of its own.
type replica struct {
	w      *world
	number int
	disk   *faultfs.Disk
	crash  *rand.Rand
	// turn counts reloads, in the lives before too. Touched by the goroutine of Run
	// and its levers, one after the other.
	turn int

	mu      sync.Mutex
	current *process
}

func (w *world) newReplica(number int) *replica {
	r := &replica{
		w: w, number: number, disk: faultfs.New(),
		crash: rand.New(rand.NewPCG(w.plan.Seed, uint64(2+10*number))),
	}
	r.disk.Inject(w.diskFault(uint64(3 + 10*number)))
	return r
}

func (r *replica) address() string { return fmt.Sprintf("pawl-%d.test:8080", r.number) }

// restart begins the next life.
func (r *replica) restart() {
	p, err := r.start()
	for err != nil { // a disk without space may refuse a start
		r.w.story.tell("", "no start: %v", err)
		time.Sleep(time.Second)
		if time.Since(r.w.began) > 2*length {
			panic(fmt.Sprintf("sim: no start with everything well: %v", err))
		}
		p, err = r.start()
	}
	r.become(p)
}

func (r *replica) become(p *process) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.current = p
}

// running is the life that runs now.
func (r *replica) running() *process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}
