// Package breaker keeps attempts away from an endpoint that is broken, and
// finds out when it is well again.
//
// Closed, it counts outcomes over a sliding window and opens as soon as the
// window holds the outcomes of Settings.MinRequests messages and failures ÷
// outcomes reaches Settings.FailureRatio, or as soon as that many messages have
// failed within the window with no success in between: after a busy, healthy
// minute the ratio alone would need half a minute of failures. This is judged
// each time an outcome is counted, never because old outcomes slide out. Open,
// it lets nothing through for Settings.OpenFor, twice as long after each failed
// round of trials up to Settings.MaxOpenFor. Half-open, it lets trials through,
// at most Settings.HalfOpenMax at once; as many passes close it and one failure
// opens it again. TryNow ends the open time early.
//
//	          ratio reached                   open time over
//	closed ──────────────────▶ open ◀───────────────────────▶ half-open
//	  ▲                               a trial failed              │
//	  └───────────────────────────────────────────────────────────┘
//	                    HalfOpenMax trials passed
//
// # The window
//
// It is cut into 20 slots of a twentieth of Settings.Window each, counted from
// the first time the breaker was told. An outcome is counted in the slot of its
// moment and forgotten with the whole slot, so the window looks back over more
// than 19 and at most 20 slots. A message counts once however often it is
// tried: Begin takes the Mark that its last End gave, and the message then
// stands in the slot of its latest outcome. The window is emptied with each
// change of state.
//
// # Slow attempts
//
// An attempt that is unanswered for slowAfter counts as a failure from that
// moment on, long before its timeout: a hanging endpoint must not take a whole
// timeout's worth of messages before it is noticed. An answer after all takes
// that back and its real outcome counts instead. A slow trial is a failed one:
// the breaker opens again, so a trial that never reports gives its place back
// after slowAfter.
//
// # Time and state
//
// The breaker has no clock and no timer. Every method is told the time and
// first does, in order, what has come due since the last: the result is the
// same however late the next call comes. A time before an earlier one is taken
// as that one. Next says when something comes due.
//
// Results that began before the last change of state do not move it.
package breaker
