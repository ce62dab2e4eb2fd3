// Package duration reads and writes lengths of time as the configuration and the
// API have them: a Go duration with d for days, 250ms, 1m30s, 7d, 1d12h.
//
// The package is pure.
package duration

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Day is the unit that Go durations do not have.
const Day = 24 * time.Hour

// Text writes d as a Go duration with d for days and without the zeros behind:
// 250ms, 1m30s, 2h, 7d, 1d12h. It is the shortest form that the configuration
// reads back; a negative one, which that does not take, is a Go duration.
func Text(d time.Duration) string {
	if d <= 0 {
		return d.String()
	}
	var b strings.Builder
	if days := d / Day; days > 0 {
		b.WriteString(strconv.FormatInt(int64(days), 10) + "d")
		d -= days * Day
	}
	if d > 0 {
		s := d.String()
		if strings.HasSuffix(s, "m0s") {
			s = strings.TrimSuffix(s, "0s")
		}
		if strings.HasSuffix(s, "h0m") {
			s = strings.TrimSuffix(s, "0m")
		}
		b.WriteString(s)
	}
	return b.String()
}

// Parse reads what Text writes and any other Go duration, with d for days before
// it. A number without a unit is an error but for 0, and so are a negative one
// and one past 292 years; the error quotes s.
func Parse(s string) (time.Duration, error) {
	bad := func() (time.Duration, error) {
		return 0, fmt.Errorf("bad duration %q; write it like 250ms, 30s, 5m, 2h or 7d", s)
	}
	rest := strings.TrimSpace(s)
	if rest == "" {
		return bad()
	}
	if strings.HasPrefix(rest, "-") {
		return 0, fmt.Errorf("bad duration %q: it can't be negative", s)
	}
	var total time.Duration
	if n, after, ok := strings.Cut(rest, "d"); ok {
		days, err := strconv.ParseFloat(n, 64)
		if err != nil || days < 0 || math.IsNaN(days) || strings.ContainsAny(n, "eExXpP_+iInN") {
			return bad()
		}
		if days >= float64(math.MaxInt64)/float64(Day) {
			return 0, fmt.Errorf("bad duration %q: it is too long", s)
		}
		total = time.Duration(days * float64(Day))
		if rest = after; rest == "" {
			return total, nil
		}
	}
	if rest[0] == '+' || rest[0] == '-' {
		return bad()
	}
	t, err := time.ParseDuration(rest)
	if err != nil || t < 0 {
		return bad()
	}
	if t > math.MaxInt64-total {
		return 0, fmt.Errorf("bad duration %q: it is too long", s)
	}
	return total + t, nil
}
