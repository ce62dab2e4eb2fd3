// Package explain says what would happen to a message at a destination: the
// schedule of its attempts, which list decides about a failure, and the path to
// the dead letters. It asks the code that the engine asks (core/retry,
// core/backoff), so that the policy on paper is the policy in force.
package explain

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/chain"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/setting"
)

// Explanation is what would happen at one destination.
type Explanation struct {
	Destination string `json:"destination"`
	Type        string `json:"type"`
	// Failure is what was asked about, and what decides; nil where nothing was.
	Failure *Failure `json:"failure,omitzero"`
	// Attempts is the schedule as long as the failure goes on.
	Attempts []Attempt `json:"attempts"`
	// Reason is why the destination is left after the last attempt.
	Reason string `json:"reason"`
	// GivenUpAfter bounds the time from the first attempt to the hop, where
	// each attempt fails at once (Earliest) or takes its whole timeout (Latest).
	GivenUpAfter Window `json:"given_up_after"`
	// Path is where the message goes from here: the fallbacks in order, and
	// "dead letters".
	Path []string `json:"path"`
	// Budget is what the retry budget allows; nil without one.
	Budget *Budget `json:"retry_budget,omitzero"`
	// Queue is what becomes of long waits where a queue feeds the destination;
	// nil where none does.
	Queue *Queue `json:"queue,omitzero"`
	// Settings are the numbers that decide, and the level each comes from.
	Settings []Setting `json:"settings"`
}

// Budget says how many retries all messages together may make in any stretch of
// Window: Ratio for each first attempt in it, and Floor. Past that a message
// leaves the destination, instead of waiting for its next attempt.
type Budget struct {
	Ratio  float64          `json:"ratio"`
	Floor  float64          `json:"floor"`
	Window setting.Duration `json:"window"`
}

// Attempt is one try of the schedule.
type Attempt struct {
	Number int `json:"attempt"`
	// Wait is how long the one before has failed when this one begins: the
	// backoff, and the wait for the rate limit where nothing else is sent.
	Wait Window `json:"wait"`
	// Since is the time from the beginning of the first attempt, where each
	// fails at once.
	Since Window `json:"since_first"`
}

// Window is a time that jitter moves.
type Window struct {
	Earliest setting.Duration `json:"earliest"`
	Latest   setting.Duration `json:"latest"`
}

func (w Window) add(o Window) Window {
	return Window{w.Earliest + o.Earliest, w.Latest + o.Latest}
}

// Queue says which waits are not made here, for messages of a durable queue
// that this destination is the last of a chain for: they go back to the queue
// for that time, and the attempts then begin anew. One with several required
// destinations waits here for as long as it takes.
type Queue struct {
	// Sources are those whose messages come from a queue.
	Sources []string `json:"sources"`
	// MaxWait is the longest wait that is made here.
	MaxWait setting.Duration `json:"max_wait"`
	// Attempt is the first one of the schedule whose wait may be longer; 0 where
	// none is, and only an open breaker or a hold sends a message back.
	Attempt int `json:"attempt,omitzero"`
}

// queueType is the type of the sources that take from a queue.
const queueType = "queue"

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
	// Delivered says that delivered_on makes a success of it.
	Delivered bool `json:"delivered,omitzero"`
}

// Setting is one number and where it comes from.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	From  string `json:"from"`
}

// Destination explains the destination with the name. f is the failure that
// every attempt is to end with; nil is a transient one without a Retry-After.
func Destination(c *config.Config, name string, f *failure.Error) (Explanation, error) {
	d, ok := c.Destination(name)
	if !ok {
		return Explanation{}, fmt.Errorf("no destination %q is configured", name)
	}
	on, err := path(c, d)
	if err != nil {
		return Explanation{}, err
	}
	e := Explanation{Destination: name, Type: d.Type, Path: on, Settings: settings(d)}
	if b := d.Delivery.RetryBudget; b != nil {
		e.Budget = &Budget{Ratio: b.Ratio, Floor: b.MinPerSecond * b.Window.Seconds(), Window: setting.Duration(b.Window)}
	}
	if f != nil {
		e.Failure = judge(d, f)
	} else {
		f = &failure.Error{Class: failure.Transient, Tags: failure.Tags{}}
	}
	e.schedule(d, f)
	e.Queue, err = fedByQueue(c, d, e.Attempts)
	return e, err
}

// fedByQueue says what a queue means to the waits of d.
func fedByQueue(c *config.Config, d *config.Destination, attempts []Attempt) (*Queue, error) {
	q := &Queue{MaxWait: setting.Duration(connector.MaxWait)}
	for i := range c.Routes {
		r := &c.Routes[i]
		ends, err := endsAt(c, r, d.Name)
		if err != nil {
			return nil, err
		}
		for _, from := range r.From {
			s, ok := c.Source(from)
			if ends && ok && (s.Type == queueType || s.Ack == config.AckStored) && !slices.Contains(q.Sources, from) {
				q.Sources = append(q.Sources, from)
			}
		}
	}
	if len(q.Sources) == 0 {
		return nil, nil
	}
	for _, a := range attempts {
		if a.Wait.Latest > q.MaxWait {
			q.Attempt = a.Number
			break
		}
	}
	return q, nil
}

// endsAt reports whether the chain of a required destination of the route ends
// at the name: it has nowhere else to go from there.
func endsAt(c *config.Config, r *config.Route, name string) (bool, error) {
	for _, t := range r.Targets() {
		chain, err := links(c, t.Destination)
		if err != nil {
			return false, err
		}
		if t.Need == config.Required && chain[len(chain)-1].Name == name {
			return true, nil
		}
	}
	return false, nil
}

func judge(d *config.Destination, f *failure.Error) *Failure {
	p := d.Delivery.Retry
	why := p.Retryable(f)
	return &Failure{
		Tags: f.Tags, Class: f.Class.String(), Retried: why.Retried(), Because: why.String(),
		Breaker:   breakerWords(d, f),
		Hold:      setting.Duration(p.Decide(f, 1, 0).Hold),
		Delivered: f.Tags.Highest(d.Delivery.DeliveredOn) > 0,
	}
}

func breakerWords(d *config.Destination, f *failure.Error) string {
	if d.Delivery.Breaker == nil {
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

// schedule fills in the attempts as the engine would make them.
func (e *Explanation) schedule(d *config.Destination, f *failure.Error) {
	v := &d.Delivery
	e.Attempts = []Attempt{{Number: 1}}
	slow := setting.Duration(v.Timeout) // of the first attempt
	if f.Tags.Highest(v.DeliveredOn) > 0 {
		e.Reason, e.Path = "delivered (delivered_on)", nil
		return
	}
	var since Window
	early, late := newPace(v.RateLimit), newPace(v.RateLimit)
	for n := 1; ; n++ {
		lo, hi := v.Retry.Decide(f, n, 0), v.Retry.Decide(f, n, almostOne)
		if lo.Verdict != retry.Again {
			e.Reason = lo.Verdict.String()
			break
		}
		backoff := Window{setting.Duration(lo.Wait), setting.Duration(hi.Wait)}
		next := since.add(backoff)
		next = Window{early.next(next.Earliest), late.next(next.Latest)}
		// A token comes when it comes: who failed later waits less for it.
		wait := Window{
			max(backoff.Earliest, next.Earliest-since.Latest),
			max(backoff.Latest, next.Earliest-since.Earliest, next.Latest-since.Latest),
		}
		if v.Deadline > 0 && next.Earliest.D() > v.Deadline {
			e.Reason = "deadline"
			break
		}
		since = next
		slow += wait.Latest + setting.Duration(v.Timeout)
		e.Attempts = append(e.Attempts, Attempt{Number: n + 1, Wait: wait, Since: since})
	}
	e.GivenUpAfter = Window{since.Earliest, slow}
	if limit := setting.Duration(v.Deadline + v.Timeout); v.Deadline > 0 && slow > limit {
		e.GivenUpAfter.Latest = limit
	}
}

// pace is a rate limit that nobody else uses, from the first attempt on.
type pace struct {
	began  time.Time
	bucket *limit.Bucket // nil: none
}

func newPace(r *limit.Rate) pace {
	p := pace{began: time.Unix(0, 0)}
	if r != nil {
		p.bucket = limit.NewBucket(*r, p.began)
		p.bucket.Take(p.began) // the first attempt's
	}
	return p
}

// next returns when an attempt begins that may as soon as at, both counted from
// the first attempt.
func (p pace) next(at setting.Duration) setting.Duration {
	if p.bucket == nil {
		return at
	}
	begins := p.bucket.Look(p.began.Add(at.D()))
	p.bucket.Take(begins)
	return setting.Duration(begins.Sub(p.began))
}

// almostOne is the largest random number that a jitter is given.
const almostOne = 1 - 1e-9

// path lists where a message goes when the destination is left: its fallbacks as
// the engine takes them, then the dead letters.
func path(c *config.Config, d *config.Destination) ([]string, error) {
	links, err := links(c, d.Name)
	if err != nil {
		return nil, err
	}
	list := make([]string, 0, len(links))
	for _, l := range links[1:] { // the first is d
		list = append(list, l.Name)
	}
	where := c.DeadLetter.Path
	switch c.DeadLetter.Type {
	case config.DeadLetterFile:
	case config.DeadLetterStore:
		where = "the job store"
	case config.DeadLetterDestination:
		where = c.DeadLetter.Destination
	}
	return append(list, "dead letters ("+where+")"), nil
}

// links returns the chain that begins at a destination.
func links(c *config.Config, name string) ([]chain.Link, error) {
	return chain.Flatten(name, func(name string) []string {
		if d, ok := c.Destination(name); ok {
			return d.Fallback
		}
		return nil
	})
}

func settings(d *config.Destination) []Setting {
	v := &d.Delivery
	of := func(name, value string) Setting { return Setting{name, value, v.From[name]} }
	list := []Setting{
		{"retry.attempts", strconv.Itoa(v.Retry.Attempts), v.Retry.From["attempts"]},
		{"retry.backoff", setting.Duration(v.Retry.Schedule.Initial).String(), v.Retry.From["backoff"]},
		{"retry.max_backoff", setting.Duration(v.Retry.Schedule.Max).String(), v.Retry.From["max_backoff"]},
		{"retry.jitter", string(v.Retry.Schedule.Jitter), v.Retry.From["jitter"]},
		{"retry.retry_on", "[" + v.Retry.RetryOn.String() + "]", v.Retry.From["retry_on"]},
		{"retry.never_on", "[" + v.Retry.NeverOn.String() + "]", v.Retry.From["never_on"]},
		{"retry.max_retry_after", setting.Duration(v.Retry.MaxRetryAfter).String(), v.Retry.From["max_retry_after"]},
		of("timeout", setting.Duration(v.Timeout).String()),
		of("deadline", orNone(v.Deadline)),
		of("ttl", orNone(v.TTL)),
		of("workers", strconv.Itoa(v.Workers)),
		of("max_pending", strconv.Itoa(v.MaxPending)),
		of("when_open", string(v.WhenOpen)),
	}
	if b := v.Breaker; b == nil {
		list = append(list, of("circuit_breaker", "off"))
	} else {
		list = append(list, of("circuit_breaker", fmt.Sprintf("opens at %g of %d messages within %s, for %s up to %s, %d trials",
			b.FailureRatio, b.MinRequests, setting.Duration(b.Window), setting.Duration(b.OpenFor), setting.Duration(b.MaxOpenFor), b.HalfOpenMax)))
	}
	if r := v.RateLimit; r == nil {
		list = append(list, of("rate_limit", "off"))
	} else {
		list = append(list, of("rate_limit", fmt.Sprintf("%g a second, burst %d", r.PerSecond, r.Burst)))
	}
	if b := v.RetryBudget; b == nil {
		list = append(list, of("retry_budget", "off"))
	} else {
		list = append(list, of("retry_budget", fmt.Sprintf("%g of the first attempts and %g a second, within %s", b.Ratio, b.MinPerSecond, setting.Duration(b.Window))))
	}
	return list
}

func orNone(d time.Duration) string {
	if d == 0 {
		return "none"
	}
	return setting.Duration(d).String()
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
