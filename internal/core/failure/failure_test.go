// These tests catch a status that gets the wrong tags, class or verdict (and so
// is retried or opens a breaker when it must not), a tag with the wrong rank
// (and so the wrong list wins), and an error that loses its cause on the way.
package failure_test

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/failure"
)

func TestRank(t *testing.T) {
	for rank, tags := range map[failure.Rank]failure.Tags{
		failure.RankClass: {"3xx", "4xx", "5xx", "grpc", "kafka", "mqtt", "ws", "smtp", "amqp", "redis", "nats", "file", "queue"},
		failure.RankKind: {"connect", "dns", "tls", "timeout", "broken", "refused", "transform",
			"expired", "cancelled"},
		failure.RankExact: {"100", "301", "404", "408", "429", "503", "599", "grpc:UNAVAILABLE", "file:ENOSPC",
			"ws:close_1011", "kafka:NOT_LEADER_FOR_PARTITION", "mqtt:0x88", "smtp:421", "redis:LOADING", "queue:full"},
	} {
		for _, tag := range tags {
			if got := tag.Rank(); got != rank {
				t.Errorf("%s has rank %d, want %d", tag, got, rank)
			}
			if !tag.Valid() {
				t.Errorf("%s is not valid", tag)
			}
		}
	}
}

func TestKnownTagsAreValidWords(t *testing.T) {
	known := failure.Known()
	if len(known) != 22 {
		t.Errorf("%d known tags, want 12 words and 10 protocols", len(known))
	}
	for _, tag := range known {
		if !tag.Valid() || tag.Rank() == failure.RankExact {
			t.Errorf("%s: valid %v, rank %d", tag, tag.Valid(), tag.Rank())
		}
	}
}

func TestInvalidTags(t *testing.T) {
	for _, tag := range []failure.Tag{"", "2xx", "6xx", "5XX", "099", "600", "50", "5033", "5o3", " 503", "Connect",
		"grpc:", ":UNAVAILABLE", "http:503", "grpc UNAVAILABLE", "timeouts"} {
		if tag.Valid() {
			t.Errorf("%q is valid", tag)
		}
	}
}

func TestProtocol(t *testing.T) {
	for tag, want := range map[failure.Tag]string{"grpc:UNAVAILABLE": "grpc", "grpc": "", "503": "", "a:b:c": "a"} {
		if got := tag.Protocol(); got != want {
			t.Errorf("%s: protocol %q, want %q", tag, got, want)
		}
	}
}

func TestHighest(t *testing.T) {
	tags := failure.Tags{"4xx", "timeout", "408"}
	for _, c := range []struct {
		list failure.Tags
		want failure.Rank
	}{
		{nil, 0}, {failure.Tags{"5xx", "503"}, 0}, {failure.Tags{"4xx"}, 1},
		{failure.Tags{"timeout", "4xx"}, 2}, {failure.Tags{"4xx", "408"}, 3}, {failure.Tags{"409", "4xx"}, 1},
	} {
		if got := tags.Highest(c.list); got != c.want {
			t.Errorf("highest of %v in %v is %d, want %d", tags, c.list, got, c.want)
		}
	}
}

// TestFromStatusEveryStatus says each rule of relay.md §3 again, in other words
// than the code.
func TestFromStatusEveryStatus(t *testing.T) {
	in := func(code int, list ...int) bool {
		for _, c := range list {
			if c == code {
				return true
			}
		}
		return false
	}
	for code := 300; code <= 599; code++ {
		for _, after := range []time.Duration{-time.Second, 0, time.Minute} {
			e := failure.FromStatus(code, after)

			want := failure.Tags{failure.Tag(strconv.Itoa(code/100) + "xx")}
			if code == 408 {
				want = append(want, failure.Timeout)
			}
			want = append(want, failure.Tag(strconv.Itoa(code)))
			if diff := cmp.Diff(want, e.Tags); diff != "" {
				t.Errorf("%d: tags (-want +got)\n%s", code, diff)
			}

			class := failure.Permanent
			if code >= 500 || in(code, 408, 425, 429) {
				class = failure.Transient
			}
			if e.Class != class {
				t.Errorf("%d: class %v, want %v", code, e.Class, class)
			}

			verdict := failure.Alive
			switch {
			case in(code, 408, 425, 429), code == 503 && after > 0:
				verdict = failure.Neutral
			case code >= 500:
				verdict = failure.Sick
			case in(code, 401, 403, 404, 405):
				verdict = failure.Suspect
			}
			if e.Verdict != verdict {
				t.Errorf("%d, Retry-After %v: verdict %v, want %v", code, after, e.Verdict, verdict)
			}

			if e.Throttled != (code == 429) {
				t.Errorf("%d: throttled %v", code, e.Throttled)
			}
			if e.RetryAfter != max(after, 0) {
				t.Errorf("%d: Retry-After %v, want %v", code, e.RetryAfter, after)
			}
			if !strings.HasPrefix(e.Error(), fmt.Sprintf("HTTP %d", code)) || strings.TrimSpace(e.Error()) != e.Error() {
				t.Errorf("%d: message %q", code, e.Error())
			}
			for _, tag := range e.Tags {
				if !tag.Valid() {
					t.Errorf("%d: tag %q is not valid", code, tag)
				}
			}
		}
	}
}

func TestFromStatusImpossible(t *testing.T) {
	codes := []int{-1, 0, 99, 600, 999}
	for code := 100; code < 300; code++ {
		codes = append(codes, code)
	}
	for _, code := range codes {
		e := failure.FromStatus(code, 0)
		if !e.Tags.Has(failure.Broken) || len(e.Tags) != 1 || e.Class != failure.Transient || e.Verdict != failure.Sick {
			t.Errorf("%d: %+v", code, e)
		}
	}
}

func TestFrom(t *testing.T) {
	if failure.From(nil) != nil {
		t.Error("nil became a failure")
	}
	e := &failure.Error{Tags: failure.Tags{failure.DNS}, Err: io.EOF}
	if got := failure.From(fmt.Errorf("outside: %w", e)); got != e {
		t.Errorf("a wrapped failure came back as %+v", got)
	}
	if !errors.Is(e, io.EOF) {
		t.Error("the cause is lost")
	}
	got := failure.From(io.EOF)
	if got.Class != failure.Transient || got.Verdict != failure.Neutral || len(got.Tags) != 0 || got.Error() != "EOF" || !errors.Is(got, io.EOF) {
		t.Errorf("an unclassified error became %+v", got)
	}
}

func TestErrorText(t *testing.T) {
	for want, e := range map[string]*failure.Error{
		"said":         {Message: "said", Err: io.EOF},
		"EOF":          {Err: io.EOF},
		"connect, dns": {Tags: failure.Tags{failure.Connect, failure.DNS}},
	} {
		if e.Error() != want {
			t.Errorf("text %q, want %q", e.Error(), want)
		}
	}
}
