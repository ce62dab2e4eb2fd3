package breaker_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
)

func TestCheck(t *testing.T) {
	set := func(change func(*breaker.Settings)) breaker.Settings {
		s := breaker.Defaults()
		change(&s)
		return s
	}
	for _, c := range []struct {
		s    breaker.Settings
		want string
	}{
		{breaker.Defaults(), ""},
		{set(func(s *breaker.Settings) {
			s.FailureRatio = 1
			s.MinRequests = 1
			s.HalfOpenMax = 1
			s.MaxOpenFor = s.OpenFor
		}), ""},
		{set(func(s *breaker.Settings) { s.FailureRatio = 0 }), "failure_ratio"},
		{set(func(s *breaker.Settings) { s.FailureRatio = 1.01 }), "failure_ratio"},
		{set(func(s *breaker.Settings) { s.FailureRatio = math.NaN() }), "failure_ratio"},
		{set(func(s *breaker.Settings) { s.MinRequests = 0 }), "min_requests"},
		{set(func(s *breaker.Settings) { s.MinRequests = 100_001 }), "min_requests"},
		{set(func(s *breaker.Settings) { s.Window = 99 * ms }), "window"},
		{set(func(s *breaker.Settings) { s.Window = 25 * time.Hour }), "window"},
		{set(func(s *breaker.Settings) { s.OpenFor = 0 }), "open_for"},
		{set(func(s *breaker.Settings) { s.OpenFor, s.MaxOpenFor = 25*time.Hour, 25*time.Hour }), "open_for max_open_for"},
		{set(func(s *breaker.Settings) { s.MaxOpenFor = 4 * sec }), "max_open_for"},
		{set(func(s *breaker.Settings) { s.HalfOpenMax = 0 }), "half_open_max"},
		{set(func(s *breaker.Settings) { s.HalfOpenMax = 1001 }), "half_open_max"},
		{breaker.Settings{}, "failure_ratio min_requests window open_for half_open_max"},
	} {
		var fields []string
		for _, p := range c.s.Check() {
			fields = append(fields, p.Field)
			if p.Message == "" {
				t.Errorf("%s: no message", p.Field)
			}
		}
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("%+v: problems with %q, want %q", c.s, got, c.want)
		}
	}
}
