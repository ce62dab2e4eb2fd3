package connectortest

import (
	"slices"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// Do is what the far side does with one request.
type Do int

// What a far side can do.
const (
	Accept Do = iota // take it and say so
	Slow             // take it and say so after a while, well within a second
	Fail             // answer with the failure that Step.Fail names
	Hang             // take it and never answer
	Reset            // take it and break the connection without an answer
)

// Step is the far side's answer to one request.
type Step struct {
	Do Do
	// Fail is a failure by the harness's own name: Failure.Name.
	Fail string
}

// Script is the far side's answers in order; the last goes on for ever. An
// empty script accepts everything.
type Script []Step

// At returns the step for a request, the first being number 0.
func (s Script) At(n int) Step {
	if len(s) == 0 {
		return Step{}
	}
	return s[min(n, len(s)-1)]
}

// Request is what the far side saw of one attempt.
type Request struct {
	// Key is the idempotency key, "" where the protocol has no place for one.
	Key  string
	Body []byte
}

// FarSide is the scripted endpoint. Safe for concurrent use.
type FarSide interface {
	// Requests returns everything that arrived until now, in order: what hangs
	// and what is reset too.
	Requests() []Request
}

// Failure is a line of a kind's table: how an attempt fails when the far side
// plays a step.
type Failure struct {
	Name    string // unique
	Step    Step
	Tags    failure.Tags // in any order
	Class   failure.Class
	Verdict failure.Verdict
	// RetryAfter and Throttled are compared too.
	RetryAfter time.Duration
	Throttled  bool
	// Unseen says that the attempt does not reach the far side (a refused
	// connection), so that no request is counted.
	Unseen bool
}

// DestinationHarness opens destinations for the suite.
type DestinationHarness struct {
	// Open makes a destination in front of a far side that plays the script.
	// Give everything but the destination back with t.Cleanup.
	Open func(t *testing.T, script Script) (connector.Destination, FarSide)
	// Clock is the time that Open's connections live in.
	Clock Clock
	// Failures is every way that an attempt can fail. A step of Hang belongs
	// in Hangs and not here.
	Failures []Failure
	// Hangs says that the far side can play Hang: what ends an attempt is then
	// checked too.
	Hangs Ability
	// Keys says that the protocol carries the key where the far side sees it.
	Keys Ability
	// Batches and Health are nil for a kind that has no such thing.
	Batches *BatchHarness
	Health  *HealthHarness
	// Wire is what the far side sees of a message's body, for a format that
	// has to change it (a line of a file); nil is the body itself.
	Wire func(m *message.Message) []byte
	// Secrets are texts in the settings that must be in no error.
	Secrets []string
	// NoLeaks fails the test where something stays behind; it is called after
	// Close. nil outside a bubble checks nothing.
	NoLeaks func(t testing.TB)
}

// Ability says whether a protocol can do something.
type Ability int

// The abilities.
const (
	No Ability = iota
	Yes
)

// Destination runs the suite.
func Destination(t *testing.T, h DestinationHarness) {
	for _, c := range []struct {
		name  string
		needs []Ability
		check func(*destinationCheck)
	}{
		{"BytesUnchanged", nil, (*destinationCheck).bytesUnchanged},
		{"MessageUntouched", nil, (*destinationCheck).messageUntouched},
		{"KeyOnEveryAttempt", []Ability{h.Keys}, (*destinationCheck).keyOnEveryAttempt},
		{"SlowAnswer", nil, (*destinationCheck).slowAnswer},
		{"ConcurrentSends", nil, (*destinationCheck).concurrentSends},
		{"CloseTwice", nil, (*destinationCheck).closeTwice},
		{"EndedContext", nil, (*destinationCheck).endedContext},
		{"Timeout", []Ability{h.Hangs}, (*destinationCheck).timeout},
		{"Cancel", []Ability{h.Hangs}, (*destinationCheck).cancel},
		{"CloseDuringSend", []Ability{h.Hangs}, (*destinationCheck).closeDuringSend},
	} {
		if slices.Contains(c.needs, No) {
			continue
		}
		h.run(t, c.name, c.check)
	}
	for _, f := range h.Failures {
		h.run(t, "Failure/"+f.Name, func(c *destinationCheck) { c.failure(f) })
	}
	if len(h.Failures) > 0 {
		h.run(t, "OneRequestAnAttempt", (*destinationCheck).oneRequestAnAttempt)
	}
	if h.Batches != nil {
		h.runBatches(t)
	}
	if h.Health != nil {
		h.runHealth(t)
	}
}

func (h DestinationHarness) run(t *testing.T, name string, check func(*destinationCheck)) {
	run(t, h.Clock, name, func(t *testing.T) {
		c := &destinationCheck{T: t, h: h}
		check(c)
		if c.dest != nil {
			c.close()
		}
		if h.NoLeaks != nil {
			h.NoLeaks(t)
		}
	})
}
