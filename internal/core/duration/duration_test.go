// What these tests would catch: a length of time that is written in another
// way than the configuration has it. That it reads back as it was written is
// tested where it is read, in the package setting.
package duration

import (
	"testing"
	"time"
)

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Nanosecond: "1ns", 250 * time.Millisecond: "250ms", time.Second: "1s", time.Minute: "1m", time.Hour: "1h",
		90 * time.Second: "1m30s", 90 * time.Minute: "1h30m", time.Hour + time.Second: "1h0m1s",
		Day: "1d", 36 * time.Hour: "1d12h", 31 * Day: "31d", Day + time.Second: "1d1s", 365*Day + 10*time.Minute: "365d10m",
		-time.Hour: "-1h0m0s",
	} {
		if got := Text(d); got != want {
			t.Errorf("%v is written %s, not %s", d, got, want)
		}
	}
}
