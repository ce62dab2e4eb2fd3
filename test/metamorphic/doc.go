// Package metamorphic holds a store against a model: seeded histories of random
// operations go through both, and after each step the answers, the jobs, their
// attempts, the counts, the gates, the circuits, the replays and the events must be
// the same.
//
//	seed ─▶ history ─▶ step ─▶ model  ╲
//	                        └▶ store  ╱ equal?
//
// The model is maps and loops over all jobs: whatever is clever in a store is
// not in it. Each subject has a file of the model and one of steps, and a line in
// the table of steps. What steps are to bring about is counted, and a run in which
// it came about too seldom fails. Time is moved by hand, so one seed is one history
// to the last step.
package metamorphic
