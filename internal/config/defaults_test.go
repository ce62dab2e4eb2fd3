package config_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector/faulty"
	"github.com/pawlhq/pawl/internal/connector/file"
	"github.com/pawlhq/pawl/internal/connector/http"
	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/kv"
	"github.com/pawlhq/pawl/internal/setting"
)

// The least that a configuration says: everything else is a default.
const least = `
sources: [ { name: web, type: http, listen: "127.0.0.1:8080" }, { name: once, type: http, listen: "127.0.0.1:8081", dedupe: { key: .id } } ]
routes: [ { name: all, from: [web, once], to: [api, disk, bad, said, group] } ]
stores: [ { name: shared, type: redis, url: "redis://127.0.0.1:6379/0" } ]
notify: [ { to: [api] } ]
destinations:
  - { name: api, type: https, url: "https://api.internal/x" }
  - { name: disk, type: file, path: out.ndjson }
  - { name: bad, type: faulty }
  - { name: said, type: https, url: "https://api.internal/y", circuit_breaker: { open_for: 7s }, rate_limit: { per_second: 2.5 }, retry_budget: true, batch: true }
  - { name: group, type: group, retry_budget: { store: shared }, idempotent: true, hedge: { after: p95 }, health_check: { path: / }, members: [ { type: http, url: "http://127.0.0.1:1" }, { type: http, url: "http://127.0.0.1:2" } ] }
jobs: { queues: { emails: {} } }
`

// Would catch: a number of the design that is another one in the program. They
// are written down here once more, on purpose.
func TestDefaultsAreThoseOfTheDesign(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "pawl.yaml")
	if err := os.WriteFile(path, []byte(least), 0o600); err != nil {
		t.Fatal(err)
	}
	c, report := config.Load([]string{path}, config.Options{Registry: builtin.Connectors()})
	if err := report.Err(); err != nil {
		t.Fatal(err)
	}
	dest := func(name string) *config.Destination {
		d, ok := c.Destination(name)
		if !ok {
			t.Fatalf("no destination %s", name)
		}
		return d
	}
	d, web := &dest("api").Delivery, &c.Sources[0]
	listens, asks := web.Settings.(*http.SourceSettings), dest("api").Settings.(*http.DestinationSettings)
	disk, bad := dest("disk").Settings.(*file.Settings), dest("bad").Settings.(*faulty.Settings)
	letters, group := c.DeadLetter.Retry, dest("group").Group

	for _, row := range []struct {
		key       string
		got, want any
	}{
		{"state", c.State, filepath.Join(folder, "pawl-data")},
		{"http.listen", c.HTTP.Listen, "127.0.0.1:7077"},
		{"shutdown_timeout", c.ShutdownTimeout, 25 * time.Second},
		{"log.access", c.Log.Access, config.AccessOff},
		{"telemetry.traces.endpoint", c.Traces.Endpoint, ""},

		{"retry.attempts", d.Retry.Attempts, 5},
		{"retry.backoff", d.Retry.Schedule.Initial, 200 * time.Millisecond},
		{"retry.max_backoff", d.Retry.Schedule.Max, 10 * time.Second},
		{"retry: each wait twice as long", d.Retry.Schedule.Factor, 2.0},
		{"retry.jitter", d.Retry.Schedule.Jitter, backoff.Full},
		{"retry.retry_on", d.Retry.RetryOn, failure.Tags{"connect", "timeout", "5xx", "429"}},
		{"retry.never_on", d.Retry.NeverOn, failure.Tags{"4xx"}},
		{"retry.respect_retry_after", d.Retry.RespectRetryAfter, true},
		{"retry.max_retry_after", d.Retry.MaxRetryAfter, d.Retry.Schedule.Max},
		{"timeout", d.Timeout, 5 * time.Second},
		{"deadline", d.Deadline, time.Duration(0)},
		{"fallback", dest("api").Fallback, []string(nil)},
		{"workers", d.Workers, 64},
		{"max_pending", d.MaxPending, 512},
		{"delivered_on", d.DeliveredOn, failure.Tags(nil)},
		{"success", d.Success, ""},
		{"ttl", d.TTL, time.Duration(0)},
		{"circuit_breaker", d.Breaker, &breaker.Settings{
			FailureRatio: 0.5, MinRequests: 20, Window: 60 * time.Second,
			OpenFor: 5 * time.Second, MaxOpenFor: 60 * time.Second, HalfOpenMax: 5,
		}},
		{"rate_limit", d.RateLimit, (*limit.Rate)(nil)},
		{"rate_limit.burst", dest("said").Delivery.RateLimit.Burst, 3},
		{"retry_budget", d.RetryBudget, (*limit.BudgetSettings)(nil)},
		{"retry_budget: true", dest("said").Delivery.RetryBudget, &limit.BudgetSettings{
			Ratio: 0.2, MinPerSecond: 10, Window: 10 * time.Second,
		}},
		{"circuit_breaker.max_open_for beside open_for", dest("said").Delivery.Breaker.MaxOpenFor, 7 * time.Second},
		{"when_open", d.WhenOpen, config.WhenOpenWait},
		{"transforms", d.Transforms, []config.Transform(nil)},
		{"forward_headers", d.ForwardHeaders, []string(nil)},
		{"idempotency_header", d.IdempotencyHeader, "Idempotency-Key"},

		{"idempotent", d.Idempotent, false},
		{"batch", d.Batch, (*config.Batch)(nil)},
		{"batch: true", dest("said").Delivery.Batch, &config.Batch{MaxMessages: 100, MaxBytes: 1 << 20, MaxWait: 50 * time.Millisecond}},
		{"strategy", group.Strategy, balance.Failover},
		{"members[].name", group.Members[1].Name, "group/2"},
		{"members[].weight", group.Members[1].Weight, 1},
		{"hedge", dest("group").Delivery.Hedge, &config.Hedge{Max: 1}},
		{"health_check", group.Health, &config.HealthCheck{
			Path: "/", Interval: 10 * time.Second, Timeout: 2 * time.Second, UnhealthyAfter: 3, HealthyAfter: 1,
		}},
		{"dedupe of no source", web.Dedupe, (*config.Dedupe)(nil)},
		{"dedupe", c.Sources[1].Dedupe, &config.Dedupe{Key: ".id", TTL: 10 * time.Minute, MaxEntries: 1 << 17}},
		{"notify.on", c.Notify[0].On, []config.AlertEvent{config.AlertDeadLetter, config.AlertCircuitOpen}},
		{"notify.every", c.Notify[0].Every, time.Minute},
		{"stores.retry", c.Stores[0].Retry, kv.DefaultPolicy()},

		{"dead_letter.type", c.DeadLetter.Type, config.DeadLetterFile},
		{"dead_letter.path", c.DeadLetter.Path, filepath.Join(folder, "pawl-data", "dead")},
		{"dead_letter.retry.attempts", letters.Attempts, 3},
		{"dead_letter.retry.backoff", letters.Schedule, d.Retry.Schedule},

		{"jobs.listen", c.Jobs.Listen, c.HTTP.Listen},
		{"jobs.store", c.Jobs.File, filepath.Join(folder, "pawl-data", "pawl.db")},
		{"jobs.allow_network_filesystem", c.Jobs.NetworkFilesystem, config.NetworkFilesystemRefused},
		{"jobs.retention.dead_letters", c.Jobs.KeepDeadLetters, 30 * 24 * time.Hour},
		{"jobs.retention.finished", c.Jobs.KeepFinished, 7 * 24 * time.Hour},
		{"jobs.retry", job.Resolve(job.Said{Level: job.LevelProject, Overlay: c.Jobs.Retry}).Policy, job.Policy{
			MaxAttempts: 8, Initial: 10 * time.Second, Factor: 2, MaxDelay: time.Hour, Jitter: 0.25,
		}},
		{"jobs.queues.NAME.lease", c.Jobs.Queues["emails"].Lease, 30 * time.Second},
		{"jobs.queues.NAME.timeout", c.Jobs.Queues["emails"].Timeout, 5 * time.Minute},
		{"ack", web.Ack, config.AckDelivered},

		{"max_in_flight", web.MaxInFlight, 4096},
		{"max_in_flight_bytes", web.MaxInFlightBytes, int64(64 << 20)},
		{"unrouted", web.Unrouted, config.UnroutedAck},
		{"http source: path", listens.Path, "/"},
		{"http source: methods", listens.Methods, []string{"POST"}},
		{"http source: ack_timeout", listens.AckTimeout.D(), 25 * time.Second},
		{"http source: max_body", listens.MaxBody, setting.Size(1 << 20)},

		{"http destination: method", asks.Method, "POST"},
		{"http destination: http2", asks.HTTP2, false},
		{"http destination: deny_private", asks.DenyPrivate, false},
		{"http destination: connect_timeout", asks.ConnectTimeout.D(), d.Timeout},
		{"file destination: mode", disk.Mode, "0600"},
		{"file destination: format", string(disk.Format), "plain"},
		{"faulty destination: status", bad.Status, 503},
	} {
		if diff := cmp.Diff(row.want, row.got); diff != "" {
			t.Errorf("%s (-design +program):\n%s", row.key, diff)
		}
	}
	for name, level := range d.From {
		if level != config.LevelBuiltIn {
			t.Errorf("%s is said to come from %q", name, level)
		}
	}
}
