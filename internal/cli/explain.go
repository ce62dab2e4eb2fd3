package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/explain"
)

// explained holds the flags that say what is to be explained.
type explained struct{ failure, task, queue, endpoint string }

func explainCommand(sh *shell) *cobra.Command {
	var x explained
	c := &cobra.Command{
		Use:   "explain DESTINATION | --task TASK",
		Short: "Show what happens when a destination, or a job, fails",
		Long: `Show what would happen at a destination that fails: the schedule of attempts with
the window that jitter leaves to each wait, which list decides about the failure,
what it means to the circuit breaker, and the path to the dead letters with each
fallback's own schedule. Then what an outage of all of them means: how long it
takes until the first dead letter, how many sends a message becomes at most, and
how long it can be open; and what the limits of the destination come to.

--failure is what every attempt at the destination ends with; attempts at its
fallbacks end with one that is worth a retry.

With --task what would happen to a job of a task whose attempts fail: its schedule,
and which level each number comes from. It goes by the configuration alone; what was
said over the API counts as well, and pawl jobs get shows the policy that a job has.`,
		Example: `  pawl explain ledger
  pawl explain ledger --failure 503,retry-after=120
  pawl explain --task send-welcome@2 --queue emails`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || (len(args) == 1) == (x.task != "") {
				return usagef("name one destination, or a --task")
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			switch {
			case x.task != "" && x.failure != "":
				return usagef("--failure goes with a destination; a worker says what is worth a retry")
			case x.task != "":
				return sh.explainJob(&x)
			case x.queue != "" || x.endpoint != "":
				return usagef("--queue and --endpoint go with --task")
			}
			return sh.explain(args[0], x.failure)
		},
	}
	f := c.Flags()
	f.StringVar(&x.failure, "failure", "", "the `FAILURE` of every attempt: 503, timeout, connect, … and retry-after=SECONDS")
	f.StringVar(&x.task, "task", "", "explain a job of this `TASK`, or task@version (default the version that a job gets)")
	f.StringVar(&x.queue, "queue", "", "the job's `QUEUE` (default the only one)")
	f.StringVar(&x.endpoint, "endpoint", "", "the outside service that the job names itself: `NAME` (default its task's)")
	return c
}

func (sh *shell) explain(name, failed string) error {
	c, err := sh.load()
	if err != nil {
		return err
	}
	var f *failure.Error
	if failed != "" {
		if f, err = explain.ParseFailure(failed); err != nil {
			return usagef("--failure: %w", err)
		}
	}
	e, err := explain.Destination(c, name, f)
	if err != nil {
		return usagef("%w", err)
	}
	if sh.json {
		return sh.printJSON(e)
	}
	_, err = fmt.Fprint(sh.out, sh.explainText(e))
	return err
}

func (sh *shell) explainJob(x *explained) error {
	c, err := sh.load()
	if err != nil {
		return err
	}
	if c.Jobs == nil {
		return usagef("the configuration has no jobs")
	}
	name, version, versioned := strings.Cut(x.task, "@")
	if versioned && version == "" {
		return usagef("--task: %q has no version after @", x.task)
	}
	j, err := explain.JobOf(app.JobsConfig(c.Jobs), lane.Task{Name: name, Version: version}, x.queue, x.endpoint)
	if err != nil {
		return usagef("%w", err)
	}
	if sh.json {
		return sh.printJSON(j)
	}
	_, err = fmt.Fprint(sh.out, sh.explainJobText(&j))
	return err
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
