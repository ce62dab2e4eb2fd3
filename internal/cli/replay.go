package cli

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/decor"

	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/store"
)

func replayCommand(sh *shell) *cobra.Command {
	const words = "create, list, get, watch, approve, pause, resume and cancel"
	c := &cobra.Command{
		Use:   "replay",
		Short: "Retry, cancel or delete many jobs",
		Long: `Retry, cancel or delete many jobs at once, in the background of a running pawl, here
or elsewhere. A replay survives restarts and stops by itself where too many fail
again. Dead letters of the relay are brought back by pawl dlq replay.`,
		Example: `  pawl replay create --queue emails --reason exhausted --preview
  pawl replay create --queue emails --reason exhausted --per-second 20
  pawl replay list`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for pawl replay; it has %s", args[0], words)
			}
			return c.Help()
		},
	}
	var f apiFlags
	for _, sub := range []*cobra.Command{
		replayCreateCommand(sh, &f), replayListCommand(sh, &f), replayGetCommand(sh, &f), replayWatchCommand(sh, &f),
		replayMoveCommand(sh, &f, "approve", "Let a replay begin that another key handed in for review"),
		replayMoveCommand(sh, &f, "pause", "Rest a replay"),
		replayMoveCommand(sh, &f, "resume", "Let a replay go on that rests or stopped by itself"),
		replayMoveCommand(sh, &f, "cancel", "End a replay; what it has done stays done"),
	} {
		f.add(sub)
		c.AddCommand(sh.talks(sub))
	}
	return c
}

// newReplay holds the flags that say what a replay does.
type newReplay struct {
	httpapi.ReplayRequest
	since, before string
	stopShare     float64
	preview, wait bool
	all           bool
}

// replayChoices are the flags that choose jobs.
var replayChoices = []string{"queue", "task", "endpoint", "status", "reason", "tag", "since", "before"}

var replayFlags = flagNames{
	"/action": "--action", "/filter/queue": "--queue", "/filter/task": "--task", "/filter/endpoint": "--endpoint", "/filter/status": "--status",
	"/filter/reason": "--reason", "/filter/tag": "--tag", "/filter/created_after": "--since", "/filter/created_before": "--before",
	"/accept_uncertain": "--accept-uncertain", "/per_second": "--per-second", "/stop_share": "--stop-share",
}

func replayCreateCommand(sh *shell, api *apiFlags) *cobra.Command {
	var n newReplay
	c := &cobra.Command{
		Use:   "create",
		Short: "Begin a replay, or count what it would do",
		Long: `Begin a replay of the jobs that the flags choose, or of --all, and print its id. With
--preview nothing is done: it prints how many jobs that were. Jobs with an uncertain
effect are left out unless --reason uncertain and --accept-uncertain are said; what
the relay keeps as jobs is cancelled and deleted only by the name of its queue.`,
		Example: `  pawl replay create --queue emails --reason exhausted --preview
  pawl replay create --queue emails --since 1d --per-second 20 --wait
  pawl replay create --action cancel --queue reports --status queued`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := n.parse(c, time.Now()); err != nil {
				return err
			}
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			if n.preview {
				return sh.replayPreview(c.Context(), client, &n)
			}
			return sh.replayCreate(c.Context(), client, &n)
		},
	}
	f := c.Flags()
	f.StringVar(&n.Action, "action", "", "retry, cancel or delete: `WORD` (default retry)")
	f.StringVar(&n.Filter.Queue, "queue", "", "only jobs of this `QUEUE`")
	f.StringVar(&n.Filter.Task, "task", "", "only jobs of this `TASK`")
	f.StringVar(&n.Filter.Endpoint, "endpoint", "", "only jobs that call this outside service: `NAME`")
	f.StringVar(&n.Filter.Status, "status", "", "of cancel and delete: only this `STATUS`")
	f.StringVar(&n.Filter.Reason, "reason", "", "only dead letters of this `REASON`: exhausted, non_retryable, …")
	f.StringVar(&n.Filter.Tag, "tag", "", "only jobs with this `TAG`")
	f.StringVar(&n.since, "since", "", "only jobs created within this `TIME` (1h, 7d), or after a moment")
	f.StringVar(&n.before, "before", "", "only jobs created longer ago than this `TIME`, or before a moment")
	f.BoolVar(&n.all, "all", false, "every job that the action fits")
	f.BoolVar(&n.AcceptUncertain, "accept-uncertain", false, "bring back jobs whose effect may have happened already (needs --reason uncertain)")
	f.Float64Var(&n.PerSecond, "per-second", 0, "how many jobs a second: `NUMBER` (default as fast as it goes)")
	f.Float64Var(&n.stopShare, "stop-share", 0, "stop by itself where more than this `SHARE` fails again; 0 never stops (default 0.5)")
	f.BoolVar(&n.Review, "review", false, "begin only once another key has approved it")
	f.BoolVar(&n.preview, "preview", false, "only count what it would do")
	f.BoolVar(&n.wait, "wait", false, "wait until it has ended, as pawl replay watch does")
	return c
}

func (n *newReplay) parse(c *cobra.Command, now time.Time) error {
	if err := finite(c.Flags()); err != nil {
		return err
	}
	chosen := slices.ContainsFunc(replayChoices, c.Flags().Changed)
	switch {
	case !chosen && !n.all:
		return usagef("choose jobs by --%s, or --all", strings.Join(replayChoices, ", --"))
	case chosen && n.all:
		return usagef("--all goes with no other choice")
	}
	if c.Flags().Changed("stop-share") {
		n.StopShare = &n.stopShare
	}
	var err error
	if n.Filter.CreatedAfter, err = momentFlag("since", n.since, now); err != nil {
		return err
	}
	n.Filter.CreatedBefore, err = momentFlag("before", n.before, now)
	return err
}

// momentFlag reads a time; nil where the flag says nothing.
func momentFlag(flag, text string, now time.Time) (*httpapi.Time, error) {
	if text == "" {
		return nil, nil
	}
	at, err := moment(text, now)
	if err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	return new(httpapi.Time(at.UTC().Format(time.RFC3339Nano))), nil
}

func (sh *shell) replayPreview(ctx context.Context, client *apiClient, n *newReplay) error {
	var p httpapi.Preview
	if err := client.Do(ctx, http.MethodPost, "/v3/replays/preview", n.ReplayRequest, &p); err != nil {
		return replayFlags.explain(err)
	}
	if sh.json {
		return sh.printJSON(p)
	}
	_, err := fmt.Fprint(sh.out, replayPreviewText(&p))
	return err
}

func replayPreviewText(p *httpapi.Preview) string {
	var b strings.Builder
	least := ""
	if p.AtLeast {
		least = "at least "
	}
	fmt.Fprintf(&b, "%s%s, %d of them with an uncertain effect\n", least, count(int(p.Jobs), "job"), p.Uncertain)
	for _, part := range []map[string]int64{p.Tasks, p.Reasons} {
		for _, name := range slices.Sorted(maps.Keys(part)) {
			fmt.Fprintf(&b, "  %8d  %s\n", part[name], printable(name))
		}
	}
	return b.String()
}

func (sh *shell) replayCreate(ctx context.Context, client *apiClient, n *newReplay) error {
	var r httpapi.Replay
	if err := client.Do(ctx, http.MethodPost, "/v3/replays", n.ReplayRequest, &r); err != nil {
		return replayFlags.explain(err)
	}
	if n.wait {
		fmt.Fprintf(sh.err, "pawl: %s is %s, %s\n", r.ID, printable(r.State), replayTotal(&r))
		return sh.replayWatch(ctx, client, r.ID)
	}
	if sh.json {
		return sh.printJSON(r)
	}
	text := r.ID
	if isTerminal(sh.out) {
		text += "   " + r.State + ", " + replayTotal(&r)
	}
	_, err := fmt.Fprintln(sh.out, text)
	return err
}

func replayListCommand(sh *shell, api *apiFlags) *cobra.Command {
	t := thing{noun: "replay", plural: "replays"}
	c := listCommand(sh, api, t, []string{"REPLAY", "ACTION", "STATE", "TOTAL", "DONE", "FAILED AGAIN", "CREATED", "BY"},
		func(p *httpapi.Replays) ([]httpapi.Replay, *string) { return p.Replays, p.NextCursor },
		func(r *httpapi.Replay) []string {
			return []string{
				r.ID, r.Action, r.State, strconv.FormatInt(r.Total, 10), strconv.FormatInt(r.Done, 10), strconv.FormatInt(r.FailedAgain, 10),
				localTime(r.CreatedAt), printable(r.CreatedBy),
			}
		})
	c.Short, c.Long = "List replays, the newest first", "List replays, the newest first. With --json one object a line."
	c.Example = "  pawl replay list\n  pawl replay list --json"
	return c
}

func replayGetCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use: "get REPLAY", Short: "Show a replay and how far it is", Long: "Show a replay and how far it is.",
		Example: "  pawl replay get rpl_01k7x0000000000000000000ab", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return one(c.Context(), sh, client, http.MethodGet, "/v3/replays/"+pathWord(args[0]), nil, jobReplayText)
		},
	}
}

func replayMoveCommand(sh *shell, api *apiFlags, word, short string) *cobra.Command {
	return &cobra.Command{
		Use: word + " REPLAY", Short: short, Long: short + ".", Example: "  pawl replay " + word + " rpl_01k7x0000000000000000000ab", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return one(c.Context(), sh, client, http.MethodPost, "/v3/replays/"+pathWord(args[0])+"/"+word, nil, jobReplayText)
		},
	}
}

// replayTotal is how many jobs a replay has.
func replayTotal(r *httpapi.Replay) string {
	text := count(int(r.Total), "job")
	if r.TotalAtLeast {
		text = "at least " + text
	}
	return text
}

// filterText is which jobs a replay is about.
func filterText(f *httpapi.ReplayFilter) string {
	var all []string
	for _, said := range [][2]string{
		{"queue", f.Queue}, {"task", f.Task}, {"endpoint", f.Endpoint}, {"status", f.Status}, {"reason", f.Reason}, {"tag", f.Tag},
		{"created after", nextText(f.CreatedAfter)}, {"created before", nextText(f.CreatedBefore)},
		{"failed after", nextText(f.FailedAfter)}, {"failed before", nextText(f.FailedBefore)},
	} {
		if said[1] != "" {
			all = append(all, said[0]+" "+printable(said[1]))
		}
	}
	return orElse(strings.Join(all, ", "), "every job")
}

func jobReplayText(r *httpapi.Replay) string {
	var f facts
	f.line("replay", r.ID)
	f.line("action", r.Action)
	f.line("of", filterText(&r.Filter))
	f.line("state", strings.TrimSuffix(r.State+", "+textOf(r.Why), ", "))
	f.line("created", localTime(r.CreatedAt)+" by "+r.CreatedBy)
	f.line("approved by", textOf(r.ApprovedBy))
	f.line("ended", nextText(r.EndedAt))
	total := strconv.FormatInt(r.Total, 10)
	if r.TotalAtLeast {
		total = "at least " + total
	}
	f.line("jobs", fmt.Sprintf("%d of %s done, %d skipped, %d under way, %d succeeded, %d failed again", r.Done, total, r.Skipped, r.UnderWay, r.Succeeded, r.FailedAgain))
	return f.String()
}

func replayWatchCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "watch REPLAY",
		Short: "Wait until a replay has ended",
		Long: `Show how far a replay is until it has ended. Exit code 1 where it was cancelled or
stopped by itself. It outlasts a restart of the server. With --json the replay.`,
		Example: "  pawl replay watch rpl_01k7x0000000000000000000ab", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return sh.replayWatch(c.Context(), client, args[0])
		},
	}
}

func (sh *shell) replayWatch(ctx context.Context, client *apiClient, id string) error {
	var bar *mpb.Bar
	var bars *mpb.Progress
	if isTerminal(sh.err) && !sh.json {
		bars = mpb.New(mpb.WithOutput(sh.err), mpb.WithWidth(40))
		defer func() {
			if bar != nil {
				bar.Abort(false)
			}
			bars.Wait()
		}()
	}
	return sh.persist(ctx, func() {}, func() (answered, done bool, err error) {
		var r httpapi.Replay
		if err := client.Do(ctx, http.MethodGet, "/v3/replays/"+pathWord(id), nil, &r); err != nil {
			return false, false, err
		}
		if bars != nil {
			if bar == nil {
				bar = bars.AddBar(max(r.Total, 1), mpb.PrependDecorators(decor.Name(r.Action+" "), decor.CountersNoUnit("%d/%d")))
			}
			bar.SetCurrent(r.Done + r.Skipped)
		}
		if replayEnded(&r) {
			return true, true, sh.replayEnd(&r)
		}
		return true, false, sleep(ctx, watchPause)
	})
}

// replayEnded reports whether a replay does nothing more by itself.
func replayEnded(r *httpapi.Replay) bool {
	switch store.ReplayState(r.State) {
	case store.ReplayDone, store.ReplayCancelled, store.ReplayStopped:
		return true
	default:
		return false
	}
}

func (sh *shell) replayEnd(r *httpapi.Replay) error {
	var err error
	if sh.json {
		err = sh.printJSON(r)
	} else {
		_, err = fmt.Fprint(sh.out, jobReplayText(r))
	}
	if err == nil && store.ReplayState(r.State) != store.ReplayDone {
		return errNo
	}
	return err
}
