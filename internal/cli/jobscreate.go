package cli

import (
	"context"
	"encoding/json/jsontext"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/setting"
)

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
			if err := checkKey(j.key); err != nil {
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
	f.StringVar(&j.Version, "version", "", "the task's `VERSION` (default the one that was registered last, or 1)")
	f.StringVar(&j.Endpoint, "endpoint", "", "the outside service that the task calls: `NAME`")
	f.StringVar(&j.data, "data", "null", "the payload, `JSON`: a literal, @file, or - for standard input")
	f.IntVar(&j.Priority, "priority", 0, "from -100 to 100; a higher `NUMBER` goes first")
	f.StringVar(&j.delay, "delay", "", "not before this `TIME` has passed: 10m, 2h, 7d")
	f.StringVar(&j.runAt, "run-at", "", "not before this `MOMENT`: 2026-12-01T03:00:00Z")
	f.StringVar(&j.timeout, "timeout", "", "how long an attempt may take: `TIME` (default: the queue's)")
	retryFlag(f, &j.retry, "its own retry policy")
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
	if j.Delay, err = spanFlag("delay", j.delay); err != nil {
		return err
	}
	if j.Timeout, err = spanFlag("timeout", j.timeout); err != nil {
		return err
	}
	if j.runAt != "" {
		at, err := time.Parse(time.RFC3339, j.runAt)
		if err != nil {
			return usagef("--run-at: %q is no moment; write it like 2026-12-01T03:00:00Z", j.runAt)
		}
		j.RunAt = new(httpapi.Time(at.UTC().Format(time.RFC3339Nano)))
	}
	j.Retry, err = parseRetry(j.retry)
	return err
}

// retryFlag adds the flag of one level of a policy, for parseRetry.
func retryFlag(f *pflag.FlagSet, into *map[string]string, what string) {
	f.StringToStringVar(into, "retry", nil, what+": `NAME=VALUE` of max_attempts, initial, factor, max_delay and jitter")
}

// parseRetry reads one level of a policy; nil where nothing is said.
func parseRetry(said map[string]string) (*httpapi.Retry, error) {
	if len(said) == 0 {
		return nil, nil
	}
	r := &httpapi.Retry{}
	for _, name := range slices.Sorted(maps.Keys(said)) {
		text := said[name]
		var err error
		switch name {
		case job.FieldMaxAttempts:
			var n int
			n, err = strconv.Atoi(text)
			r.MaxAttempts = &n
		case job.FieldFactor:
			r.Factor, err = number(text)
		case job.FieldJitter:
			r.Jitter, err = number(text)
		case job.FieldInitial:
			r.Initial, err = span(text)
		case job.FieldMaxDelay:
			r.MaxDelay, err = span(text)
		default:
			return nil, usagef("--retry: there is no %q; it has max_attempts, initial, factor, max_delay and jitter", name)
		}
		if err != nil {
			return nil, usagef("--retry: %s=%s can't be read", name, text)
		}
	}
	return r, nil
}

// number reads one that JSON can say.
func number(text string) (*float64, error) {
	v, err := strconv.ParseFloat(text, 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = strconv.ErrRange
	}
	return &v, err
}

func span(text string) (*httpapi.Duration, error) {
	d, err := setting.ParseDuration(text)
	return new(httpapi.Duration(d.String())), err
}

// checkKey looks at an idempotency key as far as it could not be sent as it is,
// in a header; "" is none.
func checkKey(key string) error {
	switch {
	case strings.ContainsFunc(key, unicode.IsControl), !utf8.ValidString(key):
		return usagef("--key must be UTF-8 without control characters, such as the end of a line: %q", key)
	case strings.TrimSpace(key) != key:
		return usagef("--key can't begin or end with a space: %q", key)
	}
	return nil
}

// jobFlags are the flags of the members of a job to create.
var jobFlags = flagNames{
	"/queue": "--queue", "/task": "--task", "/version": "--version", "/endpoint": "--endpoint", "/payload": "--data",
	"/priority": "--priority", "/delay": "--delay", "/run_at": "--run-at", "/timeout": "--timeout", "/retry": "--retry", "/tags": "--tag",
	httpapi.KeyHeader: "--key",
}

func (sh *shell) jobsCreate(ctx context.Context, client *apiClient, j *newJob) error {
	var header map[string]string
	if j.key != "" {
		header = map[string]string{"Idempotency-Key": j.key}
	}
	var made httpapi.Job
	if err := client.do(ctx, http.MethodPost, "/v3/jobs", header, j.NewJob, &made); err != nil {
		return jobFlags.explain(err)
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
