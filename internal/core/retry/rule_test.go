package retry_test

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/retry"
)

type tags = failure.Tags

// fail makes a failure as an adapter would; permanent by its protocol or not.
func fail(c failure.Class, t ...failure.Tag) *failure.Error { return &failure.Error{Tags: t, Class: c} }

func status(code int) *failure.Error { return failure.FromStatus(code, 0) }

const (
	passing = failure.Transient
	final   = failure.Permanent
)

// TestRule is the rule of relay.md §3, line by line.
func TestRule(t *testing.T) {
	builtIn := retry.Resolve()
	lists := func(retryOn, neverOn tags) retry.Policy { return retry.Policy{RetryOn: retryOn, NeverOn: neverOn} }
	yes := func(tag failure.Tag) string { return fmt.Sprintf("retry_on names %s", tag) }
	no := func(tag failure.Tag) string { return fmt.Sprintf("never_on names %s", tag) }
	const byYes, byNo = "class transient", "class permanent"

	for _, c := range []struct {
		name    string
		policy  retry.Policy
		failure *failure.Error
		want    string
	}{
		// The defaults, over the plain kinds.
		{"refused", builtIn, fail(passing, "connect"), yes("connect")},
		{"dns", builtIn, fail(passing, "connect", "dns"), yes("connect")},
		{"tls", builtIn, fail(final, "tls"), byNo},
		{"timeout", builtIn, fail(passing, "timeout"), yes("timeout")},
		{"broken answer", builtIn, fail(passing, "broken"), byYes},
		{"success says no", builtIn, fail(final, "refused"), byNo},
		{"transform", builtIn, fail(final, "transform"), byNo},
		{"expired", builtIn, fail(final, "expired"), byNo},
		{"cancelled", builtIn, fail(passing, "cancelled"), byYes},
		{"no tags", builtIn, fail(passing), byYes},
		{"no tags, permanent", builtIn, fail(final), byNo},
		// The defaults, over statuses.
		{"301", builtIn, status(301), byNo},
		{"304", builtIn, status(304), byNo},
		{"400", builtIn, status(400), no("4xx")},
		{"401", builtIn, status(401), no("4xx")},
		{"404", builtIn, status(404), no("4xx")},
		{"408: the kind beats the class", builtIn, status(408), yes("timeout")},
		{"409", builtIn, status(409), no("4xx")},
		{"422", builtIn, status(422), no("4xx")},
		{"425: transient, yet named by 4xx", builtIn, status(425), no("4xx")},
		{"429: the code beats the class", builtIn, status(429), yes("429")},
		{"499", builtIn, status(499), no("4xx")},
		{"500", builtIn, status(500), yes("5xx")},
		{"501", builtIn, status(501), yes("5xx")},
		{"503", builtIn, status(503), yes("5xx")},
		{"599", builtIn, status(599), yes("5xx")},
		{"impossible status", builtIn, status(700), byYes},
		// The defaults, over other protocols: the class they give decides.
		{"grpc UNAVAILABLE", builtIn, fail(passing, "grpc", "grpc:UNAVAILABLE"), byYes},
		{"grpc INVALID_ARGUMENT", builtIn, fail(final, "grpc", "grpc:INVALID_ARGUMENT"), byNo},
		{"grpc DEADLINE_EXCEEDED", builtIn, fail(passing, "grpc", "timeout", "grpc:DEADLINE_EXCEEDED"), yes("timeout")},
		{"kafka transient", builtIn, fail(passing, "kafka", "kafka:NOT_LEADER_FOR_PARTITION"), byYes},
		{"kafka permanent", builtIn, fail(final, "kafka", "kafka:MESSAGE_TOO_LARGE"), byNo},
		{"ws 1011", builtIn, fail(passing, "ws", "ws:close_1011"), byYes},
		{"ws 1008", builtIn, fail(final, "ws", "ws:close_1008"), byNo},
		{"smtp 421", builtIn, fail(passing, "smtp", "smtp:421"), byYes},
		{"smtp 550", builtIn, fail(final, "smtp", "smtp:550"), byNo},
		{"mqtt 0x88", builtIn, fail(passing, "mqtt", "mqtt:0x88"), byYes},
		{"mqtt 0x87", builtIn, fail(final, "mqtt", "mqtt:0x87"), byNo},
		{"file ENOSPC", builtIn, fail(passing, "file", "file:ENOSPC"), byYes},
		// Lists of one's own.
		{"425 listed", lists(tags{"425"}, tags{"4xx"}), status(425), yes("425")},
		{"404 listed", lists(tags{"404"}, tags{"4xx"}), status(404), yes("404")},
		{"a neighbour of the listed", lists(tags{"404"}, tags{"4xx"}), status(403), no("4xx")},
		{"503 never", lists(tags{"5xx"}, tags{"503"}), status(503), no("503")},
		{"502 beside 503 never", lists(tags{"5xx"}, tags{"503"}), status(502), yes("5xx")},
		{"3xx retried", lists(tags{"3xx"}, nil), status(302), yes("3xx")},
		{"4xx retried", lists(tags{"4xx"}, nil), status(404), yes("4xx")},
		{"tls retried", lists(tags{"tls"}, nil), fail(final, "tls"), yes("tls")},
		{"connect never", lists(nil, tags{"connect"}), fail(passing, "connect"), no("connect")},
		{"408 never by code beats timeout", lists(tags{"timeout"}, tags{"408"}), status(408), no("408")},
		{"408 retried by code beats timeout never", lists(tags{"408"}, tags{"timeout"}), status(408), yes("408")},
		{"408: timeout never beats 4xx retried", lists(tags{"4xx"}, tags{"timeout"}), status(408), no("timeout")},
		{"429 never", lists(tags{"5xx"}, tags{"429"}), status(429), no("429")},
		{"429 with no lists", lists(nil, nil), status(429), byYes},
		{"400 with no lists", lists(nil, nil), status(400), byNo},
		{"grpc code retried", lists(tags{"grpc:NOT_FOUND"}, tags{"grpc"}), fail(final, "grpc", "grpc:NOT_FOUND"), yes("grpc:NOT_FOUND")},
		{"grpc class never", lists(nil, tags{"grpc"}), fail(passing, "grpc", "grpc:UNAVAILABLE"), no("grpc")},
		{"grpc class retried", lists(tags{"grpc"}, nil), fail(final, "grpc", "grpc:NOT_FOUND"), yes("grpc")},
		{"grpc class beside a kind", lists(tags{"timeout"}, tags{"grpc"}), fail(passing, "grpc", "timeout", "grpc:DEADLINE_EXCEEDED"), yes("timeout")},
		{"kafka code never", lists(nil, tags{"kafka:THROTTLED"}), fail(passing, "kafka", "kafka:THROTTLED"), no("kafka:THROTTLED")},
		{"another protocol's list", lists(nil, tags{"grpc:UNAVAILABLE"}), fail(passing, "nats", "nats:no_responders"), byYes},
		{"smtp code retried", lists(tags{"smtp:550"}, nil), fail(final, "smtp", "smtp:550"), yes("smtp:550")},
		{"ws code never", lists(nil, tags{"ws:close_1011"}), fail(passing, "ws", "ws:close_1011"), no("ws:close_1011")},
		{"mqtt code retried", lists(tags{"mqtt:0x87"}, tags{"mqtt"}), fail(final, "mqtt", "mqtt:0x87"), yes("mqtt:0x87")},
		// Ties: never_on wins within one rank.
		{"tie of codes", lists(tags{"503"}, tags{"503"}), status(503), no("503")},
		{"tie of classes", lists(tags{"5xx"}, tags{"5xx"}), status(503), no("5xx")},
		{"tie of two kinds", lists(tags{"connect"}, tags{"dns"}), fail(passing, "connect", "dns"), no("dns")},
		{"the other way round", lists(tags{"dns"}, tags{"connect"}), fail(passing, "connect", "dns"), no("connect")},
		{"a tie below a code", lists(tags{"4xx", "408"}, tags{"4xx", "timeout"}), status(408), yes("408")},
	} {
		if got := c.policy.Retryable(c.failure).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// TestRuleAgain says the rule in other words over all lists that fit: walk the
// ranks from exact to broad; the first rank at which any list names a tag of
// the failure decides.
func TestRuleAgain(t *testing.T) {
	pool := tags{"4xx", "5xx", "grpc", "connect", "dns", "timeout", "408", "503", "grpc:UNAVAILABLE"}
	some := rapid.SliceOfNDistinct(rapid.SampledFrom(pool), 0, 4, rapid.ID[failure.Tag])
	rapid.Check(t, func(t *rapid.T) {
		p := retry.Policy{RetryOn: some.Draw(t, "retry_on"), NeverOn: some.Draw(t, "never_on"), Attempts: 2}
		f := fail(rapid.SampledFrom([]failure.Class{passing, final}).Draw(t, "class"), some.Draw(t, "tags")...)
		want := f.Class == passing
	ranks:
		for rank := failure.RankExact; rank >= failure.RankClass; rank-- {
			for _, tag := range f.Tags {
				if tag.Rank() == rank && p.NeverOn.Has(tag) {
					want = false
					break ranks
				}
			}
			for _, tag := range f.Tags {
				if tag.Rank() == rank && p.RetryOn.Has(tag) {
					want = true
					break ranks
				}
			}
		}
		why := p.Retryable(f)
		if why.Retried() != want {
			t.Fatalf("%v says %v, want %v", why, why.Retried(), want)
		}
		if listed := why.By == retry.ByRetryOn || why.By == retry.ByNeverOn; listed != (why.Tag != "") || why.Tag != "" && why.Tag.Rank() != why.Rank {
			t.Fatalf("the reason does not fit itself: %+v", why)
		}
		if v := p.Decide(f, 1, 0).Verdict; (v == retry.Permanent) == want {
			t.Fatalf("verdict %v though retried is %v", v, want)
		}
	})
}

func TestDecide(t *testing.T) {
	const s = time.Second
	standing := retry.Resolve()
	patient := retry.Resolve(retry.Layer{Level: "destination", Overlay: retry.Overlay{MaxRetryAfter: new(time.Hour)}})
	deaf := retry.Resolve(retry.Layer{Level: "destination", Overlay: retry.Overlay{RespectRetryAfter: new(false)}})
	cut := retry.Resolve(retry.Layer{Level: "destination", Overlay: retry.Overlay{MaxRetryAfter: new(0 * s)}})
	once := retry.Resolve(retry.Layer{Level: "destination", Overlay: retry.Overlay{Attempts: new(1)}})

	for _, c := range []struct {
		name    string
		policy  retry.Policy
		failure *failure.Error
		attempt int
		verdict retry.Verdict
		wait    time.Duration
		hold    time.Duration
	}{
		{"first", standing, status(500), 1, retry.Again, 100 * time.Millisecond, 0},
		{"second", standing, status(500), 2, retry.Again, 200 * time.Millisecond, 0},
		{"fourth", standing, status(500), 4, retry.Again, 800 * time.Millisecond, 0},
		{"the last", standing, status(500), 5, retry.Exhausted, 0, 0},
		{"past the last", standing, status(500), 6, retry.Exhausted, 0, 0},
		{"one attempt is no retry", once, status(500), 1, retry.Exhausted, 0, 0},
		{"permanent at once", standing, status(400), 1, retry.Permanent, 0, 0},
		{"permanent at the last", standing, status(400), 5, retry.Permanent, 0, 0},
		{"asked to wait", standing, failure.FromStatus(503, 3*s), 1, retry.Again, 3 * s, 3 * s},
		{"asked for less than the backoff", standing, failure.FromStatus(503, time.Millisecond), 4, retry.Again, time.Millisecond, time.Millisecond},
		{"asked for more than the cap", standing, failure.FromStatus(503, time.Minute), 1, retry.Again, 10 * s, 10 * s},
		{"the cap raised", patient, failure.FromStatus(503, time.Minute), 1, retry.Again, time.Minute, time.Minute},
		{"not respected", deaf, failure.FromStatus(503, 3*s), 1, retry.Again, 100 * time.Millisecond, 0},
		{"a cap of zero", cut, failure.FromStatus(503, 3*s), 1, retry.Again, 100 * time.Millisecond, 0},
		{"zero", standing, failure.FromStatus(429, 0), 1, retry.Again, 100 * time.Millisecond, 0},
		{"past", standing, failure.FromStatus(429, -s), 1, retry.Again, 100 * time.Millisecond, 0},
		{"held though exhausted", standing, failure.FromStatus(429, 3*s), 5, retry.Exhausted, 0, 3 * s},
		{"held though permanent", standing, failure.FromStatus(403, 3*s), 1, retry.Permanent, 0, 3 * s},
	} {
		d := c.policy.Decide(c.failure, c.attempt, 0.5)
		if d.Verdict != c.verdict || d.Wait != c.wait || d.Hold != c.hold {
			t.Errorf("%s: %v wait %v hold %v, want %v wait %v hold %v", c.name, d.Verdict, d.Wait, d.Hold, c.verdict, c.wait, c.hold)
		}
	}
}

// The number of tries is what the policy says, whatever the failures.
func TestTriesAreBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := retry.Resolve(retry.Layer{Level: "x", Overlay: retry.Overlay{Attempts: new(rapid.IntRange(1, 100).Draw(t, "attempts"))}})
		tries := 1
		for ; ; tries++ {
			f := failure.FromStatus(rapid.SampledFrom([]int{429, 500, 503, 408}).Draw(t, "status"),
				time.Duration(rapid.Int64Range(-1, int64(time.Hour)).Draw(t, "after")))
			d := p.Decide(f, tries, rapid.Float64Range(0, 1).Draw(t, "u"))
			if d.Wait < 0 || d.Wait > p.Schedule.Max || d.Hold > p.MaxRetryAfter {
				t.Fatalf("wait %v, hold %v", d.Wait, d.Hold)
			}
			if d.Verdict == retry.Exhausted {
				break
			}
		}
		if tries != p.Attempts {
			t.Fatalf("%d tries of %d", tries, p.Attempts)
		}
	})
}
