package egress

import (
	"net/http"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/failure"
)

var noon = time.Date(2026, time.November, 8, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	const month = 30 * 24 * time.Hour
	for _, test := range []struct {
		name string
		h    http.Header
		want time.Duration
	}{
		{"nothing", http.Header{}, 0},
		{"seconds", http.Header{"Retry-After": {"120"}}, 2 * time.Minute},
		{"seconds with spaces", http.Header{"Retry-After": {" 7 "}}, 7 * time.Second},
		{"fraction", http.Header{"Retry-After": {"0.25"}}, 250 * time.Millisecond},
		{"zero", http.Header{"Retry-After": {"0"}, "Ratelimit-Reset": {"9"}}, 0},
		{"negative", http.Header{"Retry-After": {"-5"}}, 0},
		{"exponent", http.Header{"Retry-After": {"1e9"}}, 0},
		{"not a number", http.Header{"Retry-After": {"NaN"}}, 0},
		{"infinite", http.Header{"Retry-After": {"Inf"}}, 0},
		{"words", http.Header{"Retry-After": {"soon"}}, 0},
		{"too long", http.Header{"Retry-After": {"2592001"}}, month},
		{"far too long", http.Header{"Retry-After": {"99999999999999999999999999"}}, month},
		{"date", http.Header{"Retry-After": {"Sun, 08 Nov 2026 12:01:00 GMT"}}, time.Minute},
		{"date of RFC 850", http.Header{"Retry-After": {"Sunday, 08-Nov-26 12:01:00 GMT"}}, time.Minute},
		{"date of asctime", http.Header{"Retry-After": {"Sun Nov  8 12:01:00 2026"}}, time.Minute},
		{"past", http.Header{"Retry-After": {"Sun, 08 Nov 2026 11:59:00 GMT"}}, 0},
		{"date far away", http.Header{"Retry-After": {"Fri, 31 Dec 9999 23:59:59 GMT"}}, month},
		{"against the answer's clock", http.Header{"Retry-After": {"Sun, 08 Nov 2026 15:00:30 GMT"}, "Date": {"Sun, 08 Nov 2026 15:00:00 GMT"}}, 30 * time.Second},
		{"with a broken Date", http.Header{"Retry-After": {"Sun, 08 Nov 2026 12:01:00 GMT"}, "Date": {"today"}}, time.Minute},
		{"reset", http.Header{"Ratelimit-Reset": {"50"}}, 50 * time.Second},
		{"reset, none remaining", http.Header{"Ratelimit-Reset": {"50"}, "Ratelimit-Remaining": {"0"}}, 50 * time.Second},
		{"reset, some remaining", http.Header{"Ratelimit-Reset": {"50"}, "Ratelimit-Remaining": {"3"}}, 0},
		{"reset as a point in time", http.Header{"Ratelimit-Reset": {"1794139200"}}, 0},
		{"reset beside a Retry-After", http.Header{"Retry-After": {"3"}, "Ratelimit-Reset": {"50"}}, 3 * time.Second},
		{"reset beside a broken Retry-After", http.Header{"Retry-After": {"soon"}, "Ratelimit-Reset": {"50"}}, 50 * time.Second},
		{"not the standard's", http.Header{"X-Ratelimit-Reset": {"50"}}, 0},
		{"one field", http.Header{"Ratelimit": {"limit=100, remaining=0, reset=50"}}, 50 * time.Second},
		{"one field, some remaining", http.Header{"Ratelimit": {"limit=100, remaining=1, reset=50"}}, 0},
		{"items", http.Header{"Ratelimit": {`"burst";r=0;t=50`}}, 50 * time.Second},
		{"items, one spent", http.Header{"Ratelimit": {`"burst";r=0;t=50, "day";r=20;t=6000`}}, 50 * time.Second},
		{"items, two spent", http.Header{"Ratelimit": {`"burst"; r=0; t=50, "day"; r=0; t=600`}}, 10 * time.Minute},
		{"items, none spent", http.Header{"Ratelimit": {`"burst";r=9;t=50`}}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := retryAfter(test.h.Get, noon); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestFailureOfAnswer(t *testing.T) {
	for status := 200; status < 300; status++ {
		if e := Failure(&Response{Status: status}, noon); e != nil {
			t.Errorf("%d is the failure %v", status, e)
		}
	}
	e := Failure(&Response{Status: 503, fields: "Retry-After: 9\r\n"}, noon)
	wantFailure(t, e, failure.Transient, failure.Neutral, failure.Status5xx, "503")
	if e.RetryAfter != 9*time.Second {
		t.Errorf("waits %v, want the answer's 9 s", e.RetryAfter)
	}
	wantFailure(t, Failure(&Response{Status: 503}, noon), failure.Transient, failure.Sick, failure.Status5xx, "503")
	wantFailure(t, Failure(&Response{Status: 302}, noon), failure.Permanent, failure.Alive, failure.Status3xx, "302")
}

// Whatever a server writes there, the wait is from 0 to 30 days.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "", "", "", "")
	f.Add("Sun, 08 Nov 2026 12:01:00 GMT", "Sun, 08 Nov 2026 12:00:00 GMT", "", "", "")
	f.Add("", "", "50", "0", "")
	f.Add("", "", "", "", `"burst";r=0;t=50, "day";r=0;t=600`)
	f.Add("9e99", "\x00", "1.", "..", "limit=,remaining=0,reset=0.1")
	f.Fuzz(func(t *testing.T, after, date, reset, remaining, limit string) {
		h := http.Header{
			"Retry-After": {after}, "Date": {date}, "Ratelimit-Reset": {reset},
			"Ratelimit-Remaining": {remaining}, "Ratelimit": {limit},
		}
		if wait := retryAfter(h.Get, noon); wait < 0 || wait > maxRetryAfter {
			t.Errorf("%v for %q", wait, h)
		}
	})
}
