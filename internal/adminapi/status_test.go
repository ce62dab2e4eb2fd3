package adminapi

// Catches: a member of a group that status leaves out, or mixes up with another or
// with its group; who levered it, by its own name or by the group's; a plain
// destination that is shown as a group of one.

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/deliver"
)

func TestMembersInStatus(t *testing.T) {
	r := newRig(t)
	guard := breaker.Defaults()
	at := func(name string, b *breaker.Settings) deliver.Member {
		return deliver.Member{Endpoint: deliver.Endpoint{EndpointName: name, Connector: &endpoint{}, Timeout: time.Second, Breaker: b}, Weight: 1}
	}
	_, err := r.opts.Fleet.Configure([]deliver.Spec{
		{Name: "plain", Endpoint: deliver.Endpoint{Connector: &endpoint{}, Timeout: time.Second}, Retry: retry.Resolve(), Workers: 4, MaxPending: 8},
		{
			Name: "pair", Retry: retry.Resolve(), Workers: 5, MaxPending: 8,
			Group: &deliver.Group{Members: []deliver.Member{at("east", &guard), at("pair/2", nil)}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r.opts.Levers.pull(pauseLever, "pair/2", "paused", "ada", now)
	r.opts.Levers.pull(breakerLever, "pair", "open", "bob", now)
	if !r.opts.Fleet.Pause("pair/2") || r.opts.Fleet.ForceBreaker("east", breaker.ForceOpen) != deliver.LeverMoved {
		t.Fatal("no such members")
	}
	for _, d := range New(r.opts).Status(t.Context()).Destinations {
		switch d.Name {
		case "plain":
			if d.Members != nil {
				t.Errorf("a plain destination has members: %+v", d.Members)
			}
		case "pair":
			want := []MemberStatus{
				{Name: "east", Limit: 3, Breaker: "open", Forced: &Pull{By: "bob", Since: now}},
				{Name: "pair/2", Limit: 3, Breaker: "off", Paused: &Pull{By: "ada", Since: now}},
			}
			if diff := cmp.Diff(want, d.Members, cmp.Comparer(time.Time.Equal)); diff != "" {
				t.Errorf("members (-want +got):\n%s", diff)
			}
		}
	}
	code, text := r.call(http.MethodGet, "/v3/status", "")
	if want := `"members":[{"name":"east","busy":0,"limit":3,"breaker":"open","forced":{"by":"bob",`; code != http.StatusOK || !strings.Contains(text, want) {
		t.Errorf("%d, want %s in\n%s", code, want, text)
	}
	// What concerns a whole destination is asked of the group.
	for path, body := range map[string]string{
		"/v3/rate": `{"name":"east","per_second":1}`, "/v3/dead-letters/replay": `{"to":"east"}`,
	} {
		code, text := r.call(http.MethodPost, path, body)
		if code != http.StatusBadRequest || !strings.Contains(text, "name the group pair") {
			t.Errorf("%s of a member: %d %s", path, code, text)
		}
	}
}
