package http

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/setting"
)

func TestValuesThatDontFitAreRefused(t *testing.T) {
	for _, c := range []struct{ name, url, header, want string }{
		{"dots", "http://api.test/a/{{ .dots }}/b", "", "path holds . or .."},
		{"a dot", "http://api.test/a/{{ .dot }}", "", "path holds . or .."},
		{"dots from two values", "http://api.test/a/{{ .dot }}{{ .dot }}/b", "", "path holds . or .."},
		{"empty in the path", "http://api.test/a/{{ .empty }}", "", "is empty"},
		{"null", "http://api.test/a?x={{ .null }}", "", "is null"},
		{"line in a header", "http://api.test/", "a{{ .line }}", "control character"},
		{"null in a header", "http://api.test/", "{{ .null }}", "is null"},
	} {
		t.Run(c.name, func(t *testing.T) {
			sending(t, func(s *DestinationSettings, _ *connector.Env) {
				s.URL = c.url
				if c.header != "" {
					s.Headers = map[string]setting.Secret{"X-A": one(c.header)}
				}
			}, func(o *outgoing) {
				_, err := o.dest.Send(o.Context(), sample())
				f := failure.From(err)
				if err == nil || !strings.Contains(f.Error(), c.want) || !f.Tags.Has(failure.Transform) || f.Class != failure.Permanent || f.Verdict != failure.Neutral {
					o.Errorf("%v (%+v), want a permanent failure with %q", err, f, c.want)
				}
				if len(o.far.Requests()) != 0 {
					o.Error("a request was sent")
				}
			})
		})
	}
}

func TestOddValuesStayInTheirPlace(t *testing.T) {
	for expr, want := range map[string]string{
		".host": "/x/@evil.test%2F/y", ".encoded": "/x/%252e%252e/y", ".line": "/x/a%0Ab:%20c/y",
	} {
		sending(t, func(s *DestinationSettings, _ *connector.Env) { s.URL = "http://api.test/x/{{ " + expr + " }}/y" }, func(o *outgoing) {
			if _, err := o.dest.Send(o.Context(), sample()); err != nil {
				o.Fatal(err)
			}
			if got := o.far.request(o.T).RequestURI; got != want {
				o.Errorf("%s: %s, want %s", expr, got, want)
			}
		})
	}
}

// TestAnyValueKeepsHostAndShape: whatever a message holds, the request goes to
// the host of the settings, with as many parts of the path and fields of the
// query, and the endpoint reads back the value.
func TestAnyValueKeepsHostAndShape(t *testing.T) {
	u, err := parseURL("https://ann:pw@api.test:8443/a/{{ .x }}/b-{{ .x }}?k={{ .x }}&l=1")
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.OneOf(rapid.String(), rapid.StringMatching(`[./%@:?#&=\\ -]{0,8}`)).Draw(t, "value")
		got, err := u.with(func(int, place) (string, error) { return value, nil })
		if err != nil {
			if value != "" && value != "." && value != ".." && len(value) < 1000 {
				t.Fatalf("refused: %v", err)
			}
			return
		}
		again, err := url.Parse(got.String())
		if err != nil || again.Host != "api.test:8443" || again.Scheme != "https" || again.User.String() != "ann:pw" {
			t.Fatalf("%v, %v", again, err)
		}
		parts := strings.Split(again.EscapedPath(), "/")
		if len(parts) != 4 || again.Fragment != "" {
			t.Fatalf("the path became %q", parts)
		}
		if plain, err := url.PathUnescape(parts[2]); err != nil || plain != value {
			t.Fatalf("the path says %q", plain)
		}
		q, err := url.ParseQuery(again.RawQuery)
		if err != nil || len(q) != 2 || q.Get("k") != value {
			t.Fatalf("the query says %v, %v", q, err)
		}
	})
}

func TestHostOfAMessageIsExplained(t *testing.T) {
	for _, raw := range []string{"https://{{ .h }}/", "https://a.test:{{ .p }}/", "https://{{ .u }}@a.test/", "https://a.test{{ .h }}"} {
		if _, err := parseURL(raw); err == nil || !strings.Contains(err.Error(), "must not choose the host") {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
