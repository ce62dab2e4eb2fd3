package message_test

import (
	"encoding/json/jsontext"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

func letter() *message.DeadLetter {
	return &message.DeadLetter{
		Message: &message.Message{ID: "order-1", Source: "web", Time: noon, Body: []byte("x"),
			Attributes: map[string]jsontext.Value{"http": jsontext.Value(`{"method":"POST"}`)}},
		Death: message.Death{
			Letter: "01JE", Relay: "shop", At: noon.Add(time.Minute), Reason: message.ReasonDelivery,
			Destination: "ledger", Route: "new-orders", Attempts: 1,
			Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503 <down> & out",
			Hops: []message.Hop{{
				Destination: "ledger", Reason: message.HopExhausted, At: noon.Add(time.Second),
				Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503",
				Attempts: []message.Attempt{{
					Number: 1, Endpoint: "ledger", At: noon, Waited: 1234567, Duration: 3 * time.Second,
					Outcome: message.OutcomeRetry, Tags: failure.Tags{"5xx", "503"}, Error: "HTTP 503",
				}},
			}},
			Replays: []message.Death{{Letter: "01JD", Relay: "shop", At: noon, Reason: message.ReasonDelivery, Error: "before"}},
		},
	}
}

func TestLetterGolden(t *testing.T) {
	const want = `{"id":"order-1","source":"web","time":"2026-11-30T12:00:00.123456789Z","attributes":{"dlq":{` +
		`"letter":"01JE","relay":"shop","at":"2026-11-30T12:01:00.123456789Z","reason":"delivery",` +
		`"destination":"ledger","route":"new-orders","attempts":1,"tags":["5xx","503"],"error":"HTTP 503 <down> & out",` +
		`"hops":[{"destination":"ledger","reason":"exhausted","at":"2026-11-30T12:00:01.123456789Z",` +
		`"attempts":[{"number":1,"endpoint":"ledger","at":"2026-11-30T12:00:00.123456789Z","waited_ms":1.234567,"duration_ms":3000,` +
		`"outcome":"retry","tags":["5xx","503"],"error":"HTTP 503"}],"tags":["5xx","503"],"error":"HTTP 503"}],` +
		`"replays":[{"letter":"01JD","relay":"shop","at":"2026-11-30T12:00:00.123456789Z","reason":"delivery","attempts":0,"error":"before"}]},` +
		`"http":{"method":"POST"}},"body":"x"}`
	l := letter()
	line, err := message.EncodeLetter(l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(line)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if _, there := l.Message.Attributes["dlq"]; there {
		t.Error("the message itself was changed")
	}
	back, err := message.DecodeLetter(line)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(l, back, same); diff != "" {
		t.Errorf("came back changed (-want +got)\n%s", diff)
	}
}

func TestLetterTimesAreWrittenInUTC(t *testing.T) {
	east := time.FixedZone("east", 3600)
	l := letter()
	want, err := message.EncodeLetter(l)
	if err != nil {
		t.Fatal(err)
	}
	l.At = l.At.In(east)
	l.Hops[0].At = l.Hops[0].At.In(east)
	l.Hops[0].Attempts[0].At = l.Hops[0].Attempts[0].At.In(east)
	l.Replays[0].At = l.Replays[0].At.In(east)
	got, err := message.EncodeLetter(l)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if l.Hops[0].Attempts[0].At.Location() != east {
		t.Error("the letter itself was changed")
	}
}

// What an endpoint said must not keep a letter from being stored.
func TestLetterMendsText(t *testing.T) {
	l := letter()
	l.Error, l.Hops[0].Attempts[0].Error = "bad \xff", "\xc3"
	line, err := message.EncodeLetter(l)
	if err != nil {
		t.Fatal(err)
	}
	back, err := message.DecodeLetter(line)
	if err != nil {
		t.Fatal(err)
	}
	if back.Error != "bad \ufffd" || back.Hops[0].Attempts[0].Error != "\ufffd" {
		t.Errorf("%q and %q", back.Error, back.Hops[0].Attempts[0].Error)
	}
}

func TestLetterRefuses(t *testing.T) {
	l := letter()
	l.Message.Attributes["dlq"] = jsontext.Value("{}")
	if _, err := message.EncodeLetter(l); err == nil || !strings.Contains(err.Error(), "has a dlq attribute already") {
		t.Error(err)
	}
	l = letter()
	l.Message.ID = ""
	if _, err := message.EncodeLetter(l); err == nil {
		t.Error("an empty id was written")
	}
	with := func(attributes string) string {
		return `{"id":"a","source":"s","time":"2026-11-30T12:00:00Z",` + attributes + `"body":""}`
	}
	const death = `"relay":"r","at":"2026-11-30T12:00:00Z","attempts":0,"error":""`
	for _, c := range []struct{ line, want string }{
		{`{`, "EOF"},
		{with(``), "has no dlq attribute"},
		{with(`"attributes":{"ai":1},`), "has no dlq attribute"},
		{with(`"attributes":{"dlq":7},`), "attribute dlq"},
		{with(`"attributes":{"dlq":{"reason":"delivery",` + death + `}},`), "letter's id is missing"},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"bored",` + death + `}},`), `unknown reason "bored"`},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"delivery","mood":1,` + death + `}},`), `"mood"`},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"delivery",` + death + `,"hops":[{"attempts":[{"mood":1}]}]}},`), `"mood"`},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"delivery",` + death + `,"hops":[{"attempts":[{"waited_ms":1e300}]}]}},`), "waited_ms is too long"},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"delivery","at":"0000-01-01T00:00:00+01:00"}},`), "the year -1"},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"delivery",` + death + `,"hops":[{"attempts":[{"at":"0000-01-01T00:00:00+01:00"}]}]}},`), "the year -1"},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"delivery",` + death + `,"replays":[{"at":"0000-01-01T00:00:00+01:00"}]}},`), "the year -1"},
		{with(`"attributes":{"dlq":{"letter":"l","reason":"delivery",` + death + `,"hops":[{"attempts":[{"duration_ms":-1e300}]}]}},`), "duration_ms is too long"},
	} {
		if _, err := message.DecodeLetter([]byte(c.line)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.line, err, c.want)
		}
	}
}

func TestLetterRoundTrip(t *testing.T) {
	moment := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "s"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns")).UTC()
	})
	span := rapid.Map(rapid.Int64Range(0, int64(49*24*time.Hour)), func(n int64) time.Duration { return time.Duration(n) })
	labels := rapid.SliceOfN(rapid.SampledFrom([]failure.Tag{"5xx", "503", "connect"}), 0, 3)
	text := rapid.String()
	attempt := rapid.Custom(func(t *rapid.T) message.Attempt {
		return message.Attempt{
			Number: rapid.IntRange(0, 100).Draw(t, "n"), Endpoint: text.Draw(t, "endpoint"), At: moment.Draw(t, "at"),
			Waited: span.Draw(t, "waited"), Duration: span.Draw(t, "duration"),
			Outcome: message.OutcomeRetry, Tags: labels.Draw(t, "tags"), Error: text.Draw(t, "error"),
			Hedge: rapid.Bool().Draw(t, "hedge"),
		}
	})
	hop := rapid.Custom(func(t *rapid.T) message.Hop {
		return message.Hop{
			Destination: text.Draw(t, "destination"), Reason: message.HopDeadline, At: moment.Draw(t, "at"),
			Attempts: rapid.SliceOfN(attempt, 0, 4).Draw(t, "attempts"), Tags: labels.Draw(t, "tags"), Error: text.Draw(t, "error"),
		}
	})
	death := rapid.Custom(func(t *rapid.T) message.Death {
		return message.Death{
			Letter: rapid.StringN(1, 26, 26).Draw(t, "letter"), Relay: text.Draw(t, "relay"), At: moment.Draw(t, "at"),
			Reason:      rapid.SampledFrom(message.Reasons()).Draw(t, "reason"),
			Destination: text.Draw(t, "destination"), Route: text.Draw(t, "route"), Attempts: rapid.IntRange(0, 500).Draw(t, "attempts"),
			Tags: labels.Draw(t, "tags"), Error: text.Draw(t, "error"), Hops: rapid.SliceOfN(hop, 0, 3).Draw(t, "hops"),
		}
	})
	rapid.Check(t, func(t *rapid.T) {
		l := &message.DeadLetter{Message: messages().Draw(t, "message"), Death: death.Draw(t, "death")}
		delete(l.Message.Attributes, "dlq")
		l.Replays = rapid.SliceOfN(death, 0, 2).Draw(t, "replays")
		line, err := message.EncodeLetter(l)
		if err != nil {
			t.Fatal(err)
		}
		back, err := message.DecodeLetter(line)
		if err != nil {
			t.Fatalf("%v\n%s", err, line)
		}
		if diff := cmp.Diff(l, back, same); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}

func FuzzDecodeLetter(f *testing.F) {
	line, err := message.EncodeLetter(letter())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(line)
	f.Add([]byte(`{"id":"a","source":"","time":"2026-11-30T12:00:00Z","attributes":{"dlq":{"letter":"l","reason":"no_route","hops":[{}]}},"body":""}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		l, err := message.DecodeLetter(line)
		if err != nil {
			return
		}
		out, err := message.EncodeLetter(l)
		if err != nil {
			t.Fatalf("taken, but can't be written: %v", err)
		}
		back, err := message.DecodeLetter(out)
		if err != nil {
			t.Fatalf("written, but can't be read: %v\n%s", err, out)
		}
		if diff := cmp.Diff(l, back, same); diff != "" {
			t.Fatalf("(-want +got)\n%s", diff)
		}
	})
}
