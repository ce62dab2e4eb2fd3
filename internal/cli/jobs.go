package cli

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/setting"
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
				return usagef("unknown command %q for pawl jobs; it has create, list, get and watch", args[0])
			}
			return c.Help()
		},
	}
	var f apiFlags
	for _, sub := range []*cobra.Command{jobsCreateCommand(sh, &f), jobsListCommand(sh, &f), jobsGetCommand(sh, &f), jobsWatchCommand(sh, &f)} {
		f.add(sub)
		c.AddCommand(sh.talks(sub))
	}
	return c
}

// newJob holds the flags that say what a job is.
type newJob struct {
	httpapi.NewJob
	data, key, runAt, delay, timeout string
	retry                            map[string]string
}

func jobsCreateCommand(sh *shell, api *apiFlags) *cobra.Command {
	var j newJob
	c := &cobra.Command{
		Use:   "create --queue QUEUE --task TASK",
		Short: "Create a job",
		Long: `Create a job and print its id. With --key a repeat of the command creates no
second one: it prints the id of the first.`,
		Example: `  pawl jobs create --queue emails --task send-welcome --data '{"user_id":7}'
  pawl jobs create --queue reports --task monthly --data @july.json --key report/2026-07
  pawl jobs create --queue emails --task send-welcome --retry max_attempts=3,initial=1s --tag trial`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := j.parse(sh); err != nil {
				return err
			}
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return sh.jobsCreate(c.Context(), client, &j)
		},
	}
	f := c.Flags()
	f.StringVar(&j.Queue, "queue", "", "the `QUEUE` that it goes into")
	f.StringVar(&j.Task, "task", "", "the `TASK` that workers know it by")
	f.StringVar(&j.Version, "version", "", "the task's `VERSION` (default 1)")
	f.StringVar(&j.Endpoint, "endpoint", "", "the outside service that the task calls: `NAME`")
	f.StringVar(&j.data, "data", "null", "the payload, `JSON`: a literal, @file, or - for standard input")
	f.IntVar(&j.Priority, "priority", 0, "from -100 to 100; a higher `NUMBER` goes first")
	f.StringVar(&j.delay, "delay", "", "not before this `TIME` has passed: 10m, 2h, 7d")
	f.StringVar(&j.runAt, "run-at", "", "not before this `MOMENT`: 2026-12-01T03:00:00Z")
	f.StringVar(&j.timeout, "timeout", "", "how long an attempt may take: `TIME` (default: the queue's)")
	f.StringToStringVar(&j.retry, "retry", nil, "its own retry policy: `NAME=VALUE` of max_attempts, initial, factor, max_delay and jitter")
	f.StringVar(&j.key, "key", "", "the idempotency `KEY`: a repeat with it is the same job")
	f.StringArrayVar(&j.Tags, "tag", nil, "a `TAG` to find it by; may be repeated")
	_ = c.MarkFlagRequired("queue") // these fail only for a flag that is not there
	_ = c.MarkFlagRequired("task")
	return c
}

// parse reads what the flags hold as text. What the server checks is left to it.
func (j *newJob) parse(sh *shell) error {
	body, err := sh.data(j.data)
	if err != nil {
		return err
	}
	if !jsontext.Value(body).IsValid() {
		return usagef("--data: it is not JSON; a text stands in quotes of its own: --data '\"text\"'")
	}
	j.Payload = httpapi.Value(body)
	for flag, text := range map[string]struct {
		said string
		into **httpapi.Duration
	}{"delay": {j.delay, &j.Delay}, "timeout": {j.timeout, &j.Timeout}} {
		if text.said == "" {
			continue
		}
		d, err := setting.ParseDuration(text.said)
		if err != nil {
			return usagef("--%s: %w", flag, err)
		}
		*text.into = new(httpapi.Duration(d.String()))
	}
	if j.runAt != "" {
		at, err := time.Parse(time.RFC3339, j.runAt)
		if err != nil {
			return usagef("--run-at: %q is no moment; write it like 2026-12-01T03:00:00Z", j.runAt)
		}
		j.RunAt = new(httpapi.Time(at.UTC().Format(time.RFC3339Nano)))
	}
	return j.parseRetry()
}

func (j *newJob) parseRetry() error {
	if len(j.retry) == 0 {
		return nil
	}
	j.Retry = &httpapi.Retry{}
	for name, text := range j.retry {
		var err error
		switch name {
		case job.FieldMaxAttempts:
			var n int
			n, err = strconv.Atoi(text)
			j.Retry.MaxAttempts = &n
		case job.FieldFactor:
			j.Retry.Factor, err = number(text)
		case job.FieldJitter:
			j.Retry.Jitter, err = number(text)
		case job.FieldInitial:
			j.Retry.Initial, err = span(text)
		case job.FieldMaxDelay:
			j.Retry.MaxDelay, err = span(text)
		default:
			return usagef("--retry: there is no %q; it has max_attempts, initial, factor, max_delay and jitter", name)
		}
		if err != nil {
			return usagef("--retry: %s=%s can't be read", name, text)
		}
	}
	return nil
}

func number(text string) (*float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	return &v, err
}

func span(text string) (*httpapi.Duration, error) {
	d, err := setting.ParseDuration(text)
	return new(httpapi.Duration(d.String())), err
}

func (sh *shell) jobsCreate(ctx context.Context, client *apiClient, j *newJob) error {
	var header map[string]string
	if j.key != "" {
		header = map[string]string{"Idempotency-Key": j.key}
	}
	var made httpapi.Job
	if err := client.do(ctx, http.MethodPost, "/v3/jobs", header, j.NewJob, &made); err != nil {
		return err
	}
	if sh.json {
		return sh.printJSON(made)
	}
	text := made.ID
	if isTerminal(sh.out) {
		text += fmt.Sprintf("   %s in %s, due %s", made.Status, printable(made.Queue), localTime(made.RunAt))
	}
	_, err := fmt.Fprintln(sh.out, text)
	return err
}

// jobFilter holds the flags that choose jobs.
type jobFilter struct {
	queue, task, endpoint, status, reason, tag, since, before string
	deadLetter                                                bool
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
	if f.deadLetter {
		q.Set("dead_letter", "true")
	}
	for flag, said := range map[string]struct{ text, name string }{"since": {f.since, "created_after"}, "before": {f.before, "created_before"}} {
		if said.text == "" {
			continue
		}
		at, err := moment(said.text, now)
		if err != nil {
			return nil, usagef("--%s: %w", flag, err)
		}
		q.Set(said.name, at.UTC().Format(time.RFC3339Nano))
	}
	if f.limit < 1 {
		return nil, usagef("--limit must be 1 or more, not %d", f.limit)
	}
	return q, nil
}

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
	fl.BoolVar(&f.deadLetter, "dead-letter", false, "only jobs that failed for good")
	fl.StringVar(&f.since, "since", "", "only jobs created within this `TIME` (1h, 7d), or after a moment")
	fl.StringVar(&f.before, "before", "", "only jobs created longer ago than this `TIME`, or before a moment")
	fl.IntVar(&f.limit, "limit", 100, "at most this `NUMBER` of jobs")
	_ = c.RegisterFlagCompletionFunc("status", cobra.FixedCompletions( // fails only for a flag that is not there
		[]string{"queued", "running", "succeeded", "failed", "cancelled"}, cobra.ShellCompDirectiveNoFileComp))
	return c
}

func (sh *shell) jobsList(ctx context.Context, client *apiClient, q url.Values, limit int) error {
	t, rows := sh.jobTable(), 0
	for left := limit; left > 0; {
		q.Set("limit", strconv.Itoa(min(left, store.MaxPage)))
		var page httpapi.Jobs
		if err := client.Do(ctx, http.MethodGet, "/v3/jobs?"+q.Encode(), nil, &page); err != nil {
			return err
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
		if page.NextCursor == nil {
			break
		}
		q.Set("cursor", *page.NextCursor)
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
		words = append(words, short(printable(strings.TrimPrefix(j.LastError.Type+": "+j.LastError.Message, ": "))))
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
	line("retry", "%d attempts, %d charged; waits %s, times %g, at most %s, spread by %g", j.Retry.MaxAttempts, j.AttemptsCharged,
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

func jobsWatchCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "watch JOB",
		Short: "Wait until a job is finished",
		Long: `Show a job's attempts as they end, until it is finished. Exit code 1 where it has
not succeeded. It outlasts a restart of the server. With --json the finished job.`,
		Example: `  pawl jobs watch job_01k7x0000000000000000000ab
  pawl jobs watch "$(pawl jobs create --queue emails --task send-welcome)"`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return sh.jobsWatch(c.Context(), client, args[0])
		},
	}
}

const (
	// watchWait is how long one request waits for the end: so often at least
	// the attempts are shown.
	watchWait = 5 * time.Second
	// watchPause is between two tries at a server that does not answer.
	watchPause = time.Second
)

func (sh *shell) jobsWatch(ctx context.Context, client *apiClient, id string) error {
	path, seen := "/v3/jobs/"+pathWord(id), watched{}
	for first, away := true, false; ; first = false {
		ask := path
		if !first { // what there is now is shown at once
			ask += "?wait=" + watchWait.String()
		}
		var j httpapi.Job
		err := client.Do(ctx, http.MethodGet, ask, nil, &j)
		if err != nil {
			if first || !passing(err) {
				return err
			}
			if !away {
				fmt.Fprintf(sh.err, "pawl: %v; trying again\n", err)
			}
			away = true
			if err := sleep(ctx, watchPause); err != nil {
				return err
			}
			continue
		}
		away = false
		if err := sh.show(&seen, &j); err != nil {
			return err
		}
		if !j.Status.Finished() {
			continue
		}
		if sh.json {
			if err := sh.printJSON(j); err != nil {
				return err
			}
		}
		if j.Status != job.Succeeded {
			return errNo
		}
		return nil
	}
}

// passing reports whether an error is one that a restart of the server makes.
func passing(err error) bool {
	r, refused := errors.AsType[*refusal](err)
	return errors.Is(err, errNoAnswer) || refused && r.Status >= http.StatusInternalServerError
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// watched is what of a job was shown already.
type watched struct {
	status   job.Status
	attempts int // that have ended
}

// show prints what is new of a job.
func (sh *shell) show(seen *watched, j *httpapi.Job) error {
	if sh.json {
		return nil
	}
	var b strings.Builder
	for i := seen.attempts; i < len(j.Attempts) && j.Attempts[i].Outcome != nil; i++ {
		a := &j.Attempts[i]
		fmt.Fprintf(&b, "attempt %d  %s after %s", a.Number, outcomeText(a), orElse(tookText(a.DurationMS), "no time"))
		if text := errorText(a.Error); text != "" {
			fmt.Fprintf(&b, "  %s", short(text))
		}
		b.WriteString("\n")
		seen.attempts++
	}
	if j.Status != seen.status {
		seen.status = j.Status
		fmt.Fprintln(&b, strings.TrimSuffix(string(j.Status)+"  "+jobWord(j), "  "))
	}
	_, err := fmt.Fprint(sh.out, b.String())
	return err
}
