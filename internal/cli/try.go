package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/app"
)

func tryCommand(sh *shell) *cobra.Command {
	var source string
	s := &sample{}
	c := &cobra.Command{
		Use:   "try --data DATA",
		Short: "Show where a message would go",
		Long: `Show where a message would go: which routes take it and why others do not, the
body after each step, and the destinations with the path behind them. Nothing is
sent. Exit code 1 where no route takes it, or one would make a dead letter of it.`,
		Example: `  pawl try --data '{"type":"order.created"}'
  pawl try --data @order.json --source web
  pawl try --data @push.json --header 'X-GitHub-Event: push' --path '/hooks?team=a'
  curl -s http://127.0.0.1:9/sample | pawl try --data -`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sh.try(c.Context(), s, source) },
	}
	s.flags(c)
	f := c.Flags()
	f.StringVar(&source, "source", "", "`NAME` of the source it comes in by (default: each)")
	f.StringVar(&s.method, "method", http.MethodPost, "`METHOD` of the request it comes in by")
	f.StringVar(&s.target, "path", "/", "`PATH` and query of that request")
	return c
}

func (sh *shell) try(ctx context.Context, s *sample, source string) error {
	c, err := sh.load()
	if err != nil {
		return err
	}
	m, err := s.message(sh)
	if err != nil {
		return err
	}
	names := []string{source}
	if source == "" {
		names = names[:0]
		for i := range c.Sources {
			names = append(names, c.Sources[i].Name)
		}
	} else if _, ok := c.Source(source); !ok {
		return usagef("no source %q is configured", source)
	}
	trials := make([]app.Trial, 0, len(names))
	good := false
	for _, name := range names {
		m.Source = name
		t, err := app.Try(ctx, c, m)
		if err != nil {
			return err
		}
		trials = append(trials, t)
		good = good || delivers(t)
	}
	if sh.json {
		if err := sh.printJSON(trials); err != nil {
			return err
		}
	} else {
		for _, t := range trials {
			fmt.Fprint(sh.out, trialText(t))
		}
	}
	if !good {
		return errNo
	}
	return nil
}

// delivers says whether the message would reach a destination and become no
// dead letter on the way.
func delivers(t app.Trial) bool {
	for _, r := range t.Routes {
		if r.DeadLetter != "" {
			return false
		}
	}
	return t.Taken() > 0
}

func trialText(t app.Trial) string {
	var b strings.Builder
	fmt.Fprintf(&b, "source %s\n", t.Source)
	if len(t.Routes) == 0 {
		b.WriteString("  no route is from this source: the message would be unrouted\n")
		return b.String()
	}
	for _, r := range t.Routes {
		routeText(&b, r)
	}
	if t.Taken() == 0 {
		b.WriteString("  no route takes it: the message would be unrouted\n")
	}
	return b.String()
}

func routeText(b *strings.Builder, r app.RouteTrial) {
	if !r.Taken {
		fmt.Fprintf(b, "  route %s: no\n      %s\n", r.Route, r.Why)
		return
	}
	fmt.Fprintf(b, "  route %s: takes it\n", r.Route)
	for _, s := range r.Steps {
		fmt.Fprintf(b, "      %s\n        body     %s\n", s.Step, s.Body)
		for _, name := range sortedKeys(s.Headers) {
			fmt.Fprintf(b, "        %s: %s\n", name, strings.Join(s.Headers[name], ", "))
		}
	}
	if r.DeadLetter != "" {
		fmt.Fprintf(b, "      dead letter, reason %s: %s\n", r.DeadLetter, r.Why)
		return
	}
	if r.Why != "" {
		fmt.Fprintf(b, "      %s\n", r.Why)
	}
	for _, to := range r.To {
		how := ""
		if !to.Required {
			how = " (best effort)"
		}
		fmt.Fprintf(b, "      -> %s%s, then %s\n", to.Destination, how, then(to.Path))
		b.WriteString(strings.TrimRight(fmt.Sprintf("        %-8s %s", to.Type, printable(to.Where)), " ") + "\n")
		if len(to.Body) > 0 {
			fmt.Fprintf(b, "        body     %s\n", to.Body)
		}
		if to.Why != "" {
			fmt.Fprintf(b, "        its transform fails: %s\n", to.Why)
		}
	}
}

func then(path []string) string {
	if len(path) == 0 {
		return "nothing"
	}
	return strings.Join(path, ", then ")
}
