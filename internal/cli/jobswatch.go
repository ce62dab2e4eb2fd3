package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/httpapi"
)

func jobsWatchCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "watch JOB",
		Short: "Wait until a job is finished",
		Long: `Show a job until it is finished: on a terminal how it is now and why it waits,
drawn in place; in a pipe its attempts as they end. Exit code 1 where it has not
succeeded. It outlasts a restart of the server. With --json the job at each change,
one object a line; the last one is the finished job.`,
		Example: `  pawl jobs watch job_01k7x0000000000000000000ab
  pawl jobs watch "$(pawl jobs create --queue emails --task send-welcome)"
  pawl jobs watch job_01k7x0000000000000000000ab --json | jq -r .status`,
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
	// watchTick is watchWait on a terminal: so often the time that has passed is drawn.
	watchTick = time.Second
	// watchPause is between two tries at a server that does not answer.
	watchPause = time.Second
)

func (sh *shell) jobsWatch(ctx context.Context, client *apiClient, id string) error {
	w := &jobWatch{sh: sh, client: client, path: "/v3/jobs/" + pathWord(id), block: sh.block()}
	wait := watchWait
	if w.block != nil {
		wait = watchTick
	}
	ask := w.path // what there is now is shown at once
	return sh.persist(ctx, w.away, func() (answered, done bool, err error) {
		var j httpapi.Job
		if err := client.Do(ctx, http.MethodGet, ask, nil, &j); err != nil {
			return false, false, err
		}
		ask = w.path + "?wait=" + wait.String()
		err = w.show(ctx, &j)
		if err == nil && j.Status.Finished() && j.Status != job.Succeeded {
			err = errNo
		}
		return true, j.Status.Finished(), err
	})
}

// persist calls try until it is done. Once the server has answered it may go away
// and come back: that is told once each time, and away is called.
func (sh *shell) persist(ctx context.Context, away func(), try func() (answered, done bool, err error)) error {
	known, gone := false, false
	for {
		answered, done, err := try()
		if answered {
			known, gone = true, false
		}
		switch {
		case err == nil && done:
			return nil
		case err == nil:
			continue
		case ctx.Err() != nil:
			return ctx.Err()
		case !known || !passing(err):
			return err
		case !gone:
			gone = true
			fmt.Fprintf(sh.err, "pawl: %v; trying again\n", err)
			away()
		}
		if err := sleep(ctx, watchPause); err != nil {
			return err
		}
	}
}

// block is where a job is drawn: nil where out is no terminal, or one that can't.
func (sh *shell) block() *block {
	f, ok := sh.out.(*os.File)
	if sh.json || !ok || !isTerminal(f) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &block{out: f, coloured: colour(f), size: func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil || width < 1 || height < 1 {
			return 80, 24
		}
		return width, height
	}}
}

// jobWatch shows one job as it changes.
type jobWatch struct {
	sh     *shell
	client *apiClient
	path   string
	block  *block // nil: a line at each change
	seen   watched
	state  jobState // the last one
	why    waiting
	asked  time.Time // why
}

// away leaves what is drawn as it is.
func (w *jobWatch) away() {
	if w.block != nil {
		w.block.leave()
	}
}

// jobState is what of a job is a change when it differs.
type jobState struct {
	status                  job.Status
	attempt, charged, ended int
	runAt                   httpapi.Time
}

func stateOf(j *httpapi.Job) jobState {
	s := jobState{status: j.Status, attempt: j.Attempt, charged: j.AttemptsCharged, runAt: j.RunAt}
	for i := range j.Attempts {
		if j.Attempts[i].Outcome != nil {
			s.ended++
		}
	}
	return s
}

func (w *jobWatch) show(ctx context.Context, j *httpapi.Job) error {
	state := stateOf(j)
	changed := state != w.state
	w.state = state
	switch {
	case w.sh.json && changed:
		return w.sh.printJSON(j)
	case w.sh.json:
		return nil
	case w.block == nil:
		return w.sh.show(&w.seen, j)
	}
	now := time.Now()
	if j.Status == job.Queued && (changed || now.Sub(w.asked) >= watchWait) {
		w.asked, w.why = now, waiting{}
		w.why.err = w.client.Do(ctx, http.MethodGet, w.path+"/explain", nil, &w.why.Explanation)
	}
	return w.block.draw(blockLines(j, &w.why, w.client.Now()), statusColour(j.Status))
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
