package config

import (
	"net/textproto"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/backoff"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/core/retry"
	"github.com/pawlhq/pawl/internal/setting"
)

// The built-in values of the delivery settings; retry and breaker have their
// own, beside their rules.
const (
	// DefaultTimeout is what most APIs answer well within, and short enough
	// that five tries are over before a caller's patience is.
	DefaultTimeout = 5 * time.Second
	// DefaultWorkers keeps a destination of 100 ms busy with 640 messages a second.
	DefaultWorkers = 64
	// DefaultMaxPending is eight times the workers: what is waiting for a
	// retry or a breaker holds a place and no worker.
	DefaultMaxPending = 512
	// DefaultIdempotencyHeader is the name in the IETF draft
	// draft-ietf-httpapi-idempotency-key-header.
	DefaultIdempotencyHeader = "Idempotency-Key"
	// DefaultBatchMessages and DefaultBatchBytes are what most bulk APIs take in
	// one request; DefaultBatchWait is hardly noticed behind a network.
	DefaultBatchMessages = 100
	DefaultBatchBytes    = setting.Size(1 << 20)
	DefaultBatchWait     = 50 * time.Millisecond
	// DefaultLetterAttempts is how often the write of a dead letter is tried.
	DefaultLetterAttempts = 3
)

// Bounds of the delivery settings.
const (
	// MaxTimeout bounds an attempt: what takes longer is a job, not a message.
	MaxTimeout = time.Hour
	// MaxSpan bounds deadline and ttl.
	MaxSpan = 365 * 24 * time.Hour
	// MaxWorkers bounds the attempts in flight to one destination: each may
	// hold a connection.
	MaxWorkers = 10_000
	// MaxPlaces bounds the messages in one lane: they are in memory.
	MaxPlaces = 1_000_000
	// MinBudgetWindow and MaxBudgetWindow bound the window of a retry budget: a
	// shorter one lets a burst of retries through, a longer one forgets a trouble
	// long after it is over.
	MinBudgetWindow = time.Second
	MaxBudgetWindow = time.Hour
	// MaxBatchMessages bounds the messages of a batch, MinBatchBytes and
	// MaxBatchBytes their bytes: they are in memory, twice while they are sent.
	// A first message must not wait for others longer than MaxBatchWait.
	MaxBatchMessages = 10_000
	MinBatchBytes    = setting.Size(1 << 10)
	MaxBatchBytes    = setting.Size(64 << 20)
	MaxBatchWait     = time.Minute
	// MaxList bounds the lists of names, tags, patterns and steps.
	MaxList = 256
)

// overlay is the level in the words of the core. Tags that are no tags are
// left out: they are reported one by one.
func (w *writtenRetry) overlay() retry.Overlay {
	o := retry.Overlay{
		Attempts: w.Attempts, RespectRetryAfter: w.RespectRetryAfter,
		Backoff: span(w.Backoff), MaxBackoff: span(w.MaxBackoff), MaxRetryAfter: span(w.MaxRetryAfter),
		RetryOn: validTags(w.RetryOn), NeverOn: validTags(w.NeverOn),
	}
	if w.Jitter != nil {
		o.Jitter = new(backoff.Jitter(*w.Jitter))
	}
	return o
}

func span(d *setting.Duration) *time.Duration {
	if d == nil {
		return nil
	}
	return new(d.D())
}

func validTags(list *[]failure.Tag) *failure.Tags {
	if list == nil {
		return nil
	}
	tags := make(failure.Tags, 0, len(*list))
	for _, t := range *list {
		if t.Valid() {
			tags = append(tags, t)
		}
	}
	return &tags
}

func transforms(list []writtenTransform) []Transform {
	var all []Transform
	for _, w := range list {
		var t Transform
		if w.JQ != nil {
			t.JQ = *w.JQ
		}
		if w.SetHeaders != nil {
			t.SetHeaders = *w.SetHeaders
		}
		if w.DropHeaders != nil {
			t.DropHeaders = *w.DropHeaders
		}
		all = append(all, t)
	}
	return all
}

// checkDelivery reports what is wrong with one level. n is its mapping.
func (l *loader) checkDelivery(f *file, n *yaml.Node, w *writtenDelivery) {
	at := func(path string) *yaml.Node { return find(n, path) }
	l.checkRetry(f, n, &w.Retry)
	bound := func(key string, v *setting.Duration, least, most time.Duration) {
		if v != nil && (v.D() < least || v.D() > most) {
			l.errorf(f, at(key), "%s must be from %s to %s, not %s", key, setting.Duration(least), setting.Duration(most), *v)
		}
	}
	bound("deadline", w.Deadline, 0, MaxSpan)
	bound("ttl", w.TTL, 0, MaxSpan)
	count := func(key string, v *int, most int) {
		if v != nil && (*v < 1 || *v > most) {
			l.errorf(f, at(key), "%s must be from 1 to %d, not %d", key, most, *v)
		}
	}
	count("workers", w.Workers, MaxWorkers)
	count("max_pending", w.MaxPending, MaxPlaces)
	if r := (limit.Rate{PerSecond: limit.MinPerSecond, Burst: 1}); w.RateLimit.state == switchedOn {
		r.PerSecond, r.Burst = said(w.RateLimit.PerSecond, r.PerSecond), said(w.RateLimit.Burst, r.Burst)
		for _, p := range r.Check() {
			l.errorf(f, at("rate_limit."+p.Field), "rate_limit.%s: %s", p.Field, p.Message)
		}
	}
	if v := w.RetryBudget.MinPerSecond; v != nil && !(*v >= 0 && *v <= limit.MaxPerSecond) {
		l.errorf(f, at("retry_budget.min_per_second"), "retry_budget.min_per_second must be from 0 to %d, not %v", limit.MaxPerSecond, *v)
	}
	bound("retry_budget.window", w.RetryBudget.Window, MinBudgetWindow, MaxBudgetWindow)
	count("batch.max_messages", w.Batch.MaxMessages, MaxBatchMessages)
	if v := w.Batch.MaxBytes; v != nil && (*v < MinBatchBytes || *v > MaxBatchBytes) {
		l.errorf(f, at("batch.max_bytes"), "batch.max_bytes must be from %s to %s, not %s", MinBatchBytes, MaxBatchBytes, *v)
	}
	bound("batch.max_wait", w.Batch.MaxWait, 0, MaxBatchWait)
	if v := w.RetryBudget.Store; v != nil {
		l.checkStoreName(f, at("retry_budget.store"), "retry_budget.store", *v)
	}
	l.checkEndpoint(f, n, &w.writtenEndpoint)
}

// checkEndpoint reports what is wrong with what one level says of an endpoint.
// n is its mapping.
func (l *loader) checkEndpoint(f *file, n *yaml.Node, w *writtenEndpoint) {
	at := func(path string) *yaml.Node { return find(n, path) }
	if v := w.Timeout; v != nil && (v.D() < time.Millisecond || v.D() > MaxTimeout) {
		l.errorf(f, at("timeout"), "timeout must be from 1ms to %s, not %s", setting.Duration(MaxTimeout), *v)
	}
	l.checkTags(f, at("delivered_on"), w.DeliveredOn, "delivered_on")
	if w.Success != nil {
		l.checkExpr(f, at("success"), "success", *w.Success)
	}
	if w.Transforms != nil {
		l.checkTransforms(f, at("transforms"), *w.Transforms)
	}
	if w.ForwardHeaders != nil {
		l.checkForwardHeaders(f, at("forward_headers"), *w.ForwardHeaders)
	}
	if h := w.IdempotencyHeader; h != nil {
		l.checkIdempotencyHeader(f, at("idempotency_header"), *h)
	}
}

// said returns what a level says, or else the other.
func said[T any](v *T, otherwise T) T {
	if v == nil {
		return otherwise
	}
	return *v
}

// checkForwardHeaders refuses the names of headers that no message keeps: they
// would never be sent along.
func (l *loader) checkForwardHeaders(f *file, list *yaml.Node, patterns []string) {
	l.checkPatterns(f, list, "forward_headers", patterns)
	for i, n := range items(list) {
		if connector.IsConnectionField(patterns[i]) {
			l.errorf(f, target(n), "forward_headers: %s belongs to the connection and is never sent along", patterns[i])
		}
	}
}

// checkIdempotencyHeader wants a header that is free to carry the key: a request
// that can't be made would make a dead letter of every message.
func (l *loader) checkIdempotencyHeader(f *file, n *yaml.Node, name string) {
	switch canonical := textproto.CanonicalMIMEHeaderKey(name); {
	case !headerName(name):
		l.errorf(f, n, "idempotency_header: %q is no header name", name)
	case connector.IsConnectionField(name), canonical == "Authorization", canonical == "Content-Type", canonical == "Cookie":
		l.errorf(f, n, "idempotency_header: %s has a meaning of its own and can't carry the key", name)
	}
}

// checkRetry reports what is wrong with the retry below n.
func (l *loader) checkRetry(f *file, n *yaml.Node, w *writtenRetry) {
	l.checkTags(f, find(n, "retry.retry_on"), w.RetryOn, "retry_on")
	l.checkTags(f, find(n, "retry.never_on"), w.NeverOn, "never_on")
	for _, p := range w.overlay().Check() {
		l.errorf(f, find(n, "retry."+p.Field), "retry.%s: %s", p.Field, p.Message)
	}
}

// checkTags reports what is no tag, each at its place in the list.
func (l *loader) checkTags(f *file, list *yaml.Node, tags *[]failure.Tag, key string) {
	if tags == nil {
		return
	}
	known := failure.Known()
	words := make([]string, len(known))
	for i, t := range known {
		words[i] = string(t)
	}
	for i, n := range items(list) {
		if t := (*tags)[i]; !t.Valid() {
			l.suggestf(f, target(n), string(t), words, "%s: unknown tag %q", key, string(t))
		}
	}
}

// checkRateLimit wants a rate where a limit is asked for.
func (l *loader) checkRateLimit(d *Delivery, e *destinationEntry) {
	const key = "rate_limit"
	if d.From[key+".per_second"] != LevelBuiltIn {
		return
	}
	where := e.origin
	if d.From[key] == LevelDefaults {
		where = l.said["defaults"]
	}
	asked := find(where.node, key)
	if find(where.node, key+".per_second") != asked {
		return // it is there, and was reported as no number
	}
	l.errorf(where.file, asked, "rate_limit of %s has no per_second", e.Name)
}

// checkBreaker holds the resolved breaker to the core's bounds, each problem
// at the place that said the value.
func (l *loader) checkBreaker(d *Delivery, standing map[string]origin) {
	if d.Breaker == nil {
		return
	}
	for _, p := range d.Breaker.Check() {
		path := "circuit_breaker." + p.Field
		if d.From[path] == LevelBuiltIn && p.Field == "max_open_for" {
			path = "circuit_breaker.open_for" // it is the other value that does not fit
		}
		where := standing[d.From[path]]
		l.errorf(where.file, find(where.node, path), "circuit_breaker.%s: %s", p.Field, p.Message)
	}
}
