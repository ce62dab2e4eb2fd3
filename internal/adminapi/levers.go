package adminapi

import (
	"maps"
	"sync"
	"time"
)

// Pull is who moved a lever, and when.
type Pull struct {
	By    string    `json:"by"`
	Since time.Time `json:"since"`
}

// Levers remembers what people changed at run time. Safe for concurrent use.
type Levers struct {
	mu     sync.Mutex
	paused map[string]Pull
}

// NewLevers returns levers that nobody has moved.
func NewLevers() *Levers { return &Levers{paused: map[string]Pull{}} }

func (l *Levers) pause(name, by string, now time.Time) Pull {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p, ok := l.paused[name]; ok {
		return p // the first to pause stands
	}
	p := Pull{by, now}
	l.paused[name] = p
	return p
}

func (l *Levers) resume(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.paused, name)
}

// Retain forgets the levers of names that are gone: one that comes back begins
// anew.
func (l *Levers) Retain(named func(name string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.paused, func(name string, _ Pull) bool { return !named(name) })
}

// Paused reports whether the source or destination of the name is paused.
func (l *Levers) Paused(name string) bool { return l.pausedBy(name) != nil }

// pausedBy returns who paused the name; nil for nobody.
func (l *Levers) pausedBy(name string) *Pull {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.paused[name]
	if !ok {
		return nil
	}
	return &p
}
