package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/httpapi"
)

func TestBlockLines(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	j := httpapi.Job{
		ID: "job_1", Queue: "emails", Task: "welcome\x1b[2J", Status: "queued", CreatedAt: "2026-03-01T11:59:00.000Z", RunAt: "2026-03-01T12:00:30.000Z",
		Attempt: 2, AttemptsCharged: 1, Retry: httpapi.Policy{MaxAttempts: 5}, LastError: &httpapi.Error{Type: "HttpError", Message: "503"},
	}
	why := &waiting{Explanation: httpapi.Explanation{Status: "queued", Causes: []httpapi.Cause{
		{Kind: "not_due", Text: "it is due in 30s"}, {Kind: "paused", Text: "the queue\x07 is paused"},
	}}}
	var b strings.Builder
	add := func() { b.WriteString(strings.Join(blockLines(&j, why, now), "\n") + "\n\n") }
	add()
	told := why
	why = &waiting{err: &refusal{Status: 403, Title: "forbidden", Detail: "the key lacks the scope operate"}}
	add()
	why = told
	j.Status, j.Attempt = "running", 3 // the explanation is of before
	add()
	j.Status, j.FinishedAt = "failed", new(httpapi.Time("2026-03-01T11:59:42.000Z"))
	add()
	golden(t, "jobs-watch-block", b.String())
}

func TestBlockDraw(t *testing.T) {
	var out bytes.Buffer
	width, height := 6, 24
	b := &block{out: &out, size: func() (int, int) { return width, height }}
	for _, step := range []struct {
		width int
		lines []string
		want  string
	}{
		{6, []string{"status queued", "ab"}, "\x1b[?7l\x1b[2Kstatus\n\x1b[2Kab\n\x1b[0J\x1b[?7h"},
		{6, []string{"done"}, "\x1b[2A\r\x1b[?7l\x1b[2Kdone\n\x1b[0J\x1b[?7h"},
		{3, []string{"ä"}, "\x1b[2A\r\x1b[?7l\x1b[2Kä\n\x1b[0J\x1b[?7h"}, // done has wrapped
	} {
		out.Reset()
		width = step.width
		if err := b.draw(step.lines, "\x1b[32m"); err != nil || out.String() != step.want {
			t.Errorf("%q, want %q (%v)", out.String(), step.want, err)
		}
	}
	// A terminal of three lines has room for two.
	b.leave()
	width, height = 80, 3
	for _, want := range []string{
		"\x1b[?7l\x1b[2Ka\n\x1b[2K… and 3 lines more\n\x1b[0J\x1b[?7h", "\x1b[2A\r\x1b[?7l\x1b[2Ka\n\x1b[2K… and 3 lines more\n\x1b[0J\x1b[?7h",
	} {
		out.Reset()
		if err := b.draw([]string{"a", "b", "c", "d"}, ""); err != nil || out.String() != want {
			t.Errorf("too low: %q, want %q (%v)", out.String(), want, err)
		}
	}
	height = 2 // made lower: what scrolled away stays
	out.Reset()
	if err := b.draw([]string{"a"}, ""); err != nil || out.String() != "\x1b[1A\r\x1b[?7l\x1b[2Ka\n\x1b[0J\x1b[?7h" {
		t.Errorf("made lower: %q, %v", out.String(), err)
	}
	height = 24
	b.leave()
	b.coloured = true
	out.Reset()
	if err := b.draw([]string{"ok"}, "\x1b[32m"); err != nil || out.String() != "\x1b[?7l\x1b[2K\x1b[32mok\x1b[0m\n\x1b[0J\x1b[?7h" {
		t.Errorf("coloured: %q, %v", out.String(), err)
	}
}

// TestJobsWatchJSON has one object for each change, and none where nothing has.
func TestJobsWatchJSON(t *testing.T) {
	states := []string{"queued", "queued", "running", "running", "failed"}
	n := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { n++; writeJob(w, states[n-1]) }))
	t.Cleanup(server.Close)
	code, out, errOut := call(t, "", "jobs", "watch", "job_1", "--json", "--server", server.URL, "--key-file", keyIn(t, "pawl_x"))
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != exitNo || len(lines) != 3 {
		t.Fatalf("exit %d: %s%s", code, out, errOut)
	}
	for i, want := range []string{"queued", "running", "failed"} {
		if !strings.Contains(lines[i], `"status":"`+want+`"`) {
			t.Errorf("line %d is not %s: %s", i+1, want, lines[i])
		}
	}
}

// A client whose clock is wrong shows the server's times.
func TestTheServersClockIsShown(t *testing.T) {
	at := time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Date", at.Format(http.TimeFormat))
		_, _ = w.Write([]byte("{}"))
	}))
	t.Cleanup(server.Close)
	c := newAPIClient(server.URL, "", http.DefaultTransport)
	if c.Now().Year() < 2026 {
		t.Errorf("before any answer it is %s", c.Now())
	}
	if err := c.Do(t.Context(), http.MethodGet, "/", nil, nil); err != nil {
		t.Fatal(err)
	}
	if now := c.Now(); now.Before(at) || now.Sub(at) > time.Hour {
		t.Errorf("after the answer it is %s", now)
	}
}

func TestBlockLinesAreBroken(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"waits    short", 20, "waits    short"},
		{"waits    one two three four", 20, "waits    one two|         three four"},
		{"waits    one two three four", 19, "waits    one two|         three four"},
		{"waits    one " + strings.Repeat("x", 30), 20, "waits    one|         " + strings.Repeat("x", 30)}, // cut when it is drawn
		{"waits    äää äää äää", 21, "waits    äää äää äää"},
		{"waits    one two three four", 18, "waits    one two three four"}, // too narrow to be of use
	} {
		if got := strings.Join(wrap(c.text, c.width), "|"); got != c.want {
			t.Errorf("%q at %d: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}
