package jobserver

// What these tests would catch: a bound that is not held, an error that points
// elsewhere or tells only the first of many, a name that gets near nothing, a
// configuration that is half in force.

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

var twoQueues = Config{Queues: map[string]Queue{"emails": {}, "reports": {}}}

// unstored is a server whose store may only be asked for the time: what is
// refused never comes to it.
func unstored(t *testing.T, c Config) *Server {
	t.Helper()
	s, err := NewServer(Options{Store: &steps{}, Config: c})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// problems returns what an InvalidError tells, one a line.
func problems(t *testing.T, err error) string {
	t.Helper()
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok {
		t.Fatalf("%v is no InvalidError", err)
	}
	var lines []string
	for _, p := range invalid.Problems {
		lines = append(lines, fmt.Sprintf("%d %s %s", p.Job, p.Pointer, p.Message))
	}
	return strings.Join(lines, "\n")
}

func TestCreateTellsWhatIsWrong(t *testing.T) {
	s := unstored(t, twoQueues)
	long := strings.Repeat("x", job.MaxName+1)
	for name, c := range map[string]struct {
		change func(*New)
		want   string
	}{
		"no queue":         {func(n *New) { n.Queue = "" }, "/queue is missing"},
		"a near queue":     {func(n *New) { n.Queue = "email" }, `/queue unknown queue "email"; did you mean "emails"?`},
		"a queue far away": {func(n *New) { n.Queue = "x" }, `/queue unknown queue "x"`},
		"the relay's":      {func(n *New) { n.Queue = "relay:in" }, `/queue can't begin with "relay:"; such queues are the relay's own`},
		"a bad queue":      {func(n *New) { n.Queue = "a b" }, "/queue may hold A-Z, a-z, 0-9 and . _ : - only"},
		"no task":          {func(n *New) { n.Task = "" }, "/task is missing"},
		"a long task":      {func(n *New) { n.Task = long }, "/task is longer than 128 characters"},
		"a bad version":    {func(n *New) { n.Version = "1/2" }, "/version may hold A-Z, a-z, 0-9 and . _ : - only"},
		"a bad endpoint":   {func(n *New) { n.Endpoint = "é" }, "/endpoint may hold A-Z, a-z, 0-9 and . _ : - only"},
		"low":              {func(n *New) { n.Priority = -101 }, "/priority must be from -100 to 100, not -101"},
		"high":             {func(n *New) { n.Priority = 101 }, "/priority must be from -100 to 100, not 101"},
		"no payload":       {func(n *New) { n.Payload = nil }, "/payload is missing; a job that carries nothing says null"},
		"a large payload": {func(n *New) { n.Payload = make([]byte, MaxPayload+1) },
			"/payload has 1048577 bytes; at most 1048576 are allowed"},
		"a spoiled payload": {func(n *New) { n.Payload, n.Key = []byte("{"), "k" }, "/payload is no JSON: unexpected EOF"},
		"tags":              {func(n *New) { n.Tags = make([]string, MaxTags+1) }, "/tags holds 17 tags; at most 16 are allowed"},
		"a tag":             {func(n *New) { n.Tags = []string{"a", "", "a"} }, "/tags/1 is missing\n0 /tags/2 is there twice"},
		"a long key":        {func(n *New) { n.Key = strings.Repeat("k", MaxKey+1) }, "/idempotency_key is longer than 256 bytes"},
		"a key of controls": {func(n *New) { n.Key = "a\nb" }, "/idempotency_key must be UTF-8 without control characters"},
		"a key of bytes":    {func(n *New) { n.Key = "a\xff" }, "/idempotency_key must be UTF-8 without control characters"},
		"C1 in a key":       {func(n *New) { n.Key = "a\u0085" }, "/idempotency_key must be UTF-8 without control characters"},
		"short":             {func(n *New) { n.Timeout = new(999 * time.Millisecond) }, "/timeout must be from 1s to 1d, not 999ms"},
		"long":              {func(n *New) { n.Timeout = new(25 * time.Hour) }, "/timeout must be from 1s to 1d, not 1d1h"},
		"back":              {func(n *New) { n.Delay = new(-time.Second) }, "/delay must be from 0s to 366d, not -1s"},
		"far":               {func(n *New) { n.Delay = new(MaxDelay + time.Second) }, "/delay must be from 0s to 366d, not 366d1s"},
		"far away":          {func(n *New) { n.RunAt = new(time.Now().Add(MaxDelay + time.Hour)) }, "/run_at is more than 366d ahead"},
		"both":              {func(n *New) { n.Delay, n.RunAt = new(time.Second), new(time.Now()) }, "/delay can't be said beside run_at"},
		"retry": {func(n *New) { n.Retry = job.Overlay{MaxAttempts: new(51), Factor: new(math.NaN())} },
			"/retry/max_attempts must be from 1 (no retry) to 50, not 51\n0 /retry/factor must be from 1 to 100, not NaN"},
	} {
		n := New{Queue: "emails", Task: "t", Payload: []byte("null")}
		c.change(&n)
		made, err := s.Create(t.Context(), Principal{}, []New{n})
		if made != nil {
			t.Errorf("%s: %v was made", name, made)
		}
		if diff := cmp.Diff("0 "+c.want, problems(t, err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCreateTellsEverythingAtOnce(t *testing.T) {
	s := unstored(t, twoQueues)
	_, err := s.Create(t.Context(), Principal{}, []New{
		{Queue: "emails", Task: "t", Payload: []byte("1")},
		{Queue: "mails", Priority: 1000, Payload: []byte("1")},
		{Queue: "emails", Task: "t", Payload: []byte("1"), Tags: []string{"?"}},
	})
	want := `1 /queue unknown queue "mails"; did you mean "emails"?
1 /task is missing
1 /priority must be from -100 to 100, not 1000
2 /tags/0 may hold A-Z, a-z, 0-9 and . _ : - only`
	if diff := cmp.Diff(want, problems(t, err)); diff != "" {
		t.Error(diff)
	}
	invalid, _ := errors.AsType[*InvalidError](err)
	if got := invalid.InBatch().Problems[0].Pointer; got != "/jobs/1/queue" {
		t.Errorf("in a batch it points to %s", got)
	}
	if got, want := err.Error(), `/queue: unknown queue "mails"; did you mean "emails"? (and 3 more)`; got != want {
		t.Errorf("it says %s", got)
	}
	if invalid.Problems[0].Pointer != "/queue" {
		t.Error("InBatch changed the error itself")
	}
}

// A key that is limited to queues is told of no other.
func TestNoQueueIsProposedThatTheKeyDoesNotSee(t *testing.T) {
	s := unstored(t, twoQueues)
	for queue, c := range map[string]struct{ by, want string }{
		"report":  {"emails", `unknown queue "report"`},
		"reportz": {"reports", `unknown queue "reportz"; did you mean "reports"?`},
	} {
		by := Principal{ID: "key_1", Queues: []string{c.by}}
		_, err := s.Create(t.Context(), by, []New{{Queue: queue, Task: "t", Payload: []byte("1")}})
		if got := problems(t, err); got != "0 /queue "+c.want {
			t.Errorf("a create: %s", got)
		}
		if got := problems(t, s.Check(by, []New{{Queue: queue, Task: "t", Payload: []byte("1")}})); got != "0 /queue "+c.want {
			t.Errorf("a check: %s", got)
		}
		_, err = s.Claim(t.Context(), Want{By: by, Worker: "worker-1", Queues: []string{queue}, Max: 1})
		if got := problems(t, err); got != "0 /queues/0 "+c.want {
			t.Errorf("a claim: %s", got)
		}
	}
}

func TestProblemsAreBounded(t *testing.T) {
	s := unstored(t, twoQueues)
	_, err := s.Create(t.Context(), Principal{}, make([]New, MaxBatch)) // three problems each
	invalid, ok := errors.AsType[*InvalidError](err)
	if !ok || len(invalid.Problems) != MaxProblems || invalid.More != 3*MaxBatch-MaxProblems {
		t.Errorf("it tells %d problems and %d more", len(invalid.Problems), invalid.More)
	}
}

func TestBatchesAreBounded(t *testing.T) {
	s := unstored(t, twoQueues)
	for _, n := range []int{0, MaxBatch + 1} {
		_, err := s.Create(t.Context(), Principal{}, make([]New, n))
		if want := fmt.Sprintf("0 /jobs must hold from 1 to 1000 jobs, not %d", n); problems(t, err) != want {
			t.Errorf("%d jobs: %v", n, err)
		}
	}
}

func TestNoQueueAtAll(t *testing.T) {
	s := unstored(t, Config{})
	_, err := s.Create(t.Context(), Principal{}, []New{{Queue: "q", Task: "t", Payload: []byte("1")}})
	if want := `0 /queue unknown queue "q"; no queue is configured, jobs.queues names them`; problems(t, err) != want {
		t.Error(err)
	}
}

func TestClaimTellsWhatIsWrong(t *testing.T) {
	s := unstored(t, twoQueues)
	for name, c := range map[string]struct {
		change func(*Want)
		want   string
	}{
		"no worker":      {func(w *Want) { w.Worker = "" }, "/worker is missing"},
		"a short worker": {func(w *Want) { w.Worker = "worker1" }, "/worker is shorter than 8 characters; it names one worker, over restarts too"},
		"a bad worker":   {func(w *Want) { w.Worker = "worker 1" }, "/worker may hold A-Z, a-z, 0-9 and . _ : - only"},
		"the relay's":    {func(w *Want) { w.Worker = "relay:in" }, `/worker can't begin with "relay:"; such workers are the relay's own`},
		"a bad claim id": {func(w *Want) { w.ClaimID = "\x00" }, "/claim_id must be UTF-8 without control characters"},
		"no queue":       {func(w *Want) { w.Queues = nil }, "/queues must hold from 1 to 100 queues, not 0"},
		"many queues":    {func(w *Want) { w.Queues = make([]string, 101) }, "/queues must hold from 1 to 100 queues, not 101"},
		"unknown queues": {func(w *Want) { w.Queues = []string{"emails", "repots", "relay:in"} },
			"/queues/1 unknown queue \"repots\"; did you mean \"reports\"?\n0 /queues/2 can't begin with \"relay:\"; such queues are the relay's own"},
		"many tasks": {func(w *Want) { w.Tasks = make([]lane.Task, MaxTasks+1) }, "/tasks holds 1001 tasks; at most 1000 are allowed"},
		"bad tasks": {func(w *Want) { w.Tasks = []lane.Task{{Name: "t"}, {}, {Name: "t", Version: "?"}} },
			"/tasks/1 the name is missing\n0 /tasks/2 the version may hold A-Z, a-z, 0-9 and . _ : - only"},
		"none":      {func(w *Want) { w.Max = 0 }, "/max must be from 1 to 1000, not 0"},
		"too many":  {func(w *Want) { w.Max = 1001 }, "/max must be from 1 to 1000, not 1001"},
		"backwards": {func(w *Want) { w.Wait = -1 }, "/wait must be from 0s to 1m, not -1ns"},
		"for ever":  {func(w *Want) { w.Wait = time.Hour }, "/wait must be from 0s to 1m, not 1h"},
	} {
		w := Want{Worker: "worker-1", Queues: []string{"emails"}, Max: 1}
		c.change(&w)
		_, err := s.Claim(t.Context(), w)
		if diff := cmp.Diff("0 "+c.want, problems(t, err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestReportTellsWhatIsWrong(t *testing.T) {
	s := unstored(t, twoQueues)
	for name, c := range map[string]struct {
		worker  string
		reports int
		want    string
	}{
		"no worker": {"", 1, "0 /worker is missing"},
		"none":      {"worker-1", 0, "0 /reports must hold from 1 to 1000 reports, not 0"},
		"many":      {"worker-1", 1001, "0 /reports must hold from 1 to 1000 reports, not 1001"},
		"the relay": {"relay:in", 1, `0 /worker can't begin with "relay:"; such workers are the relay's own`},
	} {
		_, err := s.Report(t.Context(), c.worker, make([]store.Report, c.reports))
		if diff := cmp.Diff(c.want, problems(t, err)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestBadReportsAreAnsweredEach(t *testing.T) {
	s := unstored(t, twoQueues)
	cases := []struct {
		r    store.Report
		want string
	}{
		{store.Report{}, `unknown type ""; known are start, heartbeat, log, complete, fail, release`},
		{store.Report{Type: "stop"}, `unknown type "stop"; known are start, heartbeat, log, complete, fail, release`},
		{store.Report{Type: store.Complete, Result: make([]byte, MaxPayload+1)}, "the result has 1048577 bytes; at most 1048576 are allowed"},
		{store.Report{Type: store.Complete, Result: []byte("{")}, "the result is no JSON: unexpected EOF"},
		{store.Report{Type: store.Release, After: -time.Second}, "the wait must not be negative, it is -1s"},
		{store.Report{Type: store.AddLog}, "the report has no lines"},
		{store.Report{Type: store.AddLog, Lines: make([]job.LogLine, MaxLines+1)}, "the report has 1001 lines; at most 1000 are allowed"},
		{store.Report{Type: store.AddLog, Lines: []job.LogLine{{}, {Seq: -1}}}, "line 2: seq must not be negative, it is -1"},
	}
	var reports []store.Report
	for _, c := range cases {
		reports = append(reports, c.r)
	}
	answers, err := s.Report(t.Context(), "worker-1", reports)
	if err != nil || len(answers) != len(cases) {
		t.Fatalf("%d answers, %v", len(answers), err)
	}
	for i, c := range cases {
		if answers[i].Status != Invalid || answers[i].Detail != c.want {
			t.Errorf("report %d: %+v, not %s", i, answers[i], c.want)
		}
	}
	if got := s.Totals().Invalid; got != int64(len(cases)) {
		t.Errorf("%d invalid reports were counted", got)
	}
}

func TestConfigureTellsEverything(t *testing.T) {
	s := unstored(t, Config{Queues: map[string]Queue{"old": {}}})
	err := s.Configure(Config{
		Project: job.Overlay{MaxAttempts: new(0)},
		Queues: map[string]Queue{
			"a b":      {},
			"relay:in": {},
			"short":    {Lease: time.Millisecond, Timeout: time.Millisecond},
			"long":     {Lease: 2 * time.Hour, Timeout: 25 * time.Hour, Retry: job.Overlay{Jitter: new(2.0)}},
		},
		Retention: store.Retention{Finished: time.Hour, DeadLetters: MaxRetention + 1},
	})
	want := `jobs: retention: finished must be from 1d to 3650d, not 1h
retention: dead_letters must be from 1d to 3650d, not 3650d1ns
retry: max_attempts must be from 1 (no retry) to 50, not 0
queue "a b": the name may hold A-Z, a-z, 0-9 and . _ : - only
queue "long": lease must be from 1s to 1h, not 2h
queue "long": timeout must be from 1s to 1d, not 1d1h
queue "long": retry: jitter must be from 0 to 1, not 2
queue "relay:in": names that begin with relay: are the relay's own
queue "short": lease must be from 1s to 1h, not 1ms
queue "short": timeout must be from 1s to 1d, not 1ms`
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]Queue{"old": {Lease: DefaultLease, Timeout: DefaultTimeout}}, s.Queues()); diff != "" {
		t.Errorf("the configuration before is not in force: %s", diff)
	}
	if _, err := NewServer(Options{Store: &steps{}, Config: Config{Project: job.Overlay{MaxAttempts: new(0)}}}); err == nil {
		t.Error("a server was made with a bad configuration")
	}
}
