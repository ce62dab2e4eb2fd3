package config

import (
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/setting"
)

// written is the configuration as it stands in the files, all of them joined.
// Its tags are the only list of keys: decoder, schema and reference read them.
type written struct {
	Relay           string               `yaml:"relay" secret:"never" default:"pawl" doc:"the relay's name, in dead letters, metrics and traces"`
	State           string               `yaml:"state" path:"file" secret:"never" default:"./pawl-data" doc:"the folder that pawl keeps everything in; made with mode 0700"`
	HTTP            writtenHTTP          `yaml:"http" doc:"the admin listener: health, metrics, status"`
	Include         []string             `yaml:"include" doc:"globs of more files, relative to this one"`
	Secrets         writtenSecrets       `yaml:"secrets" doc:"where {{secrets.NAME}} looks"`
	Defaults        writtenDelivery      `yaml:"defaults" doc:"what every destination inherits"`
	Sources         []writtenSource      `yaml:"sources" doc:"where messages come from"`
	Routes          []writtenRoute       `yaml:"routes" doc:"which messages go to which destinations"`
	Destinations    []writtenDestination `yaml:"destinations" doc:"where messages go"`
	Stores          []writtenStore       `yaml:"stores" doc:"small stores that dedupe and retry budgets can share with other relays"`
	Notify          []writtenNotice      `yaml:"notify" doc:"who is told of what"`
	Jobs            writtenJobs          `yaml:"jobs" doc:"the job server: durable queues and their HTTP API; off unless this is said, {} is enough"`
	DeadLetter      writtenDeadLetter    `yaml:"dead_letter" doc:"where messages are kept that could not be delivered"`
	Unrouted        Unrouted             `yaml:"unrouted" enum:"ack,dead_letter" default:"ack" doc:"what becomes of a message that no route takes, unless its source says otherwise"`
	ShutdownTimeout setting.Duration     `yaml:"shutdown_timeout" default:"25s" doc:"how long a stop waits for messages in flight; the rest is nacked"`
	Log             writtenLog           `yaml:"log" doc:"log lines"`
	Telemetry       writtenTelemetry     `yaml:"telemetry" doc:"traces; metrics are always on"`
}

type writtenHTTP struct {
	Listen string             `yaml:"listen" secret:"never" default:"127.0.0.1:7077" doc:"host:port, or off for no listener"`
	TLS    *setting.ServerTLS `yaml:"tls" doc:"files that make it speak TLS"`
	Keys   []setting.Secret   `yaml:"keys" doc:"bearer tokens, each good for the API below /v3/; without them it is served on a loopback address alone"`
}

type writtenSecrets struct {
	Env bool   `yaml:"env" default:"true" doc:"look in the environment first"`
	Dir string `yaml:"dir" path:"file" doc:"then in this folder, one file a secret; a newline at its end is cut"`
}

type writtenLog struct {
	Level  string    `yaml:"level" enum:"debug,info,warn,error" default:"info" doc:"the least level that is written"`
	Format LogFormat `yaml:"format" enum:"auto,text,json" default:"auto" doc:"how lines look; auto is text on a terminal and JSON elsewhere"`
	Access bool      `yaml:"access" default:"false" doc:"one line for each settled message"`
}

type writtenTelemetry struct {
	Traces writtenTraces `yaml:"traces" doc:"OpenTelemetry traces over OTLP/HTTP; off without an endpoint"`
}

type writtenTraces struct {
	Endpoint    string                    `yaml:"endpoint" doc:"the collector's URL, such as http://127.0.0.1:4318; /v1/traces unless it has a path"`
	SampleRatio setting.Ratio             `yaml:"sample_ratio" default:"1" doc:"the share of messages that are traced"`
	Headers     map[string]setting.Secret `yaml:"headers" doc:"sent with each export, to authenticate"`
}

// writtenSource is what all kinds of source have; the other keys belong to the
// kind.
type writtenSource struct {
	Name             string         `yaml:"name" secret:"never" doc:"unique among the sources"`
	Type             string         `yaml:"type" secret:"never" doc:"the kind of source"`
	Ack              Ack            `yaml:"ack" enum:"delivered,stored" default:"delivered" doc:"when its senders are told that a message is taken: once it is delivered, or once it is stored in a durable queue (needs jobs, and a source that listens)"`
	MaxInFlight      int            `yaml:"max_in_flight" default:"4096" doc:"messages it may have open; beyond it is paused or answered 503"`
	MaxInFlightBytes setting.Size   `yaml:"max_in_flight_bytes" default:"64MiB" doc:"bytes of messages it may have open"`
	Unrouted         Unrouted       `yaml:"unrouted" enum:"ack,dead_letter" doc:"what becomes of its messages that no route takes; the top-level unrouted unless set"`
	Dedupe           *writtenDedupe `yaml:"dedupe" doc:"drops messages whose key was seen already"`
}

type writtenRoute struct {
	Name       string             `yaml:"name" secret:"never" doc:"unique among the routes"`
	From       []string           `yaml:"from" secret:"never" doc:"names of sources"`
	Filter     string             `yaml:"filter" secret:"never" doc:"jq over the message that must be true"`
	Transforms []writtenTransform `yaml:"transforms" doc:"steps that shape the message, in order"`
	Validate   *writtenValidate   `yaml:"validate" doc:"what the body must fit after the transforms"`
	To         *[]Target          `yaml:"to" doc:"names of destinations, or router instead"`
	Router     *writtenRouter     `yaml:"router" doc:"chooses among destinations, instead of to"`
}

type writtenTransform struct {
	JQ          *string            `yaml:"jq" secret:"never" doc:"a program whose one value becomes the body"`
	SetHeaders  *map[string]string `yaml:"set_headers" jq:"template" secret:"never" doc:"headers to set or replace; values may hold {{ jq }}"`
	DropHeaders *[]string          `yaml:"drop_headers" secret:"never" doc:"names or globs of headers to remove"`
}

type writtenValidate struct {
	Schema string `yaml:"schema" path:"file" secret:"never" doc:"a JSON Schema 2020-12 file"`
}

// writtenRouter is a router and those that are asked when it does not decide.
type writtenRouter struct {
	writtenChoice `yaml:",inline"`
	Fallback      []writtenChoice `yaml:"fallback" doc:"routers that are asked in order when this one does not decide"`
}

type writtenChoice struct {
	Type  RouterType    `yaml:"type" enum:"static,rules" doc:"how it chooses"`
	To    []Target      `yaml:"to" doc:"static: where every message goes"`
	Rules []writtenRule `yaml:"rules" doc:"rules: tried in order"`
	Match Match         `yaml:"match" enum:"first,all" default:"first" doc:"rules: whether the first that is true takes the message, or all that are"`
}

type writtenRule struct {
	When string   `yaml:"when" secret:"never" doc:"jq over the message that must be true"`
	To   []Target `yaml:"to" doc:"names of destinations"`
}

// writtenTarget is the long form of a Target.
type writtenTarget struct {
	Destination string `yaml:"destination" secret:"never" doc:"name of a destination"`
	Required    bool   `yaml:"required" default:"true" doc:"false: a failure is counted and logged, and makes no dead letter"`
}

// writtenDestination is what all kinds of destination have; the other keys
// belong to the kind.
type writtenDestination struct {
	Name            string   `yaml:"name" secret:"never" doc:"unique among the destinations"`
	Type            string   `yaml:"type" secret:"never" doc:"the kind of destination"`
	Fallback        []string `yaml:"fallback" secret:"never" doc:"names of destinations that are tried in order when this one is left"`
	writtenDelivery `yaml:",inline"`
}

// writtenDelivery is one level of the delivery settings. nil says nothing.
type writtenDelivery struct {
	Retry           writtenRetry      `yaml:"retry" doc:"what is tried again, and when"`
	Deadline        *setting.Duration `yaml:"deadline" default:"0s" doc:"the budget across attempts and fallbacks; 0s is none"`
	Workers         *int              `yaml:"workers" default:"64" doc:"attempts in flight at once"`
	MaxPending      *int              `yaml:"max_pending" default:"512" doc:"messages open in this destination's lane"`
	TTL             *setting.Duration `yaml:"ttl" default:"0s" doc:"a message older than this is not sent any more; 0s is no limit"`
	RateLimit       writtenRateLimit  `yaml:"rate_limit" doc:"how fast attempts may begin; off unless said, false removes it"`
	RetryBudget     writtenBudget     `yaml:"retry_budget" doc:"how many of the attempts may be retries; off unless said, true takes the defaults, false removes it"`
	Batch           writtenBatch      `yaml:"batch" doc:"several messages in one request, where the type has a form for it; off unless said, true takes the defaults, false removes it"`
	WhenOpen        *WhenOpen         `yaml:"when_open" enum:"wait,fail" default:"wait" doc:"what a message does at an open breaker with no fallback"`
	Idempotent      *bool             `yaml:"idempotent" default:"false" doc:"true: it takes one message twice without harm; hedge needs it"`
	writtenEndpoint `yaml:",inline"`
}

// writtenEndpoint is what a member of a group may say for itself too.
type writtenEndpoint struct {
	Timeout           *setting.Duration   `yaml:"timeout" default:"5s" doc:"per attempt, the answer's body included"`
	DeliveredOn       *[]failure.Tag      `yaml:"delivered_on" default:"[]" doc:"tags that mean it was there already: success"`
	Success           *string             `yaml:"success" secret:"never" default:"any 2xx" doc:"jq over {status, headers, body} that is true for a success"`
	CircuitBreaker    writtenBreaker      `yaml:"circuit_breaker" doc:"stops sending to an endpoint that is broken; false removes it"`
	Transforms        *[]writtenTransform `yaml:"transforms" default:"[]" doc:"steps that shape the message for this destination, in order"`
	ForwardHeaders    *[]string           `yaml:"forward_headers" default:"[]" doc:"globs of the message's headers that are sent along"`
	IdempotencyHeader *string             `yaml:"idempotency_header" default:"Idempotency-Key" doc:"the header that carries the message's id"`
}

type writtenRetry struct {
	Attempts          *int              `yaml:"attempts" default:"5" doc:"tries per endpoint, the first included; 1 is no retry"`
	Backoff           *setting.Duration `yaml:"backoff" default:"200ms" doc:"the wait before the first retry; each next one is twice as long"`
	MaxBackoff        *setting.Duration `yaml:"max_backoff" default:"10s" doc:"the longest wait"`
	Jitter            *string           `yaml:"jitter" enum:"full,equal,none" default:"full" doc:"how waits are spread: full is 0 to w, equal is w/2 to w, none is w"`
	RetryOn           *[]failure.Tag    `yaml:"retry_on" default:"[connect, timeout, 5xx, 429]" doc:"tags that are retried"`
	NeverOn           *[]failure.Tag    `yaml:"never_on" default:"[4xx]" doc:"tags that are not"`
	RespectRetryAfter *bool             `yaml:"respect_retry_after" default:"true" doc:"wait what the endpoint asked for instead of the backoff"`
	MaxRetryAfter     *setting.Duration `yaml:"max_retry_after" default:"max_backoff" doc:"the longest wait that an endpoint can ask for"`
}

// writtenBreaker is one level of a breaker's settings: numbers, or true or
// false alone.
type writtenBreaker struct {
	FailureRatio *setting.Ratio    `yaml:"failure_ratio" default:"0.5" doc:"the share of failures that opens it"`
	MinRequests  *int              `yaml:"min_requests" default:"20" doc:"messages that the window must hold before it opens"`
	Window       *setting.Duration `yaml:"window" default:"60s" doc:"how far back it looks"`
	OpenFor      *setting.Duration `yaml:"open_for" default:"5s" doc:"how long it stays open; doubled after each failed round of trials"`
	MaxOpenFor   *setting.Duration `yaml:"max_open_for" default:"60s" doc:"the longest it stays open; open_for where only that is set"`
	HalfOpenMax  *int              `yaml:"half_open_max" default:"5" doc:"trials at once, and passes that close it"`

	state toggle
}

// writtenRateLimit is one level of a rate limit's settings: numbers, or true or
// false alone.
type writtenRateLimit struct {
	PerSecond *float64 `yaml:"per_second" doc:"attempts a second, from 0.01 to 100000; must be said"`
	Burst     *int     `yaml:"burst" default:"per_second, rounded up" doc:"attempts that may begin at once after a quiet time"`

	state toggle
}

// writtenBudget is one level of a retry budget's settings: numbers, or true or
// false alone.
type writtenBudget struct {
	Ratio        *setting.Ratio    `yaml:"ratio" default:"0.2" doc:"retries for each first attempt"`
	MinPerSecond *float64          `yaml:"min_per_second" default:"10" doc:"retries a second beside those, from 0 to 100000"`
	Window       *setting.Duration `yaml:"window" default:"10s" doc:"how far back both are counted, from 1s to 1h"`
	Store        *string           `yaml:"store" secret:"never" doc:"name of a store that counts it for several relays together; without it each counts its own"`

	state toggle
}

// writtenBatch is one level of a batch's settings: numbers, or true or false
// alone.
type writtenBatch struct {
	MaxMessages *int              `yaml:"max_messages" default:"100" doc:"messages in one request, from 1 to 10000"`
	MaxBytes    *setting.Size     `yaml:"max_bytes" default:"1MiB" doc:"bytes of their bodies, from 1KiB to 64MiB"`
	MaxWait     *setting.Duration `yaml:"max_wait" default:"50ms" doc:"how long the first waits for more, from 0s to 1m"`

	state toggle
}

// toggle is what a level says about having something at all.
type toggle uint8

const (
	unsaid toggle = iota
	switchedOn
	switchedOff
)

type writtenDeadLetter struct {
	Type        DeadLetterType `yaml:"type" enum:"file,store,destination" default:"file" doc:"file keeps them in a folder, store beside the jobs (needs jobs), destination sends them to one of the destinations"`
	Path        string         `yaml:"path" path:"file" secret:"never" default:"<state>/dead" doc:"file: the folder"`
	Destination string         `yaml:"destination" secret:"never" doc:"destination: its name"`
	Retry       writtenRetry   `yaml:"retry" doc:"how a write is tried again"`
	Fallback    []string       `yaml:"fallback" secret:"never" doc:"destinations, stdout or stderr, tried in order when that fails"`
}

// origin is where a part of the configuration stands.
type origin struct {
	file *file
	node *yaml.Node
}

// defaultWritten holds the defaults that the tags of written tell of.
func defaultWritten() written {
	return written{
		Relay:   "pawl",
		HTTP:    writtenHTTP{Listen: "127.0.0.1:7077"},
		Secrets: writtenSecrets{Env: true},
		// Below the 30 s that process managers give a stop before they kill.
		ShutdownTimeout: setting.Duration(25 * time.Second),
		Unrouted:        UnroutedAck,
		Log:             writtenLog{Level: "info", Format: LogAuto},
		Telemetry:       writtenTelemetry{Traces: writtenTraces{SampleRatio: 1}},
		Jobs: writtenJobs{
			Store: storeSQLite,
			Retention: writtenRetention{
				DeadLetters: setting.Duration(DefaultKeepDeadLetters), Finished: setting.Duration(DefaultKeepFinished), Events: setting.Duration(DefaultKeepEvents),
			},
		},
		DeadLetter: writtenDeadLetter{Type: DeadLetterFile},
	}
}

// defaultSource holds the defaults that the tags of writtenSource tell of.
func defaultSource() writtenSource {
	return writtenSource{
		Ack: AckDelivered,
		// About a second of traffic on a small machine.
		MaxInFlight: 4096,
		// With the one above, 16 KiB a message; larger ones are fewer.
		MaxInFlightBytes: 64 << 20,
	}
}
