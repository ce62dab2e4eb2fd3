package http

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/egress"
)

// BatchFormat is how several messages stand in one request.
type BatchFormat string

// The formats. In both a body stands as it is, so it must be JSON.
const (
	// BatchNDJSON is a body a line, each line ended. A body over several lines
	// is compacted.
	BatchNDJSON BatchFormat = "ndjson"
	// BatchArray is a JSON array of the bodies.
	BatchArray BatchFormat = "json_array"
)

// contentType of a request in the format.
func (f BatchFormat) contentType() string {
	if f == BatchArray {
		return "application/json"
	}
	return "application/x-ndjson"
}

// batchIDs is the header that carries the ids of a batch's messages, in their
// order: with a comma between, percent-encoded, so that no id can look like two.
// The Idempotency-Key stays away from a batch: messages that failed go again
// with others, so a key of the whole would never come twice.
//
// The ids don't stand in the body: an endpoint that takes NDJSON or an array
// takes its own items there.
const batchIDs = "Pawl-Batch-Ids"

// maxIDsLine bounds one header line of ids. A batch with more ids gets several
// lines, which mean the same (RFC 9110 §5.3): common servers take 8 KiB a line
// and more in all.
const maxIDsLine = 4 << 10

// errBatchVaries is a URL or header that a batch can't have. CheckBatch says it
// at the start.
var errBatchVaries = errors.New("the URL or a header holds {{ }}, and a batch is one request for all its messages")

// CheckBatch implements connector.Batching.
func (s *DestinationSettings) CheckBatch(l connector.Load) []connector.Problem {
	var p problems
	if l == connector.OneMessage {
		if s.BatchFormat != BatchNDJSON {
			p.add("batch_format", "is the form of a batch; set batch too, or leave it out")
		}
		return p
	}
	if base, err := parseURL(s.URL); err == nil {
		if _, constant := base.text.Constant(); !constant {
			p.add("url", "holds {{ }}, and a batch is one request for all its messages; write a URL that is the same for all")
		}
	}
	for name, value := range sorted(s.Headers) {
		text, err := connector.ParseTemplate(value.Reveal())
		if err != nil {
			continue // Check says it
		}
		if _, constant := text.Constant(); !constant {
			p.add("headers."+name, "holds {{ }}, and a batch is one request for all its messages; write a value that is the same for all")
		}
	}
	return p
}

// SendBatch implements connector.Batcher: one request for all messages. A
// message whose body is not JSON fails by itself and is left out. The sender's
// headers are not forwarded, since each message has its own.
//
// An answer of 2xx may say what became of each message; see results.
func (d *Destination) SendBatch(ctx context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	if d.target == nil || len(d.varied) > 0 {
		return connector.BatchAnswer{}, unfit(ctx, "", errBatchVaries)
	}
	b := pack(d.batchFormat, batch)
	if len(b.sent) == 0 {
		return connector.BatchAnswer{Each: b.each}, nil
	}
	fields, err := d.batchFields(ctx, b)
	if err != nil {
		return connector.BatchAnswer{}, unfit(ctx, "", err)
	}
	res, err := d.client.Do(ctx, &egress.Request{Target: d.target, Header: fields, Body: b.body, KeepBody: true})
	answer := connector.BatchAnswer{Answer: d.answer(res)}
	if err != nil {
		return answer, err
	}
	if f := egress.Failure(res, time.Now()); f != nil {
		return answer, f
	}
	if !res.Truncated {
		b.settle(res.Body)
	}
	answer.Each = b.each
	return answer, nil
}

// bundle is a batch as one request.
type bundle struct {
	body []byte
	sent []*message.Message // those in body, in its order
	at   []int              // where each of sent stands in the batch
	each []error            // of the batch; nil while none failed
}

// pack puts the messages into one body.
func pack(f BatchFormat, batch []*message.Message) *bundle {
	size := 2
	for _, m := range batch {
		size += len(m.Body) + 1
	}
	b := &bundle{body: make([]byte, 0, size), sent: make([]*message.Message, 0, len(batch)), at: make([]int, 0, len(batch))}
	b.each = make([]error, len(batch))
	failed := 0
	for i, m := range batch {
		item := jsontext.Value(m.Body)
		if !item.IsValid(jsontext.AllowDuplicateNames(true)) {
			b.each[i] = notJSON()
			failed++
			continue
		}
		b.append(f, item)
		b.sent, b.at = append(b.sent, m), append(b.at, i)
	}
	if f == BatchArray && len(b.sent) > 0 {
		b.body = append(b.body, ']')
	}
	if failed == 0 {
		b.each = nil
	}
	return b
}

// append writes one more item, which is valid JSON.
func (b *bundle) append(f BatchFormat, item jsontext.Value) {
	if f == BatchArray {
		separator := byte(',')
		if len(b.sent) == 0 {
			separator = '['
		}
		b.body = append(append(b.body, separator), item...)
		return
	}
	if bytes.ContainsAny(item, "\r\n") {
		item = slices.Clone(item)
		_ = item.Compact(jsontext.AllowDuplicateNames(true)) // it is valid
	}
	b.body = append(append(b.body, item...), '\n')
}

// fail notes that the message at i of the batch failed.
func (b *bundle) fail(total, i int, err *failure.Error) {
	if b.each == nil {
		b.each = make([]error, total)
	}
	b.each[i] = err
}

// notJSON is a message that no batch can hold: the same the next time.
func notJSON() *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Transform}, Class: failure.Permanent, Verdict: failure.Neutral,
		Message: "the body is not JSON, as each message of a batch over HTTP must be",
	}
}

// batchFields returns the header fields of a batch's request.
func (d *Destination) batchFields(ctx context.Context, b *bundle) ([]egress.Field, error) {
	fields := appendIDs(make([]egress.Field, 0, 8), b.sent)
	if !d.ownType {
		fields = append(fields, egress.Field{Name: "Content-Type", Value: d.batchFormat.contentType()})
	}
	if !d.ownTrace {
		fields = appendTrace(fields, connector.TraceOf(ctx), nil)
	}
	if _, none := d.signer.(unsigned); none {
		return fields, nil
	}
	return d.signer.sign(fields, &message.Message{ID: batchID(b.sent), Body: b.body}, time.Now())
}

// appendIDs appends the ids of the messages; see batchIDs.
func appendIDs(fields []egress.Field, sent []*message.Message) []egress.Field {
	var line strings.Builder
	flush := func() {
		fields = append(fields, egress.Field{Name: batchIDs, Value: line.String()})
		line.Reset()
	}
	for _, m := range sent {
		// A plus stays a plus for whoever reads it as a form's field, too.
		id := strings.ReplaceAll(url.PathEscape(m.ID), "+", "%2B")
		switch {
		case line.Len() == 0:
		case line.Len()+2+len(id) > maxIDsLine:
			flush()
		default:
			line.WriteString(", ")
		}
		line.WriteString(id)
	}
	flush()
	return fields
}

// batchID is the webhook-id of a signed batch: the same for the same messages in
// the same order, and for no others.
func batchID(sent []*message.Message) string {
	sum := sha256.New()
	for _, m := range sent {
		fmt.Fprintf(sum, "%d:%s", len(m.ID), m.ID)
	}
	return "batch_" + hex.EncodeToString(sum.Sum(nil)[:16])
}
