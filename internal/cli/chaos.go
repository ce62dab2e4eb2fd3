package cli

import (
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/chaos"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/faulty"
	"github.com/pawlhq/pawl/internal/core/chain"
	"github.com/pawlhq/pawl/internal/setting"
)

// chaosFlags are a call of pawl chaos.
type chaosFlags struct {
	destination                 string
	fail, reset, hang, slowBody string
	latency, retryAfter         string
	status                      int
	seed                        uint64
	sample                      *sample
	count                       int
	rate                        string
	html                        string
	yes                         bool
}

// defaultChaosCount is enough messages to open a breaker of the built-in numbers
// several times over.
const defaultChaosCount = 100

func chaosCommand(sh *shell) *cobra.Command {
	f := &chaosFlags{sample: &sample{method: "POST", target: "/"}}
	c := &cobra.Command{
		Use:   "chaos --destination NAME [--data DATA]",
		Short: "Put faults in front of a destination and see what becomes of messages",
		Long: `Put faults in front of a destination, in this process alone, and send messages to it:
its retries, breaker, limits and fallbacks do what they do in earnest. The report says
what became of each message. Exit code 1 where one was lost: neither delivered nor
kept as a dead letter.

What the faults let through reaches the real endpoint, and what goes on to a fallback
reaches that: both are named first, and on a terminal you are asked, unless --yes. A
pawl that runs takes no part and sees no fault. Dead letters are kept in a temporary
folder, which the report names; so is what goes to a job queue.

--fail, --reset, --hang and --slow-body take a share of the attempts, as 30% or 0.3; an
attempt has one fault. The same seed draws the same faults in the same order. A slow
body is an answer that never ends: the message arrives, and pawl can't know it.

Without --data this is pawl run with that destination behind the faults, until Ctrl-C.
Then it counts what became of the messages that sources took; it can't know whether
one was lost.`,
		Example: `  pawl chaos --destination ledger --fail 50% --data @order.json
  pawl chaos --destination ledger --hang 20% --rate 20/s --count 500 --data '{}' --html chaos.html
  pawl chaos --destination ledger --fail 100% --status 429 --retry-after 5s --data '{}' --json
  pawl chaos --destination ledger --reset 30%   # pawl run, with faults`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sh.chaos(c, f) },
	}
	fs := c.Flags()
	fs.StringVar(&f.destination, "destination", "", "the destination, or member of a group, to disturb: its `NAME`")
	fs.StringVar(&f.fail, "fail", "", "`SHARE` of attempts that are answered with --status")
	fs.IntVar(&f.status, "status", faulty.NewSettings().Status, "the HTTP status `CODE` of --fail, 300 to 599")
	fs.StringVar(&f.retryAfter, "retry-after", "", "the `TIME` that a failed attempt asks to wait")
	fs.StringVar(&f.reset, "reset", "", "`SHARE` of attempts whose connection breaks")
	fs.StringVar(&f.hang, "hang", "", "`SHARE` of attempts that are never answered")
	fs.StringVar(&f.slowBody, "slow-body", "", "`SHARE` of attempts that arrive and whose answer never ends")
	fs.StringVar(&f.latency, "latency", "", "how much later an answer comes: `TIME`, or at random 50ms-2s")
	fs.Uint64Var(&f.seed, "seed", 0, "`NUMBER` that the faults are drawn from (default: a new one, which the report names)")
	fs.StringVar(&f.sample.data, "data", "", "the body of each message: `DATA` itself, @file, or - for standard input")
	fs.StringArrayVar(&f.sample.headers, "header", nil, "a header of each message, `'NAME: VALUE'`; may be repeated")
	fs.StringVar(&f.sample.contentType, "content-type", "", "`TYPE` of the body (default: application/json where it is JSON, else text/plain)")
	fs.IntVar(&f.count, "count", defaultChaosCount, "how many messages: `NUMBER`")
	fs.StringVar(&f.rate, "rate", "", "how many begin in a second, whatever became of those before: `RATE` like 20/s (default: as fast as they are taken)")
	fs.StringVar(&f.html, "html", "", "write a page with the timeline to `FILE`")
	fs.BoolVar(&f.yes, "yes", false, "do not ask")
	_ = c.MarkFlagRequired("destination") // fails only for a flag that is not there
	return c
}

// chaosPlan is a call that was understood.
type chaosPlan struct {
	*chaosFlags
	settings faulty.Settings
	perSec   float64
	config   *config.Config
	target   *config.Destination
	member   string   // "" is the whole destination
	reach    []string // destinations that a message may come to, the target first
	command  string
	mode     chaosMode
}

// chaosMode is where messages come from.
type chaosMode uint8

const (
	chaosSends chaosMode = iota // they are made
	chaosRuns                   // the configuration's sources take them
)

func (sh *shell) chaos(c *cobra.Command, f *chaosFlags) error {
	ctx := c.Context()
	p, err := sh.chaosPlan(c, f)
	if err != nil {
		return err
	}
	if p.html != "" { // before anything is sent for it
		if err := writable(p.html); err != nil {
			return usagef("--html: %w", err)
		}
	}
	if err := sh.chaosConsent(p); err != nil {
		return err
	}
	if p.mode == chaosRuns {
		return sh.chaosRun(ctx, p)
	}
	return sh.chaosSend(ctx, p)
}

// chaosPlan checks the call.
func (sh *shell) chaosPlan(c *cobra.Command, f *chaosFlags) (*chaosPlan, error) {
	flags := c.Flags()
	p := &chaosPlan{chaosFlags: f}
	if !flags.Changed("data") {
		p.mode = chaosRuns
		for _, name := range []string{"count", "rate", "header", "content-type"} {
			if flags.Changed(name) {
				return nil, usagef("--%s goes with --data; without it this is pawl run, and its sources bring the messages", name)
			}
		}
	}
	if f.count < 1 || f.count > chaos.MaxCount {
		return nil, usagef("--count %d: it can be 1 to %d", f.count, chaos.MaxCount)
	}
	if f.sample.data == "-" && !f.yes && interactive(sh.in) {
		return nil, usagef("--data - takes the terminal, so nobody can be asked there; add --yes")
	}
	var err error
	if p.perSec, err = parseRate("--rate", f.rate); err != nil {
		return nil, usagef("%w", err)
	}
	if !flags.Changed("seed") {
		f.seed = rand.Uint64() >> 32 // short enough to be typed again
	}
	if p.settings, err = f.faults(c); err != nil {
		return nil, err
	}
	if p.config, err = sh.load(); err != nil {
		return nil, err
	}
	if err := p.find(); err != nil {
		return nil, err
	}
	p.command = chaosCommandLine(sh.paths, c, f.seed)
	return p, nil
}

// faults reads the flags that say what goes wrong.
func (f *chaosFlags) faults(c *cobra.Command) (faulty.Settings, error) {
	s := *faulty.NewSettings()
	for _, share := range []struct {
		flag, text string
		into       *setting.Ratio
	}{{"fail", f.fail, &s.Fail}, {"reset", f.reset, &s.Reset}, {"hang", f.hang, &s.Hang}, {"slow-body", f.slowBody, &s.SlowBody}} {
		if share.text == "" {
			continue
		}
		v, err := setting.ParseRatio(share.text)
		if err != nil {
			return s, usagef("--%s: %w", share.flag, err)
		}
		*share.into = v
	}
	s.Status, s.Latency, s.Seed = f.status, f.latency, f.seed
	if f.retryAfter != "" {
		wait, err := setting.ParseDuration(f.retryAfter)
		if err != nil {
			return s, usagef("--retry-after: %w", err)
		}
		s.RetryAfter = wait
	}
	if problems := s.Check(); len(problems) > 0 {
		if problems[0].Field == "fail" {
			return s, usagef("--fail, --reset, --hang and --slow-body: more than 100%% together, and an attempt has one fault")
		}
		return s, usagef("--%s: %s", problems[0].Field, problems[0].Message)
	}
	switch {
	case s.Fail == 0 && (c.Flags().Changed("status") || f.retryAfter != ""):
		return s, usagef("--status and --retry-after are of failed attempts; say how many there are with --fail")
	case s.Fail+s.Reset+s.Hang+s.SlowBody == 0 && s.Latency == "":
		return s, usagef("no fault is asked for; add --fail, --reset, --hang, --slow-body or --latency")
	}
	return s, nil
}

// find looks the destination up, and what lies behind it.
func (p *chaosPlan) find() error {
	for i := range p.config.Destinations {
		d := &p.config.Destinations[i]
		if d.Name == p.destination {
			p.target = d
		}
		if d.Group == nil {
			continue
		}
		for _, m := range d.Group.Members {
			if m.Name == p.destination {
				p.target, p.member = d, m.Name
			}
		}
	}
	if p.target == nil {
		return usagef("--destination: there is no destination or member %q", p.destination)
	}
	links, err := chain.Flatten(p.target.Name, func(name string) []string {
		d, _ := p.config.Destination(name)
		return d.Fallback // which was checked to be there
	})
	if err != nil {
		return err
	}
	for _, l := range links {
		p.reach = append(p.reach, l.Name)
	}
	return nil
}

// wrap puts the faults in front of what was asked for. Members get faults of
// their own, or all of a group would fail together.
func (p *chaosPlan) wrap(rec *chaos.Recorder) app.WrapFunc {
	return func(destination, endpoint string, d connector.Destination) connector.Destination {
		if destination != p.target.Name || p.member != "" && endpoint != p.member {
			return d
		}
		s := p.settings
		if p.target.Group != nil {
			h := fnv.New64a()
			h.Write([]byte(endpoint))
			s.Seed ^= h.Sum64()
		}
		w, err := faulty.Wrap(d, &s, func(f faulty.Fault) { rec.Fault(f.String()) })
		if err != nil {
			panic("chaos: settings that were checked: " + err.Error())
		}
		return w
	}
}

// chaosConsent names what is real, and asks on a terminal.
func (sh *shell) chaosConsent(p *chaosPlan) error {
	fmt.Fprintf(sh.err, "faults in front of %s: %s; seed %d\n", p.destination, p.faultText(), p.seed)
	if through := p.passes(); through != "" {
		fmt.Fprintf(sh.err, "%s %s\n", through, printable(whereText(p.target)))
	}
	for _, name := range p.reach[1:] {
		d, _ := p.config.Destination(name)
		fmt.Fprintf(sh.err, "what fails may go on to %s\n", printable(whereText(d)))
	}
	if p.yes || !interactive(sh.in) {
		return nil
	}
	what := "send " + count(p.count, "message")
	if p.mode == chaosRuns {
		what = "run"
	}
	fmt.Fprintf(sh.err, "%s? [y/N] ", what)
	var answer string
	_, _ = fmt.Fscanln(sh.in, &answer) // an empty line is a no
	if a := strings.ToLower(answer); a != "y" && a != "yes" {
		fmt.Fprintln(sh.err, "nothing was sent")
		return errNo
	}
	return nil
}

// passes says that something reaches the target for real; "" where nothing does.
func (p *chaosPlan) passes() string {
	s := p.settings
	switch blocked := s.Fail + s.Reset + s.Hang; {
	case p.member != "" && blocked >= 1:
		return "the other members are real:"
	case p.member != "":
		return "the other members are real, and what the faults let through is delivered to"
	case blocked >= 1:
		return ""
	default:
		return "what they let through is delivered to"
	}
}

// faultText is the faults in words.
func (p *chaosPlan) faultText() string {
	s, parts := p.settings, []string(nil)
	add := func(share setting.Ratio, what string) {
		if share > 0 {
			parts = append(parts, strconv.FormatFloat(float64(share)*100, 'g', 4, 64)+"% "+what)
		}
	}
	failed := fmt.Sprintf("answered %d", s.Status)
	if s.RetryAfter > 0 {
		failed += " with Retry-After " + s.RetryAfter.String()
	}
	add(s.Fail, failed)
	add(s.Reset, "reset")
	add(s.Hang, "never answered")
	add(s.SlowBody, "arrived with an answer that never ends")
	if s.Latency != "" {
		parts = append(parts, s.Latency+" later")
	}
	return strings.Join(parts, ", ")
}

// whereText names a destination with its type and where it leads.
func whereText(d *config.Destination) string {
	if d.Group == nil {
		return d.Name + " (" + strings.Join(place(d.Type, d.Settings), ", ") + ")"
	}
	var members []string
	for _, m := range d.Group.Members {
		members = append(members, m.Name+" ("+strings.Join(place(m.Type, m.Settings), ", ")+")")
	}
	return d.Name + ": " + strings.Join(members, ", ")
}

func place(kind string, s connector.Settings) []string {
	words := []string{kind}
	if l, ok := s.(connector.Located); ok {
		if at := l.Where(); at != "" {
			words = append(words, at)
		}
	}
	return words
}

// person is an input that a person answers on although it is no terminal.
type person struct{ io.Reader }

// interactive says whether a person can answer on r.
func interactive(r any) bool {
	if _, ok := r.(person); ok {
		return true
	}
	f, ok := r.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// writable says why a file can't be written.
func writable(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	return f.Close()
}
