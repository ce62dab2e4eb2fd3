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

// BatchFormat is how the items of a batch stand in one request.
type BatchFormat string

// The formats.
const (
	// BatchNDJSON is an item a line, each line ended.
	BatchNDJSON BatchFormat = "ndjson"
	// BatchArray is a JSON array of the items.
	BatchArray BatchFormat = "json_array"
)

// BatchItems is what a batch has of each message.
type BatchItems string

// The items.
const (
	// ItemsPlain are the bodies as they are, which must be JSON; those over
	// several lines are compacted for NDJSON. The ids go in a header. An
	// endpoint that takes NDJSON or an array takes its own items there.
	ItemsPlain BatchItems = "plain"
	// ItemsEnvelope are messages as message.Encode writes them, without headers
	// and attributes, which an HTTP destination keeps to itself. They hold any
	// body and their ids, so that a batch can have any number of them.
	ItemsEnvelope BatchItems = "envelope"
)

// contentType of a request in the format.
func (f BatchFormat) contentType() string {
	if f == BatchArray {
		return "application/json"
	}
	return "application/x-ndjson"
}

// batchIDs is the header that carries the ids of plain items, in their order:
// with a comma between, percent-encoded, so that no id can look like two. The
// Idempotency-Key stays away from a batch: messages that failed go again with
// others, so a key of the whole would never come twice.
const batchIDs = "Pawl-Batch-Ids"

// maxIDsLine bounds one header line of ids. A batch with more ids gets several
// lines, which mean the same (RFC 9110 §5.3). Common servers take 8 KiB a line
// and 16 KiB or more in all: about 500 ids of pawl's own. Larger batches are
// what ItemsEnvelope is for.
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
		if s.BatchItems != ItemsPlain {
			p.add("batch_items", "is the form of a batch; set batch too, or leave it out")
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
// message that can't stand in it fails by itself and is left out. The sender's
// headers are not forwarded, since each message has its own.
//
// An answer of 2xx may say what became of each message; see results.
func (d *Destination) SendBatch(ctx context.Context, batch []*message.Message) (connector.BatchAnswer, error) {
	if d.target == nil || len(d.varied) > 0 {
		return connector.BatchAnswer{}, unfit(ctx, "", errBatchVaries)
	}
	b := pack(d.batchForm, batch)
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
	if res.Truncated {
		b.settleCut(res.Body)
	} else {
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

// batchForm is how a batch is written.
type batchForm struct {
	format BatchFormat
	items  BatchItems
}

// pack puts the messages into one body. Those that can't be written have failed.
func pack(f batchForm, batch []*message.Message) *bundle {
	size := 2
	for _, m := range batch {
		size += len(m.Body) + 1
	}
	b := &bundle{body: make([]byte, 0, size), sent: make([]*message.Message, 0, len(batch)), at: make([]int, 0, len(batch))}
	for i, m := range batch {
		item, failed := f.item(m)
		if failed != nil {
			b.fail(len(batch), i, failed)
			continue
		}
		if f.format == BatchArray {
			separator := byte(',')
			if len(b.sent) == 0 {
				separator = '['
			}
			b.body = append(append(b.body, separator), item...)
		} else {
			b.body = append(append(b.body, item...), '\n')
		}
		b.sent, b.at = append(b.sent, m), append(b.at, i)
	}
	if f.format == BatchArray && len(b.sent) > 0 {
		b.body = append(b.body, ']')
	}
	return b
}

// item returns the JSON of one message: for NDJSON without a line end in it.
func (f batchForm) item(m *message.Message) ([]byte, *failure.Error) {
	if f.items == ItemsEnvelope {
		line, err := message.Encode(&message.Message{
			ID: m.ID, Source: m.Source, Time: m.Time, Key: m.Key, ContentType: m.ContentType, Body: m.Body,
		})
		if err != nil {
			return nil, noItem(err.Error())
		}
		return line, nil
	}
	item := jsontext.Value(m.Body)
	if !item.IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, noItem("its body is not JSON, and batch_items: plain needs that")
	}
	if f.format == BatchNDJSON && bytes.ContainsAny(item, "\r\n") {
		item = slices.Clone(item)
		_ = item.Compact(jsontext.AllowDuplicateNames(true)) // it is valid
	}
	return item, nil
}

// noItem is a message that the batch can't hold: the same the next time.
func noItem(why string) *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Transform}, Class: failure.Permanent, Verdict: failure.Neutral,
		Message: "the message can't stand in a batch: " + why,
	}
}

// fail notes that the message at i of the batch failed.
func (b *bundle) fail(total, i int, err *failure.Error) {
	if b.each == nil {
		b.each = make([]error, total)
	}
	b.each[i] = err
}

// batchFields returns the header fields of a batch's request.
func (d *Destination) batchFields(ctx context.Context, b *bundle) ([]egress.Field, error) {
	fields := make([]egress.Field, 0, 8)
	if d.batchForm.items == ItemsPlain {
		fields = appendIDs(fields, b.sent)
	}
	if !d.ownType {
		fields = append(fields, egress.Field{Name: "Content-Type", Value: d.batchForm.format.contentType()})
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
