package cli

import (
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/explain"
)

func explainCommand(sh *shell) *cobra.Command {
	var failed string
	c := &cobra.Command{
		Use:   "explain DESTINATION",
		Short: "Show what happens when a destination fails",
		Long: `Show what would happen at a destination that fails: the schedule of attempts with
the window that jitter leaves to each wait, which list decides about the failure,
what it means to the circuit breaker, and the path to the dead letters with each
fallback's own schedule. Then what an outage of all of them means: how long it
takes until the first dead letter, how many sends a message becomes at most, and
how long it can be open; and what the limits of the destination come to.

--failure is what every attempt at the destination ends with; attempts at its
fallbacks end with one that is worth a retry.`,
		Example: `  pawl explain ledger
  pawl explain ledger --failure 503,retry-after=120
  pawl explain ledger --failure tls --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error { return sh.explain(args[0], failed) },
	}
	c.Flags().StringVar(&failed, "failure", "", "the `FAILURE` of every attempt: 503, timeout, connect, … and retry-after=SECONDS")
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

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
