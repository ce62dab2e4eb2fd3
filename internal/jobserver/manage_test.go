package jobserver

// What these tests would catch: something of the configuration that the API
// changes, a definition that is not in force at once or not after a restart, one
// that is deleted under its jobs, a contract that is replaced unasked, a key that
// sees the counts of queues that are not its own.

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

var ops = Principal{ID: "key_1", Name: "ops"}

// opened is a server on a store, with what was said over the API in force.
func opened(t testing.TB, st store.Store, c Config) *Server {
	t.Helper()
	s, err := NewServer(Options{Store: st, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	must(t, s.Open(t.Context()))
	return s
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var fullEndpoint = Endpoint{
	Retry: job.Overlay{MaxAttempts: new(3), Initial: new(1500 * time.Microsecond), Factor: new(1.5), MaxDelay: new(time.Hour), Jitter: new(0.0)},
	Rate:  &limit.Rate{PerSecond: 2.5, Burst: 4}, Concurrency: 7, Circuit: &circuit.Settings{Failures: 2, Cooldown: 90 * time.Second},
}

func TestDefinitionsOutliveARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	must(t, err)
	s := opened(t, st, Config{})
	queue := Queue{Lease: time.Minute, Timeout: time.Hour, Concurrency: 3, Retry: job.Overlay{MaxAttempts: new(2)}}
	task := Task{Retry: job.Overlay{Jitter: new(1.0)}, Timeout: time.Minute, Endpoint: "e", Repeat: job.RepeatUnsafe, Input: []byte(`{"type":"object"}`), Output: []byte(`true`)}
	name := lane.Task{Name: "t", Version: "2"}
	must(t, s.PutQueue(t.Context(), ops, "q", queue))
	must(t, s.PutEndpoint(t.Context(), ops, "e", fullEndpoint))
	must(t, s.PutTask(t.Context(), ops, name, task, RefuseDifferent))
	check := func(when string) {
		t.Helper()
		q, err := s.QueueState(t.Context(), ops, "q")
		must(t, err)
		e, err := s.EndpointState(t.Context(), ops, "e")
		must(t, err)
		k, err := s.TaskState(t.Context(), ops, name)
		must(t, err)
		for what, diff := range map[string]string{"queue": cmp.Diff(queue, q.Queue), "endpoint": cmp.Diff(fullEndpoint, e.Endpoint), "task": cmp.Diff(task, k.Task)} {
			if diff != "" {
				t.Errorf("%s: %s: %s", when, what, diff)
			}
		}
		for _, m := range []Managed{q.Managed, e.Managed, k.Managed} {
			if m.By != ByAPI || m.UpdatedBy != "ops" || m.UpdatedAt.IsZero() {
				t.Errorf("%s: %+v", when, m)
			}
		}
	}
	check("at once")
	must(t, st.Close())
	s = opened(t, open(t, sqlite.Options{Path: path}), Config{})
	check("after a restart")
	// They are in force: the contract's input, the queue's concurrency.
	if _, err := s.Create(t.Context(), ops, []New{{Queue: "q", Task: "t", Payload: []byte("1")}}); err == nil {
		t.Error("a payload that does not fit was taken")
	}
	for range 4 {
		create(t, s, New{Queue: "q", Task: "other", Payload: []byte("1")})
	}
	if got := claim(t, s, Want{Queues: []string{"q"}}); len(got) != 3 {
		t.Errorf("%d at once, though 3 may run", len(got))
	}
}

func TestTheConfigurationIsReadOnly(t *testing.T) {
	name := lane.Task{Name: "t", Version: "1"}
	s := opened(t, open(t, sqlite.Options{}), Config{
		Queues: map[string]Queue{"q": {}}, Endpoints: map[string]Endpoint{"e": {}}, Tasks: map[lane.Task]Task{name: {Timeout: time.Minute}},
		Subscriptions: map[string]Subscription{"s": {Events: []store.EventType{store.JobFailed}, To: []string{"chat"}}},
	})
	for what, err := range map[string]error{
		"put queue": s.PutQueue(t.Context(), ops, "q", Queue{}), "remove queue": s.RemoveQueue(t.Context(), "q"),
		"put endpoint": s.PutEndpoint(t.Context(), ops, "e", Endpoint{}), "remove endpoint": s.RemoveEndpoint(t.Context(), "e"),
		"put task": s.PutTask(t.Context(), ops, name, Task{}, ReplaceContract), "remove task": s.RemoveTask(t.Context(), name),
		"remove subscription": s.RemoveSubscription(t.Context(), ops, "s"),
	} {
		if !errors.Is(err, ErrManagedByFile) || !strings.Contains(err.Error(), "change it there and reload") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// A worker that registers just what the file says is fine.
	must(t, s.PutTask(t.Context(), ops, name, Task{Timeout: time.Minute}, RefuseDifferent))
	// What the file names later is the file's from then on, and what it names no
	// more is what the API said of it.
	must(t, s.PutQueue(t.Context(), ops, "r", Queue{Timeout: time.Hour}))
	must(t, s.Configure(Config{Queues: map[string]Queue{"r": {Timeout: time.Minute}}}))
	if q, err := s.QueueState(t.Context(), ops, "r"); err != nil || q.By != ByFile || q.Timeout != time.Minute {
		t.Errorf("named by the file: %+v %v", q, err)
	}
	must(t, s.Configure(Config{}))
	if q, err := s.QueueState(t.Context(), ops, "r"); err != nil || q.By != ByAPI || q.Timeout != time.Hour {
		t.Errorf("named no more: %+v %v", q, err)
	}
}

func TestWhatHasUnfinishedJobsStays(t *testing.T) {
	s := opened(t, open(t, sqlite.Options{}), Config{})
	name := lane.Task{Name: "t", Version: "1"}
	must(t, s.PutQueue(t.Context(), ops, "q", Queue{}))
	must(t, s.PutEndpoint(t.Context(), ops, "e", Endpoint{}))
	must(t, s.PutTask(t.Context(), ops, name, Task{Endpoint: "e"}, RefuseDifferent))
	create(t, s, New{Queue: "q", Task: "t", Payload: []byte("1")})
	create(t, s, New{Queue: "q", Task: "t", Payload: []byte("1")})
	leased := claim(t, s, Want{Queues: []string{"q"}, Max: 1})
	remove := map[string]func() error{
		"queue":    func() error { return s.RemoveQueue(t.Context(), "q") },
		"task":     func() error { return s.RemoveTask(t.Context(), name) },
		"endpoint": func() error { return s.RemoveEndpoint(t.Context(), "e") },
	}
	for what, f := range remove {
		if use, ok := errors.AsType[*InUseError](f()); !ok || use.Queued != 1 || use.Running != 1 || !errors.Is(use, store.ErrStatus) {
			t.Errorf("%s: %+v", what, use)
		}
	}
	report(t, s, store.Report{Type: store.Complete, Lease: leased[0].Lease})
	report(t, s, store.Report{Type: store.Complete, Lease: claim(t, s, Want{Queues: []string{"q"}})[0].Lease})
	for what, f := range remove {
		must(t, f())
		if err := f(); !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "it is listed because ") {
			t.Errorf("%s removed twice: %v", what, err)
		}
	}
	if _, err := s.Create(t.Context(), ops, []New{{Queue: "q", Task: "t", Payload: []byte("1")}}); err == nil {
		t.Error("a job in a queue that was removed")
	}
	// The finished ones still show it.
	if q, err := s.QueueState(t.Context(), ops, "q"); err != nil || q.By != ByNobody || q.Counts.Succeeded != 2 {
		t.Errorf("%+v %v", q, err)
	}
}

// What is listed and nothing was said of is not unknown: whatever it is listed for,
// the answers to a look and to a removal agree.
func TestWhatIsOnlyListedIsNotUnknown(t *testing.T) {
	s := opened(t, open(t, sqlite.Options{}), Config{
		Queues: map[string]Queue{"q": {}}, Tasks: map[lane.Task]Task{{Name: "t", Version: "1"}: {Endpoint: "of-a-task"}},
	})
	create(t, s, New{Queue: "q", Task: "t", Endpoint: "of-a-job", Payload: []byte("1")})
	leased := claim(t, s, Want{Queues: []string{"q"}})
	report(t, s, store.Report{Type: store.Fail, Lease: leased[0].Lease})
	for kind, name := range map[lane.GateKind]string{lane.EndpointGate: "of-a-pause", lane.QueueGate: "gone"} {
		must(t, s.store.Pause(t.Context(), lane.Gate{Kind: kind, Name: name}, "ops"))
	}
	for _, name := range []string{"of-a-task", "of-a-job", "of-a-pause"} {
		if _, err := s.EndpointState(t.Context(), ops, name); err != nil {
			t.Errorf("a look at %s: %v", name, err)
		}
		err := s.RemoveEndpoint(t.Context(), name)
		if !errors.Is(err, store.ErrNotFound) || !strings.Contains(err.Error(), "a job or a task names it, it is paused or its circuit counts something") {
			t.Errorf("the removal of %s: %v", name, err)
		}
	}
	if err := s.RemoveQueue(t.Context(), "gone"); !strings.Contains(err.Error(), "it has jobs or is paused") {
		t.Errorf("the removal of a paused queue: %v", err)
	}
	if err := s.RemoveEndpoint(t.Context(), "of-a-tusk"); !strings.HasPrefix(err.Error(), "unknown endpoint") {
		t.Errorf("the removal of an unknown one: %v", err)
	}
}

func TestAContractIsNotReplacedUnasked(t *testing.T) {
	s := opened(t, open(t, sqlite.Options{}), Config{})
	name := lane.Task{Name: "t", Version: "1"}
	had := Task{Timeout: time.Minute, Endpoint: "e", Input: []byte(`{"type":"object","required":["a"]}`)}
	must(t, s.PutTask(t.Context(), ops, name, had, RefuseDifferent))
	same := had
	same.Input, same.Repeat = []byte(`{ "required": ["a"], "type": "object" }`), job.RepeatSafe
	must(t, s.PutTask(t.Context(), ops, name, same, RefuseDifferent))
	other := Task{Timeout: time.Hour, Endpoint: "e", Repeat: job.RepeatUnsafe, Retry: job.Overlay{MaxAttempts: new(1)}}
	err := s.PutTask(t.Context(), ops, name, other, RefuseDifferent)
	differs, ok := errors.AsType[*ContractError](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	want := `the task "t@1" has another contract already: retry is nothing there and (max_attempts 1) here; timeout is 1m there and 1h here; ` +
		`repeat is safe there and unsafe here; input_schema is the schema `
	if !strings.HasPrefix(err.Error(), want) || !strings.HasSuffix(err.Error(), "… there and none here; give the task a new version, or say update: true to replace it") {
		t.Errorf("%v", err)
	}
	if diff := cmp.Diff([]string{"retry", "timeout", "repeat", "input_schema"}, differs.Members); diff != "" {
		t.Error(diff)
	}
	must(t, s.PutTask(t.Context(), ops, name, other, ReplaceContract))
	if k, err := s.TaskState(t.Context(), ops, name); err != nil || k.Timeout != time.Hour || k.Repeat != job.RepeatUnsafe || k.Input != nil {
		t.Errorf("%+v %v", k, err)
	}
}

func TestEverythingThatIsWrongIsTold(t *testing.T) {
	s := unstored(t, Config{})
	big := []byte(`"` + strings.Repeat("x", MaxSchema) + `"`)
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"queue": {
			s.PutQueue(t.Context(), ops, "relay:q", Queue{Lease: time.Millisecond, Timeout: 25 * time.Hour, Concurrency: MaxConcurrency + 1, Retry: job.Overlay{MaxAttempts: new(0)}}),
			"0  names that begin with relay: are the relay's own\n0 /lease must be from 1s to 1h, not 1ms\n0 /timeout must be from 1s to 1d, not 1d1h\n" +
				"0 /concurrency must be from 1 to 100000, not 100001\n0 /retry/max_attempts must be from 1 (no retry) to 50, not 0",
		},
		"endpoint": {
			s.PutEndpoint(t.Context(), ops, "a b", Endpoint{Rate: &limit.Rate{PerSecond: 0.001, Burst: -1}, Concurrency: -1, Circuit: &circuit.Settings{Failures: 1001, Cooldown: time.Millisecond}}),
			"0  the name may hold A-Z, a-z, 0-9 and . _ : - only\n0 /concurrency must be from 1 to 100000, not -1\n0 /rate/per_second must be from 0.01 to 100000, not 0.001\n" +
				"0 /rate/burst must be from 1 to 1000000, not -1\n0 /circuit/failures must be from 1 to 1000, not 1001\n0 /circuit/cooldown must be from 1s to 1d, not 1ms",
		},
		"task": {
			s.PutTask(t.Context(), ops, lane.Task{Name: "t"}, Task{Timeout: 1, Endpoint: "a b", Repeat: "never", Input: []byte(`{"type":5}`), Output: big}, RefuseDifferent),
			"0  the version is missing\n0 /timeout must be from 1s to 1d, not 1ns\n0 /endpoint may hold A-Z, a-z, 0-9 and . _ : - only\n0 /repeat must be safe or unsafe, not \"never\"\n" +
				"0 /input_schema is no JSON Schema: ",
		},
	} {
		if got := problems(t, c.err); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
}

func TestAKeySeesItsQueues(t *testing.T) {
	s := opened(t, open(t, sqlite.Options{}), Config{Queues: map[string]Queue{"a": {}, "b": {}}, Endpoints: map[string]Endpoint{"unused": {}}})
	create(t, s, New{Queue: "a", Task: "t", Endpoint: "e", Payload: []byte("1")})
	create(t, s, New{Queue: "b", Task: "t", Endpoint: "f", Payload: []byte("1")})
	must(t, s.store.Pause(t.Context(), lane.Gate{Kind: lane.EndpointGate, Name: "f"}, "ops"))
	limited := Principal{Name: "limited", Queues: []string{"a"}}
	queues, _, err := s.QueueStates(t.Context(), limited, Slice{})
	must(t, err)
	endpoints, _, err := s.EndpointStates(t.Context(), limited, Slice{})
	must(t, err)
	tasks, _, err := s.TaskStates(t.Context(), limited, Slice{})
	must(t, err)
	if len(queues) != 1 || queues[0].Name != "a" || len(endpoints) != 1 || endpoints[0].Name != "e" || len(tasks) != 1 || tasks[0].Counts.Queued != 1 {
		t.Errorf("%+v\n%+v\n%+v", queues, endpoints, tasks)
	}
	if _, err := s.QueueState(t.Context(), limited, "b"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("another's queue: %v", err)
	}
	all, _, err := s.EndpointStates(t.Context(), ops, Slice{})
	must(t, err)
	var names []string
	for _, e := range all {
		names = append(names, e.Name)
	}
	if diff := cmp.Diff([]string{"e", "f", "unused"}, names); diff != "" || all[1].Paused == nil {
		t.Error(diff)
	}
}

func TestListsComeInParts(t *testing.T) {
	queues := map[string]Queue{}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		queues[name] = Queue{}
	}
	s := opened(t, open(t, sqlite.Options{}), Config{Queues: queues})
	var names []string
	for part := (Slice{Limit: 2}); ; {
		got, next, err := s.QueueStates(t.Context(), ops, part)
		must(t, err)
		for _, q := range got {
			names = append(names, q.Name)
		}
		if next == "" {
			break
		}
		part.After = next
	}
	if strings.Join(names, "") != "abcde" {
		t.Error(names)
	}
	got, _, err := s.QueueStates(t.Context(), ops, Slice{After: "bb", Limit: 1})
	if err != nil || len(got) != 1 || got[0].Name != "c" {
		t.Errorf("behind a name that is not there: %+v %v", got, err)
	}
}
