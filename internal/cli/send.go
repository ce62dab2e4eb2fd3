package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/core/message"
)

func sendCommand(sh *shell) *cobra.Command {
	var to string
	var keep bool
	s := &sample{method: http.MethodPost, target: "/"}
	c := &cobra.Command{
		Use:   "send --to NAME --data DATA",
		Short: "Send one message over a destination's whole path",
		Long: `Send one message to a destination, with its retries, breaker and fallbacks: through
the running pawl where there is one. Exit code 1 where it is not delivered; a dead
letter is kept only with --dead-letter.`,
		Example: `  pawl send --to ledger --data '{"id":7}'
  pawl send --to ledger --data @order.json --id order-7 --dead-letter`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return sh.send(c.Context(), to, s, keep) },
	}
	s.flags(c)
	f := c.Flags()
	f.StringVar(&to, "to", "", "the destination's `NAME`")
	f.BoolVar(&keep, "dead-letter", false, "keep a dead letter where it is not delivered")
	_ = c.MarkFlagRequired("to") // fails only for a flag that is not there
	return c
}

func (sh *shell) send(ctx context.Context, to string, s *sample, keep bool) (err error) {
	m, err := s.message(sh)
	if err != nil {
		return err
	}
	m.Source = "send"
	envelope, err := message.Encode(m)
	if err != nil {
		return usagef("--data: %w", err)
	}
	b, err := sh.backend(ctx, made)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	sent, err := b.send(ctx, adminapi.Send{To: to, Message: envelope, DeadLetter: keep})
	if err != nil {
		return err
	}
	if sh.json {
		err = sh.printJSON(sent)
	} else {
		_, err = fmt.Fprint(sh.out, sentText(sent))
	}
	if err == nil && !sent.Delivered {
		return errNo
	}
	return err
}

func sentText(s adminapi.Sent) string {
	var b strings.Builder
	for _, h := range s.Hops {
		fmt.Fprintf(&b, "%s was left (%s) after %s: %s\n", h.Destination, h.Reason, count(len(h.Attempts), "attempt"), printable(h.Error))
	}
	if s.Delivered {
		fmt.Fprintf(&b, "%s delivered to %s, %s, %.1fms\n", printable(s.ID), s.Endpoint, count(s.Attempts, "attempt"), s.Millis)
		return b.String()
	}
	fmt.Fprintf(&b, "%s not delivered, %s, %.1fms\n", printable(s.ID), count(s.Attempts, "attempt"), s.Millis)
	if s.Letter != "" {
		fmt.Fprintf(&b, "kept as the dead letter %s\n", s.Letter)
	}
	return b.String()
}
