package cli

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/httpapi"
)

var endpointThing = thing{noun: "endpoint", plural: "endpoints", name: "ENDPOINT", path: named("endpoints"), paused: true}

func endpointsCommand(sh *shell) *cobra.Command {
	return endpointThing.command(sh, "See and set the outside services that jobs call, and their circuits, over the job API\nof a running pawl, here or elsewhere.",
		"  pawl endpoints list\n  pawl endpoints set mailer --rate 20 --failures 5 --cooldown 60s\n  pawl endpoints circuit mailer",
		func(f *apiFlags) []*cobra.Command {
			return []*cobra.Command{
				listCommand(sh, f, endpointThing, append([]string{"ENDPOINT"}, append(countsHeader, "RATE", "CONCURRENCY", "SAID IN", "")...),
					func(p *httpapi.Endpoints) ([]httpapi.Endpoint, *string) { return p.Endpoints, p.NextCursor },
					func(e *httpapi.Endpoint) []string {
						return append(append([]string{printable(e.Name)}, countsRow(e.Counts)...), rateText(e.Rate), numberText(e.Concurrency), managedText(e.Managed), barriersText(e))
					}),
				getCommand(sh, f, endpointThing, endpointText), endpointsSetCommand(sh, f),
				circuitCommand(sh, f, "circuit", http.MethodGet, "/circuit", "Show how the circuit of an endpoint stands"),
				circuitCommand(sh, f, "reset", http.MethodPost, "/circuit/reset", "Close the circuit of an endpoint and end its hold"),
			}
		})
}

func rateText(r *httpapi.Rate) string {
	if r == nil {
		return ""
	}
	return strconv.FormatFloat(r.PerSecond, 'g', -1, 64) + "/s"
}

// barriersText names all that holds the jobs of an endpoint up: a pause, a circuit
// that is not closed, a wish of the endpoint; "" for nothing.
func barriersText(e *httpapi.Endpoint) string {
	var all []string
	if e.Paused != nil {
		all = append(all, gateText(e.Paused))
	}
	if e.Circuit.State != string(circuit.Closed) {
		text := "circuit " + e.Circuit.State
		if e.Circuit.RetryAt != nil {
			text += ", tries at " + nextText(e.Circuit.RetryAt)
		}
		all = append(all, text)
	}
	if e.Circuit.HeldUntil != nil {
		all = append(all, "held until "+nextText(e.Circuit.HeldUntil)+", as it asked")
	}
	return strings.Join(all, "; ")
}

func endpointText(e *httpapi.Endpoint) string {
	var f facts
	f.line("endpoint", e.Name)
	f.line("state", orElse(barriersText(e), working))
	f.managed(e.Managed)
	f.line("circuit", fmt.Sprintf("opens after %d failures, for %s", e.CircuitSettings.Failures, durationText(e.CircuitSettings.Cooldown)))
	if e.Rate != nil {
		f.line("rate", fmt.Sprintf("%s, %d at once", rateText(e.Rate), e.Rate.Burst))
	}
	f.line("concurrency", numberText(e.Concurrency))
	f.retry(e.Retry)
	f.counts(e.Counts)
	return f.String()
}

func endpointsSetCommand(sh *shell, api *apiFlags) *cobra.Command {
	var s httpapi.EndpointSettings
	var rate httpapi.Rate
	var circuit httpapi.CircuitSettings
	var cooldown string
	var retry map[string]string
	c := setCommand(sh, api, endpointThing, "--rate 20 --failures 5 --cooldown 60s", func() (_ any, err error) {
		if rate.PerSecond != 0 {
			s.Rate = &rate
		} else if rate.Burst != 0 {
			return nil, usagef("--burst goes with --rate")
		}
		if circuit.Cooldown, err = spanFlag("cooldown", cooldown); err != nil {
			return nil, err
		}
		if circuit != (httpapi.CircuitSettings{}) {
			s.Circuit = &circuit
		}
		s.Retry, err = parseRetry(retry)
		return s, err
	}, endpointText)
	f := c.Flags()
	f.Float64Var(&rate.PerSecond, "rate", 0, "how many of its jobs are handed out a second: `NUMBER` (default any)")
	f.IntVar(&rate.Burst, "burst", 0, "how many may go at once after a rest: `NUMBER` (default a second's worth)")
	f.IntVar(&s.Concurrency, "concurrency", 0, "how many attempts may run at once: `NUMBER` (default any)")
	f.IntVar(&circuit.Failures, "failures", 0, "how many in a row open its circuit: `NUMBER` (default 5)")
	f.StringVar(&cooldown, "cooldown", "", "how long its circuit stays open before one job may find out: `TIME` (default 60s)")
	retryFlag(f, &retry, "how its jobs are retried")
	return c
}

func circuitCommand(sh *shell, api *apiFlags, word, method, path, short string) *cobra.Command {
	return &cobra.Command{
		Use: word + " ENDPOINT", Short: short, Long: short + ".", Example: "  pawl endpoints " + word + " mailer", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return one(c.Context(), sh, client, method, "/v3/endpoints/"+pathWord(args[0])+path, nil, circuitText)
		},
	}
}

func circuitText(c *httpapi.Circuit) string {
	var f facts
	f.line("endpoint", c.Endpoint)
	f.line("circuit", c.State)
	f.line("failures", strconv.Itoa(c.Failures)+" in a row")
	f.line("opened", nextText(c.OpenedAt))
	f.line("tries at", nextText(c.RetryAt))
	f.line("held until", nextText(c.HeldUntil))
	return f.String()
}
