package jobserver

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json/jsontext"
	"errors"
	"math"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// Hashes tell a repeat of a request from another request under the same key.
// They are kept in the store, so their form never changes: a new one needs a
// new first byte, and the old one beside it while jobs with it are kept.
//
// A request is summed up by what its sender said, not by what the server made
// of it: a default that is changed between a request and its repeat does not
// make the repeat another request. What says nothing (no version, an empty list
// of tags, priority 0) is alike however it is said.

// Each hash begins with a byte of its own, so that no two kinds are alike.
const (
	hashOfNew    byte = 1
	hashOfReport byte = 2
	hashOfBody   byte = 3
	// A job that says unique or is synthetic, and a failure that says how its
	// endpoint or its effect is.
	hashOfKind    byte = 4
	hashOfFailure byte = 5
)

// hashNew sums up a job that a producer asks for. The key itself and the trace,
// which differs from repeat to repeat, are not in it. The error is about a
// payload that is no JSON.
func hashNew(n *New) ([sha256.Size]byte, error) {
	d := digest{buf: make([]byte, 0, 256+len(n.Payload))}
	if n.Unique == "" && n.Kind == job.Ordinary {
		d.kind(hashOfNew)
	} else {
		d.kind(hashOfKind)
		d.text(n.Unique)
		d.text(string(n.Kind))
	}
	d.text(n.Queue)
	d.text(n.Task)
	d.text(n.Version)
	d.text(n.Endpoint)
	d.number(int64(n.Priority))
	d.number(int64(len(n.Tags)))
	for _, tag := range n.Tags {
		d.text(tag)
	}
	maybe(&d, n.Retry.MaxAttempts, func(v int) { d.number(int64(v)) })
	maybe(&d, n.Retry.Initial, d.length)
	maybe(&d, n.Retry.Factor, d.float)
	maybe(&d, n.Retry.MaxDelay, d.length)
	maybe(&d, n.Retry.Jitter, d.float)
	maybe(&d, n.Timeout, d.length)
	maybe(&d, n.RunAt, func(at time.Time) { d.number(at.Unix()); d.number(int64(at.Nanosecond())) })
	maybe(&d, n.Delay, d.length)
	return d.sum(n.Payload)
}

// hashReport sums up a report that ends an attempt. The error is about a result
// that is no JSON.
func hashReport(r *store.Report) ([sha256.Size]byte, error) {
	d := digest{buf: make([]byte, 0, 256+len(r.Result))}
	if r.Failure.Endpoint == job.EndpointUnsaid && r.Failure.Effect == job.EffectUnsaid {
		d.kind(hashOfReport)
	} else {
		d.kind(hashOfFailure)
		d.text(string(r.Failure.Endpoint))
		d.text(string(r.Failure.Effect))
	}
	d.text(string(r.Type))
	maybe(&d, r.Error, func(e job.Error) { d.text(e.Type); d.text(e.Message); d.text(e.Stack) })
	maybe(&d, &r.Failure.Permanent, d.flag)
	maybe(&d, r.Failure.RetryIn, d.length)
	maybe(&d, r.Failure.RetryAfter, d.length)
	d.length(r.After)
	return d.sum(r.Result)
}

// hashBody sums up a message of the relay: its body alone, as the relay itself
// tells a repeat. Its headers and its time differ from one sending to the next,
// and a destination's settings may have changed in between.
func hashBody(body []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write([]byte{hashOfBody})
	h.Write(body)
	return [sha256.Size]byte(h.Sum(nil))
}

// digest writes values so that different ones never look alike.
type digest struct{ buf []byte }

func (d *digest) kind(k byte)            { d.buf = append(d.buf, k) }
func (d *digest) number(n int64)         { d.buf = binary.AppendVarint(d.buf, n) }
func (d *digest) length(v time.Duration) { d.number(int64(v)) }
func (d *digest) float(f float64)        { d.buf = binary.BigEndian.AppendUint64(d.buf, math.Float64bits(f)) }

func (d *digest) flag(b bool) {
	if b {
		d.number(1)
	} else {
		d.number(0)
	}
}

func (d *digest) text(s string) {
	d.number(int64(len(s)))
	d.buf = append(d.buf, s...)
}

// maybe writes whether a value was said, and the value.
func maybe[T any](d *digest, v *T, write func(T)) {
	if v == nil {
		d.number(0)
		return
	}
	d.number(1)
	write(*v)
}

// sum ends the digest with a JSON value in its canonical form: the order of
// members, spaces and escapes do not matter. Numbers stay as they were written:
// as floats, different long integers would be alike.
func (d *digest) sum(value []byte) ([sha256.Size]byte, error) {
	if value == nil {
		return sha256.Sum256(d.buf), nil
	}
	at := len(d.buf)
	d.buf = append(d.buf, value...)
	canonical := jsontext.Value(d.buf[at:])
	if err := canonical.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false)); err != nil {
		if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
			err = syntax.Err
		}
		return [sha256.Size]byte{}, err
	}
	h := sha256.New()
	h.Write(d.buf[:at])
	h.Write(canonical)
	return [sha256.Size]byte(h.Sum(nil)), nil
}
