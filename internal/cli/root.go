// Package cli is the command line: one file a command, and what they share.
//
// Exit codes: 0 done, 1 the answer is no, 2 usage or configuration.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/control"
)

// The exit codes.
const (
	exitDone  = 0
	exitNo    = 1 // the answer is no: not delivered, errors found, nothing there
	exitUsage = 2 // usage or configuration
)

// errNo ends a command with exitNo; its reason has been printed.
var errNo = errors.New("the answer is no")

// usageError is a command that was called wrongly.
type usageError struct{ error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// shell is what a command works with.
type shell struct {
	in       io.Reader
	out, err io.Writer
	kinds    *connector.Registry
	paths    []string // -c
	state    string   // --state
	json     bool     // --json
	began    bool     // the command line was understood and its command runs
}

// Main runs the command line and returns the exit code. The first interrupt
// ends a command in order, the second at once.
func Main(args []string, in io.Reader, out, errOut io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // the second signal has its usual effect
	sh := &shell{in: in, out: out, err: errOut, kinds: builtin.Connectors()}
	root := newRoot(sh)
	root.SetArgs(args)
	return sh.exitCode(root.ExecuteContext(ctx))
}

// newRoot builds the tree of commands.
func newRoot(sh *shell) *cobra.Command {
	root := &cobra.Command{
		Use:   "pawl",
		Short: "Deliver what must be delivered when the other side is flaky",
		Long: `pawl takes messages in, sends them through routes and delivers them to
destinations with retries, circuit breakers, fallbacks and dead letters.
Nothing is dropped without a trace.`,
		Example: `  pawl lint                          # is pawl.yaml right?
  pawl try --data '{"type":"order"}' # where would this message go?
  pawl run                           # run it
  pawl status                        # how is it doing?
  pawl dlq replay --all              # bring back what could not be delivered`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version(),
	}
	root.SetIn(sh.in)
	root.SetOut(sh.out)
	root.SetErr(sh.err)
	root.PersistentFlags().StringArrayVarP(&sh.paths, "config", "c", nil, "configuration `FILE` or folder; may be repeated (default ./pawl.yaml)")
	root.AddCommand(
		runCommand(sh), sh.prints(lintCommand(sh)), sh.prints(tryCommand(sh)), sh.prints(explainCommand(sh)), sh.talks(sendCommand(sh)),
		sh.prints(chaosCommand(sh)),
		sh.talks(tailCommand(sh)), sh.talks(statusCommand(sh)), sh.talks(reloadCommand(sh)), sh.talks(pauseCommand(sh)), sh.talks(resumeCommand(sh)),
		sh.talks(breakerCommand(sh)), sh.talks(holdCommand(sh)), sh.talks(rateCommand(sh)),
		dlqCommand(sh), jobsCommand(sh), replayCommand(sh), queuesCommand(sh), tasksCommand(sh), endpointsCommand(sh), eventsCommand(sh), keysCommand(sh), sh.talks(backupCommand(sh)), schemaCommand(sh), sh.prints(versionCommand(sh)),
	)
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.Example = "  pawl help dlq replay"
			c.Args = cobra.ArbitraryArgs
		case "completion":
			c.Example = "  source <(pawl completion bash)"
			for _, sub := range c.Commands() {
				sub.Example = "  pawl completion " + sub.Name()
			}
		}
	}
	sh.note(root)
	return root
}

// prints gives a command that prints a result the flag --json.
func (sh *shell) prints(c *cobra.Command) *cobra.Command {
	c.Flags().BoolVar(&sh.json, "json", false, "print the result as JSON")
	return c
}

// talks gives a command that talks to a running pawl, or works on its state
// folder, the flags for that.
func (sh *shell) talks(c *cobra.Command) *cobra.Command {
	c.Flags().StringVar(&sh.state, "state", "", "state `FOLDER` of the pawl to talk to (default: as the configuration says)")
	return sh.prints(c)
}

// note makes every command refuse blank arguments and flags, and note that it
// began: whatever failed before was in how it was called.
func (sh *shell) note(c *cobra.Command) {
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if kind := f.Value.Type(); kind == "string" || kind == "int" || kind == "float64" {
			f.Value = &once{Value: f.Value}
		}
	})
	if run := c.RunE; run != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			if err := noBlanks(c, args); err != nil {
				return err
			}
			sh.began = true
			return run(c, args)
		}
	}
	for _, sub := range c.Commands() {
		sh.note(sub)
	}
}

// once is a flag of one value: said twice, the first would be left out in silence.
type once struct {
	pflag.Value
	said bool
}

// Set takes the value of the flag, once.
func (o *once) Set(s string) error {
	if o.said {
		return errors.New("it is there twice; say it once")
	}
	o.said = true
	return o.Value.Set(s)
}

// noBlanks refuses arguments and values of flags that hold nothing. Most often
// they are a variable that is not set, and to leave them out would widen what the
// command acts on. Only a body may be empty.
func noBlanks(c *cobra.Command, args []string) (err error) {
	for i, arg := range args {
		if strings.TrimSpace(arg) == "" {
			return usagef("argument %d of %s is blank; is a variable empty?", i+1, c.CommandPath())
		}
	}
	c.Flags().Visit(func(f *pflag.Flag) {
		if isBlank(f) {
			err = usagef("--%s is blank; is a variable empty? To do without it leave it out", f.Name)
		}
	})
	return err
}

// isBlank reports whether a flag that was given holds nothing, or a list of which
// one does. A body may.
func isBlank(f *pflag.Flag) bool {
	values := []string{f.Value.String()}
	if list, ok := f.Value.(pflag.SliceValue); ok {
		values = list.GetSlice()
	}
	if f.Name == "data" {
		return false
	}
	return len(values) == 0 || slices.ContainsFunc(values, func(v string) bool { return strings.TrimSpace(v) == "" })
}

// exitCode prints an error that nobody has printed and returns its code.
func (sh *shell) exitCode(err error) int {
	var usage usageError
	var bad *app.ConfigError
	var locked *app.LockedError
	switch {
	case err == nil:
		return exitDone
	case errors.Is(err, errNo):
		return exitNo
	case errors.As(err, &bad):
		if werr := bad.Report.Write(sh.err, sh.style()); werr != nil {
			fmt.Fprintln(sh.err, "pawl:", err)
		}
		return exitUsage
	case errors.Is(err, context.Canceled): // by a signal: nothing else cancels a command
		fmt.Fprintln(sh.err, "pawl: interrupted")
		return exitNo
	}
	fmt.Fprintln(sh.err, "pawl:", err)
	var refused *control.Problem
	var no *refusal
	switch {
	case !sh.began: // an unknown command or flag, a missing flag, a wrong number of arguments
		fmt.Fprintln(sh.err, "pawl: see pawl --help")
		return exitUsage
	case errors.As(err, &usage), errors.As(err, &locked), errors.Is(err, errSetup), errors.Is(err, adminapi.ErrNoDestination),
		errors.As(err, &refused) && (refused.Status == http.StatusBadRequest || refused.Status == http.StatusUnprocessableEntity),
		errors.As(err, &no) && no.usage():
		return exitUsage
	}
	return exitNo
}

// errSetup marks a start that failed before anything ran: a taken port, a state
// folder that can't be written.
var errSetup = errors.New("pawl could not start")

// load reads the configuration; one with errors is an *app.ConfigError.
func (sh *shell) load() (*config.Config, error) {
	c, report := app.Load(sh.paths, sh.kinds)
	if report.Errors() > 0 {
		return nil, &app.ConfigError{Report: report}
	}
	return c, nil
}

// client returns a client of the pawl that runs on the configuration's state
// folder. A configuration that has become wrong is no hindrance: only the
// folder is read from it.
func (sh *shell) client() (*control.Client, error) {
	folder, err := sh.stateFolder()
	if err != nil {
		return nil, err
	}
	return control.NewClient(folder + string(os.PathSeparator) + control.SocketName), nil
}

func (sh *shell) stateFolder() (string, error) {
	if sh.state != "" {
		return sh.state, nil
	}
	folder, err := config.FindState(sh.paths)
	if err != nil {
		return "", usagef("%w; name the folder with --state or the file with -c", err)
	}
	return folder, nil
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colour says whether colours may be used on w.
func colour(w io.Writer) bool {
	_, no := os.LookupEnv("NO_COLOR")
	return !no && os.Getenv("TERM") != "dumb" && isTerminal(w)
}

func (sh *shell) style() config.Style {
	if colour(sh.err) {
		return config.Coloured
	}
	return config.Plain
}

// release is the version of a released binary; the build sets it.
var release = ""

// version returns the version of this binary.
func version() string {
	if release != "" {
		return release
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return info.Main.Version
}

// revision returns the commit that this binary was built from; "" where the
// build did not note it.
func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
