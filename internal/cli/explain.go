package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

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
what it means to the circuit breaker, and the path to the dead letters.`,
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

func (sh *shell) explainText(e explain.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s (%s)\n", e.Destination, e.Type)
	if f := e.Failure; f != nil {
		verb := "is not retried"
		switch {
		case f.Delivered:
			verb = "means delivered (delivered_on)"
		case f.Retried:
			verb = "is retried"
		}
		fmt.Fprintf(&b, "\nfailure  %s: %s\nbecause  %s\nbreaker  %s\n", f.Tags, verb, f.Because, f.Breaker)
		if f.Hold > 0 {
			fmt.Fprintf(&b, "hold     every message waits %s\n", f.Hold)
		}
	}
	t := sh.table("ATTEMPT", "WAIT", "SINCE FIRST")
	for _, a := range e.Attempts {
		t.row(fmt.Sprint(a.Number), windowText(a.Wait), windowText(a.Since))
	}
	fmt.Fprintf(&b, "\n%s\n", t)
	if len(e.Path) > 0 {
		fmt.Fprintf(&b, "\nthen     %s, after %s (the later where each attempt takes its whole timeout)\npath     %s\n",
			e.Reason, windowText(e.GivenUpAfter), strings.Join(e.Path, " -> "))
	} else {
		fmt.Fprintf(&b, "\nthen     %s\n", e.Reason)
	}
	if a := e.Budget; a != nil {
		fmt.Fprintf(&b, "budget   all messages together may make %g retries for each first attempt and %g more in any %s; past that a message leaves at once\n",
			a.Ratio, a.Floor, a.Window)
	}
	if q := e.Queue; q != nil {
		fmt.Fprintf(&b, "queue    messages of %s: a wait of more than %s, and what is not delivered in the end, goes back to the queue while the job has attempts left; this schedule then begins anew%s\n",
			strings.Join(q.Sources, ", "), q.MaxWait, deferralText(q))
	}
	s := sh.table("SETTING", "VALUE", "FROM")
	for _, v := range e.Settings {
		s.row(v.Name, v.Value, v.From)
	}
	fmt.Fprintf(&b, "\n%s\n", s)
	return b.String()
}

// deferralText says where in the schedule a message goes back.
func deferralText(q *explain.Queue) string {
	if q.Attempt == 0 {
		return "; none of these waits is that long, but one at an open breaker may be"
	}
	return fmt.Sprintf("; attempt %d may be the first after one", q.Attempt)
}

func windowText(w explain.Window) string {
	if w.Earliest == w.Latest {
		return round(w.Latest.D())
	}
	return round(w.Earliest.D()) + " – " + round(w.Latest.D())
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
