// Package storetest is the contract of a store as tests: every implementation
// runs all of it, under hand-moved clocks and under the faults that it can have
// injected. What package store promises is checked here and nowhere twice; an
// implementation's own tests are about how it does it.
//
// Every test ends with a recount: the kept counts of all lanes must be what the
// jobs themselves say.
package storetest
