package deliver

// Catches: a secret of which a part is left where a long text was cut.

import (
	"fmt"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/retry"
)

func TestSecretsAreTakenOutBeforeTextsAreCut(t *testing.T) {
	const secret = "hunter2-and-more"
	inBubble(t, func(r *rig) {
		r.fleet.opts.Redact = func(s string) string { return strings.ReplaceAll(s, secret, "***") }
		long := strings.Repeat("x", 1015) + secret + strings.Repeat("y", 100)
		e := &endpoint{always: act{err: &failure.Error{Class: failure.Permanent, Message: long}}}
		r.configure(Spec{
			Name: "a", Endpoint: Endpoint{Connector: e, Timeout: 1000 * ms}, Retry: retry.Resolve(), Workers: 1, MaxPending: 1,
		})
		res := r.deliver(r.Context(), "a")
		said := fmt.Sprintf("%+v %+v", res, r.events)
		if strings.Contains(said, secret[:4]) || strings.Count(said, "***") < 3 {
			t.Errorf("a part of the secret is out, or the text is nowhere: %s", said)
		}
	})
}
