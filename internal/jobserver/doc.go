// Package jobserver turns what producers and workers ask for into what the store
// does: it checks bounds, fills in the settings of queues, resolves policies,
// and keeps the store in order while it runs.
//
//	producer ─▶ Create ─┐                    ┌─▶ Claim ─▶ worker
//	relay    ─▶ Put ────┤─▶ store (durable) ─┤
//	                    │    Sweep, Retain   └─▶ Take ──▶ relay
//	worker   ─▶ Report ─┘
//
// What queues, tasks and endpoints are like comes from the configuration and from
// the API (manage.go), and is resolved in a registry that is replaced whole
// (registry.go). Subscriptions turn events into jobs of queues of their own, whose
// deliveries are retried like any job (pump.go, delivering.go).
//
// It keeps no job in memory: several servers may stand on one store.
package jobserver
