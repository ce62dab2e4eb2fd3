package app

import (
	"fmt"
	"net/url"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/relay"
	"github.com/pawlhq/pawl/internal/settle"
	"github.com/pawlhq/pawl/internal/transform/jq"
)

// seen is what a source has seen, with what it was made for. It outlives
// configurations that say the same of it; the key's expression may change.
type seen struct {
	said   config.Dedupe // without Key
	store  *openStore    // nil: this relay's own memory
	dedupe *settle.Dedupe
}

// dedupe returns how the source's repeats are told, and puts what it has seen
// into next. It is nil for a source that drops none.
func (e *Engine) dedupe(c *config.Config, s *config.Source, next map[string]seen) (*relay.Dedupe, error) {
	if s.Dedupe == nil {
		return nil, nil
	}
	key, err := jq.Compile(s.Dedupe.Key)
	if err != nil {
		return nil, fmt.Errorf("source %s: dedupe.key: %w", s.Name, err)
	}
	now := seen{said: *s.Dedupe}
	now.said.Key = ""
	if name := s.Dedupe.Store; name != "" {
		if now.store = e.taking.byName[name]; now.store == nil {
			return nil, fmt.Errorf("source %s: dedupe.store: no store %q is configured", s.Name, name)
		}
	}
	if old, ok := e.seen[s.Name]; ok && old.said == now.said && old.store == now.store {
		now.dedupe = old.dedupe
	} else {
		o := settle.DedupeOptions{TTL: s.Dedupe.TTL, Max: s.Dedupe.MaxEntries, Scope: dedupeScope(c.Relay, s.Name)}
		if now.store != nil {
			o.Store, o.Skipped = now.store, now.store.skipped
		}
		now.dedupe = settle.NewDedupe(o)
	}
	next[s.Name] = now
	return &relay.Dedupe{Key: key.Key, Seen: now.dedupe}, nil
}

// dedupeScope goes before a source's keys in a store: relays and sources of the
// same names drop each other's duplicates. Escaped, neither name has a slash, so
// no two are written alike.
func dedupeScope(relay, source string) string {
	return "dedupe/" + url.PathEscape(relay) + "/" + url.PathEscape(source) + "/"
}
