// Package failure says what went wrong with one attempt, in words that a retry
// policy, a breaker and a person can all use.
//
// A failure carries tags, from broad to exact (an HTTP 503 is 5xx and 503), a
// class (is it worth another try when no list of the user names it), a verdict
// on the health of the endpoint, and what the endpoint asked for (Retry-After).
// Adapters make an *Error once, where the protocol is known; nobody above them
// looks at a status code again.
//
// Everything here is a plain value and safe for concurrent use once made.
package failure
