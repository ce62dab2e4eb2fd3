// Package adminapi is how people and commands look at a running relay and move
// its levers: status, the live view, dead letters, pause, breakers, holds, rates,
// reload, send. It is HTTP and JSON (streams are one object a line), served on the
// control socket and, where nobody else can reach it, on the admin listener.
//
//	GET  /v3/status               lanes, breakers, holds, sources at a glance
//	GET  /v3/tail[?events=all]    what happens, as it does
//	POST /v3/reload               load the configuration anew
//	POST /v3/pause, /v3/resume    a source or a destination
//	POST /v3/breaker              hold a destination's breaker open or closed
//	POST /v3/hold/clear           end what a destination asked for
//	POST /v3/rate                 limit a destination
//	POST /v3/send                 one message over a destination's whole path
//	GET  /v3/dead-letters         open letters, oldest first
//	GET  /v3/dead-letters/{id}    whole letters, by letter or message id
//	POST /v3/dead-letters/replay  progress, then the summary
//	POST /v3/dead-letters/purge   give old letters up
package adminapi
