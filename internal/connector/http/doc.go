// Package http is the HTTP kind: a source that listens for requests and
// destinations that send them.
//
// The source answers a request when its message is settled, with the status of
// relay.md §6. It checks who sent it, bounds what it reads, undoes gzip and
// forms, and leaves everything else to the handler. Where the settlement takes
// longer than ack_timeout the caller gets a 504 and the message goes on.
//
// The destinations make one request an attempt over package egress. Their URL
// and headers may hold expressions, which never reach the scheme and the host.
//
// In this package the name http is the package itself; net/http is nethttp.
package http
