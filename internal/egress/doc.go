// Package egress sends HTTP requests: one call of [Client.Do] is one request
// and its whole answer, and every failure comes back as a *failure.Error.
//
// There are two paths behind one Client. Plain HTTP/1.1, with or without TLS,
// goes over connections of our own: a pool of idle ones, a look at the socket
// before one is used again, deadlines on the socket and cancelling by closing
// it. net/http's Transport serves HTTP/2 and proxies. Both behave alike, and
// the same tests run on both.
//
// # What is sent again
//
// A server may close an idle connection at the very moment a request is
// written to it. A failure on a reused connection before any byte of the answer
// is therefore tried once more, at once, on a fresh connection, and told to
// Options.OnResend. Everything else that fails is returned: retrying is the
// business of the caller, who counts it. Redirects are never followed.
//
// # What is refused
//
// The reader of answers is strict where leniency would let two readers see two
// different answers: lengths that contradict each other, folded header lines,
// names that are no tokens, control characters, chunk sizes that are not plain
// hexadecimal, anything longer than its bound. Such an answer is a failure with
// the tag broken. One exception is made for servers that send both a chunked
// body and a Content-Length: RFC 9112 §6.3 lets the chunks win, and the
// connection is then closed, so that nothing can hide behind the answer.
package egress
