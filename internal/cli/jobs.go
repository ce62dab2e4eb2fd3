package cli

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/store"
)

func jobsCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "jobs",
		Short: "Create jobs and see what became of them",
		Long: `Create jobs and see what became of them, over the job API of a running pawl, here
or elsewhere.`,
		Example: `  pawl jobs create --queue emails --task send-welcome --data '{"user_id":7}'
  pawl jobs list --status failed
  pawl jobs watch job_01k7x0000000000000000000ab`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for pawl jobs; it has create, list, get, watch, explain, retry, cancel and delete", args[0])
			}
			return c.Help()
		},
	}
	var f apiFlags
	for _, sub := range []*cobra.Command{jobsCreateCommand(sh, &f), jobsListCommand(sh, &f), jobsGetCommand(sh, &f), jobsWatchCommand(sh, &f),
		jobsExplainCommand(sh, &f), jobsRetryCommand(sh, &f), jobsCancelCommand(sh, &f), jobsDeleteCommand(sh, &f)} {
		f.add(sub)
		c.AddCommand(sh.talks(sub))
	}
	return c
}

// jobFilter holds the flags that choose jobs.
type jobFilter struct {
	queue, task, endpoint, status, reason, tag, since, before string
	deadLetter, deadLetterSaid                                bool
	limit                                                     int
}

func (f *jobFilter) query(now time.Time) (url.Values, error) {
	q := url.Values{}
	for name, value := range map[string]string{
		"queue": f.queue, "task": f.task, "endpoint": f.endpoint, "status": f.status, "reason": f.reason, "tag": f.tag,
	} {
		if value != "" {
			q.Set(name, value)
		}
	}
	if f.deadLetterSaid {
		q.Set("dead_letter", strconv.FormatBool(f.deadLetter))
	}
	for _, said := range [][3]string{{"since", f.since, "created_after"}, {"before", f.before, "created_before"}} {
		at, err := momentFlag(said[0], said[1], now)
		if err != nil {
			return nil, err
		}
		if at != nil {
			q.Set(said[2], string(*at))
		}
	}
	if f.limit < 1 {
		return nil, usagef("--limit must be 1 or more, not %d", f.limit)
	}
	return q, nil
}

// defaultJobs is how many jobs are listed unless said.
const defaultJobs = 100

func jobsListCommand(sh *shell, api *apiFlags) *cobra.Command {
	var f jobFilter
	c := &cobra.Command{
		Use:   "list",
		Short: "List jobs, the newest first",
		Long:  "List jobs, the newest first. With --json one object a line.",
		Example: `  pawl jobs list --queue emails --status failed --since 1d
  pawl jobs list --dead-letter --reason exhausted --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.deadLetterSaid = c.Flags().Changed("dead-letter")
			q, err := f.query(time.Now())
			if err != nil {
				return err
			}
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return sh.jobsList(c.Context(), client, q, f.limit)
		},
	}
	fl := c.Flags()
	fl.StringVar(&f.queue, "queue", "", "only jobs of this `QUEUE`")
	fl.StringVar(&f.task, "task", "", "only jobs of this `TASK`")
	fl.StringVar(&f.endpoint, "endpoint", "", "only jobs that call this outside service: `NAME`")
	fl.StringVar(&f.status, "status", "", "only this `STATUS`: queued, running, succeeded, failed or cancelled")
	fl.StringVar(&f.reason, "reason", "", "only dead letters of this `REASON`: exhausted, non_retryable, …")
	fl.StringVar(&f.tag, "tag", "", "only jobs with this `TAG`")
	fl.BoolVar(&f.deadLetter, "dead-letter", false, "only jobs that failed for good; =false: all but them")
	fl.StringVar(&f.since, "since", "", "only jobs created within this `TIME` (1h, 7d), or after a moment")
	fl.StringVar(&f.before, "before", "", "only jobs created longer ago than this `TIME`, or before a moment")
	fl.IntVar(&f.limit, "limit", defaultJobs, "at most this `NUMBER` of jobs")
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions( // fails only for a flag that is not there
		[]string{"queued", "running", "succeeded", "failed", "cancelled"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

// filterFlags are the flags of the parameters of a list.
var filterFlags = flagNames{
	"queue": "--queue", "task": "--task", "endpoint": "--endpoint", "status": "--status", "reason": "--reason", "tag": "--tag",
	"dead_letter": "--dead-letter", "created_after": "--since", "created_before": "--before", "limit": "--limit",
}

func (sh *shell) jobsList(ctx context.Context, client *apiClient, q url.Values, limit int) error {
	t, rows, more := sh.jobTable(), 0, true
	for left := limit; left > 0 && more; {
		q.Set("limit", strconv.Itoa(min(left, store.MaxPage)))
		var page httpapi.Jobs
		if err := client.Do(ctx, http.MethodGet, "/v3/jobs?"+q.Encode(), nil, &page); err != nil {
			return filterFlags.explain(err)
		}
		for _, j := range page.Jobs {
			if sh.json {
				if err := sh.printJSON(j); err != nil {
					return err
				}
			} else {
				t.row(j.ID, printable(j.Queue), printable(j.Task+"@"+j.Version), string(j.Status), strconv.Itoa(j.Attempt), localTime(j.CreatedAt), jobWord(&j))
			}
			rows++
			left--
		}
		if more = page.NextCursor != nil; more {
			q.Set("cursor", *page.NextCursor)
		}
	}
	if more && limit == defaultJobs { // who said another number means it
		defer fmt.Fprintf(sh.err, "pawl: there are more than these %d; a larger --limit shows them\n", limit)
	}
	if sh.json {
		return nil
	}
	if rows == 0 {
		_, err := fmt.Fprintln(sh.out, "no such jobs")
		return err
	}
	_, err := fmt.Fprintln(sh.out, t)
	return err
}

func (sh *shell) jobTable() *grid {
	return sh.table("JOB", "QUEUE", "TASK", "STATUS", "ATTEMPT", "CREATED", "")
}

// jobWord is what is most worth knowing of a job in a few words.
func jobWord(j *httpapi.Job) string {
	var words []string
	if j.Reason != nil {
		words = append(words, printable(*j.Reason))
	}
	switch {
	case j.LastError != nil && j.Status != job.Succeeded:
		text := errorText(j.LastError)
		if j.Reason != nil { // the type of an error of pawl's own is its reason
			text = strings.TrimPrefix(text, printable(*j.Reason)+": ")
		}
		words = append(words, short(text))
	case j.Status == job.Queued:
		words = append(words, "due "+localTime(j.RunAt))
	}
	return strings.Join(words, ": ")
}

func jobsGetCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "get JOB",
		Short: "Show a job and its attempts",
		Long:  "Show a job with its policy, its attempts and what they died of. With --json all of\nit, payload and result included.",
		Example: `  pawl jobs get job_01k7x0000000000000000000ab
  pawl jobs get job_01k7x0000000000000000000ab --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			var j httpapi.Job
			if err := client.Do(c.Context(), http.MethodGet, "/v3/jobs/"+pathWord(args[0]), nil, &j); err != nil {
				return err
			}
			return sh.printJob(&j)
		},
	}
}

func (sh *shell) printJob(j *httpapi.Job) error {
	if sh.json {
		return sh.printJSON(j)
	}
	_, err := fmt.Fprint(sh.out, sh.jobText(j))
	return err
}

func (sh *shell) jobText(j *httpapi.Job) string {
	var b strings.Builder
	line := func(name, format string, args ...any) {
		fmt.Fprintf(&b, "%-9s %s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("job", "%s", j.ID)
	line("status", "%s", strings.TrimSuffix(string(j.Status)+", "+jobWord(j), ", "))
	line("queue", "%s", j.Queue)
	line("task", "%s, version %s", j.Task, j.Version)
	if j.Endpoint != nil {
		line("endpoint", "%s", *j.Endpoint)
	}
	line("priority", "%d", j.Priority)
	if len(j.Tags) > 0 {
		line("tags", "%s", strings.Join(j.Tags, ", "))
	}
	line("created", "%s", localTime(j.CreatedAt))
	if j.FinishedAt != nil {
		line("finished", "%s", localTime(*j.FinishedAt))
	}
	line("retry", "%s, %d charged; waits %s, times %g, at most %s, spread by %g", count(j.Retry.MaxAttempts, "attempt"), j.AttemptsCharged,
		j.Retry.Initial, j.Retry.Factor, j.Retry.MaxDelay, j.Retry.Jitter)
	line("payload", "%s", excerpt(j.Payload))
	if j.Status == job.Succeeded {
		line("result", "%s", excerpt(j.Result))
	}
	if len(j.Attempts) == 0 {
		return b.String()
	}
	t := sh.table("ATTEMPT", "WORKER", "STARTED", "TOOK", "OUTCOME", "NEXT", "ERROR")
	for _, a := range j.Attempts {
		t.row(strconv.Itoa(a.Number), printable(a.Worker), localTime(a.StartedAt), tookText(a.DurationMS), outcomeText(&a), nextText(a.NextRunAt), short(errorText(a.Error)))
	}
	fmt.Fprintf(&b, "\n%s\n", t)
	return b.String()
}

// excerpt is the beginning of a JSON value.
func excerpt(v httpapi.Value) string {
	text := jsontext.Value(v).Clone()
	if len(text) == 0 {
		return "null"
	}
	_ = text.Compact() // what is no JSON is shown as it is
	const room = 200
	if r := []rune(string(text)); len(r) > room {
		return string(r[:room]) + fmt.Sprintf("… (%d bytes; --json shows all of it)", len(text))
	}
	return string(text)
}

func tookText(ms *int64) string {
	if ms == nil {
		return ""
	}
	return round(time.Duration(*ms) * time.Millisecond)
}

func outcomeText(a *httpapi.Attempt) string {
	switch {
	case a.Outcome == nil:
		return "running"
	case a.Charged || *a.Outcome == string(job.OutcomeSucceeded):
		return *a.Outcome
	}
	return *a.Outcome + ", not charged"
}

func nextText(t *httpapi.Time) string {
	if t == nil {
		return ""
	}
	return localTime(*t)
}

func errorText(e *httpapi.Error) string {
	if e == nil {
		return ""
	}
	return printable(strings.TrimPrefix(e.Type+": "+e.Message, ": "))
}
