// Package deliver takes one message to one destination: the whole path with
// everything that can go wrong on it. The order of the policies is written
// here, once; each is a value of its own in core.
//
//	Deliver(message, destination)
//	 │
//	 1  chain ──────── the destination, then each of its fallbacks, depth first,
//	 │                 each with its own everything. Owns the hops, the deadline
//	 │                 and the ttl. Leaving one gives back its place before the
//	 │                 next one's is waited for. One that the request avoids is
//	 │                 passed over without a hop.
//	 2  rounds ─────── of one destination. Owns the attempts and the waits between
//	 │                 rounds: backoff, or the shortest time that all endpoints asked
//	 │                 for. The retry budget is charged before such a wait is begun,
//	 │                 once a round. In a round each member that is available is tried
//	 │                 once, without a wait in between.
//	 3  race ───────── of one step of a round, where the destination hedges: the
//	 │                 attempt, and after a while without an answer one more at
//	 │                 another member. The first success wins; only when all have
//	 │                 failed is it a failure.
//	 4  gates ──────── of the endpoints, with what they share, first come first
//	 │                 served. Breaker, pause, hold, health, worker and ramp of each
//	 │                 member are looked at, the strategy picks among those that
//	 │                 nothing bars, and then the rate limit is asked. All is taken
//	 │                 together under one lock or not at all, so that nothing can
//	 │                 change between the look and the send and nothing leaks when one
//	 │                 of them refuses.
//	 5  attempt ────── the connector's Send, under the endpoint's timeout alone. Its
//	                   failure carries tags, class and verdict.
//
// A plain destination is a group of one: its round is one attempt, and there is
// one path through this code.
//
// # Waiting
//
// A message waits in 2 and 4 holding its place in the destination's lane and
// no worker. A wait that would end past the deadline is not begun. A message
// that meets nothing but open breakers hops at once where there is somewhere else
// to go, and else waits at the gates. No attempt is used up by waiting.
//
// At the gates nobody overtakes but one who can go where those before him can't:
// a message that has only a full member left stands in nobody's way. In a round
// that has begun a full member is waited for, one that is held, paused or shut is
// passed over, and with nobody left the round is over. Trials of a half-open breaker
// go first to those who have another try left, or somewhere else to go: a trial
// fails more often than not, and an outage would turn one message after the other
// into a dead letter. A batch stands for all of its messages and lets nobody pass.
//
// Nobody reserves a token of the rate limit: one who stands behind others reckons
// with a token for each of them, and leaves at once where his own comes too late.
//
// A caller that can keep the message elsewhere sets MaxWait. Where the last of
// the chain would then wait for longer, between its rounds or at gates that let
// nobody in, the delivery ends as Deferred, with the time that it is to wait.
// Nobody is sent away who only stands behind others and has no token of a rate
// limit to wait for that long, and none whose wait his
// deadline or ttl would end: that one has come to his end.
//
// # Why a destination is left
//
// A permanent answer puts its endpoint out for this message. Once every endpoint
// that was tried has answered so, and no other is available, the hop is permanent.
// After retry.attempts rounds it is exhausted. While another try of the same
// message is in flight a permanent answer ends only that try.
//
// # Hedges
//
// A hedge never waits. It takes a token of the rate limit and one of the retry
// budget, and goes to no member that is half-open or was tried in this round. Of
// those that a success overtakes, the attempt that the race began with is a failure
// to its breaker and a sample to its latency; a hedge says nothing. A trial of a
// half-open breaker is not cut off: it runs on by itself up to its own timeout,
// holding its worker, and only its breaker learns what became of it.
//
// # Batches
//
// Messages of one configuration that may go to the same members gather for
// max_wait, or half of the time that one of them has, and go through the gates as
// one send: one worker, one token, one permit, and one outcome for the breaker,
// the best that any of them has. While they gather and stand there each can leave
// without harm to the others, and more may join until the batch is full. Once it
// is being sent all wait for their outcomes; it is cancelled when all were given
// up. The budget counts messages. Of a batch that is refused as a whole, with the
// endpoint alive, each message goes once more alone in the same round: one that is
// at fault takes no other along. What goes alone is a batch of one.
//
// # Health
//
// Members with a health check are asked at once and then each interval, beside all
// deliveries, also while their breaker is open, but not while they asked to be left
// alone or are paused. Only the step from unhealthy to healthy ends the time of an
// open breaker: a check that always passes does not defeat it.
//
// # What lives how long
//
// State that belongs to an endpoint (breaker, hold, ramp, health, attempts in
// flight, what people changed at run time), to a destination (rate limit, retry
// budget, turns of the strategy) and to a lane (places) lives in a Fleet, by name,
// over reloads; what a configuration says lives in a Set, which a message keeps
// from its first step to its last. Only which members there are, and their
// connections, are always the newest.
//
// All of it runs on the caller's own goroutine but for the attempts of a hedged
// destination and the batches, which have one each, and the checks of a group's
// health. Times come from the real clock and timers, so that testing/synctest can
// stand in for them; the decisions are plain functions in core, in gate.go and in
// pick.go, and are model-checked.
package deliver
