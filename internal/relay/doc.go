// Package relay takes messages from sources through routes to destinations and
// tells each source how its message ended.
//
//	source ─▶ Handle
//	           1  joining   a repeat of a message joins it, or is answered from
//	                        memory (settle); it takes no room
//	           2  room      the source's max_in_flight and max_in_flight_bytes
//	           3  dedupe    a message with a key that was seen is filtered; one
//	                        whose key is in flight gives its room back and waits
//	                        (settle)
//	           4  routing   each route of the source: filter, transforms,
//	                        validate, router; nothing is sent yet
//	           5  admission a place in every required lane, all or none
//	           6  delivery  one leg a destination (deliver); best-effort legs are
//	                        not waited for
//	           7  letters   for what failed (deadletter); what can't be stored is
//	                        a nack
//
// A message whose source keeps it itself (a queue) is not made to wait for long
// in step 6: it is settled as deferred, without letters, and comes again. That
// holds for one required leg; with several those that were delivered would be
// made again. Best-effort legs then begin when the required one has its end.
//
// A key counts once its message is acked. Replays pass step 3, as their letters
// are what made the key count. What a source with ack: stored puts into its queue
// is looked at here alone, when it comes from there: its sender has its answer by
// then, and a repeat is stored and then filtered.
//
// A message keeps the Generation it began with: the routes and policies of one
// configuration. A reload puts a new one in place while the old one drains.
package relay
