// Package circuit is the circuit of an endpoint of the job server: durable, and
// a gate when jobs are claimed. It differs from core/breaker, which guards an
// endpoint of the relay within one process: it counts failures in a row, lets one
// job through as a probe, and knows by generations which reports are old.
//
// It is pure: now is handed in, a Circuit is a plain value that a store can
// write down, and every method returns what changed. Not safe for concurrent use.
package circuit
