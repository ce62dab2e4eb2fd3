// These tests catch a failure that is retried though the rule says no (or the
// other way), a value taken from the wrong level, a list that loses or keeps a
// tag it should not, a try too many, and a wait beyond what the policy allows.
package retry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/retry"
)

func layer(level string, o retry.Overlay) retry.Layer { return retry.Layer{Level: level, Overlay: o} }

func TestResolveBuiltIn(t *testing.T) {
	want := retry.Policy{
		Attempts: 5,
		Schedule: backoff.Schedule{Initial: 200 * time.Millisecond, Max: 10 * time.Second, Factor: 2, Jitter: backoff.Full},
		RetryOn:  tags{"connect", "timeout", "5xx", "429"}, NeverOn: tags{"4xx"},
		RespectRetryAfter: true, MaxRetryAfter: 10 * time.Second,
		From: map[string]string{
			"attempts": "built-in", "backoff": "built-in", "max_backoff": "built-in", "jitter": "built-in", "retry_on": "built-in",
			"never_on": "built-in", "respect_retry_after": "built-in", "max_retry_after": "built-in",
		},
	}
	for _, layers := range [][]retry.Layer{nil, {layer("built-in", retry.BuiltIn())}, {layer("empty", retry.Overlay{})}} {
		if diff := cmp.Diff(want, retry.Resolve(layers...)); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	}
}

func TestResolveValueByValue(t *testing.T) {
	got := retry.Resolve(
		layer("defaults", retry.Overlay{Attempts: new(9), Backoff: new(time.Second), MaxBackoff: new(20 * time.Second), RespectRetryAfter: new(true)}),
		layer("group", retry.Overlay{Attempts: new(3), Jitter: new(backoff.None)}),
		layer("destination", retry.Overlay{Backoff: new(time.Duration(0)), RespectRetryAfter: new(false), RetryOn: &tags{}}),
	)
	want := retry.Policy{
		Attempts: 3,
		Schedule: backoff.Schedule{Initial: 0, Max: 20 * time.Second, Factor: 2, Jitter: backoff.None},
		RetryOn:  tags{}, NeverOn: tags{"4xx"},
		RespectRetryAfter: false, MaxRetryAfter: 20 * time.Second,
		From: map[string]string{
			"attempts": "group", "backoff": "destination", "max_backoff": "defaults", "jitter": "group", "retry_on": "destination",
			"never_on": "built-in", "respect_retry_after": "destination", "max_retry_after": "defaults",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestMaxRetryAfterSaid(t *testing.T) {
	p := retry.Resolve(
		layer("defaults", retry.Overlay{MaxRetryAfter: new(time.Minute)}),
		layer("destination", retry.Overlay{MaxBackoff: new(time.Second)}))
	if p.MaxRetryAfter != time.Minute || p.From["max_retry_after"] != "defaults" {
		t.Errorf("%v from %s: a value that was said must stand", p.MaxRetryAfter, p.From["max_retry_after"])
	}
}

func TestListsAcrossLevels(t *testing.T) {
	on := func(t ...failure.Tag) retry.Overlay { l := tags(t); return retry.Overlay{RetryOn: &l} }
	never := func(t ...failure.Tag) retry.Overlay { l := tags(t); return retry.Overlay{NeverOn: &l} }
	for _, c := range []struct {
		name    string
		layers  []retry.Overlay
		retryOn tags
		neverOn tags
	}{
		{"a list replaces the inherited one", []retry.Overlay{on("503"), on("404")}, tags{"404"}, tags{"4xx"}},
		{"a nearer retry_on takes the tag from never_on", []retry.Overlay{on("4xx")}, tags{"4xx"}, tags{}},
		{"a nearer never_on takes the tag from retry_on", []retry.Overlay{never("5xx")}, tags{"connect", "timeout", "429"}, tags{"5xx"}},
		{"only the tag that is named", []retry.Overlay{never("503", "404"), on("503")}, tags{"503"}, tags{"404"}},
		{"farther lists stay whole otherwise", []retry.Overlay{never("503")}, tags{"connect", "timeout", "5xx", "429"}, tags{"503"}},
		{"back and forth", []retry.Overlay{on("503"), never("503"), on("503", "502")}, tags{"503", "502"}, tags{}},
		{"a list that was itself replaced takes nothing", []retry.Overlay{never("503"), on("503"), on("502")}, tags{"502"}, tags{"503"}},
		{"an empty list says: none", []retry.Overlay{on(), never()}, tags{}, tags{}},
		{"both on one level, not checked", []retry.Overlay{{RetryOn: &tags{"503"}, NeverOn: &tags{"503"}}}, tags{"503"}, tags{"503"}},
		{"both on one level, apart", []retry.Overlay{{RetryOn: &tags{"404"}, NeverOn: &tags{"5xx"}}}, tags{"404"}, tags{"5xx"}},
	} {
		var layers []retry.Layer
		for _, o := range c.layers {
			layers = append(layers, layer("some", o))
		}
		p := retry.Resolve(layers...)
		if diff := cmp.Diff([]tags{c.retryOn, c.neverOn}, []tags{p.RetryOn, p.NeverOn}, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, diff)
		}
	}
}

func TestResolveLeavesItsLayersAlone(t *testing.T) {
	on, never := tags{"503", "404"}, tags{"503"}
	p := retry.Resolve(layer("a", retry.Overlay{RetryOn: &on}), layer("b", retry.Overlay{NeverOn: &never}))
	if !p.NeverOn.Has("503") || p.RetryOn.Has("503") {
		t.Fatalf("%v and %v", p.RetryOn, p.NeverOn)
	}
	if diff := cmp.Diff(tags{"503", "404"}, on); diff != "" {
		t.Errorf("a layer's list was changed (-want +got)\n%s", diff)
	}
}

func TestCheck(t *testing.T) {
	const day = 24 * time.Hour
	many := make(tags, retry.MaxTags+1)
	for i := range many {
		many[i] = "503"
	}
	for _, c := range []struct {
		name string
		o    retry.Overlay
		want []string // field and a part of the message
	}{
		{"nothing said", retry.Overlay{}, nil},
		{"built-in", retry.BuiltIn(), nil},
		{"one attempt", retry.Overlay{Attempts: new(1)}, nil},
		{"a hundred", retry.Overlay{Attempts: new(100)}, nil},
		{"none", retry.Overlay{Attempts: new(0)}, []string{"attempts: must be from 1"}},
		{"too many", retry.Overlay{Attempts: new(101)}, []string{"attempts: must be from 1 (no retry) to 100, not 101"}},
		{"negative wait", retry.Overlay{Backoff: new(-time.Second)}, []string{"backoff: must be"}},
		{"the longest waits", retry.Overlay{Backoff: new(30 * day), MaxBackoff: new(30 * day), MaxRetryAfter: new(30 * day)}, nil},
		{"too long a wait", retry.Overlay{MaxBackoff: new(31 * day), MaxRetryAfter: new(31 * day)}, []string{"max_backoff: must be", "max_retry_after: must be"}},
		{"backoff is the cap", retry.Overlay{Backoff: new(time.Second), MaxBackoff: new(time.Second)}, nil},
		{"backoff above the cap", retry.Overlay{Backoff: new(2 * time.Second), MaxBackoff: new(time.Second)}, []string{"backoff: 2s is longer than max_backoff, 1s"}},
		{"backoff above an inherited cap", retry.Overlay{Backoff: new(time.Minute)}, nil},
		{"jitter", retry.Overlay{Jitter: new(backoff.Jitter("some"))}, []string{`jitter: must be full, equal or none, not "some"`}},
		{"jitter of the job server", retry.Overlay{Jitter: new(backoff.Spread)}, []string{"jitter: must be"}},
		{"unknown tags", retry.Overlay{RetryOn: &tags{"5xx", "5yz"}, NeverOn: &tags{"conect"}}, []string{`retry_on: unknown tag "5yz"`, `never_on: unknown tag "conect"`}},
		{"both lists", retry.Overlay{RetryOn: &tags{"503"}, NeverOn: &tags{"4xx", "503"}}, []string{`never_on: "503" is in retry_on`}},
		{"too many tags", retry.Overlay{RetryOn: &many}, []string{"retry_on: holds 257 tags; at most 256"}},
		{"all at once", retry.Overlay{Attempts: new(0), Jitter: new(backoff.Jitter("")), RetryOn: &tags{""}}, []string{"attempts:", "jitter:", "retry_on:"}},
	} {
		got := c.o.Check()
		if len(got) != len(c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
			continue
		}
		for i, p := range got {
			if !strings.HasPrefix(p.Field+": "+p.Message, c.want[i]) {
				t.Errorf("%s: %s: %s, want %s", c.name, p.Field, p.Message, c.want[i])
			}
		}
	}
}
