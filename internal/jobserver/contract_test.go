package jobserver

// What these tests would catch: a payload or a result that does not fit and is
// taken, a violation that is not told or points elsewhere, a contract whose change
// reaches a job that was made before, a schema that is gone while a job needs it.

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

var (
	person = lane.Task{Name: "greet", Version: "1"}
	greets = Task{
		Input:  []byte(`{"type":"object","required":["name","age"],"properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0},"a/b":{"type":"array","items":{"type":"string"}}}}`),
		Output: []byte(`{"type":"object","required":["sent"]}`),
	}
	qs = map[string]Queue{"q": {}}
)

// slowToDefine holds a definition up until it is let go.
type slowToDefine struct {
	store.Store
	began, goes chan struct{}
}

func (s *slowToDefine) PutDefinition(ctx context.Context, d store.Definition) (store.Definition, error) {
	if d.Name == "slow" {
		close(s.began)
		<-s.goes
	}
	return s.Store.PutDefinition(ctx, d)
}

// What a job is made under does not wait for a disk that is slow to take somebody's
// definition.
func TestACreateWaitsForNoDefinition(t *testing.T) {
	slow := &slowToDefine{open(t, sqlite.Options{}), make(chan struct{}), make(chan struct{})}
	s := opened(t, slow, Config{Queues: map[string]Queue{"q": {}}})
	must(t, s.PutTask(t.Context(), ops, lane.Task{Name: "t", Version: "1"}, Task{Input: []byte(`true`)}, RefuseDifferent))
	defined, created := make(chan error, 1), make(chan error, 1)
	go func() { defined <- s.PutQueue(t.Context(), ops, "slow", Queue{}) }()
	<-slow.began
	go func() {
		_, err := s.Create(t.Context(), ops, []New{{Queue: "q", Task: "t", Payload: []byte(`1`)}})
		created <- err
	}()
	select {
	case err := <-created:
		must(t, err)
	case <-time.After(10 * time.Second):
		t.Error("the create waits for the definition of a queue")
	}
	close(slow.goes)
	must(t, <-defined)
}

func TestInputSchema(t *testing.T) {
	s := opened(t, open(t, sqlite.Options{}), Config{Queues: qs, Tasks: map[lane.Task]Task{person: greets}})
	for payload, want := range map[string]string{
		`{"name":"x","age":1}`:              "",
		`{"name":5,"age":-1,"a/b":["x",1]}`: "0 /payload/age minimum: got -1, want 0\n0 /payload/a~1b/1 got number, want string\n0 /payload/name got number, want string",
		`[]`:                                "0 /payload got array, want object",
		`{}`:                                "0 /payload missing properties 'age', 'name'",
		`{"name":"x","age":1.0}`:            "",
		`{"name":"x","age":1e400000}`:       "0 /payload/age the number's exponent is past 1000",
		`{"name":"x","age":1,"name2":"additional fits"}`: "",
	} {
		_, err := s.Create(t.Context(), Principal{}, []New{{Queue: "q", Task: "greet", Payload: []byte(payload)}})
		if want == "" {
			if err != nil {
				t.Errorf("%s: %v", payload, err)
			}
			continue
		}
		if err == nil {
			t.Errorf("%s was taken", payload)
		} else if got := problems(t, err); got != want && got != strings.Replace(want, "'age', 'name'", "'name', 'age'", 1) {
			t.Errorf("%s:\n got %s\nwant %s", payload, got, want)
		}
	}
	// Another version has no contract.
	create(t, s, New{Queue: "q", Task: "greet", Version: "2", Payload: []byte("[]")})
}

func TestOutputSchema(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pawl.db")
	st, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	must(t, err)
	s := opened(t, st, Config{Queues: qs})
	must(t, s.PutTask(t.Context(), ops, person, greets, RefuseDifferent))
	payload := []byte(`{"name":"x","age":1}`)
	for range 3 {
		create(t, s, New{Queue: "q", Task: "greet", Payload: payload})
	}
	got := claim(t, s, Want{Queues: []string{"q"}})
	// The contract is another one now, and the process too: the jobs keep theirs.
	must(t, s.PutTask(t.Context(), ops, person, Task{}, ReplaceContract))
	must(t, st.Close())
	s = opened(t, open(t, sqlite.Options{Path: path}), Config{Queues: qs})
	bad := store.Report{Type: store.Complete, Lease: got[0].Lease, Result: []byte(`{}`)}
	none := store.Report{Type: store.Complete, Lease: got[1].Lease}
	good := store.Report{Type: store.Complete, Lease: got[2].Lease, Result: []byte(`{"sent":true}`)}
	for range 2 { // a repeat gets the same answer
		answers := report(t, s, bad, none, good)
		for i, want := range []job.Status{job.Failed, job.Failed, job.Succeeded} {
			if answers[i].JobStatus != want {
				t.Errorf("report %d: %+v", i, answers[i])
			}
		}
	}
	j, err := s.Job(t.Context(), got[0].Job.ID)
	must(t, err)
	if j.Reason != job.ReasonOutputSchema || j.LastError == nil || j.LastError.Message != "the result does not fit the task's output schema: the result: missing property 'sent'" {
		t.Errorf("%s %+v", j.Reason, j.LastError)
	}
	if len(j.Attempts) != 1 || string(j.Result) != "{}" { // it is kept, for a person to look at
		t.Errorf("%+v", j)
	}
}

func TestAContractOfTheFileNeedsNoDefinition(t *testing.T) {
	s := opened(t, open(t, sqlite.Options{}), Config{Queues: qs, Tasks: map[lane.Task]Task{person: greets}})
	create(t, s, New{Queue: "q", Task: "greet", Payload: []byte(`{"name":"x","age":1}`)})
	if a := report(t, s, store.Report{Type: store.Complete, Lease: claim(t, s, Want{Queues: []string{"q"}})[0].Lease, Result: []byte(`[]`)}); a[0].JobStatus != job.Failed {
		t.Errorf("%+v", a)
	}
	for _, text := range [][]byte{greets.Input, greets.Output} {
		if kept, err := s.store.Schema(t.Context(), hashSchema(text)); err != nil || string(kept) != string(text) {
			t.Errorf("%s: %v", kept, err)
		}
	}
}

func TestSyntheticAndUnique(t *testing.T) {
	s := opened(t, open(t, sqlite.Options{}), Config{Queues: qs, Tasks: map[lane.Task]Task{{Name: "ping", Version: "1"}: {Endpoint: "e"}}})
	_, err := s.Create(t.Context(), Principal{}, []New{{Queue: "q", Task: "t", Kind: job.Synthetic, Unique: "\x00", Payload: []byte("1")}})
	if got := problems(t, err); got != "0 /unique must be UTF-8 without control characters\n0 /endpoint is missing; a synthetic job checks an endpoint, and neither it nor its task names one" {
		t.Error(got)
	}
	made := create(t, s, New{Queue: "q", Task: "ping", Kind: job.Synthetic, Unique: "one", Payload: []byte("1")})
	if made.Job.Kind != job.Synthetic || made.Job.Unique != "one" || made.Job.Endpoint != "e" {
		t.Errorf("%+v", made.Job)
	}
	if again := create(t, s, New{Queue: "q", Task: "ping", Unique: "one", Payload: []byte("2")}); !again.Found || again.ID != made.ID {
		t.Errorf("%+v", again)
	}
}
