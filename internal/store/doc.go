// Package store is the contract of what keeps jobs, API keys, pauses and dead
// letters: everything that must outlive a crash. An implementation is a folder
// below it and runs storetest.
//
// What a call returned without an error is durable: it holds after kill -9 and
// after the loss of power. What it returned with an error did not happen, but
// for ErrUnknown, after which it may have; a repeat with the same idempotency
// key, claim id or lease token settles it.
//
// The core decides (core/job, core/lane), the store applies. Every time in here
// is the store's own clock, which never goes back; see Clock.
//
// Everything is safe for concurrent use. Slices and byte slices that go in or
// come out are the receiver's; neither side changes what it handed over.
package store
