// Package jobserver turns what producers and workers ask for into what the store
// does: it checks bounds, fills in the settings of queues, resolves policies,
// and keeps the store in order while it runs.
//
//	producer ─▶ Create ─┐                    ┌─▶ Claim ─▶ worker
//	relay    ─▶ Put ────┤─▶ store (durable) ─┤
//	                    │    Sweep, Retain   └─▶ Take ──▶ relay
//	worker   ─▶ Report ─┘
//
// It keeps no job in memory: several servers may stand on one store.
package jobserver
