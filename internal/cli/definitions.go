package cli

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/setting"
)

// thing is a kind of definition, as the commands about it name it.
type thing struct {
	noun, plural string // queue, queues
	name         string // what the argument is called
	path         func(name string) (string, error)
	paused       bool // it has pause and resume
}

// named is the path of a thing with a plain name.
func named(plural string) func(string) (string, error) {
	return func(name string) (string, error) { return "/v3/" + plural + "/" + pathWord(name), nil }
}

// command is the command about one kind, with its subcommands.
func (t thing) command(sh *shell, long, example string, subs func(f *apiFlags) []*cobra.Command) *cobra.Command {
	var words []string
	c := &cobra.Command{
		Use: t.plural, Short: "See and set the " + t.plural + " of the job server", Long: long, Example: example, Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for pawl %s; it has %s", args[0], t.plural, strings.Join(words, ", "))
			}
			return c.Help()
		},
	}
	var f apiFlags
	all := append(subs(&f), t.deleteCommand(sh, &f))
	if t.paused {
		all = append(all, t.gateCommand(sh, &f, "pause", "Hand out no job of "), t.gateCommand(sh, &f, "resume", "Hand out the jobs again of "))
	}
	for _, sub := range all {
		words = append(words, sub.Name())
		f.add(sub)
		c.AddCommand(sh.talks(sub))
	}
	return c
}

func (t thing) article() string {
	if strings.ContainsRune("aeiou", rune(t.noun[0])) {
		return "an " + t.noun
	}
	return "a " + t.noun
}

func (t thing) deleteCommand(sh *shell, api *apiFlags) *cobra.Command {
	return &cobra.Command{
		Use:   "delete " + t.name,
		Short: "Forget what was said of " + t.article(),
		Long: "Forget what was said of " + t.article() + " over the API. What the configuration names is the\n" +
			"configuration's to change, and what has unfinished jobs stays.",
		Example: "  pawl " + t.plural + " delete " + t.example(),
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := t.path(args[0])
			if err != nil {
				return err
			}
			return sh.remove(c, api, path, args[0])
		},
	}
}

func (t thing) example() string {
	return map[string]string{"queue": "emails", "endpoint": "mailer"}[t.noun] + map[string]string{"task": "welcome@1"}[t.noun]
}

func (t thing) gateCommand(sh *shell, api *apiFlags, word, short string) *cobra.Command {
	return &cobra.Command{
		Use:     word + " " + t.name,
		Short:   short + t.article(),
		Long:    short + t.article() + ".\nWhat runs goes on. It holds over restarts.",
		Example: "  pawl " + t.plural + " " + word + " " + t.example(),
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := t.path(args[0])
			if err != nil {
				return err
			}
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			var g httpapi.Gate
			if err := client.Do(c.Context(), http.MethodPost, path+"/"+word, nil, &g); err != nil {
				return err
			}
			if sh.json {
				return sh.printJSON(g)
			}
			_, err = fmt.Fprintf(sh.out, "%s  %s\n", printable(g.Name), orElse(gateText(g.Paused), working))
			return err
		},
	}
}

// working is what a queue or an endpoint does that nothing stands before. It is not
// "open", which is what a circuit is that lets nothing through.
const working = "working"

func gateText(p *httpapi.Paused) string {
	if p == nil {
		return ""
	}
	return "paused by " + printable(p.By) + " since " + localTime(p.Since)
}

// pages calls each with every page of a list, until there is no more.
func pages[P any](ctx context.Context, client *apiClient, path string, each func(*P) (next *string, err error)) error {
	q := url.Values{}
	for {
		ask := path
		if len(q) > 0 {
			ask += "?" + q.Encode()
		}
		var page P
		if err := client.Do(ctx, http.MethodGet, ask, nil, &page); err != nil {
			return err
		}
		next, err := each(&page)
		if err != nil || next == nil {
			return err
		}
		q.Set("cursor", *next)
	}
}

// listed is a list of things as a table, or one JSON object a line.
func listed[P, T any](c *cobra.Command, sh *shell, api *apiFlags, t thing, header []string, of func(*P) ([]T, *string), row func(*T) []string) error {
	client, err := sh.api(api)
	if err != nil {
		return err
	}
	grid, rows := sh.table(header...), 0
	err = pages(c.Context(), client, "/v3/"+t.plural, func(p *P) (*string, error) {
		all, next := of(p)
		for i := range all {
			rows++
			if sh.json {
				if err := sh.printJSON(all[i]); err != nil {
					return nil, err
				}
				continue
			}
			grid.row(row(&all[i])...)
		}
		return next, nil
	})
	switch {
	case err != nil || sh.json:
		return err
	case rows == 0:
		_, err = fmt.Fprintln(sh.out, "no "+t.plural)
	default:
		_, err = fmt.Fprintln(sh.out, grid)
	}
	return err
}

// listCommand lists the things of a kind.
func listCommand[P, T any](sh *shell, api *apiFlags, t thing, header []string, of func(*P) ([]T, *string), row func(*T) []string) *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the " + t.plural, Long: "List the " + t.plural + " with their jobs by status. With --json one object a line.",
		Example: "  pawl " + t.plural + " list\n  pawl " + t.plural + " list --json", Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return listed(c, sh, api, t, header, of, row) },
	}
}

// getCommand shows one thing.
func getCommand[T any](sh *shell, api *apiFlags, t thing, text func(*T) string) *cobra.Command {
	return &cobra.Command{
		Use: "get " + t.name, Short: "Show " + t.article(), Long: "Show the settings and the state of " + t.article() + ".",
		Example: "  pawl " + t.plural + " get " + t.example() + "\n  pawl " + t.plural + " get " + t.example() + " --json", Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := t.path(args[0])
			if err != nil {
				return err
			}
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return one(c.Context(), sh, client, http.MethodGet, path, nil, text)
		},
	}
}

// one makes a call and prints the thing that it answers with.
func one[T any](ctx context.Context, sh *shell, client *apiClient, method, path string, ask any, text func(*T) string) error {
	var got T
	if err := client.Do(ctx, method, path, ask, &got); err != nil {
		return settingFlags.explain(err)
	}
	if sh.json {
		return sh.printJSON(got)
	}
	_, err := fmt.Fprint(sh.out, text(&got))
	return err
}

// settingFlags are the flags of the members of settings.
var settingFlags = flagNames{
	"/lease": "--lease", "/timeout": "--timeout", "/concurrency": "--concurrency", "/retry": "--retry", "/endpoint": "--endpoint",
	"/repeat": "--repeat", "/input_schema": "--input-schema", "/output_schema": "--output-schema",
	"/rate/per_second": "--rate", "/rate/burst": "--burst", "/circuit/failures": "--failures", "/circuit/cooldown": "--cooldown",
}

// setCommand says the settings of one thing, all of them. ask is called once the
// flags are read.
func setCommand[T any](sh *shell, api *apiFlags, t thing, flags string, ask func() (any, error), text func(*T) string) *cobra.Command {
	return &cobra.Command{
		Use: "set " + t.name, Short: "Say the settings of " + t.article(),
		Long: "Say the settings of " + t.article() + ", made where there is none. It replaces all that was said before:\n" +
			"what no flag says has its default.",
		Example: "  pawl " + t.plural + " set " + t.example() + " " + flags, Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			path, err := t.path(args[0])
			if err != nil {
				return err
			}
			if err := noZeros(c.Flags()); err != nil {
				return err
			}
			body, err := ask()
			if err != nil {
				return err
			}
			client, err := sh.api(api)
			if err != nil {
				return err
			}
			return one(c.Context(), sh, client, http.MethodPut, path, body, text)
		},
	}
}

// facts are lines of a name and a value each; what has no value is left out.
type facts struct{ strings.Builder }

func (f *facts) line(name, value string) {
	if value != "" {
		fmt.Fprintf(f, "%-12s %s\n", name, printable(value))
	}
}

func (f *facts) managed(m httpapi.Managed) {
	switch {
	case m.ManagedBy == nil:
		f.line("said by", "nobody: it has the defaults")
	case m.UpdatedBy != nil && m.UpdatedAt != nil:
		f.line("said by", *m.UpdatedBy+" over the API, "+localTime(*m.UpdatedAt))
	default:
		f.line("said by", "the "+strings.Replace(*m.ManagedBy, "file", "configuration", 1))
	}
}

func (f *facts) retry(r httpapi.Retry) {
	var words []string
	add := func(name, value string) { words = append(words, name+"="+value) }
	if r.MaxAttempts != nil {
		add("max_attempts", strconv.Itoa(*r.MaxAttempts))
	}
	if r.Initial != nil {
		add("initial", string(*r.Initial))
	}
	if r.Factor != nil {
		add("factor", strconv.FormatFloat(*r.Factor, 'g', -1, 64))
	}
	if r.MaxDelay != nil {
		add("max_delay", string(*r.MaxDelay))
	}
	if r.Jitter != nil {
		add("jitter", strconv.FormatFloat(*r.Jitter, 'g', -1, 64))
	}
	f.line("retry", strings.Join(words, ", "))
}

func (f *facts) counts(c httpapi.Counts) {
	f.line("jobs", fmt.Sprintf("%d queued, %d running, %d succeeded, %d failed, %d cancelled", c.Queued, c.Running, c.Succeeded, c.Failed, c.Cancelled))
}

func durationText(d *httpapi.Duration) string {
	if d == nil {
		return ""
	}
	return string(*d)
}

func numberText(n *int) string {
	if n == nil {
		return ""
	}
	return strconv.Itoa(*n)
}

func managedText(m httpapi.Managed) string {
	if m.ManagedBy == nil {
		return ""
	}
	return *m.ManagedBy
}

// countsRow are the counts as cells, under countsHeader.
func countsRow(c httpapi.Counts) []string {
	cells := make([]string, 0, len(countsHeader))
	for _, n := range []int64{c.Queued, c.Running, c.Succeeded, c.Failed} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return cells
}

var countsHeader = []string{"QUEUED", "RUNNING", "SUCCEEDED", "FAILED"}

// noZeros refuses a number that is 0, which a request can't tell from one that was
// not said: who says that nothing may run must not get that anything may.
func noZeros(flags *pflag.FlagSet) error {
	err := finite(flags)
	flags.Visit(func(f *pflag.Flag) {
		if kind := f.Value.Type(); (kind == "int" || kind == "float64") && strings.Trim(f.Value.String(), "-") == "0" {
			err = usagef("--%s must not be 0; leave it out for the default, and pause what may not run", f.Name)
		}
	})
	return err
}

// finite refuses what no JSON can say: NaN and the infinities.
func finite(flags *pflag.FlagSet) (err error) {
	flags.Visit(func(f *pflag.Flag) {
		if n, bad := strconv.ParseFloat(f.Value.String(), 64); f.Value.Type() == "float64" && bad == nil && (math.IsNaN(n) || math.IsInf(n, 0)) {
			err = usagef("--%s must be a number, not %s", f.Name, f.Value)
		}
	})
	return err
}

// spanFlag reads a length of time; nil where the flag says nothing.
func spanFlag(flag, text string) (*httpapi.Duration, error) {
	if text == "" {
		return nil, nil
	}
	d, err := setting.ParseDuration(text)
	if err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	return new(httpapi.Duration(d.String())), nil
}
