// Package deliver takes one message to one destination: the whole path with
// everything that can go wrong on it. The order of the policies is written
// here, once; each is a value of its own in core.
//
//	Deliver(message, destination)
//	 │
//	 1  chain ──────── the destination, then each of its fallbacks, depth first,
//	 │                 each with its own everything. Owns the hops, the deadline
//	 │                 and the ttl. Leaving one gives back its place before the
//	 │                 next one's is waited for.
//	 2  retry loop ─── of one destination. Owns the attempts and the waits
//	 │                 between them: backoff, or what the endpoint asked for. The
//	 │                 retry budget is charged before such a wait is begun.
//	 3  gate ───────── of one endpoint, first come first served. Breaker, pause,
//	 │                 hold, rate limit, worker and ramp are looked at in this
//	 │                 order, and taken together under one lock or not at all, so that
//	 │                 nothing can change between the look and the send and
//	 │                 nothing leaks when one of them refuses.
//	 4  attempt ────── the connector's Send, under the destination's timeout
//	                   alone. Its failure carries tags, class and verdict.
//
// A message waits in 2 and 3 holding its place in the destination's lane and
// no worker. A wait that would end past the deadline is not begun. A message
// that meets an open breaker hops at once where there is somewhere to go, and
// else waits at the gate. No attempt is used up by waiting.
//
// Nobody reserves a token of the rate limit: one who stands behind others reckons
// with a token for each of them, and leaves at once where his own comes too late.
//
// A caller that can keep the message elsewhere sets MaxWait. Where the last of
// the chain would then wait for longer, between its tries or at a gate that lets
// nobody in, the delivery ends as Deferred, with the time that it is to wait.
// Nobody is sent away who only stands behind others and has no token of a rate
// limit to wait for that long, and none whose wait his
// deadline or ttl would end: that one has come to his end.
//
// State that belongs to an endpoint (breaker, hold, ramp, workers, rate limit,
// retry budget, what people changed at run time) and to a lane (places) lives in
// a Fleet, by name, over reloads; what a configuration says lives in a Set, which
// a message keeps from its first step to its last.
//
// All of it runs on the caller's own goroutine. Times come from the real clock
// and timers, so that testing/synctest can stand in for them; the decisions
// are plain functions in core and in gate.go, and are model-checked.
package deliver
