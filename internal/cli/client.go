package cli

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"os"
	"os/user"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/adminapi"
)

func statusCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how a running pawl is doing",
		Long: `Show the lanes, breakers, holds, sources and queues of a running pawl, what people
changed at run time, and how many dead letters wait.`,
		Example: `  pawl status
  pawl status --state /var/lib/pawl --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sh.status(c.Context()) },
	}
}

func (sh *shell) status(ctx context.Context) error {
	client, err := sh.client()
	if err != nil {
		return err
	}
	var s adminapi.Status
	if err := client.Do(ctx, http.MethodGet, "/v3/status", nil, &s); err != nil {
		return err
	}
	if sh.json {
		return sh.printJSON(s)
	}
	_, err = fmt.Fprint(sh.out, sh.statusText(s, time.Now()))
	return err
}

func (sh *shell) statusText(s adminapi.Status, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s   pawl %s (pid %d)   up %s   configuration %d", s.Relay, s.Version, s.PID, round(now.Sub(s.Started)), s.Generation)
	if s.Draining > 0 {
		fmt.Fprintf(&b, " (%s still draining)", count(s.Draining, "older one"))
	}
	if s.Stopping {
		b.WriteString("   STOPPING")
	}
	fmt.Fprintf(&b, "   in flight %d\n\n", s.InFlight)
	taking := "taking"
	if s.Stopping {
		taking = "stopping"
	}
	src := sh.table("SOURCE", "IN FLIGHT", "BYTES", "STATE")
	for _, v := range s.Sources {
		src.row(v.Name, fmt.Sprintf("%d/%d", v.InFlight, v.MaxInFlight), fmt.Sprint(v.Bytes), pausedText(v.Paused, now, taking))
	}
	fmt.Fprintf(&b, "%s\n\n", src)
	dst := sh.table("DESTINATION", "PENDING", "SENDING", "WAITING", "BREAKER", "STATE")
	for _, v := range s.Destinations {
		dst.row(v.Name, fmt.Sprintf("%d/%d", v.Pending, v.MaxPending), fmt.Sprintf("%d/%d", v.Busy, v.Workers),
			fmt.Sprint(v.Waiting), breakerText(v, now), destinationText(v, now))
		for _, m := range v.Members {
			dst.row("  "+m.Name, "", fmt.Sprintf("%d/%d", m.Busy, m.Limit), "", memberBreakerText(m, now), memberText(m, now))
		}
	}
	fmt.Fprintf(&b, "%s\n\n", dst)
	b.WriteString(sh.queuesText(s, now))
	fmt.Fprintf(&b, "dead letters: %d open", s.DeadLetters.Open)
	if s.DeadLetters.Oldest != nil {
		fmt.Fprintf(&b, ", the oldest %s", ago(now, *s.DeadLetters.Oldest))
	}
	if s.DeadLetters.Damaged > 0 {
		fmt.Fprintf(&b, ", %s unreadable", count(s.DeadLetters.Damaged, "line"))
	}
	b.WriteString("\n")
	if s.DeadLetters.Problem != "" {
		fmt.Fprintf(&b, "attention: %s\n", s.DeadLetters.Problem)
	}
	return b.String()
}

// queuesText is the table of the job server's queues; "" without one.
func (sh *shell) queuesText(s adminapi.Status, now time.Time) string {
	if s.QueueProblem != "" {
		return "attention: the job store can't be read: " + printable(s.QueueProblem) + "\n"
	}
	if len(s.Queues) == 0 {
		return ""
	}
	t := sh.table("QUEUE", "QUEUED", "RUNNING", "FAILED", "STATE")
	for _, q := range s.Queues {
		state := pausedText(q.Paused, now, working)
		if q.Undefined {
			state = undefined
		}
		t.row(printable(q.Name), strconv.FormatInt(q.Queued, 10), strconv.FormatInt(q.Running, 10), strconv.FormatInt(q.Failed, 10), state)
	}
	return t.String() + "\n\n" + sh.circuitsText(s, now)
}

// circuitsText is the table of the circuits that let nobody through; "" for none.
func (sh *shell) circuitsText(s adminapi.Status, now time.Time) string {
	if len(s.Circuits) == 0 {
		return ""
	}
	t := sh.table("CIRCUIT", "STATE")
	for _, c := range s.Circuits {
		state := c.State
		if !c.OpenedAt.IsZero() {
			state += ", opened " + ago(now, c.OpenedAt)
		}
		if c.RetryAt.After(now) {
			state += ", one job tries in " + round(c.RetryAt.Sub(now))
		}
		if c.HeldUntil.After(now) {
			state += ", held for " + round(c.HeldUntil.Sub(now))
		}
		t.row(printable(c.Endpoint), state)
	}
	text := t.String() + "\n"
	if s.CircuitsLeft > 0 {
		text += fmt.Sprintf("and %d more\n", s.CircuitsLeft)
	}
	return text + "\n"
}

func pausedText(p *adminapi.Pull, now time.Time, otherwise string) string {
	if p == nil {
		return otherwise
	}
	return fmt.Sprintf("paused by %s, %s", p.By, ago(now, p.Since))
}

func breakerText(d adminapi.DestinationStatus, now time.Time) string {
	if d.Forced != nil {
		return fmt.Sprintf("%s by %s, %s", d.Breaker, d.Forced.By, ago(now, d.Forced.Since))
	}
	if d.OpenUntil != nil && d.OpenUntil.After(now) {
		return d.Breaker + ", tries in " + round(d.OpenUntil.Sub(now))
	}
	return d.Breaker
}

// memberBreakerText and memberText say of a group's member what is said of a
// destination, and its health.
func memberBreakerText(m adminapi.MemberStatus, now time.Time) string {
	return breakerText(adminapi.DestinationStatus{Breaker: m.Breaker, Forced: m.Forced, OpenUntil: m.OpenUntil}, now)
}

func memberText(m adminapi.MemberStatus, now time.Time) string {
	state := destinationText(adminapi.DestinationStatus{HeldUntil: m.HeldUntil, Ramp: m.Ramp, Paused: m.Paused}, now)
	if m.Health != "" {
		state += ", " + m.Health
	}
	return state
}

func destinationText(d adminapi.DestinationStatus, now time.Time) string {
	state := "sending"
	switch {
	case d.HeldUntil != nil && d.HeldUntil.After(now):
		state = "held for " + round(d.HeldUntil.Sub(now))
	case d.Ramp > 0:
		state = fmt.Sprintf("coming back, %d at once", d.Ramp)
	}
	state = pausedText(d.Paused, now, state)
	if r := d.RateLimit; r != nil && (d.RateSet != nil || r.NextAt != nil) { // else it holds nothing up
		state += ", at most " + adminapi.RateText(r.PerSecond)
		if d.RateSet != nil {
			state += fmt.Sprintf(" (%s, %s)", d.RateSet.By, ago(now, d.RateSet.Since))
		}
	}
	if d.RetriesLeft != nil && *d.RetriesLeft == 0 {
		state += ", no retries left"
	}
	return state
}

func tailCommand(sh *shell) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "tail",
		Short: "Show messages as they are settled",
		Long: `Show a line for each message of a running pawl as it is settled, until Ctrl-C.
With --all also attempts, hops, breakers, holds and levers.`,
		Example: `  pawl tail
  pawl tail --all --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sh.tail(c.Context(), all) },
	}
	c.Flags().BoolVar(&all, "all", false, "everything that happens, not only the ends of messages")
	return c
}

func (sh *shell) tail(ctx context.Context, all bool) error {
	client, err := sh.client()
	if err != nil {
		return err
	}
	path := "/v3/tail"
	if all {
		path += "?events=all"
	}
	err = client.Stream(ctx, http.MethodGet, path, nil, func(text []byte) error {
		if sh.json {
			_, err := fmt.Fprintf(sh.out, "%s\n", text)
			return err
		}
		var l adminapi.Line
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		_, err := fmt.Fprintln(sh.out, lineText(l))
		return err
	})
	if ctx.Err() != nil {
		return nil // Ctrl-C is how it ends
	}
	return err
}

// lineText writes one line of the live view.
func lineText(l adminapi.Line) string {
	var b strings.Builder
	if l.Missed > 0 {
		fmt.Fprintf(&b, "(%s left out: this terminal is slower than the relay)\n", count(int(l.Missed), "line"))
	}
	fmt.Fprintf(&b, "%s  %-13s", l.At.Local().Format("15:04:05.000"), orElse(l.Status, l.Event))
	if l.Event != "settled" && l.Status != "" {
		fmt.Fprintf(&b, " %s", l.Event)
	}
	add := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, "  %s%s", name, printable(value))
		}
	}
	add("", l.ID)
	add("from ", l.Source)
	add("route ", l.Route)
	add("to ", l.Destination)
	add("-> ", l.To)
	if l.Attempts > 0 {
		fmt.Fprintf(&b, "  %s", count(l.Attempts, "attempt"))
	}
	if l.Millis > 0 {
		fmt.Fprintf(&b, "  %.1fms", l.Millis)
	}
	add("", l.Error)
	return b.String()
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// printable keeps what comes from outside from steering a terminal: control
// characters, marks of direction and line separators become U+FFFD.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return utf8.RuneError
	}, s)
}

func reloadCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "Make a running pawl load its configuration anew",
		Long: `Make a running pawl load its configuration anew. Messages in flight finish as
they began. A configuration with mistakes changes nothing and is explained.`,
		Example: "  pawl reload",
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := sh.client()
			if err != nil {
				return err
			}
			var r adminapi.Reloaded
			if err := client.Do(c.Context(), http.MethodPost, "/v3/reload", struct{}{}, &r); err != nil {
				return err
			}
			if sh.json {
				return sh.printJSON(r)
			}
			_, err = fmt.Fprintf(sh.out, "reloaded; this is configuration %d\n", r.Generation)
			return err
		},
	}
}

func pauseCommand(sh *shell) *cobra.Command {
	return sh.leverCommand("pause", "paused", "Make a source take nothing, or send nothing to a destination",
		`Make a source take nothing (listening ones answer 503), or send nothing to a
destination (its messages wait in its lane). status shows who paused it and since
when. It holds until pawl resume, or a restart.`)
}

func resumeCommand(sh *shell) *cobra.Command {
	return sh.leverCommand("resume", "resumed", "Undo a pause", "Let a paused source or destination go on.")
}

func (sh *shell) leverCommand(verb, done, short, long string) *cobra.Command {
	return &cobra.Command{
		Use: verb + " NAME", Short: short, Long: long,
		Example: "  pawl " + verb + " ledger",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			client, err := sh.client()
			if err != nil {
				return err
			}
			var m adminapi.Moved
			return sh.pulled(c, client, "/v3/"+verb, adminapi.Lever{Name: args[0], By: who()}, &m, func() string {
				return done + " the " + strings.Join(m.Moved, " and the ") + " " + args[0]
			})
		},
	}
}

// who names the person behind this command, for the status.
func who() string {
	if name := os.Getenv("SUDO_USER"); name != "" {
		return name
	}
	if u, err := user.Current(); err == nil {
		return u.Username
	}
	return fmt.Sprintf("uid %d", os.Getuid())
}
