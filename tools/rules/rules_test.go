// Package rules tries the alert rules, and the board, in Prometheus' own engine. Its
// tests catch an expression that Prometheus does not read; a rule that is silent in
// the state that it is named after, and one that alerts of a healthy server, or of
// one failure that was made good. What metrics and labels there are is tested beside
// the rules.
package rules

import (
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
)

const (
	minute = time.Minute
	pawl   = `job="pawl",instance="a"`
)

// healthy is a server that has nothing to do.
func healthy() world {
	w := world{}
	for name, value := range map[string]float64{
		"up{}": 1, "pawl_source_up{source=web}": 1, "pawl_endpoint_healthy{destination=d,endpoint=e}": 1, "pawl_breaker_state{destination=d,endpoint=e}": 0,
		"pawl_configuration_last_reload_successful{}": 1, "pawl_state_free_bytes{}": 1e11, "pawl_state_size_bytes{}": 2e11,
		"pawl_store_disk_free_bytes{}": 1e11, "pawl_store_disk_size_bytes{}": 2e11,
		"pawl_lane_pending{destination=d}": 0, "pawl_lane_places{destination=d}": 1000, "pawl_dead_letters_oldest_age_seconds{}": 0,
		"pawl_dlq_total{reason=delivery,outcome=stored}": 0, "pawl_dlq_total{reason=delivery,outcome=failed}": 0,
		"pawl_store_errors_total{store=s,op=get}": 0, "pawl_notifications_total{event=e,outcome=failed}": 0,
		"pawl_source_messages_total{source=web,outcome=nacked}": 0,
		"pawl_jobs_oldest_due_seconds{queue=q}":                 0, "pawl_jobs_finished_total{queue=q,status=failed}": 0,
		"pawl_circuits{state=open}": 0, "pawl_circuits{state=half_open}": 0,
		"pawl_job_attempts_total{outcome=lost}": 0, "pawl_job_attempts_total{outcome=unreceived}": 0,
		"pawl_store_commit_seconds_bucket{le=0.5}": 7, "pawl_store_commit_seconds_bucket{le=+Inf}": 7, "pawl_store_wal_bytes{}": 64 << 20,
		"pawl_event_deliveries_total{outcome=failed}": 0,
	} {
		w[written(name)] = flat(value)
	}
	return w
}

// written turns name{label=value} into how Prometheus writes it, with the labels of
// the scrape.
func written(short string) string {
	name, rest, _ := strings.Cut(short, "{")
	all := pawl
	for l := range strings.SplitSeq(strings.TrimSuffix(rest, "}"), ",") {
		if label, value, ok := strings.Cut(l, "="); ok {
			all += "," + label + `="` + value + `"`
		}
	}
	return name + "{" + all + "}"
}

// but is a healthy server with other curves for some series.
func but(other world) world {
	w := healthy()
	for name, c := range other {
		w[written(name)] = c
	}
	return w
}

// tries are when an event is tried whose receiver is away: 10 s after the first time,
// and each wait 2.5 times the one before, with the jitter.
func tries(jitter float64) curve {
	moments, wait := []time.Duration{5 * minute}, 10*time.Second
	for range 8 {
		moments = append(moments, moments[len(moments)-1]+time.Duration(jitter*float64(wait)))
		wait = wait * 5 / 2
	}
	return at(moments...)
}

func TestExpressionsAreRead(t *testing.T) {
	all := readBoard(t)
	for i, e := range all {
		all[i] = strings.ReplaceAll(e, "$__rate_interval", "5m")
	}
	for _, r := range readRules(t) {
		all = append(all, r.Expr)
	}
	for _, e := range all {
		if _, err := promQL.ParseExpr(e); err != nil {
			t.Errorf("%s: %v", e, err)
		}
	}
}

func TestAHealthyServerIsSilent(t *testing.T) {
	w := healthy()
	for _, r := range readRules(t) {
		if w.alerts(t, r, 2*time.Hour) {
			t.Errorf("%s fires", r.Alert)
		}
		// A rule about what the healthy server does not have is silent for nothing.
		e, err := promQL.ParseExpr(r.Expr)
		if err != nil {
			t.Fatal(r.Alert, err)
		}
		parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
			if v, ok := n.(*parser.VectorSelector); ok && len(w.series(t, 0, v.LabelMatchers)) == 0 {
				t.Errorf("%s: the healthy server has no %s", r.Alert, v)
			}
			return nil
		})
	}
}

func TestRulesFire(t *testing.T) {
	tests := map[string][]world{
		"PawlDown":                   {{"up{}": flat(0)}},
		"PawlDeadLettersGrowing":     {{"pawl_dlq_total{reason=delivery,outcome=stored}": at(10 * minute)}},
		"PawlDeadLettersOld":         {{"pawl_dead_letters_oldest_age_seconds{}": flat(90_000)}},
		"PawlDeadLetterWriteFailing": {{"pawl_dlq_total{reason=delivery,outcome=failed}": at(10 * minute)}},
		"PawlBreakerOpen":            {{"pawl_breaker_state{destination=d,endpoint=e}": func(now time.Duration) float64 { return 1 + float64(now/step%2) }}},
		"PawlMemberUnhealthy":        {{"pawl_endpoint_healthy{destination=d,endpoint=e}": flat(0)}},
		"PawlStoreFailing":           {{"pawl_store_errors_total{store=s,op=get}": rising(1)}},
		"PawlNotificationsFailing":   {{"pawl_notifications_total{event=e,outcome=failed}": at(10 * minute)}},
		"PawlSourceDown":             {{"pawl_source_up{source=web}": flat(0)}},
		"PawlTurnsMessagesAway":      {{"pawl_source_messages_total{source=web,outcome=nacked}": rising(1)}},
		"PawlLaneNearlyFull":         {{"pawl_lane_pending{destination=d}": flat(950)}},
		"PawlDiskLow": {
			{"pawl_state_free_bytes{}": flat(9e9)}, {"pawl_state_free_bytes{}": flat(5e8), "pawl_state_size_bytes{}": flat(6e8)},
			{"pawl_store_disk_free_bytes{}": flat(9e9)}, {"pawl_store_disk_free_bytes{}": flat(5e8), "pawl_store_disk_size_bytes{}": flat(6e8)},
		},
		"PawlConfigurationRefused": {{"pawl_configuration_last_reload_successful{}": flat(0)}},
		"PawlJobsWait":             {{"pawl_jobs_oldest_due_seconds{queue=q}": rising(60)}},
		"PawlJobsFail":             {{"pawl_jobs_finished_total{queue=q,status=failed}": at(10 * minute)}},
		// The probe of one that stays away makes it half-open for a moment.
		"PawlCircuitOpen": {{
			"pawl_circuits{state=open}":      func(now time.Duration) float64 { return 1 - float64(now/step%2) },
			"pawl_circuits{state=half_open}": func(now time.Duration) float64 { return float64(now / step % 2) },
		}},
		"PawlWorkersLost": {{"pawl_job_attempts_total{outcome=lost}": rising(1)}, {"pawl_job_attempts_total{outcome=unreceived}": rising(1)}},
		"PawlJobStoreSlow": {
			{
				"pawl_store_commit_seconds_bucket{le=0.5}": rising(95), "pawl_store_commit_seconds_bucket{le=1}": rising(100),
				"pawl_store_commit_seconds_bucket{le=+Inf}": rising(100),
			},
			{"pawl_store_commit_seconds_bucket{le=10}": rising(0), "pawl_store_commit_seconds_bucket{le=+Inf}": rising(1)},
		},
		"PawlJobStoreLogGrows": {{"pawl_store_wal_bytes{}": flat(1e9)}},
		"PawlEventsNotDelivered": {
			{"pawl_event_deliveries_total{outcome=failed}": rising(1)},
			{"pawl_event_deliveries_total{outcome=failed}": tries(0.75)}, {"pawl_event_deliveries_total{outcome=failed}": tries(1)},
			{"pawl_event_deliveries_total{outcome=failed}": tries(1.25)},
		},
	}
	for _, r := range readRules(t) {
		if len(tests[r.Alert]) == 0 {
			t.Errorf("%s: no state in which it fires is tried", r.Alert)
		}
		for i, w := range tests[r.Alert] {
			if !but(w).alerts(t, r, 3*time.Hour) {
				t.Errorf("%s is silent in its state %d", r.Alert, i)
			}
		}
		delete(tests, r.Alert)
	}
	for name := range tests {
		t.Errorf("no rule %s", name)
	}
}

// What was made good wakes nobody.
func TestASmallThingIsNoAlert(t *testing.T) {
	tests := map[string]world{
		"a start":                       {"up{}": func(now time.Duration) float64 { return min(now.Minutes(), 1) }},
		"a queue that is behind":        {"pawl_jobs_oldest_due_seconds{queue=q}": func(now time.Duration) float64 { return min(60*now.Minutes(), 500) }},
		"a circuit that closed again":   {"pawl_circuits{state=open}": func(now time.Duration) float64 { return max(0, 1-float64(now/(5*minute))) }},
		"a deploy that kills workers":   {"pawl_job_attempts_total{outcome=lost}": from(20, at(9*minute, 10*minute, 10*minute, 11*minute))},
		"one slow commit":               {"pawl_store_commit_seconds_bucket{le=0.5}": flat(7), "pawl_store_commit_seconds_bucket{le=+Inf}": from(7, at(10*minute))},
		"one delivery that failed":      {"pawl_event_deliveries_total{outcome=failed}": at(10 * minute)},
		"a receiver that was restarted": {"pawl_event_deliveries_total{outcome=failed}": at(10*minute, 11*minute, 12*minute, 15*minute)},
	}
	for name, w := range tests {
		for _, r := range readRules(t) {
			if but(w).alerts(t, r, 3*time.Hour) {
				t.Errorf("%s: %s fires", name, r.Alert)
			}
		}
	}
}
