// Package lint holds the rules of the house that a compiler does not know, as
// tests: which package may import which (layers.txt), and what the pure core
// must not touch.
package lint
