package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/setting"
	"github.com/pawlhq/pawl/internal/store"
)

func keysCommand(sh *shell) *cobra.Command {
	c := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke API keys",
		Long: `Make, list and revoke the keys of the job API. The commands go through the pawl
that runs on the state folder; where none runs they work on the store itself, so
the first key needs no running pawl. Who may use that folder needs no key here.`,
		Example: `  pawl keys create --name shop --scope produce --queue emails
  pawl keys list
  pawl keys revoke shop`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usagef("unknown command %q for pawl keys; it has create, list and revoke", args[0])
			}
			return c.Help()
		},
	}
	c.AddCommand(sh.talks(keysCreateCommand(sh)), sh.talks(keysListCommand(sh)), sh.talks(keysRevokeCommand(sh)))
	return c
}

func keysCreateCommand(sh *shell) *cobra.Command {
	var name, expires string
	var scopes, queues []string
	c := &cobra.Command{
		Use:   "create --name NAME --scope SCOPE",
		Short: "Make an API key and print it once",
		Long: `Make an API key and print it. It is printed this once: the store has its hash
alone. A key does what its scopes say: produce creates jobs, work claims and
reports them, operate pauses and looks at everything, admin is all of these.`,
		Example: `  pawl keys create --name shop --scope produce,work --queue emails
  PAWL_API_KEY=$(pawl keys create --name ci --scope admin --expires 90d)`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			now := time.Now()
			ask, wanted := httpapi.KeyRequest{Name: name, Queues: queues}, jobserver.KeyRequest{Name: name, Queues: queues}
			for _, s := range scopes {
				ask.Scopes = append(ask.Scopes, store.Scope(s))
			}
			wanted.Scopes = ask.Scopes
			if expires != "" {
				d, err := setting.ParseDuration(expires)
				if err != nil {
					return usagef("--expires: %w", err)
				}
				ask.ExpiresIn = new(httpapi.Duration(d.String()))
				wanted.Expires = now.Add(d.D())
			}
			// Before a store is made for it.
			if _, _, err := jobserver.NewKey(wanted, now); err != nil {
				return keyFlags.explain(err)
			}
			return sh.withStore(c.Context(), made, func(s storeCalls) error { return sh.keysCreate(c.Context(), s, ask) })
		},
	}
	f := c.Flags()
	f.StringVar(&name, "name", "", "a `NAME` that no other key has")
	f.StringSliceVar(&scopes, "scope", nil, "what it may do, a list: `SCOPE` is produce, work, operate or admin")
	f.StringSliceVar(&queues, "queue", nil, "limit it to these queues, a list: `QUEUE` (default: every queue)")
	f.StringVar(&expires, "expires", "", "how long it is good for: `TIME` such as 90d (default: for ever)")
	_ = c.MarkFlagRequired("name") // these fail only for a flag that is not there
	_ = c.MarkFlagRequired("scope")
	var all []string
	for _, s := range store.Scopes() {
		all = append(all, string(s))
	}
	_ = c.RegisterFlagCompletionFunc("scope", cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp))
	return c
}

var keyFlags = flagNames{"/name": "--name", "/scopes": "--scope", "/queues": "--queue", "/expires": "--expires"}

func (sh *shell) keysCreate(ctx context.Context, s storeCalls, ask httpapi.KeyRequest) error {
	var k httpapi.NewKey
	if err := s.Do(ctx, http.MethodPost, "/v3/keys", ask, &k); err != nil {
		return err
	}
	if sh.json {
		return sh.printJSON(k)
	}
	// What a script wants is alone on standard output.
	fmt.Fprintf(sh.err, "key %s (%s) is shown this once; keep it:\n", printable(k.Name), scopesText(k.Scopes))
	_, err := fmt.Fprintln(sh.out, k.Secret)
	return err
}

func scopesText(all []store.Scope) string {
	words := make([]string, len(all))
	for i, s := range all {
		words[i] = string(s)
	}
	return strings.Join(words, ", ")
}

func keysListCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List API keys, the oldest first",
		Long:  "List the API keys, the oldest first, those that were revoked or have expired too.\nThe keys themselves are kept nowhere. With --json one object a line.",
		Example: `  pawl keys list
  pawl keys list --state /var/lib/pawl --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return sh.withStore(c.Context(), refused, func(s storeCalls) error {
				var all httpapi.Keys
				if err := s.Do(c.Context(), http.MethodGet, "/v3/keys", nil, &all); err != nil {
					return err
				}
				if sh.json {
					for _, k := range all.Keys {
						if err := sh.printJSON(k); err != nil {
							return err
						}
					}
					return nil
				}
				_, err := fmt.Fprintln(sh.out, sh.keysText(all.Keys, time.Now()))
				return err
			})
		},
	}
}

func (sh *shell) keysText(all []httpapi.Key, now time.Time) string {
	if len(all) == 0 {
		return "no API keys; pawl keys create makes one"
	}
	t := sh.table("NAME", "ID", "SCOPES", "QUEUES", "CREATED", "STATE")
	for _, k := range all {
		t.row(printable(k.Name), k.ID, scopesText(k.Scopes), orElse(printable(strings.Join(k.Queues, ", ")), "every"), localTime(k.CreatedAt), keyState(k, now))
	}
	return t.String()
}

func keyState(k httpapi.Key, now time.Time) string {
	switch {
	case k.RevokedAt != nil:
		return "revoked " + localTime(*k.RevokedAt)
	case k.ExpiresAt == nil:
		return "good"
	}
	if at, err := time.Parse(time.RFC3339, string(*k.ExpiresAt)); err == nil && !at.After(now) {
		return "expired " + localTime(*k.ExpiresAt)
	}
	return "good until " + localTime(*k.ExpiresAt)
}

// localTime writes a time of the API as people read it here.
func localTime(t httpapi.Time) string {
	at, err := time.Parse(time.RFC3339, string(t))
	if err != nil {
		return printable(string(t))
	}
	return at.Local().Format(time.DateTime)
}

func keysRevokeCommand(sh *shell) *cobra.Command {
	return &cobra.Command{
		Use:     "revoke NAME",
		Short:   "Make an API key good for nothing",
		Long:    "Make an API key, by its name or its id, good for nothing, at once and for ever.",
		Example: "  pawl keys revoke shop",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return sh.withStore(c.Context(), refused, func(s storeCalls) error {
				if err := s.Do(c.Context(), http.MethodDelete, "/v3/keys/"+pathWord(args[0]), nil, nil); err != nil {
					return err
				}
				if sh.json {
					return sh.printJSON(map[string]string{"revoked": args[0]})
				}
				_, err := fmt.Fprintf(sh.out, "%s revoked\n", printable(args[0]))
				return err
			})
		},
	}
}

// pathWord escapes a word for a path. Dots too: .. is a name here, and a step up
// to a server.
func pathWord(s string) string { return strings.ReplaceAll(url.PathEscape(s), ".", "%2E") }
