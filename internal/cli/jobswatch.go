package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
)

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
