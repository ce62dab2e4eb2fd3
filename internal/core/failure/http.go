package failure

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// FromStatus makes the failure of an HTTP answer that is not 2xx. retryAfter is
// what the answer asked to wait (zero: nothing).
//
// 408 carries timeout. Permanent are 3xx and 4xx other than 408, 425 and 429.
// The verdicts are those of relay.md §3: 5xx is Sick but for a 503 that asks to
// wait; 408, 425 and 429 are Neutral; 401, 403, 404 and 405 Suspect.
func FromStatus(code int, retryAfter time.Duration) *Error {
	e := &Error{
		Message:    strings.TrimSpace(fmt.Sprintf("HTTP %d %s", code, http.StatusText(code))),
		RetryAfter: max(retryAfter, 0),
		Throttled:  code == http.StatusTooManyRequests,
		Class:      Permanent,
		Verdict:    Alive,
	}
	exact := Tag(strconv.Itoa(code))
	switch {
	case code >= 500 && code < 600:
		e.Tags, e.Class, e.Verdict = Tags{Status5xx, exact}, Transient, Sick
		if code == http.StatusServiceUnavailable && retryAfter > 0 {
			e.Verdict = Neutral
		}
	case code == http.StatusRequestTimeout:
		e.Tags, e.Class, e.Verdict = Tags{Status4xx, Timeout, exact}, Transient, Neutral
	case code == http.StatusTooEarly, code == http.StatusTooManyRequests:
		e.Tags, e.Class, e.Verdict = Tags{Status4xx, exact}, Transient, Neutral
	case code >= 400 && code < 500:
		e.Tags = Tags{Status4xx, exact}
		switch code {
		case http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed:
			e.Verdict = Suspect
		}
	case code >= 300 && code < 400:
		e.Tags = Tags{Status3xx, exact}
	default:
		e.Tags, e.Class, e.Verdict = Tags{Broken}, Transient, Sick
		e.Message = fmt.Sprintf("HTTP answer with the impossible status %d", code)
	}
	return e
}
