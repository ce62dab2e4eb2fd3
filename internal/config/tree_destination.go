package config

import (
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/retry"
)

// TypeGroup is the type of a destination that has members.
const TypeGroup = "group"

// Destination is one destination: how it is delivered to, and its kind's own
// settings.
type Destination struct {
	Name     string
	Type     string
	Delivery Delivery
	Fallback []string
	// Group is set where Type is TypeGroup; Settings is then nil.
	Group    *Group
	Settings connector.Settings
	// Digest sums up the files that Settings name to be read; "" for none.
	Digest string
	At     Place
}

// Group is several endpoints that take the same messages.
type Group struct {
	Strategy balance.Strategy
	Members  []Member
	// Health is nil where members are not checked.
	Health *HealthCheck
}

// Member is one endpoint of a group.
type Member struct {
	// Name is its own, or <group>/<n> with n from 1.
	Name   string
	Type   string
	Weight int
	// Delivery is the group's with what the member may say itself: timeout,
	// circuit_breaker, delivered_on, success, transforms, forward_headers,
	// idempotency_header. The rest is as the group has it.
	Delivery Delivery
	Settings connector.Settings
	Digest   string
	At       Place
}

// HealthCheck says how members are asked whether they are well.
type HealthCheck struct {
	// Path is asked for at the origin of HTTP members.
	Path              string
	Interval, Timeout time.Duration
	// UnhealthyAfter failures in a row make a member unhealthy, HealthyAfter
	// passes make it healthy again.
	UnhealthyAfter, HealthyAfter int
}

// Hedge says when a message goes to another member too.
type Hedge struct {
	// After is how long an answer may take before; 0 is the 95th percentile of
	// the last minute.
	After time.Duration
	// Max is how many more members a message may go to in one race.
	Max int
}

// Batch bounds how many messages go in one request.
type Batch struct {
	MaxMessages int
	MaxBytes    int64
	MaxWait     time.Duration
}

// WhenOpen says what a message does at an open breaker with nowhere else to go.
type WhenOpen string

// What a message does at an open breaker with nowhere else to go.
const (
	WhenOpenWait WhenOpen = "wait"
	WhenOpenFail WhenOpen = "fail"
)

// Delivery is a destination's policy: built-in values, then `defaults`, then
// the destination's own, and of a member then its own, resolved.
type Delivery struct {
	Retry    retry.Policy
	Timeout  time.Duration
	Deadline time.Duration // 0 is none
	// Workers is how many attempts run at once, MaxPending how many messages
	// the lane holds.
	Workers     int
	MaxPending  int
	DeliveredOn failure.Tags
	Success     string        // jq; "" takes any 2xx
	TTL         time.Duration // 0 is none
	// Breaker is nil where it was removed.
	Breaker *breaker.Settings
	// RateLimit and RetryBudget are nil where there is none.
	RateLimit   *limit.Rate
	RetryBudget *limit.BudgetSettings
	// BudgetStore is the name of the store that counts the budget for several
	// relays; "" counts it here.
	BudgetStore string
	// Idempotent says that the far side takes one message twice without harm.
	Idempotent bool
	// Hedge and Batch are nil where there is none.
	Hedge             *Hedge
	Batch             *Batch
	WhenOpen          WhenOpen
	Transforms        []Transform
	ForwardHeaders    []string
	IdempotencyHeader string
	// From says which level each value comes from, by its written name
	// ("timeout", "circuit_breaker.window"): LevelBuiltIn, LevelDefaults,
	// LevelDestination or LevelMember. Retry keeps its own.
	From map[string]string
}

// The levels that a delivery setting can come from.
const (
	LevelBuiltIn     = "built-in"
	LevelDefaults    = "defaults"
	LevelDestination = "destination" // a group's own too
	LevelMember      = "member"
	LevelDeadLetter  = "dead_letter" // of DeadLetter.Retry alone
)
