package egress

import (
	"net/http"
	"time"
)

// RetryAfter returns how long an answer that came at now asks to wait.
func RetryAfter(h http.Header, now time.Time) time.Duration { return retryAfter(h.Get, now) }

func retryAfter(get func(name string) string, now time.Time) time.Duration { return 0 }
