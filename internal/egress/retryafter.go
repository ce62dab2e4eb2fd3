package egress

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

const (
	// maxRetryAfter bounds what an endpoint can ask for. Longer than a month is
	// a mistake or an attack on the arithmetic; policies cap far below it.
	maxRetryAfter = 30 * 24 * time.Hour
	// epochLike is the number of seconds from which a RateLimit-Reset, which
	// the drafts count from the answer, is read as a point in time by a server
	// that does not follow them. It says nothing here.
	epochLike = 1e9
)

// retryAfter returns how long an answer that came at now asks to wait, from 0
// (nothing, or a time that has passed) to 30 days.
//
// Retry-After is read first: seconds, or a date in any form of RFC 9110
// §5.6.7, counted from the answer's own Date where it has one, so that the two
// clocks need not agree. Without one that can be read it is the reset of a rate
// limit with nothing remaining: RateLimit-Reset (draft-ietf-httpapi-
// ratelimit-headers up to 06), or RateLimit with reset= (07) or t= (08 on).
func retryAfter(get func(name string) string, now time.Time) time.Duration {
	if value := get("Retry-After"); value != "" {
		if wait, ok := seconds(value); ok {
			return wait
		}
		if at, err := http.ParseTime(value); err == nil {
			if date, err := http.ParseTime(get("Date")); err == nil {
				now = date
			}
			return bounded(at.Sub(now))
		}
	}
	if value := get("RateLimit-Reset"); value != "" {
		if remaining, ok := seconds(get("RateLimit-Remaining")); ok && remaining > 0 {
			return 0
		}
		return reset(value)
	}
	return rateLimit(get("RateLimit"))
}

// rateLimit returns the longest wait among the limits of a RateLimit field
// that have nothing remaining: `limit=10, remaining=0, reset=50`, or
// `"burst";r=0;t=50, "day";r=20;t=600`.
func rateLimit(value string) time.Duration {
	var longest time.Duration
	for _, limit := range limits(value) {
		var wait time.Duration
		spent := false
		for _, parameter := range limit {
			name, number, _ := strings.Cut(strings.Trim(parameter, " \t"), "=")
			switch name {
			case "remaining", "r":
				n, ok := seconds(number)
				spent = ok && n == 0
			case "reset", "t":
				wait = reset(number)
			}
		}
		if spent {
			longest = max(longest, wait)
		}
	}
	return longest
}

// limits cuts a RateLimit field into its limits and those into parameters. The
// older form is one limit with commas between its parameters.
func limits(value string) [][]string {
	members := strings.Split(value, ",")
	if !strings.Contains(value, ";") {
		return [][]string{members}
	}
	cut := make([][]string, len(members))
	for i, m := range members {
		cut[i] = strings.Split(m, ";")
	}
	return cut
}

// reset reads the seconds until a limit is reset.
func reset(value string) time.Duration {
	value = strings.Trim(value, " \t")
	if n, err := strconv.ParseFloat(value, 64); err != nil || n >= epochLike {
		return 0
	}
	wait, _ := seconds(value)
	return wait
}

// seconds reads a number of seconds. Some servers give fractions, which are
// kept; a sign, an exponent or anything else is no number here.
func seconds(value string) (time.Duration, bool) {
	value = strings.Trim(value, " \t")
	if value == "" || strings.Trim(value, "0123456789.") != "" || value[0] == '.' {
		return 0, false
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil && !math.IsInf(n, 1) {
		return 0, false
	}
	if n >= maxRetryAfter.Seconds() {
		return maxRetryAfter, true
	}
	return time.Duration(n * float64(time.Second)), true
}

func bounded(wait time.Duration) time.Duration {
	return min(max(wait, 0), maxRetryAfter)
}
