// Package control is the way that commands talk to a running pawl: HTTP and
// JSON over a Unix socket in the state folder, pawl.sock.
//
// Only the user who runs pawl, and root, may use it. The socket is never
// reachable by anybody else, not even for the moment between its making and
// its change of mode, and on Linux each connection's user is asked of the
// kernel as well. There is no password, and nothing listens on the network.
//
// Both sides say which version of the protocol they speak; a command and a
// relay of different versions get a sentence that says what to do.
package control
