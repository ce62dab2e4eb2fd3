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
	why := &httpapi.Explanation{Status: "queued", Causes: []httpapi.Cause{
		{Kind: "not_due", Text: "it is due in 30s"}, {Kind: "paused", Text: "the queue\x07 is paused"},
	}}
	var b strings.Builder
	add := func() { b.WriteString(strings.Join(blockLines(&j, why, now), "\n") + "\n\n") }
	add()
	j.Status, j.Attempt = "running", 3 // the explanation is of before
	add()
	j.Status, j.FinishedAt = "failed", new(httpapi.Time("2026-03-01T11:59:42.000Z"))
	add()
	golden(t, "jobs-watch-block", b.String())
}

func TestBlockDraw(t *testing.T) {
	var out bytes.Buffer
	width := 6
	b := &block{out: &out, width: func() int { return width }}
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
