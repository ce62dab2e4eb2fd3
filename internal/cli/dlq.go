package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/setting"
)

func dlqCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "dlq",
		Short: "Look at dead letters and bring them back",
		Long: `Look at what could not be delivered and bring it back. The commands go through
the running pawl, so that its limits and breakers hold; where none runs they work
on the state folder by themselves.`,
		Example: `  pawl dlq list --since 1h
  pawl dlq inspect 01JD3W6Y0ZQ8V7
  pawl dlq replay --all --rate 10/s
  pawl dlq purge --older-than 30d`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for pawl dlq; it has list, inspect, replay and purge", args[0])
			}
			return c.Help()
		},
	}
	c.AddCommand(sh.talks(dlqListCommand(sh)), sh.talks(dlqInspectCommand(sh)), sh.talks(dlqReplayCommand(sh)), sh.talks(dlqPurgeCommand(sh)))
	return c
}

// choice holds the flags that choose letters.
type choice struct {
	since, reason, destination string
	ids                        []string
}

func (f *choice) add(c *cobra.Command) {
	c.Flags().StringVar(&f.since, "since", "", "only letters that died within this `TIME` (1h, 7d), or since a time (2026-01-02T15:04:05Z)")
	c.Flags().StringVar(&f.reason, "reason", "", "only this `REASON`: delivery, no_route, transform or schema")
	c.Flags().StringVar(&f.destination, "destination", "", "only letters of the destination `NAME`")
}

func (f *choice) parse(now time.Time) (adminapi.Choice, error) {
	c := adminapi.Choice{Reason: message.Reason(f.reason), Destination: f.destination, IDs: f.ids}
	if f.reason != "" && !slices.Contains(message.Reasons(), c.Reason) {
		return c, usagef("--reason: there is no reason %q; it is one of %v", f.reason, message.Reasons())
	}
	if f.since != "" {
		at, err := moment(f.since, now)
		if err != nil {
			return c, usagef("--since: %w", err)
		}
		c.Since = &at
	}
	if len(f.ids) > deadletter.MaxIDs {
		return c, usagef("--id: at most %d ids at a time", deadletter.MaxIDs)
	}
	return c, nil
}

// moment reads a time: how long ago, or when.
func moment(s string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, s); err == nil {
		if at.IsZero() {
			return at, fmt.Errorf("%q is a time that was not set; leave it out", s)
		}
		return at, nil
	}
	d, err := setting.ParseDuration(s)
	if err != nil {
		return time.Time{}, fmt.Errorf("%q is no time; write how long ago (1h, 7d) or when (2026-01-02T15:04:05Z)", s)
	}
	return now.Add(-d.D()), nil
}

// with opens the backend for one command.
func (sh *shell) with(ctx context.Context, do func(backend) error) (err error) {
	b, err := sh.backend(ctx, refused)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	return do(b)
}

func dlqListCommand(sh *shell) *cobra.Command {
	var f choice
	c := &cobra.Command{
		Use:   "list",
		Short: "List open dead letters, the oldest first",
		Long:  "List the dead letters that were neither replayed nor purged, the oldest first.\nWith --json one object a line.",
		Example: `  pawl dlq list
  pawl dlq list --since 1h --reason delivery --destination ledger --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			chosen, err := f.parse(time.Now())
			if err != nil {
				return err
			}
			return sh.with(c.Context(), func(b backend) error { return sh.dlqList(c.Context(), b, chosen) })
		},
	}
	f.add(c)
	return c
}

// pageRows is how many rows a table of letters holds: the columns of later ones
// are aligned anew, and memory stays bounded at any number of letters.
const pageRows = 1000

func (sh *shell) dlqList(ctx context.Context, b backend, chosen adminapi.Choice) error {
	rows, page := 0, sh.letterTable()
	err := b.list(ctx, chosen, func(l adminapi.LetterLine) error {
		if sh.json {
			return sh.printJSON(l)
		}
		where := orElse(l.Destination, l.Route)
		page.row(l.Letter, printable(l.ID), string(l.Reason), where, l.At.Local().Format(time.DateTime),
			strconv.Itoa(l.Attempts), strconv.Itoa(l.Replays), short(printable(l.Error)))
		if rows++; rows%pageRows == 0 {
			if _, err := fmt.Fprintln(sh.out, page); err != nil {
				return err
			}
			page = sh.letterTable()
		}
		return nil
	})
	if err != nil || sh.json {
		return err
	}
	if rows%pageRows != 0 {
		_, err = fmt.Fprintln(sh.out, page)
	} else if rows == 0 {
		_, err = fmt.Fprintln(sh.out, "no open dead letters")
	}
	return err
}

func (sh *shell) letterTable() *grid {
	return sh.table("LETTER", "MESSAGE", "REASON", "WHERE", "DIED", "ATTEMPTS", "REPLAYS", "ERROR")
}

// short cuts an error to what a table has room for; inspect shows the whole.
func short(s string) string {
	const room = 60
	if r := []rune(s); len(r) > room {
		return string(r[:room-1]) + "…"
	}
	return s
}

func dlqInspectCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect ID",
		Short: "Show the story of a dead letter",
		Long: `Show the whole story of a letter, by its own id or by its message's (then all
its letters): hops, attempts, waits, tags and errors. With --json the letter in
its written form, body included.`,
		Example: `  pawl dlq inspect 01JD3W6Y0ZQ8V7
  pawl dlq inspect order-7 --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return sh.with(c.Context(), func(b backend) error {
				all, err := b.get(c.Context(), args[0])
				if err != nil {
					return err
				}
				for i, l := range all {
					if sh.json {
						err = sh.printJSON(l.Envelope)
					} else {
						err = sh.inspected(i, l)
					}
					if err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func (sh *shell) inspected(i int, l adminapi.Letter) error {
	if i > 0 {
		fmt.Fprintln(sh.out)
	}
	_, err := fmt.Fprintf(sh.out, "%s\nstate: %s\n", strings.TrimRight(l.Timeline, "\n"), l.State)
	return err
}

func dlqReplayCommand(sh *shell) *cobra.Command {
	var f choice
	var all, dry bool
	var to, rate string
	c := &cobra.Command{
		Use:   "replay (--since TIME | --id ID | --all)",
		Short: "Bring dead letters back",
		Long: `Deliver dead letters again: one of reason delivery over its failed destination's
whole path (or --to another), the others over their route from the filter on. Ids
are kept. One that fails again becomes a letter again, with its history. A replay
that is cut short goes on where it stopped when it is run again. Exit code 1 where
letters are left or failed again.`,
		Example: `  pawl dlq replay --all --dry-run
  pawl dlq replay --since 2h --destination ledger --rate 10/s
  pawl dlq replay --id 01JD3W6Y0ZQ8V7 --to ledger-b`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if !all && f.since == "" && len(f.ids) == 0 {
				return usagef("say which letters: --since TIME, --id ID, or --all")
			}
			if all && (f.since != "" || len(f.ids) > 0) {
				return usagef("--all goes with neither --since nor --id")
			}
			chosen, err := f.parse(time.Now())
			if err != nil {
				return err
			}
			perSecond, err := parseRate("--rate", rate)
			if err != nil {
				return err
			}
			req := adminapi.Replay{Choice: chosen, To: to, DryRun: dry, Rate: perSecond}
			return sh.with(c.Context(), func(b backend) error { return sh.dlqReplay(c.Context(), b, req) })
		},
	}
	f.add(c)
	fl := c.Flags()
	fl.StringArrayVar(&f.ids, "id", nil, "a letter's `ID`, or a message's for all its letters; may be repeated")
	fl.BoolVar(&all, "all", false, "every open letter (that --reason and --destination let through)")
	fl.StringVar(&to, "to", "", "`NAME` of a destination to replay to instead")
	fl.BoolVar(&dry, "dry-run", false, "only count what would be replayed")
	fl.StringVar(&rate, "rate", "", "begin at most this many a second: `10/s` (default: as fast as they go)")
	return c
}

// parseRate reads 10/s, 0.5/s, 600/m or a bare number a second; "" is 0. what names
// it in the error.
func parseRate(what, s string) (float64, error) {
	if s == "" {
		return 0, nil
	}
	number, unit, _ := strings.Cut(s, "/")
	per := map[string]float64{"": 1, "s": 1, "m": 60, "h": 3600}[unit]
	n, err := strconv.ParseFloat(number, 64)
	if err != nil || per == 0 || !(n > 0) || n > 1e6 {
		return 0, usagef("%s: %q is no rate; write it like 10/s or 600/m", what, s)
	}
	return n / per, nil
}

func (sh *shell) dlqReplay(ctx context.Context, b backend, req adminapi.Replay) error {
	if err := knownLetters(ctx, b, req.IDs); err != nil {
		return err
	}
	bar := sh.progress()
	last, err := b.replay(ctx, req, bar.show)
	bar.end()
	switch {
	case ctx.Err() != nil && last.Total > 0: // as far as it is known
		last.Error = "interrupted; run the command again to go on with the rest"
	case err != nil:
		return err
	}
	if sh.json {
		err = sh.printJSON(last)
	} else {
		_, err = fmt.Fprint(sh.out, replayText(last, req.DryRun))
	}
	if err == nil && !req.DryRun && (last.FailedAgain > 0 || last.Left > 0) {
		return errNo
	}
	return err
}

// knownLetters returns an error where an id is nobody's: neither an open letter's
// or its message's, nor one's that was replayed or purged.
func knownLetters(ctx context.Context, b backend, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	open := map[string]bool{}
	if err := b.list(ctx, adminapi.Choice{IDs: ids}, func(l adminapi.LetterLine) error {
		open[l.Letter], open[l.ID] = true, true
		return nil
	}); err != nil {
		return err
	}
	for _, id := range ids {
		if open[id] {
			continue
		}
		if _, err := b.get(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func replayText(l adminapi.ReplayLine, dry bool) string {
	if dry {
		return fmt.Sprintf("%s would be replayed\n", count(l.Total, "letter"))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d delivered, %d failed again, %d left\n", count(l.Total, "letter"), l.Delivered, l.FailedAgain, l.Left)
	if l.Busy > 0 {
		fmt.Fprintf(&b, "%d of those left are in another replay\n", l.Busy)
	}
	if l.Error != "" {
		fmt.Fprintf(&b, "%s\n", printable(l.Error))
	}
	return b.String()
}

func dlqPurgeCommand(sh *shell) *cobra.Command {
	var older string
	c := &cobra.Command{
		Use:     "purge --older-than TIME",
		Short:   "Give old dead letters up",
		Long:    "Give up the dead letters that died longer ago than the given time. They can't be\nbrought back.",
		Example: "  pawl dlq purge --older-than 30d",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			before, err := moment(older, time.Now())
			if err != nil {
				return usagef("--older-than: %w", err)
			}
			return sh.with(c.Context(), func(b backend) error {
				n, err := b.purge(c.Context(), before)
				if err != nil {
					return err
				}
				if sh.json {
					return sh.printJSON(adminapi.Purged{Purged: n})
				}
				_, err = fmt.Fprintf(sh.out, "%s purged\n", count(n, "open letter"))
				return err
			})
		},
	}
	c.Flags().StringVar(&older, "older-than", "", "`TIME` that letters must be older than: 30d, or a time")
	_ = c.MarkFlagRequired("older-than") // fails only for a flag that is not there
	return c
}
