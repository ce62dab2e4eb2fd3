package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/adminapi"
)

func rateCommand(sh *shell) *cobra.Command {
	var burst int
	c := &cobra.Command{
		Use:   "rate NAME RATE|auto",
		Short: "Limit how fast a destination is sent to",
		Long: `Limit how fast attempts at a destination begin, whatever its configuration says, or
go back to that with auto. Messages beyond it wait in the destination's lane. status
shows who set it and since when. It holds until auto, or a restart; a reload keeps
it.`,
		Example: `  pawl rate ledger 20/s
  pawl rate ledger 30/m --burst 5
  pawl rate ledger auto`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			req := adminapi.SetRate{Name: args[0], By: who()}
			if args[1] == adminapi.Auto {
				if c.Flags().Changed("burst") {
					return usagef("--burst goes with a rate, not with auto")
				}
				req.To = adminapi.Auto
				return sh.pull(c, "/v3/rate", req, args[0]+": the rate limit is what the configuration says")
			}
			perSecond, err := parseRate("RATE", args[1])
			switch {
			case err != nil:
				return err
			case perSecond == 0:
				return usagef("the RATE is empty; write it like 20/s, or auto")
			case c.Flags().Changed("burst") && burst < 1:
				return usagef("--burst must be at least 1, not %d", burst)
			}
			req.PerSecond, req.Burst = perSecond, burst
			return sh.pull(c, "/v3/rate", req, fmt.Sprintf("%s: at most %s from now on", args[0], adminapi.RateText(perSecond)))
		},
	}
	c.Flags().IntVar(&burst, "burst", 0, "attempts that may begin at once after a quiet time (default: RATE a second, rounded up)")
	return c
}
