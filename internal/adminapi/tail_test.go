package adminapi

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/core/event"
)

func TestTailStreams(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/v3/tail?events=all", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	// The header is out, so the watch has begun.
	r.opts.Tail.Observe(event.Event{Kind: event.Settled, MessageID: "m1", Settlement: event.SettledDelivered})
	got := bufio.NewScanner(res.Body)
	if !got.Scan() || !strings.Contains(got.Text(), `"id":"m1"`) {
		t.Errorf("the stream says %q, %v", got.Text(), got.Err())
	}
}

func TestTail(t *testing.T) {
	tail := NewTail()
	tail.Observe(event.Event{Kind: event.Settled}) // nobody watches
	settled, endSettled := tail.Watch(WatchSettled)
	all, endAll := tail.Watch(WatchAll)
	tail.Observe(event.Event{Kind: event.AttemptEnded, MessageID: "m1"})
	tail.Observe(event.Event{Kind: event.Delivered, MessageID: "m1"}) // told by the lines around it
	tail.Observe(event.Event{Kind: event.Settled, MessageID: "m1"})
	if len(settled) != 1 || len(all) != 2 {
		t.Errorf("%d lines for one, %d for the other; want 1 and 2", len(settled), len(all))
	}
	// A reader that is too slow loses lines and is told how many.
	for range tailBuffer + 10 {
		tail.Observe(event.Event{Kind: event.Settled})
	}
	for range tailBuffer {
		<-settled
	}
	tail.Observe(event.Event{Kind: event.Settled, MessageID: "late"})
	if l := <-settled; l.ID != "late" || l.Missed != 11 {
		t.Errorf("after missed lines: %+v", l)
	}
	endSettled()
	endSettled()
	endAll()
	if n := tail.watched.Load(); n != 0 || len(tail.readers) != 0 {
		t.Errorf("%d readers are left", n)
	}
}
