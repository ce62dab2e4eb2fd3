// Package relay takes messages from sources through routes to destinations and
// tells each source how its message ended.
//
//	source ─▶ Handle
//	           1  joining   a repeat of a message joins it, or is answered from
//	                        memory (settle); it takes no room
//	           2  room      the source's max_in_flight and max_in_flight_bytes
//	           3  routing   each route of the source: filter, transforms,
//	                        validate, router; nothing is sent yet
//	           4  admission a place in every required lane, all or none
//	           5  delivery  one leg a destination (deliver); best-effort legs are
//	                        not waited for
//	           6  letters   for what failed (deadletter); what can't be stored is
//	                        a nack
//
// A message whose source keeps it itself (a queue) is not made to wait for long
// in step 5: it is settled as deferred, without letters, and comes again. That
// holds for one required leg; with several those that were delivered would be
// made again. Best-effort legs then begin when the required one has its end.
//
// A message keeps the Generation it began with: the routes and policies of one
// configuration. A reload puts a new one in place while the old one drains.
package relay
