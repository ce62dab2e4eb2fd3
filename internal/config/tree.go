package config

import (
	"log/slog"
	"net"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/setting"
)

// Config is a whole configuration, defaults filled in and inheritance
// resolved. It is not changed after Load; safe for concurrent reading.
type Config struct {
	// Relay is the relay's name.
	Relay string
	// State is the folder that pawl keeps everything in, as a path that works
	// from the working folder.
	State           string
	HTTP            HTTP
	Log             Log
	Traces          Traces
	ShutdownTimeout time.Duration

	Sources      []Source
	Routes       []Route
	Destinations []Destination
	DeadLetter   DeadLetter
	// Jobs is the job server's part; nil where the configuration has none.
	Jobs *Jobs
	// Stores are shared with other relays, or this one's own memory.
	Stores []Store
	Notify []Notice

	// Secrets knows every secret value of the configuration and scrubs them
	// from texts.
	Secrets *Redactor
	// Files are the paths of all files that were read, for --watch.
	Files []string
}

// InState returns the configuration for another state folder. What stands below
// it by default moves along.
func (c *Config) InState(folder string) *Config {
	moved := *c
	moved.State = folder
	if c.DeadLetter.Path == lettersIn(c.State) {
		moved.DeadLetter.Path = lettersIn(folder)
	}
	if c.Jobs != nil && c.Jobs.File == storeIn(c.State) {
		jobs := *c.Jobs
		jobs.File = storeIn(folder)
		moved.Jobs = &jobs
	}
	return &moved
}

// Destination returns the destination with the name.
func (c *Config) Destination(name string) (*Destination, bool) {
	for i := range c.Destinations {
		if c.Destinations[i].Name == name {
			return &c.Destinations[i], true
		}
	}
	return nil, false
}

// Source returns the source with the name.
func (c *Config) Source(name string) (*Source, bool) {
	for i := range c.Sources {
		if c.Sources[i].Name == name {
			return &c.Sources[i], true
		}
	}
	return nil, false
}

// Place is where something stands in the configuration. Line and Column count
// from 1, columns in characters; 0 is the file as a whole.
type Place struct {
	File         string
	Line, Column int
}

// HTTP is the admin listener.
type HTTP struct {
	// Listen is host:port; "" is no listener.
	Listen string
	TLS    *setting.ServerTLS // nil for plain HTTP
	// Keys are good for the API, each, as a bearer token. Without keys it is
	// served where only this machine reaches it.
	Keys []setting.Secret
}

// Local reports whether only this machine reaches the listener.
func (h HTTP) Local() bool { return localAddress(h.Listen) }

func localAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// LogFormat is how log lines are written.
type LogFormat string

// The formats of log lines.
const (
	LogAuto LogFormat = "auto" // text on a terminal, JSON elsewhere
	LogText LogFormat = "text"
	LogJSON LogFormat = "json"
)

// Access says whether each settled message gets a log line.
type Access string

// The settings of the access log.
const (
	AccessOff Access = "off"
	AccessOn  Access = "on"
)

// Log is what is logged and how.
type Log struct {
	Level  slog.Level
	Format LogFormat
	Access Access
}

// Traces is where OpenTelemetry spans go.
type Traces struct {
	// Endpoint is the URL of an OTLP/HTTP collector; "" makes no traces.
	Endpoint string
	// SampleRatio is the share of messages that are traced, from 0 to 1.
	SampleRatio float64
	// Headers go with each export, to authenticate.
	Headers map[string]setting.Secret
}

// Unrouted says what becomes of a message that no route takes.
type Unrouted string

// What becomes of a message that no route takes.
const (
	UnroutedAck        Unrouted = "ack"         // counted, logged, acked
	UnroutedDeadLetter Unrouted = "dead_letter" // kept, reason no_route
)

// Ack says when a source's senders are told that a message is taken.
type Ack string

// The times of acknowledgement.
const (
	AckDelivered Ack = "delivered" // once it is settled
	AckStored    Ack = "stored"    // once it is in the source's durable queue
)

// Source is one source with the settings that all kinds have; Settings are its
// kind's own.
type Source struct {
	Name string
	Type string
	// MaxInFlight and MaxInFlightBytes bound the messages it has open.
	MaxInFlight      int
	MaxInFlightBytes int64
	Unrouted         Unrouted
	Ack              Ack
	// Dedupe is nil where repeats are not dropped.
	Dedupe   *Dedupe
	Settings connector.Settings
	// Digest sums up the files that Settings name to be read, certificates say;
	// "" where there are none. What was opened with another digest is stale.
	Digest string
	At     Place
}

// Route is a way from sources to destinations. Either To or Routers is set.
type Route struct {
	Name       string
	From       []string
	Filter     string // jq; "" takes everything
	Transforms []Transform
	// Schema is the JSON Schema file that bodies must fit; "" for none.
	Schema  string
	To      []Target
	Routers []Router // tried in order until one decides
	At      Place
}

// Targets returns every destination that the route can send to, each once, in
// the order they are written.
func (r *Route) Targets() []Target {
	all := append([]Target(nil), r.To...)
	for _, router := range r.Routers {
		all = append(all, router.To...)
		for _, rule := range router.Rules {
			all = append(all, rule.To...)
		}
	}
	seen := make(map[string]struct{}, len(all))
	unique := all[:0]
	for _, t := range all {
		if _, dup := seen[t.Destination]; !dup {
			seen[t.Destination] = struct{}{}
			unique = append(unique, t)
		}
	}
	return unique
}

// Transform is one step that shapes a message. Exactly one field is set.
type Transform struct {
	JQ          string            // the program whose value becomes the body
	SetHeaders  map[string]string // set or replaced
	DropHeaders []string          // names or globs
}

// Need says whether a message waits for a destination.
type Need string

// The needs of a target.
const (
	Required   Need = "required"    // the message is settled once it is there or its dead letter is
	BestEffort Need = "best_effort" // counted and logged when it fails, no dead letter
)

// Target is a destination of a route.
type Target struct {
	Destination string
	Need        Need
	At          Place
}

// RouterType is a way to choose destinations.
type RouterType string

// The types of router.
const (
	RouterStatic RouterType = "static"
	RouterRules  RouterType = "rules"
)

// Match says how many rules of a router may take a message.
type Match string

// The matches of a rules router.
const (
	MatchFirst Match = "first"
	MatchAll   Match = "all"
)

// Router chooses among destinations. Static has To; rules has Rules and Match.
type Router struct {
	Type  RouterType
	To    []Target
	Rules []Rule
	Match Match
	At    Place
}

// Rule sends messages for which the jq When is true to To.
type Rule struct {
	When string
	To   []Target
	At   Place
}

// Dedupe says which messages of a source are repeats.
type Dedupe struct {
	Key string // jq
	TTL time.Duration
	// Store is the name of one of Config.Stores; "" is this relay's own memory.
	Store string
	// MaxEntries bounds this relay's own memory; 0 where Store is set.
	MaxEntries int
}

// The types of store.
const (
	StoreMemory = "memory"
	StoreRedis  = "redis"
)

// Store is a small store of what replicas tell each other.
type Store struct {
	Name string
	Type string
	// URL is of type redis.
	URL setting.Secret
	// Prefix goes before every key of type redis.
	Prefix string
	// TLS is of a rediss URL; nil trusts the system's authorities.
	TLS *setting.ClientTLS
	// Retry is per operation.
	Retry kv.Policy
	// Digest sums up the files that TLS names; "" for none.
	Digest string
	At     Place
}

// AlertEvent is what an alert can be about.
type AlertEvent string

// The events of alerts.
const (
	AlertDeadLetter       AlertEvent = "dead_letter"
	AlertDeadLetterFailed AlertEvent = "dead_letter_failed"
	AlertCircuitOpen      AlertEvent = "circuit_open"
	AlertCircuitClosed    AlertEvent = "circuit_closed"
	AlertUnrouted         AlertEvent = "unrouted"
	AlertSourceDown       AlertEvent = "source_down"
)

// Notice says who is told of what.
type Notice struct {
	On    []AlertEvent
	To    []string // names of destinations
	Every time.Duration
	At    Place
}

// DeadLetterType is where dead letters are kept.
type DeadLetterType string

// The types of dead-letter queue.
const (
	DeadLetterFile        DeadLetterType = "file"        // segments in a folder
	DeadLetterStore       DeadLetterType = "store"       // beside the jobs
	DeadLetterDestination DeadLetterType = "destination" // sent to a named destination
)

// DeadLetter says where dead letters go.
type DeadLetter struct {
	Type DeadLetterType
	// Path is the folder of type file.
	Path string
	// Destination is the name of type destination.
	Destination string
	Retry       retry.Policy
	// Fallback are names of destinations, and the words stdout and stderr.
	Fallback []string
	// Origin says whether the configuration has a dead_letter.
	Origin Origin
	At     Place
}

// Origin says whether something stands in the configuration.
type Origin string

// The origins.
const (
	Said    Origin = "said"
	Default Origin = "default"
)
