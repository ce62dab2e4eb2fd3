// These tests catch a text of a worker that a store or a reader refuses, one
// that passes its limit or is cut within a character, and a change that nobody
// is told of.
package job_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
)

func TestCleanText(t *testing.T) {
	for _, c := range []struct {
		name, in string
		limit    int
		want     string
		did      job.Cleaned
	}{
		{"nothing", "", 8, "", job.Cleaned{}},
		{"clean", "zwölf", 8, "zwölf", job.Cleaned{}},
		{"to the limit", "zwölf", 6, "zwölf", job.Cleaned{}},
		{"cut", "zwölf", 5, "zwöl", job.Cleaned{Cut: true}},
		{"cut before a character that does not fit", "zwölf", 3, "zw", job.Cleaned{Cut: true}},
		{"nothing fits", "ö", 1, "", job.Cleaned{Cut: true}},
		{"NUL", "a\x00b\x00\x00", 20, "a�b��", job.Cleaned{Replaced: true}},
		{"no UTF-8", "a\xff\xfe\xfdb", 20, "a�b", job.Cleaned{Replaced: true}},
		{"half a character", "a\xc3", 20, "a�", job.Cleaned{Replaced: true}},
		{"a surrogate", "a\xed\xa0\x80b", 20, "a�b", job.Cleaned{Replaced: true}},
		{"the sign itself is text", "a�b", 20, "a�b", job.Cleaned{}},
		{"the sign beside bytes", "\xff�\xff", 20, "���", job.Cleaned{Replaced: true}},
		{"longer by the sign", "\x00\x00\x00", 6, "��", job.Cleaned{Replaced: true, Cut: true}},
		{"cut first, replaced behind the cut", "abc\xff", 3, "abc", job.Cleaned{Replaced: true, Cut: true}},
		{"other controls stay", "a\x1b[31m\tb\n", 20, "a\x1b[31m\tb\n", job.Cleaned{}},
	} {
		got, did := job.CleanText(c.in, c.limit)
		if got != c.want || did != c.did {
			t.Errorf("%s: %q, %+v; want %q, %+v", c.name, got, did, c.want, c.did)
		}
	}
}

func FuzzCleanText(f *testing.F) {
	f.Add("zwölf\x00\xff", 5)
	f.Add("a\xed\xa0\x80b", 4)
	f.Fuzz(func(t *testing.T, in string, limit int) {
		limit = min(max(limit, 0), 1000)
		got, did := job.CleanText(in, limit)
		if len(got) > limit || !utf8.ValidString(got) || strings.Contains(got, "\x00") {
			t.Errorf("%q at %d is %q", in, limit, got)
		}
		if (did == job.Cleaned{}) != (got == in) {
			t.Errorf("%q at %d became %q by %+v", in, limit, got, did)
		}
		if again, more := job.CleanText(got, limit); again != got || more != (job.Cleaned{}) {
			t.Errorf("%q is not clean: %q, %+v", got, again, more)
		}
		// What was cut would not have fitted whole.
		if whole, _ := job.CleanText(in, 4*len(in)); did.Cut && len(whole) <= limit || !strings.HasPrefix(whole, got) {
			t.Errorf("%q at %d was cut to %q", in, limit, got)
		}
	})
}

func TestCleanError(t *testing.T) {
	long := strings.Repeat("é", 40<<10)
	for _, c := range []struct {
		name     string
		in, want job.Error
		note     string
	}{
		{"clean", job.Error{Type: "HttpError", Message: "503", Stack: "at 1"}, job.Error{Type: "HttpError", Message: "503", Stack: "at 1"}, ""},
		{"all too long",
			job.Error{Type: long, Message: long, Stack: long},
			job.Error{Type: long[:256], Message: long[:8<<10], Stack: long[:32<<10]},
			"the error's type of 81920 bytes was cut to 256; the error's message of 81920 bytes was cut to 8192; the error's stack of 81920 bytes was cut to 32768"},
		{"no text and too long",
			job.Error{Message: "\x00" + long},
			job.Error{Message: "�" + long[:8<<10-4]},
			"the error's message had bytes that are no text; the error's message of 81921 bytes was cut to 8191"},
	} {
		got, note := c.in.Clean()
		if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got)\n%s", c.name, d)
		}
		if note != c.note {
			t.Errorf("%s: the note is %q, want %q", c.name, note, c.note)
		}
	}
}

func TestCleanLogLine(t *testing.T) {
	long := strings.Repeat("é", 8<<10)
	in := job.LogLine{Seq: 3, At: time.Unix(1, 0), Level: "in\x00fo" + strings.Repeat("x", 40), Message: long}
	const mark = "… (cut)"
	want := job.LogLine{Seq: 3, At: time.Unix(1, 0), Level: "in�fo" + strings.Repeat("x", 25), Message: long[:8<<10-10] + mark}
	got := in.Clean()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if len(got.Message) > job.MaxLogMessage || len(got.Level) > job.MaxLogLevel {
		t.Errorf("%d bytes of message, %d of level", len(got.Message), len(got.Level))
	}
	fits := job.LogLine{Seq: 4, Level: "info", Message: long[:8<<10]}
	if d := cmp.Diff(fits, fits.Clean()); d != "" {
		t.Errorf("a line that fits (-want +got)\n%s", d)
	}
}
