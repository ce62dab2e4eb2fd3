package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
)

// The words for each cause of a move, outcome of an attempt and reason of a
// dead letter.
var (
	causes = map[job.Cause]string{
		job.Claim:    "a worker takes the job, under a lease",
		job.Complete: "the worker reports a result",
		job.Fail:     "the worker reports a failure: queued for another try, or a dead letter where none is left or would help",
		job.Release:  "the worker hands the job back",
		job.Timeout:  "the attempt passed its timeout: as for a failure",
		job.Lapse:    "the lease ended in silence: queued again, or a dead letter where that happened too often",
		job.Cancel:   "a person or a program gives the job up",
		job.Retry:    "a person brings a dead letter back, with a full set of attempts",
	}
	outcomes = map[job.Outcome]string{
		job.OutcomeSucceeded: "the worker reported a result; counted",
		job.OutcomeFailed:    "the worker reported a failure; counted",
		job.OutcomeTimedOut:  "the timeout ended it, before silence did; counted",
		job.OutcomeLost: fmt.Sprintf("the worker fell silent for a whole lease; not counted, but retried %d times at most: "+
			"the first time at once, then after the waits of the policy", job.MaxLost),
		job.OutcomeUnreceived: fmt.Sprintf("the lease ended without any report, so the worker may never have got it; not counted, "+
			"but retried %d times at most, at once", job.MaxUnreceived),
		job.OutcomeReleased:  "the worker handed it back; not counted, and queued again at once",
		job.OutcomeCancelled: "the job was cancelled; not counted",
	}
	reasons = map[job.Reason]string{
		job.ReasonExhausted:    "the attempts of the policy are used up",
		job.ReasonNonRetryable: "the worker said that no retry helps",
		job.ReasonOutputSchema: "the result does not fit the task's contract",
		job.ReasonLost:         "too many workers fell silent over it, or never received it",
		job.ReasonUncertain:    "nobody knows whether its effect happened, and it is not safe to repeat",
	}
)

// jobStates returns the states of a job and the ways between them as Markdown.
// A word of core/job that is not explained is an error.
func jobStates() ([]byte, error) {
	var b strings.Builder
	b.WriteString("# The states of a job\n\nOnly these arrows move a job. An attempt of a task with `repeat: unsafe` that is lost, not received or timed out\n" +
		"is not retried: its job is a dead letter with the reason `uncertain`.\n\n")
	var by []job.Cause // in the order of a job's life
	for _, m := range job.Moves() {
		if !slices.Contains(by, m.Cause) {
			by = append(by, m.Cause)
		}
	}
	diagram(&b, job.Moves())
	if err := words(&b, "", "by", by, causes); err != nil {
		return nil, err
	}
	if err := words(&b, "An attempt has one of these outcomes. What is counted is what `max_attempts` counts.", "outcome", job.Outcomes(), outcomes); err != nil {
		return nil, err
	}
	if err := words(&b, "A failed job is a dead letter, for one of these reasons.", "reason", job.Reasons(), reasons); err != nil {
		return nil, err
	}
	waits(&b, job.BuiltIn())
	return []byte(b.String()), nil
}

// diagram draws the moves, one arrow from each status to each other.
func diagram(b *strings.Builder, moves []job.Move) {
	b.WriteString("```mermaid\nstateDiagram-v2\n    [*] --> queued: create\n")
	for _, from := range job.Statuses() {
		for _, to := range job.Statuses() {
			var by []string
			for _, m := range moves {
				if m.From == from && m.To == to {
					by = append(by, string(m.Cause))
				}
			}
			if by != nil {
				fmt.Fprintf(b, "    %s --> %s: %s\n", from, to, strings.Join(by, ", "))
			}
		}
	}
	for _, s := range job.Statuses() {
		if s.Finished() {
			fmt.Fprintf(b, "    %s --> [*]\n", s)
		}
	}
	b.WriteString("```\n")
}

// words writes a table of what each of the list means.
func words[W ~string](b *strings.Builder, before, head string, list []W, text map[W]string) error {
	if before != "" {
		fmt.Fprintf(b, "\n%s\n", before)
	}
	fmt.Fprintf(b, "\n| %s | meaning |\n|---|---|\n", head)
	for _, w := range list {
		if text[w] == "" {
			return fmt.Errorf("the %s %q is not explained", head, w)
		}
		fmt.Fprintf(b, "| `%s` | %s |\n", w, text[w])
	}
	return nil
}

// waits writes how long a failed attempt of the policy waits for the next.
func waits(b *strings.Builder, p job.Policy) {
	fmt.Fprintf(b, "\n## The waits of the built-in policy\n\n`max_attempts` %d, `initial` %s, `factor` %v, `max_delay` %s, `jitter` %v:\n\n"+
		"| after attempt | shortest | middle | longest |\n|---|---|---|---|\n",
		p.MaxAttempts, duration.Text(p.Initial), p.Factor, duration.Text(p.MaxDelay), p.Jitter)
	for n := 1; n < p.MaxAttempts; n++ {
		lo, hi := p.Schedule().Bounds(n)
		fmt.Fprintf(b, "| %d | %s | %s | %s |\n", n, duration.Text(lo), duration.Text(p.Schedule().Base(n)), duration.Text(hi))
	}
	fmt.Fprintf(b, "\nA job that fails at attempt %d, too, is given up.\n", p.MaxAttempts)
}
