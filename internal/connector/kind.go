package connector

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"slices"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Settings are a kind's own settings: a pointer to a struct whose fields carry
// `yaml` and `doc` tags. A fresh one holds the kind's defaults.
type Settings interface {
	// Check returns every problem of the settings at once, each naming the
	// field it is about. Checking opens nothing and looks at no network.
	Check() []Problem
}

// Located is implemented by the settings of kinds that lead to a place which
// people know by its address.
type Located interface {
	// Where is that place in a few words, such as https://api.example.com or a
	// file's path: no user, no path or query of a URL, nothing secret.
	Where() string
}

// Heading is implemented by the settings of kinds that send headers whose names
// are settings, apart from a map named headers: none may be the one that carries
// the message's id.
type Heading interface {
	// Headings returns the yaml path of what names each header, by the header:
	// {"X-Signature": "sign.hmac.header"}.
	Headings() map[string]string
}

// Sharing is implemented by the settings of kinds of which several can use one
// thing, such as a file.
type Sharing interface {
	// Shares returns what is shared, the setting that all who share it should
	// say alike, and its value here. An empty thing shares nothing.
	Shares() (thing, field, value string)
}

// Batching is implemented by the settings of kinds with Batches that have
// settings which a batch rules out, or which mean nothing without one.
type Batching interface {
	// CheckBatch returns what Check can't see, since it doesn't know how many
	// messages an attempt takes.
	CheckBatch(l Load) []Problem
}

// Load is how many messages an attempt takes.
type Load uint8

// The loads.
const (
	OneMessage Load = iota
	// ManyMessages go through SendBatch, one alone as well: an endpoint that
	// reads a list gets a list.
	ManyMessages
)

// Problem is one thing that is wrong with a kind's settings.
type Problem struct {
	// Field is the yaml path inside the settings, dots between: "auth.secret".
	// "" is about the whole.
	Field string
	// Message says what is wrong and what to do.
	Message string
	// Warning marks a problem that does not stop a start.
	Warning bool
}

// DestinationKind declares a kind of destination.
type DestinationKind struct {
	// Type is its word in the configuration: "https".
	Type string
	// Doc is one sentence for the reference.
	Doc string
	// New returns fresh settings with the kind's defaults.
	New func() Settings
	// Open makes a destination of checked settings. It may open files; it
	// does not need the endpoint to be up.
	Open func(s Settings, env Env) (Destination, error)
	// Pipe marks a destination that stores nothing (stdout): a lint warning
	// where dead letters go to it.
	Pipe bool
	// Batches says that what Open returns is a Batcher, Checks that it is a
	// HealthChecker. ChecksPath says that its check needs Env.HealthPath.
	Batches, Checks, ChecksPath bool
}

// SourceKind declares a kind of source.
type SourceKind struct {
	Type string
	Doc  string
	New  func() Settings
	// Open makes a source of checked settings. Listeners are opened here, so
	// that a taken port is an error at the start; messages come with Run.
	Open func(s Settings, env Env) (Source, error)
	// Pauses says that the source can stop taking: Handle then waits for
	// places instead of refusing.
	Pauses bool
}

// Env is what a kind is given beside its settings. Fields that a test leaves
// out have a working zero value where the comment says so.
type Env struct {
	// Name is the source's or destination's name in the configuration.
	Name string
	// Relay is the relay's name.
	Relay string
	// State is the folder that pawl keeps everything in.
	State string
	// Compile makes an expression of jq text; needed by kinds with templates.
	Compile func(expr string) (Expr, error)
	// KeepAnswers asks a destination to keep the (bounded) body of answers.
	KeepAnswers bool
	// IdempotencyHeader is the header that carries the message's id, where the
	// protocol has headers; "" is Idempotency-Key.
	IdempotencyHeader string
	// ForwardHeaders are globs of message headers that are sent on, lower case.
	ForwardHeaders []string
	// HealthPath is what a health check asks for at an HTTP endpoint's origin;
	// "" where nobody checks.
	HealthPath string
	// Dial replaces the network for outgoing connections; nil is the real one.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Listen replaces the network for incoming connections; nil is the real one.
	Listen func(network, address string) (net.Listener, error)
	// Listeners shares incoming HTTP listeners among sources; nil makes the
	// source open its own.
	Listeners Listeners
	// Queues is the job store; nil where the configuration has no jobs.
	Queues Queues
	// MaxInFlight is how many messages of a source may be open at once, for
	// those that fetch; 0 leaves it to the kind.
	MaxInFlight int
	// Events takes what happened; nil drops it.
	Events event.Sink
	// Log is never nil outside tests; use Logger.
	Log *slog.Logger
}

// Logger returns Log, or one that drops everything.
func (e Env) Logger() *slog.Logger {
	if e.Log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return e.Log
}

// Emit sends ev to Events where there is one.
func (e Env) Emit(ev event.Event) {
	if e.Events != nil {
		e.Events(ev)
	}
}

// Expr is a compiled expression over a message.
type Expr interface {
	// String evaluates to text: strings as they are, other values as JSON.
	// null, an error, no value or more than one is an error.
	String(ctx context.Context, m *message.Message) (string, error)
}

// Registry holds the kinds that a binary knows, by type.
type Registry struct {
	sources      map[string]SourceKind
	destinations map[string]DestinationKind
}

// NewRegistry returns a registry of the given kinds. Two kinds with one type
// are a programming error and panic.
func NewRegistry(sources []SourceKind, destinations []DestinationKind) *Registry {
	r := &Registry{sources: map[string]SourceKind{}, destinations: map[string]DestinationKind{}}
	for _, k := range sources {
		if _, dup := r.sources[k.Type]; dup {
			panic(fmt.Sprintf("connector: source type %q twice", k.Type))
		}
		r.sources[k.Type] = k
	}
	for _, k := range destinations {
		if _, dup := r.destinations[k.Type]; dup {
			panic(fmt.Sprintf("connector: destination type %q twice", k.Type))
		}
		r.destinations[k.Type] = k
	}
	return r
}

// Source returns the kind of source with the type.
func (r *Registry) Source(typ string) (SourceKind, bool) { k, ok := r.sources[typ]; return k, ok }

// Destination returns the kind of destination with the type.
func (r *Registry) Destination(typ string) (DestinationKind, bool) {
	k, ok := r.destinations[typ]
	return k, ok
}

// SourceTypes lists the types of source, sorted.
func (r *Registry) SourceTypes() []string { return slices.Sorted(maps.Keys(r.sources)) }

// DestinationTypes lists the types of destination, sorted.
func (r *Registry) DestinationTypes() []string { return slices.Sorted(maps.Keys(r.destinations)) }
