// Package job is what a job is and how it moves: states, the attempts that move
// it, policies, and the decision that each report, lapse or command leads to.
//
// It is pure. A store finds the job's Run, asks Decide for a Transition and
// applies it where job and attempt number still match: attempt numbers only
// grow, so the number is the fence.
package job
