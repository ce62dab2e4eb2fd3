// Package connector is the contract between the relay and the outside: what a
// source and a destination must do, how a kind of either is declared, and what
// it is given to work with.
//
// A kind is one package under this folder and one line in builtin. It knows
// its protocol and nothing of routes, retries or breakers: a destination makes
// exactly one attempt when asked and says with a *failure.Error how that
// failed; a source hands over what came in and passes on how it ended.
// connectortest is the suite that every kind runs.
package connector
