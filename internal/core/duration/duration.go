// Package duration writes lengths of time as the configuration has them.
//
// The package is pure.
package duration

import (
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
