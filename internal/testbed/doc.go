// Package testbed holds helpers for tests: an in-memory network whose
// connections block, time out and break like TCP ones, and that works inside a
// testing/synctest bubble since nothing in it waits in the kernel. Only test
// files import it.
package testbed
