package deliver

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/chain"
	"github.com/pawlhq/pawl/internal/semaphore"
)

// Set is the destinations of one configuration. It never changes.
type Set struct {
	fleet  *Fleet
	byName map[string]*Destination
}

// Destination returns the one with the name.
func (s *Set) Destination(name string) (*Destination, bool) {
	d, ok := s.byName[name]
	return d, ok
}

// Destination is one destination of a Set. Safe for concurrent use.
type Destination struct {
	spec      Spec
	endpoints []Endpoint    // each with its name; a plain destination has one
	timeout   time.Duration // the longest of theirs
	fleet     *Fleet
	lane      *lane
	chain     []link
}

// link is one step of a chain: a destination and the step whose fallback it
// is, whose deadline therefore bounds it too.
type link struct {
	to     *Destination
	parent int
}

// Name returns the destination's name.
func (d *Destination) Name() string { return d.spec.Name }

// Link makes the destinations of a configuration without putting anything in
// force. Unknown fallbacks, cycles, doubled names (of destinations and members
// alike) and what a Spec does not allow are errors. Nothing can be delivered
// before Install.
func (f *Fleet) Link(specs []Spec) (*Set, error) {
	set := &Set{fleet: f, byName: make(map[string]*Destination, len(specs))}
	for _, spec := range specs {
		if _, dup := set.byName[spec.Name]; dup {
			return nil, fmt.Errorf("destination %q is there twice", spec.Name)
		}
		endpoints, err := spec.endpoints()
		if err != nil {
			return nil, fmt.Errorf("destination %q: %w", spec.Name, err)
		}
		d := &Destination{spec: spec, endpoints: endpoints, fleet: f}
		for i := range endpoints {
			d.timeout = max(d.timeout, endpoints[i].Timeout)
		}
		set.byName[spec.Name] = d
	}
	if err := set.checkNames(); err != nil {
		return nil, err
	}
	for _, spec := range specs {
		for _, name := range spec.Fallback {
			if _, ok := set.byName[name]; !ok {
				return nil, fmt.Errorf("destination %q falls back to %q, which is not there", spec.Name, name)
			}
		}
	}
	for _, spec := range specs {
		links, err := chain.Flatten(spec.Name, func(name string) []string { return set.byName[name].spec.Fallback })
		if err != nil {
			return nil, err
		}
		d := set.byName[spec.Name]
		for _, l := range links {
			d.chain = append(d.chain, link{set.byName[l.Name], l.Parent})
		}
	}
	return set, nil
}

// endpoints returns what attempts are made at, each with its name.
func (s *Spec) endpoints() ([]Endpoint, error) {
	if s.Group == nil {
		e := s.Endpoint
		e.EndpointName = s.Name
		return []Endpoint{e}, nil
	}
	switch n := len(s.Group.Members); {
	case n == 0:
		return nil, errors.New("the group has no members")
	case n > maxMembers:
		return nil, fmt.Errorf("the group has %d members, the most is %d", n, maxMembers)
	case s.Hedge != nil && s.Hedge.Max < 1:
		return nil, fmt.Errorf("at most %d hedges are none at all", s.Hedge.Max)
	}
	var all []Endpoint
	for _, m := range s.Group.Members {
		if m.EndpointName == "" {
			return nil, errors.New("a member has no name")
		}
		all = append(all, m.Endpoint)
	}
	return all, nil
}

// checkNames reports a member that has the name of another or of a destination.
func (s *Set) checkNames() error {
	of := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(s.byName)) {
		d := s.byName[name]
		if d.spec.Group == nil {
			continue
		}
		for i := range d.endpoints {
			member := d.endpoints[i].EndpointName
			if _, dup := s.byName[member]; dup {
				return fmt.Errorf("member %q of destination %q has the name of a destination", member, name)
			}
			if other, dup := of[member]; dup {
				return fmt.Errorf("member %q is there twice, in %q and in %q", member, other, name)
			}
			of[member] = name
		}
	}
	return nil
}

// Install puts a linked set in force: its connectors, bounds and breaker
// numbers hold at once, for the messages of older sets too. Lanes of names that
// are gone stay until the sets that know them are retired. A set is installed
// once.
func (f *Fleet) Install(set *Set) {
	f.mu.Lock()
	f.installed[set] = struct{}{}
	for _, d := range set.byName {
		d.lane = f.lane(d.spec)
	}
	f.mu.Unlock()
	for _, d := range set.byName {
		d.lane.apply(&d.spec, d.endpoints)
	}
}

// Configure links the specs and installs them.
func (f *Fleet) Configure(specs []Spec) (*Set, error) {
	set, err := f.Link(specs)
	if err != nil {
		return nil, err
	}
	f.Install(set)
	return set, nil
}

// lane returns the lane of the name, made where there is none. The caller holds
// f.mu.
func (f *Fleet) lane(spec Spec) *lane {
	l, ok := f.lanes[spec.Name]
	if !ok {
		l = &lane{
			name:   spec.Name,
			places: semaphore.New(int64(spec.MaxPending)),
			post:   newPost(spec.Name, f.opts.Events, f.opts.Log),
			chores: chores{opts: &f.opts},
		}
		f.lanes[spec.Name] = l
	}
	return l
}

// Retire says that the last message of an installed set has ended. Lanes that
// no other installed set knows are forgotten and their connectors closed.
func (f *Fleet) Retire(set *Set) {
	f.mu.Lock()
	delete(f.installed, set)
	var gone []*lane
	for name := range set.byName {
		if l := f.lanes[name]; l != nil && !f.known(name) {
			delete(f.lanes, name)
			gone = append(gone, l)
		}
	}
	f.mu.Unlock()
	for _, l := range gone {
		l.retire()
	}
}

// known says whether an installed set has a destination of the name. The
// caller holds f.mu.
func (f *Fleet) known(name string) bool {
	for set := range f.installed {
		if set.byName[name] != nil {
			return true
		}
	}
	return false
}

// Close closes every connector. Sends in flight may fail.
func (f *Fleet) Close() {
	f.mu.Lock()
	clear(f.installed)
	gone := slices.Collect(maps.Values(f.lanes))
	clear(f.lanes)
	f.mu.Unlock()
	for _, l := range gone {
		l.retire()
	}
}
