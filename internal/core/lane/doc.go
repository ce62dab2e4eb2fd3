// Package lane plans claims on lanes, never on jobs.
//
// A lane is the line of jobs that are alike to every gate and every worker: one
// queue, task, version, endpoint and priority. A Board knows of each lane how
// many jobs stand ready in it and when the first of them is due, and which gates
// are shut. Plan says how many jobs to take of which lane; the store takes them
// from the lanes' heads and tells the board what is left.
//
// A shut gate costs nothing, however many jobs stand behind it: its lanes hang
// on the gate until it opens, and a lane that is not due yet waits in a heap by
// time. A plan therefore costs by the open lanes that the worker wants, not by
// all lanes and not by jobs.
//
// It is pure: now is handed in. A Board is not safe for concurrent use.
package lane
