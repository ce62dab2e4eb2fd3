// Package app puts a pawl together from a configuration and runs it.
//
// An Engine is what delivers: fleet, relay and dead letters, without a way in.
// Commands such as send and dlq replay need no more. An App is an Engine with
// sources, the admin listener, the control socket, telemetry and reloads.
//
// Everything that was opened is on a stack of clean-ups, so that a start that
// fails half-way and a stop give everything back in the opposite order.
package app
