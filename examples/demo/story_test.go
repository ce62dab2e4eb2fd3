package main

// Catches: a demo that tells of another end than a message had, or counts
// wrongly, and colours where there is no terminal.

import (
	"bytes"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/adminapi"
)

func TestStory(t *testing.T) {
	var out bytes.Buffer
	s := newStory(&out, black)
	failed := func(id string) adminapi.Line { return adminapi.Line{Event: "attempt", ID: id, Status: "retry"} }
	for _, l := range []adminapi.Line{
		{Event: "attempt", ID: "a", Status: "ok"},
		{Event: "settled", ID: "a", Status: "delivered"},
		failed("b"), failed("b"),
		{Event: "attempt", ID: "b", Status: "ok"},
		{Event: "settled", ID: "b", Status: "delivered"},
		failed("c"),
		{Event: "hop", ID: "c", Destination: "shop", To: "file", Status: "exhausted"},
		{Event: "settled", ID: "c", Status: "delivered"},
		{Event: "breaker", Destination: "shop", Status: "open"},
		{Event: "hop", ID: "d", Destination: "shop", To: "file", Status: "breaker_open"},
		{Event: "settled", ID: "d", Status: "delivered"},
		failed("e"), failed("e"),
		{Event: "hop", ID: "e", Destination: "archive", Status: "exhausted"},
		{Event: "settled", ID: "e", Status: "dead_lettered"},
		{Event: "settled", ID: "f", Status: "refused", Error: "no room"},
		failed("a"), // another message by a name that ended
		{Event: "settled", ID: "a", Status: "delivered"},
	} {
		s.take(l)
	}
	if want := [endings]int{atOnce: 1, afterRetries: 2, byFallback: 2, asLetter: 1, sentBack: 1}; s.sum != want {
		t.Errorf("counted %v, want %v", s.sum, want)
	}
	s.table()
	for _, want := range []string{
		"a          delivered  (", "b          delivered at try 3", "c          delivered by the fallback file: shop failed once",
		"the breaker of shop opens", "d          delivered by the fallback file: the breaker of shop is open",
		"e          kept as a dead letter: archive failed 2 times", "told to send it again: no room", "What became of 7 messages",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("colours without a terminal")
	}
}
