package config

import (
	"net/url"
	"reflect"
	"strings"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/setting"
)

// Defaults and bounds of stores and of what uses them.
const (
	// MaxStoreAttempts and MaxStoreWait bound the retrying of an operation:
	// messages wait for it.
	MaxStoreAttempts = 10
	MaxStoreWait     = 10 * time.Second
	// MaxPrefix bounds what goes before every key of a store.
	MaxPrefix = 64
	// DefaultDedupeTTL is as long as a caller is answered from memory.
	DefaultDedupeTTL = 10 * time.Minute
	// MinDedupeTTL is about as long as a message takes at least; past
	// MaxDedupeTTL nobody sends a message again.
	MinDedupeTTL = time.Second
	MaxDedupeTTL = 30 * 24 * time.Hour
	// DefaultDedupeEntries is as many as the relay itself remembers: some 32 MiB.
	DefaultDedupeEntries = 1 << 17
	// MaxDedupeEntries is some 2.5 GiB: more belongs in a store.
	MaxDedupeEntries = 10_000_000
)

// writtenStore is a store of any type.
type writtenStore struct {
	Name    string             `yaml:"name" secret:"never" doc:"unique among the stores"`
	Type    string             `yaml:"type" enum:"memory,redis" doc:"memory is this relay's own, redis is shared"`
	URL     storeURL           `yaml:"url" doc:"redis: redis://[user[:password]@]host[:port][/database], rediss:// for TLS, or unix://…/path; the password best a {{secrets.NAME}}"`
	Prefix  string             `yaml:"prefix" secret:"never" default:"pawl:" doc:"redis: goes before every key, so that several can use one database"`
	Retry   writtenStoreRetry  `yaml:"retry" doc:"how an operation is tried again before the relay goes on without the store"`
	Timeout *setting.Duration  `yaml:"timeout" default:"250ms" doc:"per try"`
	TLS     *setting.ClientTLS `yaml:"tls" doc:"redis: whom to trust, and the certificate to show; needs rediss://"`
}

type writtenStoreRetry struct {
	Attempts   *int              `yaml:"attempts" default:"2" doc:"tries, the first included, from 1 to 10; 1 is no retry"`
	Backoff    *setting.Duration `yaml:"backoff" default:"20ms" doc:"the wait before the first retry; each next one is twice as long"`
	MaxBackoff *setting.Duration `yaml:"max_backoff" default:"1s" doc:"the longest wait, at most 10s"`
	Jitter     *backoff.Jitter   `yaml:"jitter" enum:"full,equal,none" default:"full" doc:"how waits are spread: full is 0 to w, equal is w/2 to w, none is w"`
}

// storeURL is a URL that may have a password in it. The password is hidden in
// everything that is printed, and the rest is not: an address helps whoever
// reads an error. Of what is no URL nobody can tell, so it is hidden whole.
type storeURL struct{ secret setting.Secret }

func (s *storeURL) decode(d decoder, n *yaml.Node) {
	d.own(n, reflect.ValueOf(&s.secret).Elem(), "url", func() error { return s.secret.UnmarshalYAML(n) })
	text := s.secret.Reveal()
	u, err := url.Parse(text)
	if err != nil || u.User == nil && strings.Contains(text, "@") { // a # in the password, say
		d.l.secrets.add(text)
		return
	}
	if password, has := u.User.Password(); has {
		d.l.secrets.add(password)
		d.l.secrets.add(asWritten(text))
	}
}

// asWritten returns the password of a URL as it stands there, escaped perhaps.
func asWritten(text string) string {
	_, rest, _ := strings.Cut(text, "://")
	rest, _, _ = strings.Cut(rest, "/")
	at := strings.LastIndexByte(rest, '@')
	_, password, _ := strings.Cut(rest[:max(at, 0)], ":")
	return password
}

// storeEntry is a store as it was read.
type storeEntry struct {
	origin
	writtenStore
}

func (d decoder) stores(list *yaml.Node) {
	for _, n := range items(list) {
		n = target(n)
		s := storeEntry{origin: origin{d.f, n}}
		d.mapping(n, "a store", reflect.ValueOf(&s.writtenStore).Elem())
		d.l.stores = append(d.l.stores, s)
	}
}

func buildStore(e *storeEntry) Store {
	p := kv.DefaultPolicy()
	p.Attempts = said(e.Retry.Attempts, p.Attempts)
	p.Backoff.Initial = said(e.Retry.Backoff, setting.Duration(p.Backoff.Initial)).D()
	p.Backoff.Max = said(e.Retry.MaxBackoff, max(setting.Duration(p.Backoff.Max), setting.Duration(p.Backoff.Initial))).D()
	p.Backoff.Jitter = said(e.Retry.Jitter, p.Backoff.Jitter)
	p.Timeout = said(e.Timeout, setting.Duration(p.Timeout)).D()
	s := Store{Name: e.Name, Type: e.Type, URL: e.URL.secret, Prefix: e.Prefix, TLS: e.TLS, Retry: p, Digest: digest(e.TLS), At: e.at()}
	if s.Prefix == "" && s.Type == StoreRedis {
		s.Prefix = DefaultPrefix
	}
	return s
}

// DefaultPrefix goes before every key of a store of type redis.
const DefaultPrefix = "pawl:"

func (l *loader) checkStores(c *Config) {
	seen := map[string]origin{}
	used := l.usedStores()
	for i := range l.stores {
		e := &l.stores[i]
		if e.node.Kind != yaml.MappingNode {
			continue // reported as no mapping
		}
		l.checkName(e.file, find(e.node, "name"), "this store", e.Name)
		l.unique(seen, e.origin, "store", e.Name)
		l.checkStoreType(e)
		l.checkStoreRetry(e, &c.Stores[i].Retry)
		if _, ok := used[e.Name]; !ok && e.Name != "" {
			l.warnf(e.file, find(e.node, "name"), "nothing uses the store %q; name it in a source's dedupe.store or in retry_budget.store", e.Name)
		}
		if e.Type == StoreRedis {
			l.checkRedis(e, c.Stores[i])
		}
	}
}

// checkStoreType holds the keys to those that the type has.
func (l *loader) checkStoreType(e *storeEntry) {
	has := func(key string) bool { return child(e.node, key) != nil }
	switch {
	case !has("type"):
		l.errorf(e.file, e.node, "this store has no type; give it memory or redis")
	case e.Type == StoreMemory:
		for _, key := range []string{"url", "prefix", "tls"} {
			if has(key) {
				l.errorf(e.file, keyNode(e.node, key), "%s belongs to type redis, and this store is memory", key)
			}
		}
	}
}

// checkRedis looks at what names the server.
func (l *loader) checkRedis(e *storeEntry, s Store) {
	at := func(key string) *yaml.Node { return find(e.node, key) }
	if e.URL.secret.Empty() {
		if !l.spoiled(e.file, at("url")) {
			l.errorf(e.file, at("url"), "a store of type redis needs url, such as redis://127.0.0.1:6379/0")
		}
		return
	}
	if len(e.Prefix) > MaxPrefix || strings.ContainsFunc(e.Prefix, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		l.errorf(e.file, at("prefix"), "prefix must be at most %d bytes without control characters", MaxPrefix)
		return
	}
	if t := e.TLS; t != nil {
		if (t.Cert == "") != (t.Key == "") {
			l.errorf(e.file, at("tls"), "tls: cert and key go together")
			return
		}
		for _, file := range []string{t.CA, t.Cert, t.Key} {
			if file != "" && readable(file) != nil {
				return // reported by the decoder already
			}
		}
	}
	if l.opts.CheckStore == nil {
		return
	}
	if err := l.opts.CheckStore(s); err != nil {
		key, _, _ := strings.Cut(err.Error(), ":")
		l.errorf(e.file, at(key), "%v", err)
	}
}

// checkStoreRetry holds the retrying to its bounds.
func (l *loader) checkStoreRetry(e *storeEntry, p *kv.Policy) {
	bad := func(key, format string, args ...any) { l.errorf(e.file, find(e.node, key), key+" "+format, args...) }
	most := setting.Duration(MaxStoreWait)
	if p.Attempts < 1 || p.Attempts > MaxStoreAttempts {
		bad("retry.attempts", "must be from 1 to %d, not %d", MaxStoreAttempts, p.Attempts)
	}
	if p.Backoff.Initial < 0 || p.Backoff.Initial > MaxStoreWait {
		bad("retry.backoff", "must be from 0s to %s, not %s", most, setting.Duration(p.Backoff.Initial))
	} else if p.Backoff.Max < p.Backoff.Initial || p.Backoff.Max > MaxStoreWait {
		bad("retry.max_backoff", "must be from backoff, %s, to %s, not %s", setting.Duration(p.Backoff.Initial), most, setting.Duration(p.Backoff.Max))
	}
	if p.Timeout < time.Millisecond || p.Timeout > MaxStoreWait {
		bad("timeout", "must be from 1ms to %s, not %s", most, setting.Duration(p.Timeout))
	}
}

// usedStores are the names of the stores that something leads to.
func (l *loader) usedStores() map[string]struct{} {
	used := map[string]struct{}{}
	use := func(w *writtenDelivery) {
		if s := w.RetryBudget.Store; s != nil {
			used[*s] = struct{}{}
		}
	}
	use(&l.written.Defaults)
	for i := range l.destinations {
		use(&l.destinations[i].writtenDelivery)
	}
	for i := range l.sources {
		if d := l.sources[i].Dedupe; d != nil {
			used[d.Store] = struct{}{}
		}
	}
	return used
}

// checkStoreName wants the name of a store.
func (l *loader) checkStoreName(f *file, n *yaml.Node, key, name string) {
	if _, ok := l.storeNames.has[name]; ok || l.spoiled(f, n) {
		return
	}
	if len(l.storeNames.list) == 0 {
		l.errorf(f, n, "%s: unknown store %q; list it under stores", key, name)
		return
	}
	l.suggestf(f, n, name, l.storeNames.list, "%s: unknown store %q", key, name)
}

// writtenDedupe says which messages of a source are repeats.
type writtenDedupe struct {
	Key        string           `yaml:"key" secret:"never" doc:"jq over the message; what gives null, nothing or an error is no key, and passes"`
	TTL        setting.Duration `yaml:"ttl" default:"10m" doc:"how long a key is remembered, from 1s to 30d"`
	Store      string           `yaml:"store" secret:"never" doc:"name of a store that remembers for several relays together; without it each remembers its own"`
	MaxEntries *int             `yaml:"max_entries" default:"131072" doc:"keys in this relay's own memory; the one that ends first goes when it is full"`
}

// decode begins with the defaults that the tags tell of.
func (w *writtenDedupe) decode(d decoder, n *yaml.Node) {
	w.TTL = setting.Duration(DefaultDedupeTTL)
	d.mapping(n, "dedupe", reflect.ValueOf(w).Elem())
}

// resolve fills in the defaults; nil stays nil.
func (w *writtenDedupe) resolve() *Dedupe {
	if w == nil {
		return nil
	}
	d := &Dedupe{Key: w.Key, TTL: w.TTL.D(), Store: w.Store}
	if w.Store == "" {
		d.MaxEntries = said(w.MaxEntries, DefaultDedupeEntries)
	}
	return d
}

func (l *loader) checkDedupe(s *sourceEntry) {
	w, n := s.Dedupe, child(s.node, "dedupe")
	if w == nil || n == nil || n.Kind != yaml.MappingNode {
		return
	}
	if child(n, "key") == nil {
		l.errorf(s.file, n, "dedupe needs key: jq that tells messages apart, such as '.id'")
	} else {
		l.checkExpr(s.file, find(n, "key"), "dedupe.key", w.Key)
	}
	if d := w.TTL.D(); d < MinDedupeTTL || d > MaxDedupeTTL {
		l.errorf(s.file, find(n, "ttl"), "dedupe.ttl must be from %s to %s, not %s", setting.Duration(MinDedupeTTL), setting.Duration(MaxDedupeTTL), w.TTL)
	}
	if child(n, "store") != nil {
		l.checkStoreName(s.file, find(n, "store"), "dedupe.store", w.Store)
	}
	switch e := w.MaxEntries; {
	case e == nil:
	case child(n, "store") != nil:
		l.errorf(s.file, keyNode(n, "max_entries"), "max_entries bounds this relay's own memory, and a store keeps its own bounds; leave one of both out")
	case *e < 1 || *e > MaxDedupeEntries:
		l.errorf(s.file, find(n, "max_entries"), "dedupe.max_entries must be from 1 to %d, not %d", MaxDedupeEntries, *e)
	}
}
