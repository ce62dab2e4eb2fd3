package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/config"
)

func runCommand(sh *shell) *cobra.Command {
	var watch bool
	c := &cobra.Command{
		Use:   "run",
		Short: "Run the relay and the job server",
		Long: `Run the relay, and the job server where the configuration has jobs, in the
foreground until SIGTERM or Ctrl-C: sources then stop taking, what is in flight is
finished within shutdown_timeout, and the rest is given back to its senders. Jobs
and stored messages wait in the store. A second signal stops at once.

The first start with jobs prints an API key and writes it to pawl.key in the state
folder, unless PAWL_ADMIN_KEY gives one.

SIGHUP (or pawl reload) loads the configuration anew; one with mistakes changes
nothing and says why.`,
		Example: `  pawl run
  pawl run -c /etc/pawl/pawl.yaml -c /etc/pawl/destinations/
  pawl run --watch`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sh.run(c.Context(), watch, func(*app.Options) {}) },
	}
	c.Flags().BoolVar(&watch, "watch", false, "reload when a file of the configuration changes")
	return c
}

// run runs the relay; adjust may change what it works with.
func (sh *shell) run(ctx context.Context, watch bool, adjust func(*app.Options)) error {
	// Who reads the log may go away; the relay must not go with it.
	signal.Ignore(syscall.SIGPIPE)
	// From the first moment on: without a handler SIGHUP ends a process.
	hup := make(chan os.Signal, 1)
	signal.Notify(hup, syscall.SIGHUP)
	defer signal.Stop(hup)
	tuneMemory()
	began := time.Now() // before the load: what changes from now on is not missed
	options := app.Options{
		Load:     func() (*config.Config, *config.Report) { return app.Load(sh.paths, sh.kinds) },
		Registry: sh.kinds, Stderr: sh.err, Version: version(), Revision: revision(),
	}
	adjust(&options)
	a, err := app.New(options)
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	var background sync.WaitGroup
	defer background.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	reload := func() {
		// The outcome is logged and counted; a bad configuration must not end
		// a relay that works.
		_, _ = a.Reload(ctx)
	}
	background.Go(func() {
		for {
			select {
			case <-hup:
				reload()
			case <-ctx.Done():
				return
			}
		}
	})
	if watch {
		background.Go(func() { watchFiles(ctx, a, began, sh.err, reload) })
	}
	if err := a.Run(ctx); err != nil {
		return fmt.Errorf("stopped: %w", err)
	}
	return nil
}
