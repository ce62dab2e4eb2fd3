package explain

import (
	"cmp"
	"fmt"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/setting"
)

// Setting is one number and where it comes from.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

func settings(d *config.Destination) []Setting {
	v := &d.Delivery
	of := func(name, value string) Setting {
		return Setting{name, value, cmp.Or(v.From[name], config.LevelBuiltIn)}
	}
	retrying := func(field, value string) Setting {
		return Setting{"retry." + field, value, cmp.Or(v.Retry.From[field], config.LevelBuiltIn)}
	}
	return append([]Setting{
		retrying(retry.FieldAttempts, strconv.Itoa(v.Retry.Attempts)),
		retrying(retry.FieldBackoff, setting.Duration(v.Retry.Schedule.Initial).String()),
		retrying(retry.FieldMaxBackoff, setting.Duration(v.Retry.Schedule.Max).String()),
		retrying(retry.FieldJitter, string(v.Retry.Schedule.Jitter)),
		retrying(retry.FieldRetryOn, "["+v.Retry.RetryOn.String()+"]"),
		retrying(retry.FieldNeverOn, "["+v.Retry.NeverOn.String()+"]"),
		retrying(retry.FieldRespectRetryAfter, strconv.FormatBool(v.Retry.RespectRetryAfter)),
		retrying(retry.FieldMaxRetryAfter, setting.Duration(v.Retry.MaxRetryAfter).String()),
		of("timeout", setting.Duration(v.Timeout).String()),
		of("deadline", orNone(v.Deadline)),
		of("ttl", orNone(v.TTL)),
		of("workers", strconv.Itoa(v.Workers)),
		of("max_pending", strconv.Itoa(v.MaxPending)),
		of("delivered_on", "["+v.DeliveredOn.String()+"]"),
		of("when_open", string(v.WhenOpen)),
	}, switched(v, of)...)
}

// switched are the settings that can be off.
func switched(v *config.Delivery, of func(name, value string) Setting) []Setting {
	text := map[string]string{}
	if b := v.Breaker; b != nil {
		text["circuit_breaker"] = fmt.Sprintf("opens at %g of %d messages within %s, for %s up to %s, %d trials",
			b.FailureRatio, b.MinRequests, setting.Duration(b.Window), setting.Duration(b.OpenFor), setting.Duration(b.MaxOpenFor), b.HalfOpenMax)
	}
	if r := v.RateLimit; r != nil {
		text["rate_limit"] = fmt.Sprintf("%g a second, burst %d", r.PerSecond, r.Burst)
	}
	if b := v.RetryBudget; b != nil {
		text["retry_budget"] = fmt.Sprintf("%g of the first attempts and %g a second, within %s", b.Ratio, b.MinPerSecond, setting.Duration(b.Window))
		if v.BudgetStore != "" {
			text["retry_budget"] += ", counted in " + v.BudgetStore
		}
	}
	if h := v.Hedge; h != nil {
		text["hedge"] = fmt.Sprintf("after %s, at most %d", hedgeAfter(h), h.Max)
	}
	if b := v.Batch; b != nil {
		text["batch"] = fmt.Sprintf("up to %d messages or %s, after %s", b.MaxMessages, setting.Size(b.MaxBytes), setting.Duration(b.MaxWait))
	}
	var list []Setting
	for _, name := range []string{"circuit_breaker", "rate_limit", "retry_budget", "hedge", "batch"} {
		list = append(list, of(name, cmp.Or(text[name], "off")))
	}
	return append(list, of("idempotent", strconv.FormatBool(v.Idempotent)))
}

func orNone(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return setting.Duration(d).String()
}
