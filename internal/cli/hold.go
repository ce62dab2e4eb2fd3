package cli

import (
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/adminapi"
)

func holdCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "hold NAME clear",
		Short: "End what a destination asked for with Retry-After",
		Long: `End the hold of a destination: the time for which its endpoint asked to be left
alone. Traffic comes back slowly, and the endpoint may ask again. status shows
holds.`,
		Example: "  pawl hold ledger clear",
		Args:    cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			if args[1] != "clear" {
				return usagef("%q is nothing to do with a hold; write pawl hold %s clear", args[1], args[0])
			}
			return sh.pull(c, "/v3/hold/clear", adminapi.Lever{Name: args[0], By: who()}, args[0]+": the hold is cleared")
		},
	}
}
