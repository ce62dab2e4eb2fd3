package explain

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/setting"
)

// Failure is what a failure means here.
type Failure struct {
	Tags    failure.Tags `json:"tags"`
	Class   string       `json:"class"`
	Retried bool         `json:"retried"`
	// Because says which list or class decides, and by which tag.
	Because string `json:"because"`
	// Breaker says what it means to the circuit breaker.
	Breaker string `json:"breaker"`
	// Hold is how long the endpoint is left alone by every message.
	Hold setting.Duration `json:"hold,omitzero"`
	// Delivered says that delivered_on makes a success of it, of a group that of
	// any member.
	Delivered bool `json:"delivered,omitzero"`
}

func judge(d *config.Destination, f *failure.Error) *Failure {
	p := d.Delivery.Retry
	why := p.Retryable(f)
	return &Failure{
		Tags: f.Tags, Class: f.Class.String(), Retried: why.Retried(), Because: why.String(),
		Breaker:   breakerWords(d, f),
		Hold:      setting.Duration(p.Decide(f, 1, 0).Hold),
		Delivered: delivers(d, f),
	}
}

// delivers reports whether an endpoint of d takes f for a success: a group's
// message goes on to that member, or the retrying ends there.
func delivers(d *config.Destination, f *failure.Error) bool {
	if d.Group == nil {
		return f.Tags.Highest(d.Delivery.DeliveredOn) > 0
	}
	return slices.ContainsFunc(d.Group.Members, func(m config.Member) bool { return f.Tags.Highest(m.Delivery.DeliveredOn) > 0 })
}

// guarded reports whether an endpoint of d has a breaker.
func guarded(d *config.Destination) bool {
	if d.Group == nil {
		return d.Delivery.Breaker != nil
	}
	return slices.ContainsFunc(d.Group.Members, func(m config.Member) bool { return m.Delivery.Breaker != nil })
}

func breakerWords(d *config.Destination, f *failure.Error) string {
	if !guarded(d) {
		return "off"
	}
	switch f.Verdict {
	case failure.Sick:
		return "counts as a failure"
	case failure.Suspect:
		return "counts as a failure if the endpoint answered well within the window"
	case failure.Neutral:
		return "says nothing"
	case failure.Alive:
		return "says that the endpoint is alive"
	}
	return f.Verdict.String()
}

// ParseFailure reads a failure as people write it: a status (503), or tags
// (connect, dns, tls, timeout, grpc:UNAVAILABLE) with commas between, and
// retry-after=SECONDS or a duration.
func ParseFailure(s string) (*failure.Error, error) {
	var tags failure.Tags
	var after time.Duration
	for word := range strings.SplitSeq(s, ",") {
		word = strings.TrimSpace(word)
		if text, ok := strings.CutPrefix(word, "retry-after="); ok {
			d, err := retryAfter(text)
			if err != nil {
				return nil, err
			}
			after = d
			continue
		}
		t := failure.Tag(word)
		if !t.Valid() {
			return nil, fmt.Errorf("bad failure %q: %q is no tag; write a status such as 503, or one of connect, dns, tls, timeout, and retry-after=30", s, word)
		}
		tags = append(tags, t)
	}
	if len(tags) == 0 {
		return nil, fmt.Errorf("bad failure %q: it names no status or tag; write it like 503,retry-after=120", s)
	}
	return failureOf(tags, after), nil
}

func retryAfter(text string) (time.Duration, error) {
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second, nil
	}
	d, err := setting.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("bad retry-after %q: write seconds or a duration such as 2m", text)
	}
	return d.D(), nil
}

// failureOf makes the failure that an adapter or the engine would make of the
// tags. A status brings its class and its broader tags along.
func failureOf(tags failure.Tags, after time.Duration) *failure.Error {
	f := &failure.Error{RetryAfter: after, Message: tags.String()}
	for _, t := range tags {
		code, err := strconv.Atoi(string(t))
		if err == nil && code >= http.StatusMultipleChoices {
			f = failure.FromStatus(code, after)
			break
		}
	}
	for _, t := range tags {
		if t == failure.DNS {
			f.Tags = with(f.Tags, failure.Connect)
		}
		f.Tags = with(f.Tags, t)
		switch t {
		case failure.TLS:
			f.Class, f.Verdict = failure.Permanent, failure.Suspect
		case failure.Expired, failure.Transform:
			f.Class, f.Verdict = failure.Permanent, failure.Neutral
		case failure.Status3xx, failure.Status4xx:
			if len(tags) == 1 {
				f.Class, f.Verdict = failure.Permanent, failure.Alive
			}
		case failure.Refused:
			f.Verdict = failure.Alive
		case failure.Cancelled:
			f.Verdict = failure.Neutral
		}
	}
	return f
}

func with(tags failure.Tags, t failure.Tag) failure.Tags {
	if tags.Has(t) {
		return tags
	}
	return append(tags, t)
}
