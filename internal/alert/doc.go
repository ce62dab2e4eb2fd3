// Package alert tells people of what went wrong, by messages to destinations.
//
// A Notifier watches events. Each that a Rule wants is a Fact about a subject: a
// destination, else a route, else a source. The first of a kind about a subject
// alerts at once and begins a window; further ones are counted, and each time
// the window has passed one alert tells of all of them. A window with nothing
// in it is the last: what comes after it alerts at once again. That is decided
// by the counter, which is pure.
//
// An alert is a message like any other and takes its destination's retries and
// fallbacks. One that still fails is told as an event, and never becomes a dead
// letter. Alerts wait for each destination by themselves, so that one that
// hangs holds up no other, and in order, so that a circuit that closed is not
// told of before it opened.
//
// No alert makes another one for ever: an alert about a destination never goes
// to that destination, not as a fallback either, failed alerts are no events that a Rule can name, and a
// circuit counts as opened only where it was closed before. Two destinations
// that are told of each other and are both down tell of that once.
package alert
