package jobserver

// What these tests would catch: an event that is skipped or delivered twice to one
// that took it, a delivery that is given up too early or tried for ever, an event
// that goes round in a circle, a subscription that goes on after 410, a secret
// that is shown.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// far is where events go.
type far struct {
	mu     sync.Mutex
	got    []string // place, id and type of what came, in order
	times  map[string][]time.Time
	answer func(n int, d Delivery) Verdict // nil takes everything
	came   chan struct{}
	host   error // of CheckHost
	put    func(d Delivery)
}

func newFar() *far { return &far{came: make(chan struct{}, 10_000), times: map[string][]time.Time{}} }

func (f *far) DeliverEvent(_ context.Context, d Delivery) Verdict {
	f.mu.Lock()
	place := d.To
	if place == "" {
		place = d.URL
	}
	f.got = append(f.got, fmt.Sprintf("%s %s %s", place, d.Message.ID, d.Message.Headers["pawl-event"][0]))
	f.times[d.Message.ID] = append(f.times[d.Message.ID], time.Now())
	n := len(f.got)
	answer, put := f.answer, f.put
	f.mu.Unlock()
	defer func() { f.came <- struct{}{} }()
	if put != nil {
		put(d)
	}
	if answer != nil {
		return answer(n, d)
	}
	return Verdict{How: Delivered}
}

func (f *far) CheckHost(string) error { return f.host }

func (f *far) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.got))
}

// wait waits for n deliveries.
func (f *far) wait(n int) {
	for range n {
		<-f.came
	}
}

// running is a server whose Run goes on until the returned function is called.
func running(t *testing.T, st store.Store, c Config, d Deliverer) (s *Server, stop func()) {
	t.Helper()
	s, err := NewServer(Options{Store: st, Config: c, Deliver: d})
	must(t, err)
	must(t, s.Open(t.Context()))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return s, sync.OnceFunc(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

const hookURL = "https://example.com/hook"

var hook = Subscription{URL: hookURL, Events: []store.EventType{store.JobCreated, store.JobFailed}}

func TestEventsAreDelivered(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	must(t, err)
	f := newFar()
	s, stop := running(t, st, twoQueues, f)
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")}) // before it: not its business
	made, err := s.AddSubscription(t.Context(), ops, "hook", hook)
	must(t, err)
	if !strings.HasPrefix(made.Secret, secretPrefix) {
		t.Errorf("the secret is %q", made.Secret)
	}
	only := hook
	only.Queues, only.URL = []string{"reports"}, hookURL+"/r"
	_, err = s.AddSubscription(t.Context(), ops, "reports", only)
	must(t, err)
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	create(t, s, New{Queue: "reports", Task: "t", Payload: []byte("1")})
	f.wait(3)
	stop()
	// While nobody runs the subscriptions, more happens.
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	must(t, st.Close())
	st = open(t, sqlite.Options{Path: path})
	s, stop = running(t, st, twoQueues, f)
	defer stop()
	create(t, s, New{Queue: "reports", Task: "t", Payload: []byte("1")})
	f.wait(3)
	want := []string{
		hookURL + " evt_1 job.created", hookURL + " evt_2 job.created", hookURL + " evt_3 job.created", hookURL + " evt_4 job.created",
		hookURL + "/r evt_2 job.created", hookURL + "/r evt_4 job.created",
	}
	if diff := cmp.Diff(want, f.all()); diff != "" {
		t.Error(diff)
	}
	all, err := s.Subscriptions(t.Context(), ops)
	must(t, err)
	if len(all) != 2 || all[0].Secret != "" || all[0].By != ByAPI || all[0].Name != "hook" {
		t.Errorf("%+v", all)
	}
	limited := Principal{Queues: []string{"reports", "x"}}
	if all, err = s.Subscriptions(t.Context(), limited); err != nil || len(all) != 1 || all[0].Name != "reports" {
		t.Errorf("%+v %v", all, err)
	}
}

// The store's files are no part of a bubble, but nothing in it waits for a socket.
func TestADeliveryIsTriedForAboutADay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db"), Rand: func() float64 { return 0.5 }})
		must(t, err)
		f := newFar()
		f.answer = func(n int, _ Delivery) Verdict {
			if n%3 == 0 { // a breaker is open: that costs no try
				return Verdict{How: NotNow, After: time.Minute}
			}
			return Verdict{How: TryAgain, Error: "503"}
		}
		s, err := NewServer(Options{Store: st, Config: twoQueues, Deliver: f})
		must(t, err)
		must(t, s.Open(t.Context()))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { defer close(ended); s.runSubscriptions(ctx) }() // alone: a day of sweeps takes long
		_, err = s.AddSubscription(t.Context(), ops, "hook", hook)
		must(t, err)
		create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
		f.wait(17) // twelve tries, and five that were none
		synctest.Wait()
		times := f.times["evt_1"]
		if len(times) != 17 || times[16].Sub(times[0]) < 22*time.Hour || times[16].Sub(times[0]) > 26*time.Hour {
			t.Errorf("%d tries within %v", len(times), times[len(times)-1].Sub(times[0]))
		}
		page, err := s.List(t.Context(), store.Filter{Queue: store.EventQueue + "hook", Status: job.Failed, Limit: 10})
		must(t, err)
		if len(page.Jobs) != 1 || page.Jobs[0].Reason != job.ReasonExhausted || page.Jobs[0].Counts.Charged != 12 {
			t.Errorf("%+v", page.Jobs)
		}
		stop()
		<-ended
		must(t, st.Close())
	})
}

// A job may be made before Run, and before the loop of a subscription that a
// configuration has first.
func TestASubscriptionBeginsWhenItComesInForce(t *testing.T) {
	with := func(names ...string) Config {
		c := Config{Queues: twoQueues.Queues, Subscriptions: map[string]Subscription{}}
		for _, name := range names {
			c.Subscriptions[name] = Subscription{Events: []store.EventType{store.JobCreated}, To: []string{name}}
		}
		return c
	}
	st, f := open(t, sqlite.Options{}), newFar()
	s, err := NewServer(Options{Store: st, Config: with("chat"), Deliver: f})
	must(t, err)
	must(t, s.Open(t.Context()))
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	must(t, s.Configure(with("chat", "later")))
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	f.wait(3)
	end()
	must(t, <-ended)
	want := []string{"chat evt_1 job.created", "chat evt_2 job.created", "later evt_2 job.created"}
	if diff := cmp.Diff(want, f.all()); diff != "" {
		t.Error(diff)
	}
}

func TestGoneDisables(t *testing.T) {
	st := open(t, sqlite.Options{})
	f := newFar()
	f.answer = func(int, Delivery) Verdict { return Verdict{How: Gone, Error: "410"} }
	s, stop := running(t, st, twoQueues, f)
	defer stop()
	_, err := s.AddSubscription(t.Context(), ops, "hook", hook)
	must(t, err)
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	f.wait(1)
	must(t, s.AwaitEvents(t.Context(), 1))
	read, err := s.Events(t.Context(), ops, store.EventFilter{Types: []store.EventType{store.SubscriptionGone}}, 0, 10)
	must(t, err)
	if len(read.Events) != 1 || read.Events[0].Subject != "hook" {
		t.Errorf("%+v", read)
	}
	state, err := s.Subscription(t.Context(), ops, "hook")
	must(t, err)
	if state.Disabled != "the other side answered that it is gone. 410" {
		t.Errorf("%+v", state)
	}
	stop()
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	_, stopAgain := running(t, st, twoQueues, f)
	stopAgain()
	if got := f.all(); len(got) != 1 {
		t.Errorf("delivered all the same: %v", got)
	}

	// Somebody lets it go on: from where it stood.
	s, stop = running(t, st, twoQueues, f)
	defer stop()
	f.mu.Lock()
	f.answer = nil
	f.mu.Unlock()
	state, err = s.ResumeSubscription(t.Context(), ops, "hook")
	must(t, err)
	if state.Disabled != "" {
		t.Errorf("%+v", state)
	}
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	f.wait(3)
	stop()
	got := f.all()
	slices.Sort(got)
	// The one that met the 410 waited with the others, and is no dead letter.
	if len(got) != 4 || len(slices.Compact(slices.Clone(got))) != 3 {
		t.Errorf("each event once more, after the 410 of the first: %v", got)
	}
	if state, err := s.Subscription(t.Context(), ops, "hook"); err != nil || state.Deliveries.Failed != 0 || state.Deliveries.Succeeded != 3 {
		t.Errorf("%+v, %v", state.Deliveries, err)
	}
	if n := s.Totals(); n.Succeeded+n.Failed+n.Released != 0 || n.Delivered != 3 {
		t.Errorf("deliveries count as attempts of jobs: %+v", n)
	}
	if _, err := s.ResumeSubscription(t.Context(), ops, "nothing"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("%v", err)
	}
}

// A webhook that is never called is refused, not taken and then given up.
func TestAHostThatIsNeverCalledIsRefused(t *testing.T) {
	f := newFar()
	f.host = errors.New("10.0.0.1 is no public address")
	s, stop := running(t, open(t, sqlite.Options{}), twoQueues, f)
	defer stop()
	_, err := s.AddSubscription(t.Context(), ops, "hook", hook)
	if bad, ok := errors.AsType[*InvalidError](err); !ok || !strings.Contains(bad.Error(), "10.0.0.1 is no public address") || !strings.Contains(bad.Error(), "/url") {
		t.Errorf("%v", err)
	}
}

// Two subscriptions whose destinations are queues, each of which makes a job of
// every event: left alone, each job would be an event for both.
func TestNoEventGoesInACircle(t *testing.T) {
	st := open(t, sqlite.Options{})
	f := newFar()
	created := []store.EventType{store.JobCreated}
	c := Config{Queues: twoQueues.Queues, Subscriptions: map[string]Subscription{
		"a": {Events: created, To: []string{"x", "y"}}, "b": {Events: created, To: []string{"z"}},
	}}
	s, stop := running(t, st, c, f)
	defer stop()
	f.put = func(d Delivery) {
		kept, err := s.Messages().Put(context.Background(), connector.Put{Queue: "reports", Task: d.To, Message: d.Message, Key: d.To + "/" + d.Message.ID})
		if err != nil || kept.Found {
			t.Errorf("%s of %s: %+v %v", d.Message.ID, d.To, kept, err)
		}
	}
	create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
	// Every order of three places without a repeat: 3 + 6 + 6.
	f.wait(15)
	last, err := st.LastEvent(t.Context())
	must(t, err)
	for _, name := range []string{"a", "b"} {
		for at := int64(0); at < last; {
			if at, _, err = s.cursor(t.Context(), name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(f.all()); n != 15 || last != 16 {
		t.Errorf("%d deliveries, %d events: %v", n, last, f.all())
	}
	stop()
	// A header that anybody sends is no way to keep events from anybody.
	m := &connector.Put{Queue: "reports", Message: messageWith(map[string][]string{viaHeader: {"b/z"}})}
	kept, err := s.Messages().Put(t.Context(), *m)
	must(t, err)
	if via, err := s.via(t.Context(), store.Event{Job: kept.Job}); err != nil || via != nil {
		t.Errorf("%v %v", via, err)
	}
}

func TestSubscriptionsTellWhatIsWrong(t *testing.T) {
	s := unstored(t, Config{})
	limited := Principal{Name: "few", Queues: []string{"a"}}
	for _, c := range []struct {
		by   Principal
		name string
		sub  Subscription
		want string
	}{
		{ops, "a b", Subscription{}, "0  the name may hold A-Z, a-z, 0-9 and . _ : - only\n0 /events is empty; name some of " + eventList() + "\n0 /url is missing"},
		{ops, "s", Subscription{To: []string{"x"}, Events: []store.EventType{"job.faild", store.JobFailed, store.JobFailed}},
			"0 /to can't be said over the API; the configuration sends events to destinations of the relay\n0 /events/0 unknown type of event \"job.faild\"; did you mean \"job.failed\"?\n0 /events/2 is there twice"},
		{ops, "s", Subscription{URL: "ftp://x", Secret: "whsec_short", Events: []store.EventType{store.JobFailed}},
			"0 /url must be an http or https URL with a host\n0 /secret must be whsec_ and the base64 of 24 to 64 bytes"},
		{ops, "s", Subscription{URL: "https://u:p@x/", Events: []store.EventType{store.JobFailed}}, "0 /url must carry no user and no password; what is sent is signed"},
		{limited, "s", Subscription{URL: hookURL, Events: []store.EventType{store.JobFailed}}, `0 /queues is empty; the key "few" is limited to queues: name some of them`},
		{limited, "s", Subscription{URL: hookURL, Queues: []string{"a", "b"}, Events: []store.EventType{store.JobFailed}}, "0 /queues/1 is not one of the key's"},
	} {
		_, err := s.AddSubscription(t.Context(), c.by, c.name, c.sub)
		if got := problems(t, err); got != c.want {
			t.Errorf("%+v:\n got %s\nwant %s", c.sub, got, c.want)
		}
	}
}

func TestEventsAreWrittenWhileSomebodyReadsThem(t *testing.T) {
	clock := newClock()
	path := filepath.Join(t.TempDir(), "pawl.db")
	o := clock.options()
	o.Path = path
	st, err := sqlite.Open(t.Context(), o)
	must(t, err)
	s := opened(t, st, twoQueues)
	written := func() int64 {
		t.Helper()
		before, err := s.store.LastEvent(t.Context())
		must(t, err)
		create(t, s, New{Queue: "emails", Task: "t", Payload: []byte("1")})
		create(t, s, New{Queue: "reports", Task: "t", Payload: []byte("1")})
		after, err := s.store.LastEvent(t.Context())
		must(t, err)
		return after - before
	}
	if n := written(); n != 0 {
		t.Errorf("%d events that nobody reads", n)
	}
	read := func(by Principal, f store.EventFilter) int {
		t.Helper()
		got, err := s.Events(t.Context(), by, f, 0, store.EventsPage)
		must(t, err)
		return len(got.Events)
	}
	read(ops, store.EventFilter{})
	if n := written(); n != 2 {
		t.Errorf("%d events for a reader", n)
	}
	limited := Principal{Queues: []string{"reports"}}
	if a, b, c := read(ops, store.EventFilter{}), read(limited, store.EventFilter{}), read(limited, store.EventFilter{Queues: []string{"emails"}}); a != 2 || b != 1 || c != 0 {
		t.Errorf("all see %d, a limited key %d, of another's queue %d", a, b, c)
	}
	clock.step(6 * 24 * time.Hour)
	must(t, st.Close())
	s = opened(t, open(t, o), twoQueues)
	if n := written(); n != 2 {
		t.Errorf("%d events within a week of reading, after a restart", n)
	}
	clock.step(2 * 24 * time.Hour)
	must(t, s.Refresh(t.Context()))
	if n := written(); n != 0 {
		t.Errorf("%d events a week after the last reader", n)
	}
	must(t, s.store.Pause(t.Context(), lane.Gate{Kind: lane.QueueGate, Name: "emails"}, "ops"))
	if read(ops, store.EventFilter{Types: []store.EventType{store.QueuePaused}}) != 1 {
		t.Error("what happens seldom is written always")
	}
}

func messageWith(headers map[string][]string) *message.Message {
	return &message.Message{ID: "m-1", Source: "in", Time: time.Unix(0, 0), Headers: headers, Body: []byte("1")}
}
