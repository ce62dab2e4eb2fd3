package cli

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/control"
)

func breakerCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "breaker NAME open|close|auto",
		Short: "Hold a destination's circuit breaker open or closed",
		Long: `Hold the circuit breaker of a destination open (nothing is sent; messages go on to
its fallback, or wait in its lane), or closed (everything is sent and failures are
not counted), or leave it to itself again: from open it begins with trials. status
shows who holds it and since when. It holds until auto, or a restart; a reload keeps
it.`,
		Example: `  pawl breaker ledger open
  pawl breaker ledger auto`,
		Args: cobra.ExactArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			name, to := args[0], args[1]
			if !slices.Contains([]string{"open", "close", adminapi.Auto}, to) {
				return usagef("%q is no position of a breaker; it is open, close or auto", to)
			}
			done := name + ": the circuit breaker is held " + map[string]string{"open": "open", "close": "closed"}[to]
			if to == adminapi.Auto {
				done = name + ": the circuit breaker is left to itself"
			}
			return sh.pull(c, "/v3/breaker", adminapi.ForceBreaker{Name: name, By: who(), To: to}, done)
		},
	}
}

// pull moves a lever of a running pawl and says what was done.
func (sh *shell) pull(c *cobra.Command, path string, request any, done string) error {
	client, err := sh.client()
	if err != nil {
		return err
	}
	var p adminapi.Pull
	return sh.pulled(c, client, path, request, &p, func() string { return done })
}

// pulled moves a lever, and prints what came of it.
func (sh *shell) pulled(c *cobra.Command, client *control.Client, path string, request, answer any, done func() string) error {
	if err := client.Do(c.Context(), http.MethodPost, path, request, answer); err != nil {
		return err
	}
	if sh.json {
		return sh.printJSON(answer)
	}
	_, err := fmt.Fprintln(sh.out, done())
	return err
}
