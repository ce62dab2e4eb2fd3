// Package sim runs the whole relay in virtual time against a world that is
// drawn from a seed: real sources and destinations over an in-memory network,
// scripted endpoints that fail, hang, crawl, flap, push back and vanish, a disk
// that fills up and fails, callers who repeat themselves, reloads, pauses, a
// stop in full flight and a power cut; in half of the plans two relays that share
// a store, which goes away and comes back. An oracle then says whether what pawl
// promises was kept.
//
//	Draw(seed) ─▶ Plan ─▶ Run ─▶ Report{Problems, Story}
//
// Run must be called in a testing/synctest bubble. One seed always draws the
// same plan; the order in which goroutines of one moment run is Go's, so a run
// is not the same to the last step.
package sim
