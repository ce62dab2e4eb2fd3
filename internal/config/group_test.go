// What these tests would catch: a setting of a group that its members don't
// have, or have in spite of their own; a level that is told wrong; a default of
// groups, hedges, batches, stores, dedupe or notify that is another one.
package config

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/setting"
)

func TestGoodGroup(t *testing.T) {
	c := good(t)
	d, _ := c.Destination("tickets")
	g := d.Group
	if g == nil || d.Settings != nil || g.Strategy != balance.Weighted {
		t.Fatalf("tickets: %+v", d)
	}
	if want := (HealthCheck{Path: "/ready", Interval: time.Second, Timeout: time.Second, UnhealthyAfter: 5, HealthyAfter: 1}); *g.Health != want {
		t.Errorf("health check %+v", *g.Health)
	}
	if want := (Hedge{After: 800 * time.Millisecond, Max: 1}); *d.Delivery.Hedge != want || !d.Delivery.Idempotent {
		t.Errorf("hedge %+v", *d.Delivery.Hedge)
	}
	type member struct {
		Name, Type string
		Weight     int
		Timeout    time.Duration
		Breaker    *breaker.Settings
		JQ         []Transform
		Delivered  failure.Tags
		Success    string
		Forward    []string
		Header     string
		Attempts   int
		At         int
	}
	var got []member
	for _, m := range g.Members {
		v := &m.Delivery
		got = append(got, member{m.Name, m.Type, m.Weight, v.Timeout, v.Breaker, v.Transforms, v.DeliveredOn, v.Success,
			v.ForwardHeaders, v.IdempotencyHeader, v.Retry.Attempts, m.At.Line - d.At.Line})
		if m.Settings == nil || v.Hedge != d.Delivery.Hedge {
			t.Errorf("%s: %+v", m.Name, m)
		}
	}
	// min_requests is the group's, open_for of defaults unless it is its own.
	broken := func(openFor time.Duration) *breaker.Settings {
		return &breaker.Settings{FailureRatio: 0.5, MinRequests: 7, Window: time.Minute, OpenFor: openFor, MaxOpenFor: openFor, HalfOpenMax: 5}
	}
	ticket := []Transform{{JQ: ".ticket"}}
	want := []member{
		{"east", "https", 1, 4 * time.Second, broken(9 * time.Second), ticket, failure.Tags{"409"}, "", []string{}, DefaultIdempotencyHeader, 7, 12},
		{"tickets/2", "https", 3, 2 * time.Second, broken(3 * time.Second), nil, failure.Tags{"410"}, "", []string{"x-*"}, DefaultIdempotencyHeader, 7, 13},
		{"south", "file", 1, 4 * time.Second, nil, ticket, failure.Tags{"409"}, ".ok", []string{"x-*"}, "X-Key", 7, 14},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

// TestGoodGroupLevels: each value of a member says where it comes from.
func TestGoodGroupLevels(t *testing.T) {
	c := good(t)
	d, _ := c.Destination("tickets")
	from := d.Group.Members[1].Delivery.From
	for key, want := range map[string]string{
		"timeout": LevelMember, "transforms": LevelMember, "delivered_on": LevelMember, "forward_headers": LevelDefaults,
		"circuit_breaker.min_requests": LevelDestination, "circuit_breaker.open_for": LevelDefaults,
		"circuit_breaker.window": LevelBuiltIn, "success": LevelBuiltIn, "workers": LevelBuiltIn,
		"retry_budget.store": LevelDestination, "hedge.after": LevelDestination, "hedge.max": LevelBuiltIn, "idempotent": LevelDestination,
	} {
		if from[key] != want {
			t.Errorf("%s comes from %q, want %q", key, from[key], want)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(d.Delivery.From)) {
		if d.Delivery.From[key] == LevelMember {
			t.Errorf("the group has %s of a member", key)
		}
	}
	if from := d.Group.Members[0].Delivery.Retry.From["attempts"]; from != LevelDefaults {
		t.Errorf("attempts come from %q", from)
	}
}

func TestGoodBatches(t *testing.T) {
	c := good(t)
	for name, want := range map[string]*Batch{
		"bulk":    {MaxMessages: 100, MaxBytes: 1 << 20, MaxWait: time.Second},
		"chat":    {MaxMessages: 100, MaxBytes: 1 << 20, MaxWait: 50 * time.Millisecond},
		"tickets": nil,
	} {
		d, _ := c.Destination(name)
		if diff := cmp.Diff(want, d.Delivery.Batch); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	bulk, _ := c.Destination("bulk")
	if b := bulk.Group.Members[0].Delivery.Batch; b == nil || b.MaxWait != time.Second {
		t.Errorf("the member of bulk has the batch %+v", b)
	}
}

func TestGoodStores(t *testing.T) {
	c := good(t)
	want := []Store{
		{Name: "shared", Type: StoreRedis, URL: setting.NewSecret("rediss://pawl:" + testSecret + "@redis.internal:6380/2"), Prefix: "shop:",
			TLS: &setting.ClientTLS{ServerName: "redis.test"}, Retry: kv.Policy{Attempts: 3, Timeout: 100 * time.Millisecond,
				Backoff: backoff.Schedule{Initial: 10 * time.Millisecond, Max: 90 * time.Millisecond, Factor: 2, Jitter: backoff.Equal}}},
		{Name: "own", Type: StoreRedis, URL: setting.NewSecret("redis://127.0.0.1:6379/1"), Prefix: "pawl:", Retry: kv.Policy{Attempts: 2, Timeout: 250 * time.Millisecond,
			Backoff: backoff.Schedule{Initial: 2 * time.Second, Max: 2 * time.Second, Factor: 2, Jitter: backoff.Full}}},
	}
	if diff := cmp.Diff(want, c.Stores, cmpopts.IgnoreFields(Store{}, "At"), cmp.Comparer(func(a, b setting.Secret) bool { return a == b })); diff != "" {
		t.Errorf("stores (-want +got):\n%s", diff)
	}
	d, _ := c.Destination("tickets")
	if d.Delivery.BudgetStore != "shared" || d.Delivery.RetryBudget == nil {
		t.Errorf("the budget of tickets is counted in %q", d.Delivery.BudgetStore)
	}
	for name, want := range map[string]*Dedupe{
		"calls": {Key: ".id", TTL: time.Hour, Store: "shared"},
		"mails": {Key: ".id", TTL: 10 * time.Minute, MaxEntries: 131072},
		"texts": {Key: ".id", TTL: 10 * time.Minute, MaxEntries: 5},
		"web":   nil,
	} {
		s, _ := c.Source(name)
		if diff := cmp.Diff(want, s.Dedupe); diff != "" {
			t.Errorf("dedupe of %s (-want +got):\n%s", name, diff)
		}
	}
}

func TestGoodNotify(t *testing.T) {
	c := good(t)
	want := []Notice{
		{On: []AlertEvent{AlertDeadLetter, AlertCircuitOpen}, To: []string{"chat"}, Every: time.Minute},
		{On: []AlertEvent{AlertUnrouted, AlertSourceDown}, To: []string{"chat"}, Every: 5 * time.Minute},
	}
	if diff := cmp.Diff(want, c.Notify, cmpopts.IgnoreFields(Notice{}, "At")); diff != "" {
		t.Errorf("notify (-want +got):\n%s", diff)
	}
}

// TestStorePassword: a password in a store's URL is hidden in every shape, and
// the address beside it is not.
func TestStorePassword(t *testing.T) {
	c := loaded(t, `
stores: [ { name: shared, type: redis, url: "redis://pawl:p%40ss-word@redis.internal:6379/0" } ]
defaults: { retry_budget: { store: shared } }
`)
	text := c.Secrets.Redact("dial redis.internal:6379: AUTH pawl p@ss-word: redis://pawl:p%40ss-word@redis.internal:6379/0")
	if strings.Contains(text, "ss-word") || strings.Count(text, "redis.internal:6379") != 2 {
		t.Errorf("printed as %s", text)
	}
	open := loaded(t, `
stores: [ { name: shared, type: redis, url: "redis://redis.internal:6379/0" } ]
defaults: { retry_budget: { store: shared } }
`)
	if text := open.Secrets.Redact("redis://redis.internal:6379/0"); text != "redis://redis.internal:6379/0" {
		t.Errorf("a URL without a password is printed as %s", text)
	}
}

// TestGroupBounds: each limit of a list holds at its number and not before.
func TestGroupBounds(t *testing.T) {
	group := func(members int) string {
		return "destinations: [ { name: g, type: group, members: [" + strings.Repeat("{ type: stdout }, ", members) + "] } ]"
	}
	notices := func(n int) string {
		return "destinations: [ { name: d, type: stdout } ]\nnotify: [" + strings.Repeat("{ to: [d] }, ", n) + "]"
	}
	loaded(t, group(MaxMembers))
	loaded(t, notices(MaxNotices))
	for text, want := range map[string]string{
		group(MaxMembers + 1):   "65 members; at most 64",
		notices(MaxNotices + 1): "65 entries in notify; at most 64",
	} {
		if err := refused(t, text); !strings.Contains(err, want) {
			t.Errorf("%q is not in %s", want, err)
		}
	}
}

// loaded loads a text that has no error in it.
func loaded(t *testing.T, text string) *Config {
	t.Helper()
	c, report := loadText(t, text)
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	return c
}

// refused returns the first error of a text.
func refused(t *testing.T, text string) string {
	t.Helper()
	_, report := loadText(t, text)
	if report.Err() == nil {
		t.Fatalf("loaded: %.200s", text)
	}
	return report.Err().Error()
}
