package app

// Catches: a secret that a careless connector puts into its error and that is
// then stored in a dead letter, streamed by the live view or answered to send;
// and a scrubbing that changes what others hold, or forgets a part of a letter.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

const leakedSecret = "hunter2-and-more"

// leaky is a destination that tells its password to everybody.
type leaky struct{ connector.Destination }

func (leaky) Send(context.Context, *message.Message) (connector.Answer, error) {
	return connector.Answer{}, &failure.Error{
		Tags: failure.Tags{"leaky"}, Class: failure.Permanent, Message: "login with " + leakedSecret + " failed",
	}
}

func TestLeakedSecret(t *testing.T) {
	t.Setenv("APP_LEAKY_SECRET", leakedSecret)
	w := newWorld(t)
	w.write(w.conf("http://127.0.0.1:9", `  - { name: other, type: http, listen: "127.0.0.1:3", auth: { bearer: { token: "{{secrets.APP_LEAKY_SECRET}}" } } }`) +
		"log: { level: debug }\n")
	o := w.options()
	o.Wrap = func(_, _ string, d connector.Destination) connector.Destination { return leaky{d} }
	a, err := New(o)
	must(t, err)
	lines, unwatch := a.tail.Watch(adminapi.WatchAll)
	defer unwatch()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	var said string
	eventually(t, "it runs", func() bool {
		var code int
		code, said = w.send("127.0.0.1:1", "m")
		return code == http.StatusOK
	})
	if !strings.Contains(said, "dead_lettered") {
		t.Errorf("answered %s", said)
	}
	sent, err := adminapi.RunSend(t.Context(), a.Admin(), adminapi.Send{
		To: "ep", DeadLetter: true, Message: []byte(`{"id":"n","source":"send","time":"2026-01-02T15:04:05Z","body":"x"}`),
	})
	must(t, err)
	if sent.Letter == "" {
		t.Error("the letter of a send has no id")
	}
	said += fmt.Sprintf("%+v", sent)
	stop()
	must(t, <-ended)
	for len(lines) > 0 {
		said += fmt.Sprintf("%+v\n", <-lines)
	}
	said += w.logged()
	letters := 0
	must(t, filepath.WalkDir(filepath.Join(w.folder, "state", "dead"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		letters += strings.Count(string(text), `login with *** failed`)
		said += string(text)
		return err
	}))
	if letters == 0 || strings.Count(said, "login with *** failed") <= letters {
		t.Errorf("the error is nowhere to be seen, so the test sees nothing: %s", said)
	}
	if strings.Contains(said, leakedSecret) {
		t.Errorf("the secret is out: %s", said)
	}
}

// TestScrubDeath: every text that an error can be in is scrubbed, in a copy.
func TestScrubDeath(t *testing.T) {
	death := func(text string) message.Death {
		one := message.Death{
			Letter: "L", At: time.Unix(1, 0), Error: text,
			Hops: []message.Hop{{Destination: "d", Error: text, Attempts: []message.Attempt{{Number: 1, Error: text}}}},
		}
		two := one
		two.Replays = []message.Death{one}
		return two
	}
	redact := func(s string) string { return strings.ReplaceAll(s, leakedSecret, "***") }
	before := death(leakedSecret)
	if got := scrubDeath(redact, before); !reflect.DeepEqual(got, death("***")) {
		t.Errorf("scrubbed: %+v", got)
	}
	if !reflect.DeepEqual(before, death(leakedSecret)) {
		t.Errorf("the scrubbing changed what it was given: %+v", before)
	}
	var seen event.Event
	scrubEvents(redact, func(e event.Event) { seen = e })(event.Event{Error: errors.New(leakedSecret).Error()})
	if seen.Error != "***" {
		t.Errorf("an event says %q", seen.Error)
	}
}

func TestScrubError(t *testing.T) {
	redact := func(s string) string { return strings.ReplaceAll(s, leakedSecret, "***") }
	leaks := fmt.Errorf("with %s: %w", leakedSecret, fs.ErrPermission)
	got := scrubError(redact, leaks)
	if got.Error() != "with ***: permission denied" || !errors.Is(got, fs.ErrPermission) {
		t.Errorf("%v", got)
	}
	if plain := errors.New("plain"); scrubError(redact, plain) != plain || scrubError(redact, nil) != nil {
		t.Error("what holds no secret is changed")
	}
}

// What a reload fails of is answered without secrets.
func TestTheErrorOfAReloadHoldsNoSecret(t *testing.T) {
	t.Setenv("APP_LEAKY_SECRET", leakedSecret)
	w := newWorld(t)
	good := w.conf("http://127.0.0.1:9", "")
	w.write(good)
	o := w.options()
	o.Listen = func(network, address string) (net.Listener, error) {
		if address == "127.0.0.1:5" {
			return nil, errors.New("no " + leakedSecret + " here")
		}
		return w.listen(network, address)
	}
	a := w.startWith(o)
	defer a.end()
	w.write(strings.Replace(good, "127.0.0.1:1", "127.0.0.1:5", 1) +
		"\nstores: [ { name: s, type: redis, url: \"redis://:{{secrets.APP_LEAKY_SECRET}}@127.0.0.1:9\" } ]\n")
	_, err := a.Reload(t.Context())
	if err == nil || strings.Contains(err.Error(), leakedSecret) || !strings.Contains(err.Error(), "no *** here") {
		t.Errorf("%v", err)
	}
}

// Reloads that change no secret push none out of memory: what still drains may say
// it.
func TestSecretsOfTheDrainingStayHidden(t *testing.T) {
	t.Setenv("APP_LEAKY_SECRET", leakedSecret)
	w := newWorld(t)
	secrets := func(with bool) *config.Redactor {
		more := ""
		if with {
			more = `  - { name: other, type: http, listen: "127.0.0.1:3", auth: { bearer: { token: "{{secrets.APP_LEAKY_SECRET}}" } } }`
		}
		w.write(w.conf("http://127.0.0.1:9", more))
		c, report := w.options().Load()
		if report.Errors() > 0 {
			t.Fatal(report)
		}
		return c.Secrets
	}
	var r redactor
	r.keep(secrets(true))
	for range 100 {
		r.keep(secrets(false))
	}
	if got := r.Redact("with " + leakedSecret); got != "with ***" {
		t.Error(got)
	}
	if n := len(*r.kept.Load()); n != 2 {
		t.Errorf("%d are kept", n)
	}
}
