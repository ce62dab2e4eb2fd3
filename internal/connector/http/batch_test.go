// These tests catch a batch that an endpoint can't take apart, a message that
// travels without its id, one that takes its peers along, an outcome that goes to
// another message, and an answer that is taken for outcomes which it doesn't name.
package http

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	nethttp "net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/setting"
)

const webhookSecret = "whsec_c2VjcmV0LW9uZQ=="

// duplicates: a body is the sender's own, names that come twice included.
var duplicates = jsontext.AllowDuplicateNames(true)

func batchOf(bodies ...string) []*message.Message {
	var batch []*message.Message
	for i, body := range bodies {
		batch = append(batch, &message.Message{
			ID: fmt.Sprint("id-", i+1), Source: "web", Time: time.Unix(1700000000, 0).UTC(), ContentType: "text/x", Body: []byte(body),
			Headers: map[string][]string{"x-a": {"1"}, "traceparent": {"00-abc"}},
		})
	}
	return batch
}

func TestBatchForms(t *testing.T) {
	const written = `"source":"web","time":"2023-11-14T22:13:20Z","content_type":"text/x","body":`
	for name, c := range map[string]struct {
		form batchForm
		want string
		kind string
		ids  []string
	}{
		"ndjson": {batchForm{BatchNDJSON, ItemsPlain}, "{\"a\": 1.50}\n{\"b\":[2,2],\"b\":3}\n\"ü\"\n", "application/x-ndjson", []string{"id-1, id-2, id-3"}},
		"array":  {batchForm{BatchArray, ItemsPlain}, "[{\"a\": 1.50},{ \"b\":\r\n [2,2], \"b\":3},\"ü\"]", "application/json", []string{"id-1, id-2, id-3"}},
		"ndjson of envelopes": {
			batchForm{BatchNDJSON, ItemsEnvelope},
			`{"id":"id-1",` + written + `"{\"a\": 1.50}"}` + "\n" + `{"id":"id-2",` + written + `"{ \"b\":\r\n [2,2], \"b\":3}"}` + "\n" +
				`{"id":"id-3",` + written + `"\"ü\""}` + "\n",
			"application/x-ndjson", nil,
		},
		"array of envelopes": {
			batchForm{BatchArray, ItemsEnvelope},
			`[{"id":"id-1",` + written + `"{\"a\": 1.50}"},{"id":"id-2",` + written + `"{ \"b\":\r\n [2,2], \"b\":3}"},{"id":"id-3",` + written + `"\"ü\""}]`,
			"application/json", nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			sending(t, func(s *DestinationSettings, env *connector.Env) {
				s.BatchFormat, s.BatchItems = c.form.format, c.form.items
				env.ForwardHeaders = []string{"*"}
			}, func(o *outgoing) {
				answer, err := o.dest.SendBatch(o.Context(), batchOf(`{"a": 1.50}`, "{ \"b\":\r\n [2,2], \"b\":3}", `"ü"`))
				if err != nil || answer.Each != nil || answer.Status != 200 {
					o.Errorf("%+v, %v", answer, err)
				}
				if diff := cmp.Diff(c.want, string(o.far.Requests()[0].Body)); diff != "" {
					o.Errorf("the body (-want +got)\n%s", diff)
				}
				h := o.far.request(o.T).Header
				h.Del("Content-Length")
				want := nethttp.Header{"Content-Type": {c.kind}, "User-Agent": {userAgent()}}
				if c.ids != nil {
					want[batchIDs] = c.ids
				}
				if diff := cmp.Diff(want, h); diff != "" {
					o.Errorf("the header (-want +got)\n%s", diff)
				}
			})
		})
	}
}

// An item is one item, whatever the body; one that is not JSON is left out.
func TestBatchItemsAreOneEach(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bodies := rapid.SliceOfN(rapid.OneOf(
			rapid.SampledFrom([]string{"", "{}", "[1,\n2]", "\"a\\nb\"", "1\n2", "{}{}", "null ", "\ufeff{}", "{\"a\":1,}", "\"\xff\"", "]", "1,2"}),
			rapid.StringMatching(`[\[\]{}",:0-9a \n]{0,12}`),
		), 1, 6).Draw(t, "bodies")
		form := batchForm{
			rapid.SampledFrom([]BatchFormat{BatchNDJSON, BatchArray}).Draw(t, "format"),
			rapid.SampledFrom([]BatchItems{ItemsPlain, ItemsEnvelope}).Draw(t, "items"),
		}
		b := pack(form, batchOf(bodies...))
		var items []any
		if form.format == BatchArray && len(b.sent) > 0 {
			if err := json.Unmarshal(b.body, &items, duplicates); err != nil {
				t.Fatalf("%q: %v", b.body, err)
			}
		}
		if form.format == BatchNDJSON {
			for line := range bytes.Lines(b.body) {
				var item any
				if err := json.Unmarshal(line, &item, duplicates); err != nil {
					t.Fatalf("%q: %v", b.body, err)
				}
				items = append(items, item)
			}
		}
		if len(items) != len(b.sent) {
			t.Fatalf("%d items of %d messages: %q", len(items), len(b.sent), b.body)
		}
		next := 0
		for i, body := range bodies {
			var want any
			good := json.Unmarshal([]byte(body), &want, duplicates) == nil
			failed := b.each != nil && b.each[i] != nil
			if form.items == ItemsEnvelope {
				if failed {
					t.Fatalf("%q: %v", body, b.each[i])
				}
				continue
			}
			if failed == good {
				t.Fatalf("%q is JSON: %v; failed: %v", body, good, failed)
			}
			if failed {
				continue
			}
			if diff := cmp.Diff(want, items[next]); diff != "" || b.at[next] != i || b.sent[next].ID != fmt.Sprint("id-", i+1) {
				t.Fatalf("item %d is not message %d: %s", next, i, diff)
			}
			next++
		}
	})
}

func TestBatchIDs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOfN(rapid.StringMatching(`[ -~ü🦊]{1,80}`), 1, 300).Draw(t, "ids")
		var sent []*message.Message
		for _, id := range ids {
			sent = append(sent, &message.Message{ID: id})
		}
		var got []string
		for _, f := range appendIDs(nil, sent) {
			if f.Name != batchIDs || len(f.Value) > maxIDsLine || !connector.IsFieldValue(f.Value) {
				t.Fatalf("a line of %d bytes: %.100q", len(f.Value), f.Value)
			}
			for word := range strings.SplitSeq(f.Value, ", ") {
				id, err := url.PathUnescape(word)
				if err != nil || strings.ContainsAny(word, ",+ ") {
					t.Fatalf("%q: %v", word, err)
				}
				got = append(got, id)
			}
		}
		if diff := cmp.Diff(ids, got); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

// What an answer says of four messages, of which the third can't be sent.
func TestBatchResults(t *testing.T) {
	for name, c := range map[string]struct {
		says string
		want string // of each message
	}{
		"nothing":                    {``, "ok ok transform ok"},
		"no JSON":                    {`taken`, "ok ok transform ok"},
		"another object":             {`{"ok":true,"results":7}`, "refused refused transform refused"},
		"an array":                   {`[{"id":"id-1","status":500}]`, "500 ok transform ok"},
		"other results":              {`{"results":[{"id":1,"name":"x"},"y",null,[]]}`, "ok ok transform ok"},
		"all well":                   {`{"results":[{"id":"id-1","status":200},{"id":"id-2","status":201},{"id":"id-4","status":204}]}`, "ok ok transform ok"},
		"out of order":               {`{"results":[{"id":"id-4","status":409},{"id":"id-1","status":200}]}`, "ok ok transform 409"},
		"only what failed":           {`{"results":[{"id":"id-2","status":422,"error":"no such\ncustomer"}]}`, "ok 422(no such customer) transform ok"},
		"wait":                       {`{"results":[{"id":"id-1","status":429,"retry_after":1.5},{"id":"id-2","status":503,"retry_after":1e300}]}`, "429+1.5s 503+720h0m0s transform ok"},
		"a bad wait":                 {`{"results":[{"id":"id-1","status":429,"retry_after":-1}]}`, "429 ok transform ok"},
		"by place":                   {`{"results":[{"status":200},{"status":500},{"status":400}]}`, "ok 500 transform 400"},
		"by place, too few":          {`{"results":[{"status":500},{"status":500}]}`, "refused refused transform refused"},
		"an unknown id":              {`{"results":[{"id":"id-9","status":500}]}`, "refused refused transform refused"},
		"the id of what was not":     {`{"results":[{"id":"id-3","status":200}]}`, "ok ok transform ok"},
		"some with ids":              {`{"results":[{"status":500},{"id":"id-1","status":500},{"status":500}]}`, "500 refused transform refused"},
		"twice, the failure counts":  {`{"results":[{"id":"id-1","status":500},{"id":"id-1","status":200}]}`, "500 ok transform ok"},
		"an error without a status":  {`{"results":[{"id":"id-1","error":"bad"}]}`, "refused(bad) ok transform ok"},
		"an error that is an object": {`{"results":[{"id":"id-1","status":400,"error":{"code": 7}}]}`, `400({"code": 7}) ok transform ok`},
		"no status, no error":        {`{"results":[{"id":"id-1"},{"id":"id-2","error":null}]}`, "ok ok transform ok"},
		"an odd status":              {`{"results":[{"id":"id-1","status":42,"error":"x"},{"id":"id-2","status":"500"}]}`, "refused 500 transform ok"},
		"nobody by an unknown id":    {`{"results":[{"id":"id-9","status":200}]}`, "ok ok transform ok"},
		"an array of other things":   {`[1,{"a":2}]`, "ok ok transform ok"},
		"a cut array":                {`[{"id":"id-1","status":400},{"id":"id-2"`, "refused refused transform refused"},
		"cut short":                  {`{"results":[{"id":"id-1","status":400},{"id":"id-2","sta`, "refused refused transform refused"},
		"results by their names":     {`{"results":{"id-1":400}}`, "refused refused transform refused"},
		"a byte order mark":          {"\xef\xbb\xbf" + `{"results":[{"id":"id-1","status":400}]}`, "400 ok transform ok"},
		"a result a line":            {`{"id":"id-1","status":200}` + "\n" + `{"id":"id-4","status":503}` + "\n", "ok ok transform 503"},
		"a line that was cut":        {`{"id":"id-1","status":200}` + "\n" + `{"id":"id-4","sta`, "ok refused transform refused"},
		"one result alone":           {`{"id":"id-2","status":400}`, "ok 400 transform ok"},
		"an object of its own":       {`{"status":"accepted"}`, "ok ok transform ok"},
		"errors that are no JSON":    {"[{\"id\":\"id-1\",\"error\":\"caf\xe9\"}]", "refused refused transform refused"},
		"a status of 1e99":           {`{"results":[{"id":"id-1","status":1e99},{"id":"id-2","status":0}]}`, "refused refused transform ok"},
		"a redirect":                 {`{"results":[{"id":"id-1","status":302}]}`, "302 ok transform ok"},
	} {
		t.Run(name, func(t *testing.T) {
			sending(t, func(*DestinationSettings, *connector.Env) {}, func(o *outgoing) {
				o.far.says = c.says
				batch := batchOf("1", "2", "no JSON", "4")
				answer, err := o.dest.SendBatch(o.Context(), batch)
				if err != nil || len(answer.Each) != 4 {
					o.Fatalf("%+v, %v", answer, err)
				}
				var got []string
				for _, err := range answer.Each {
					got = append(got, outcome(err))
				}
				if diff := cmp.Diff(c.want, strings.Join(got, " ")); diff != "" {
					o.Errorf("(-want +got)\n%s", diff)
				}
			})
		})
	}
}

func outcome(err error) string {
	f := failure.From(err)
	if f == nil {
		return "ok"
	}
	text := string(f.Tags[len(f.Tags)-1])
	if f.RetryAfter > 0 {
		text += "+" + f.RetryAfter.String()
	}
	if _, said, ok := strings.Cut(f.Message, "of a batch: "); ok {
		text += "(" + said + ")"
	}
	return text
}

// A failure of one message is what the same status is for a message alone.
func TestBatchResultIsTheFailureOfItsStatus(t *testing.T) {
	for status := 300; status <= 599; status++ {
		b := pack(batchForm{BatchNDJSON, ItemsPlain}, batchOf("1", "2"))
		b.settle(fmt.Appendf(nil, `{"results":[{"id":"id-2","status":%d,"retry_after":3}]}`, status))
		got, want := failure.From(b.each[1]), failure.FromStatus(status, 3*time.Second)
		want.Message += " for this message of a batch"
		if diff := cmp.Diff(want, got); diff != "" || b.each[0] != nil {
			t.Fatalf("%d (-want +got)\n%s", status, diff)
		}
	}
}

// A message that goes alone is told of by an object alone too.
func TestBatchOfOneByItsPlace(t *testing.T) {
	for says, want := range map[string]string{
		`{"status":503,"error":"x"}`: "503(x)", `{"status":200}`: "ok", `{"status":"accepted"}`: "ok", `[{"status":400}]`: "400",
	} {
		b := pack(batchForm{BatchNDJSON, ItemsPlain}, batchOf("1"))
		b.settle([]byte(says))
		got := "ok"
		if len(b.each) > 0 {
			got = outcome(b.each[0])
		}
		if got != want {
			t.Errorf("%s: %s, want %s", says, got, want)
		}
	}
}

// Results count where the whole is a success, whole or not at all.
func TestBatchWithoutResults(t *testing.T) {
	sending(t, func(*DestinationSettings, *connector.Env) {}, func(o *outgoing) {
		o.far.says = `{"results":[{"id":"id-1","status":500}]}` + strings.Repeat(" ", 1<<20)
		if answer, err := o.dest.SendBatch(o.Context(), batchOf("1")); err != nil || outcome(answer.Each[0]) != "refused" {
			o.Errorf("an answer too long to be read whole: %+v, %v", answer, err)
		}
		o.far.says = strings.Repeat("taken ", 1<<18)
		if answer, err := o.dest.SendBatch(o.Context(), batchOf("1")); err != nil || answer.Each != nil {
			o.Errorf("a long answer that tells of nothing: %+v, %v", answer, err)
		}
		o.far.script = connectortest.Script{{Do: connectortest.Fail, Fail: "429 wait"}}
		_, err := o.dest.SendBatch(o.Context(), batchOf("1", "2"))
		if f := failure.From(err); f == nil || f.RetryAfter != 7*time.Second || !f.Throttled {
			o.Errorf("got %v", err)
		}
		seen := len(o.far.Requests())
		answer, err := o.dest.SendBatch(o.Context(), batchOf("x", "y"))
		if err != nil || answer.Each[0] == nil || answer.Each[1] == nil || len(o.far.Requests()) != seen {
			o.Errorf("nothing to send: %+v, %v, %d requests more", answer, err, len(o.far.Requests())-seen)
		}
	})
}

func TestBatchIsSignedAsAWhole(t *testing.T) {
	sending(t, func(s *DestinationSettings, _ *connector.Env) {
		s.Sign = &Sign{StandardWebhooks: &Secrets{Secret: one(webhookSecret)}}
	}, func(o *outgoing) {
		send := func(bodies ...string) string {
			if _, err := o.dest.SendBatch(o.Context(), batchOf(bodies...)); err != nil {
				o.Fatal(err)
			}
			r, all := o.far.request(o.T), o.far.Requests()
			hooks, err := newStandard([]setting.Secret{one(webhookSecret)})
			if err != nil {
				o.Fatal(err)
			}
			if err := hooks.hooks[0].Verify(all[len(all)-1].Body, r.Header); err != nil {
				o.Errorf("the signature does not verify: %v", err)
			}
			return r.Header.Get("Webhook-Id")
		}
		first := send("1", "2")
		if again, other := send("1", "2"), send("1"); again != first || other == first || first == "" {
			o.Errorf("webhook ids %q, %q for the same batch, %q for another", first, again, other)
		}
	})
}

func TestBatchRulesOutWhatDependsOnAMessage(t *testing.T) {
	for name, c := range map[string]struct {
		load   connector.Load
		change func(*DestinationSettings)
		want   string
	}{
		"plain":                {connector.ManyMessages, func(*DestinationSettings) {}, ""},
		"constant headers":     {connector.ManyMessages, func(s *DestinationSettings) { s.Headers = map[string]setting.Secret{"X-A": one("b")} }, ""},
		"url":                  {connector.ManyMessages, func(s *DestinationSettings) { s.URL = "http://api.test/{{ .plain }}" }, "url"},
		"header":               {connector.ManyMessages, func(s *DestinationSettings) { s.Headers = map[string]setting.Secret{"X-A": one("{{ .plain }}")} }, "headers.X-A"},
		"one and format":       {connector.OneMessage, func(s *DestinationSettings) { s.BatchFormat = BatchArray }, "batch_format"},
		"one and items":        {connector.OneMessage, func(s *DestinationSettings) { s.BatchItems = ItemsEnvelope }, "batch_items"},
		"one and nothing":      {connector.OneMessage, func(s *DestinationSettings) { s.URL = "http://api.test/{{ .plain }}" }, ""},
		"many with all of it":  {connector.ManyMessages, func(s *DestinationSettings) { s.BatchFormat, s.BatchItems = BatchArray, ItemsEnvelope }, ""},
		"many and a bad thing": {connector.ManyMessages, func(s *DestinationSettings) { s.URL = "nonsense" }, ""}, // Check says it
	} {
		s := newDestinationSettings(false)
		s.URL = "http://api.test/hook"
		c.change(s)
		var fields []string
		for _, p := range s.CheckBatch(c.load) {
			fields = append(fields, p.Field)
		}
		if got := strings.Join(fields, " "); got != c.want {
			t.Errorf("%s: problems with %q, want %q", name, got, c.want)
		}
	}
	sending(t, func(s *DestinationSettings, _ *connector.Env) { s.URL = "http://api.test/{{ .plain }}" }, func(o *outgoing) {
		if _, err := o.dest.SendBatch(o.Context(), batchOf("1")); failure.From(err) == nil || len(o.far.Requests()) != 0 {
			o.Errorf("a batch went to one message's URL: %v", err)
		}
	})
}

func TestBatchHeaderIsReserved(t *testing.T) {
	s := newDestinationSettings(false)
	s.URL = "http://api.test/hook"
	s.BatchFormat, s.BatchItems = "csv", "bytes"
	s.Headers = map[string]setting.Secret{"pawl-batch-ids": one("x")}
	var fields []string
	for _, p := range s.Check() {
		fields = append(fields, p.Field)
	}
	if diff := cmp.Diff([]string{"headers.pawl-batch-ids", "batch_format", "batch_items"}, fields); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, err := OpenDestination(s, connector.Env{IdempotencyHeader: "Pawl-Batch-Ids"}); err == nil {
		t.Error("the id of one message stands where those of a batch do")
	}
}

// FuzzBatchAnswer: no answer makes it fail, and none makes a message succeed that
// was not sent, or fail that the answer doesn't name.
func FuzzBatchAnswer(f *testing.F) {
	for _, s := range []string{
		`{"results":[{"id":"id-1","status":500}]}`, `{"results":[{"status":200},{"status":400,"error":"x"}]}`, `{`, `{"results":[{"id":"id-9","status":500}]}`,
		`{"results":[{"id":"id-1","error":{"a":1}}]}`, `{"results":[{"id":"id-1","status":1e99}]}`, `{"results":[{"id":"id-1","status":429,"retry_after":1e999}]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		b := pack(batchForm{BatchNDJSON, ItemsPlain}, batchOf("1", "no JSON", "3"))
		b.settle(body)
		if len(b.each) != 3 || b.each[1] == nil {
			t.Fatalf("outcomes %v", b.each)
		}
		for i, err := range b.each {
			e := failure.From(err)
			if e == nil {
				continue
			}
			if text := e.Error(); strings.ContainsAny(text, "\r\n\x00") || len(text) > 1000 || e.RetryAfter < 0 || e.RetryAfter > maxResultWait {
				t.Fatalf("%+v", e)
			}
			if i != 1 && !bytes.ContainsAny(body, "{[") {
				t.Fatalf("%q fails a message", body)
			}
		}
	})
}
