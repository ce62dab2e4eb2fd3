// Package chain puts the fallbacks of a destination in the order in which a
// message meets them. The engine that delivers and the commands that explain ask
// it both. It is pure.
package chain

import "fmt"

// Link is one destination of a chain.
type Link struct {
	Name string
	// Parent is the place in the chain of the destination whose fallback this
	// is; -1 for the first, which is nobody's.
	Parent int
}

// Flatten returns the chain of the destination: it, then depth first its
// fallbacks with their own. A destination that was left is not entered again by
// the same message, so each is there once, at its first place. One that leads
// back to itself is an error.
func Flatten(name string, fallbacks func(name string) []string) ([]Link, error) {
	f := flattening{fallbacks: fallbacks, places: map[string]place{}}
	if err := f.add(name, -1); err != nil {
		return nil, err
	}
	return f.chain, nil
}

type flattening struct {
	fallbacks func(string) []string
	chain     []Link
	places    map[string]place
}

// place is how far the walk is with a destination. The zero value is not there.
type place uint8

const (
	below place = iota + 1 // the walk is at its fallbacks
	done
)

func (f *flattening) add(name string, parent int) error {
	switch f.places[name] {
	case below:
		return fmt.Errorf("destination %q falls back to itself", name)
	case done:
		return nil
	}
	f.places[name] = below
	f.chain = append(f.chain, Link{name, parent})
	at := len(f.chain) - 1
	for _, next := range f.fallbacks(name) {
		if err := f.add(next, at); err != nil {
			return err
		}
	}
	f.places[name] = done
	return nil
}
