package cli

import (
	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
)

var queueThing = thing{noun: "queue", plural: "queues", name: "QUEUE", path: named("queues"), paused: true}

func queuesCommand(sh *shell) *cobra.Command {
	return queueThing.command(sh, "See and set the queues of the job server, over the job API of a running pawl, here\nor elsewhere.",
		"  pawl queues list\n  pawl queues set emails --concurrency 50\n  pawl queues pause emails",
		func(f *apiFlags) []*cobra.Command {
			return []*cobra.Command{
				listCommand(sh, f, queueThing, append([]string{"QUEUE"}, append(countsHeader, "CONCURRENCY", "SAID IN", "")...),
					func(p *httpapi.Queues) ([]httpapi.Queue, *string) { return p.Queues, p.NextCursor },
					func(q *httpapi.Queue) []string {
						return append(append([]string{printable(q.Name)}, countsRow(q.Counts)...), numberText(q.Concurrency), managedText(q.Managed), queueState(q))
					}),
				getCommand(sh, f, queueThing, queueText), queuesSetCommand(sh, f),
			}
		})
}

// undefined is the state of a queue that is there because jobs name it.
const undefined = "not defined: nobody can work its jobs"

// queueState is what stands before a queue; "" for nothing.
func queueState(q *httpapi.Queue) string {
	if q.ManagedBy == nil && !job.OfRelay(q.Name) {
		return undefined
	}
	return gateText(q.Paused)
}

func queueText(q *httpapi.Queue) string {
	var f facts
	f.line("queue", q.Name)
	f.line("state", orElse(queueState(q), working))
	f.managed(q.Managed)
	f.line("lease", durationText(q.Lease))
	f.line("timeout", durationText(q.Timeout))
	f.line("concurrency", numberText(q.Concurrency))
	f.retry(q.Retry)
	f.counts(q.Counts)
	return f.String()
}

func queuesSetCommand(sh *shell, api *apiFlags) *cobra.Command {
	var s httpapi.QueueSettings
	var lease, timeout string
	var retry map[string]string
	c := setCommand(sh, api, queueThing, "--timeout 2m --concurrency 50", func() (_ any, err error) {
		if s.Lease, err = spanFlag("lease", lease); err != nil {
			return nil, err
		}
		if s.Timeout, err = spanFlag("timeout", timeout); err != nil {
			return nil, err
		}
		s.Retry, err = parseRetry(retry)
		return s, err
	}, queueText)
	f := c.Flags()
	f.StringVar(&lease, "lease", "", "how long a worker may be silent: `TIME` (default 30s)")
	f.StringVar(&timeout, "timeout", "", "how long an attempt may take: `TIME` (default 5m)")
	f.IntVar(&s.Concurrency, "concurrency", 0, "how many attempts may run at once: `NUMBER` (default any)")
	retryFlag(f, &retry, "how its jobs are retried")
	return c
}
