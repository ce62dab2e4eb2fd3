// Package metamorphic holds a store against a model: seeded histories of random
// operations go through both, and after each step the answers, the jobs, their
// attempts, the counts and the gates must be the same.
//
//	seed ─▶ history ─▶ step ─▶ model  ╲
//	                        └▶ store  ╱ equal?
//
// The model is maps and loops over all jobs: whatever is clever in a store is
// not in it. Time is moved by hand, so one seed is one history to the last step.
package metamorphic
