package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/config"
)

func lintCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "lint",
		Short: "Check a configuration",
		Long: `Print every error and warning of a configuration with its place. Expressions
and schemas are compiled too. Exit code 1 where there are errors.`,
		Example: `  pawl lint
  pawl lint -c pawl.yaml -c destinations/ --json`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return sh.lint() },
	}
}

// lintResult is what lint --json prints.
type lintResult struct {
	OK       bool             `json:"ok"`
	Problems []config.Problem `json:"problems"`
	Left     int              `json:"left,omitzero"` // problems beyond those listed
}

func (sh *shell) lint() error {
	c, report := app.Load(sh.paths, sh.kinds)
	ok := report.Errors() == 0
	if sh.json {
		problems := report.Problems
		if problems == nil {
			problems = []config.Problem{}
		}
		if err := sh.printJSON(lintResult{ok, problems, report.Left}); err != nil {
			return err
		}
	} else {
		style := config.Plain
		if colour(sh.out) {
			style = config.Coloured
		}
		if err := report.Write(sh.out, style); err != nil {
			return err
		}
	}
	if !ok {
		return errNo
	}
	if !sh.json {
		ok := "ok"
		if n := report.Warnings(); n > 0 {
			ok += " with " + count(n, "warning")
		}
		fmt.Fprintf(sh.out, "%s: %s, %s, %s\n", ok, count(len(c.Sources), "source"), count(len(c.Routes), "route"), count(len(c.Destinations), "destination"))
	}
	return nil
}

// count writes a number of things: "1 source", "2 sources".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
