package cli

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/httpapi"
)

func jobsRetryCommand(sh *shell, api *apiFlags) *cobra.Command {
	var accept bool
	c := &cobra.Command{
		Use:   "retry JOB",
		Short: "Bring a dead letter back",
		Long: `Queue a job again that failed for good, with a fresh set of attempts. One whose
effect may have happened already needs --accept-uncertain: reconcile it with the
other side first. Many at once are a replay: pawl replay create.`,
		Example: `  pawl jobs retry job_01k7x0000000000000000000ab
  pawl jobs retry job_01k7x0000000000000000000ab --accept-uncertain`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return sh.jobByHand(c, api, args[0], "/retry", httpapi.RetryRequest{AcceptUncertain: accept})
		},
	}
	c.Flags().BoolVar(&accept, "accept-uncertain", false, "also where its effect may have happened already, and may happen again")
	return c
}

func jobsCancelCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "cancel JOB",
		Short: "End a job that is not finished",
		Long: `End a job that waits or runs. A handler that runs is told at its next heartbeat;
effects outside may have happened.`,
		Example: `  pawl jobs cancel job_01k7x0000000000000000000ab`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return sh.jobByHand(c, api, args[0], "/cancel", nil)
		},
	}
}

func (sh *shell) jobByHand(c *cobra.Command, api *apiFlags, id, how string, ask any) error {
	client, err := sh.api(api)
	if err != nil {
		return err
	}
	var j httpapi.Job
	if err := client.Do(c.Context(), http.MethodPost, "/v3/jobs/"+pathWord(id)+how, ask, &j); err != nil {
		return err
	}
	if sh.json {
		return sh.printJSON(j)
	}
	_, err = fmt.Fprintf(sh.out, "%s  %s\n", j.ID, strings.TrimSuffix(string(j.Status)+", "+jobWord(&j), ", "))
	return err
}

func jobsDeleteCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:     "delete JOB",
		Short:   "Remove a job that does not run",
		Long:    "Remove a job with its attempts, its logs and its idempotency key. One that runs must\nbe cancelled first.",
		Example: `  pawl jobs delete job_01k7x0000000000000000000ab`,
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return sh.remove(c, api, "/v3/jobs/"+pathWord(args[0]), args[0])
		},
	}
}

// deleted is what a command that deleted something prints as JSON.
type deleted struct {
	Deleted string `json:"deleted"`
}

func (sh *shell) remove(c *cobra.Command, api *apiFlags, path, name string) error {
	client, err := sh.api(api)
	if err != nil {
		return err
	}
	if err := client.Do(c.Context(), http.MethodDelete, path, nil, nil); err != nil {
		return err
	}
	if sh.json {
		return sh.printJSON(deleted{name})
	}
	_, err = fmt.Fprintln(sh.out, printable(name), "deleted")
	return err
}

func jobsExplainCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "explain JOB",
		Short: "Say why a job is not running now",
		Long:  "Say everything that keeps a job from running now, since when and until when, and\nwhat to do about it.",
		Example: `  pawl jobs explain job_01k7x0000000000000000000ab
  pawl jobs explain job_01k7x0000000000000000000ab --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			var e httpapi.Explanation
			if err := client.Do(c.Context(), http.MethodGet, "/v3/jobs/"+pathWord(args[0])+"/explain", nil, &e); err != nil {
				return err
			}
			if sh.json {
				return sh.printJSON(e)
			}
			_, err = fmt.Fprint(sh.out, explanationText(&e))
			return err
		},
	}
}

func explanationText(e *httpapi.Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s  %s\n", e.ID, e.Status)
	for _, c := range e.Causes {
		fmt.Fprintf(&b, "\n%s: %s\n", printable(c.Kind), printable(c.Text))
		if c.Since != nil {
			fmt.Fprintf(&b, "  since  %s\n", localTime(*c.Since))
		}
		if c.Until != nil {
			fmt.Fprintf(&b, "  until  %s\n", localTime(*c.Until))
		}
		if c.Next != "" {
			fmt.Fprintf(&b, "  next   %s\n", printable(c.Next))
		}
	}
	return b.String()
}
