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

// lever is what people can change at run time.
type lever uint8

const (
	pauseLever   lever = iota // of a source or destination
	breakerLever              // of a destination
	rateLever                 // of a destination
)

// pulled is a lever of a name.
type pulled struct {
	lever lever
	name  string
}

// position is where a lever stands and who put it there.
type position struct {
	Pull
	at string // in words
}

// Levers remembers what people changed at run time. Safe for concurrent use.
type Levers struct {
	// turn is held while a lever is moved and that is noted: of two who pull at
	// once, the one who was last is the one that status shows.
	turn  sync.Mutex
	mu    sync.Mutex
	moved map[pulled]position
}

// NewLevers returns levers that nobody has moved.
func NewLevers() *Levers { return &Levers{moved: map[pulled]position{}} }

// pull notes that a lever stands at a position. The first to put it there
// stands.
func (l *Levers) pull(lever lever, name, at, by string, now time.Time) Pull {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := pulled{lever, name}
	if p, ok := l.moved[key]; ok && p.at == at {
		return p.Pull
	}
	p := Pull{by, now}
	l.moved[key] = position{p, at}
	return p
}

// release notes that nobody holds the lever any more.
func (l *Levers) release(lever lever, name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.moved, pulled{lever, name})
}

// Retain forgets the levers of names that are gone: one that comes back begins
// anew.
func (l *Levers) Retain(named func(name string) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.moved, func(p pulled, _ position) bool { return !named(p.name) })
}

// Paused reports whether the source or destination of the name is paused.
func (l *Levers) Paused(name string) bool { return l.by(pauseLever, name) != nil }

// by returns who moved the lever; nil for nobody.
func (l *Levers) by(lever lever, name string) *Pull {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.moved[pulled{lever, name}]
	if !ok {
		return nil
	}
	return &p.Pull
}
