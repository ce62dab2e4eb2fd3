package jobserver

// What these tests would catch: a value of a policy that comes from another level
// than the most specific one that says it, a level that is named wrongly, a
// version that is not the one registered last.

import (
	"maps"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
)

// overlays draws what a level says.
func overlays(t *rapid.T, level string) (o job.Overlay) {
	says := func(field string) bool { return rapid.Bool().Draw(t, level+" says "+field) }
	if says("max_attempts") {
		o.MaxAttempts = new(rapid.IntRange(1, 50).Draw(t, "max_attempts"))
	}
	if says("initial") {
		o.Initial = new(time.Duration(rapid.IntRange(0, 60).Draw(t, "initial")) * time.Second)
	}
	if says("factor") {
		o.Factor = new(float64(rapid.IntRange(1, 100).Draw(t, "factor")))
	}
	if says("max_delay") {
		o.MaxDelay = new(time.Duration(rapid.IntRange(60, 3600).Draw(t, "max_delay")) * time.Second)
	}
	if says("jitter") {
		o.Jitter = new(float64(rapid.IntRange(0, 4).Draw(t, "jitter")) / 4)
	}
	return o
}

// first is the plain reading of the rule: the first that says it.
func first[T any](builtIn T, said []*T) (T, job.Level) {
	levels := []job.Level{job.LevelJob, job.LevelTask, job.LevelEndpoint, job.LevelQueue, job.LevelProject}
	for i, v := range said {
		if v != nil {
			return *v, levels[i]
		}
	}
	return builtIn, job.LevelBuiltIn
}

func TestEveryValueComesFromItsMostSpecificLevel(t *testing.T) {
	st := open(t, sqliteOptions())
	rapid.Check(t, func(t *rapid.T) {
		own, task, endpoint, queue, project := overlays(t, "job"), overlays(t, "task"), overlays(t, "endpoint"), overlays(t, "queue"), overlays(t, "project")
		s, err := NewServer(Options{Store: st, Config: Config{
			Project: project, Queues: map[string]Queue{"q": {Retry: queue}}, Endpoints: map[string]Endpoint{"e": {Retry: endpoint}},
			Tasks: map[lane.Task]Task{{Name: "t", Version: "1"}: {Retry: task, Endpoint: "e"}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		made, err := s.Create(t.Context(), Principal{}, []New{{Queue: "q", Task: "t", Payload: []byte("1"), Retry: own}})
		if err != nil {
			t.Fatal(err)
		}
		all := []job.Overlay{own, task, endpoint, queue, project}
		var want job.Snapshot
		b := job.BuiltIn()
		var attempts []*int
		var initial, most []*time.Duration
		var factor, jitter []*float64
		for _, o := range all {
			attempts, initial, factor = append(attempts, o.MaxAttempts), append(initial, o.Initial), append(factor, o.Factor)
			most, jitter = append(most, o.MaxDelay), append(jitter, o.Jitter)
		}
		want.MaxAttempts, want.From.MaxAttempts = first(b.MaxAttempts, attempts)
		want.Initial, want.From.Initial = first(b.Initial, initial)
		want.Factor, want.From.Factor = first(b.Factor, factor)
		want.MaxDelay, want.From.MaxDelay = first(b.MaxDelay, most)
		want.Jitter, want.From.Jitter = first(b.Jitter, jitter)
		if got := made[0].Job; got.Policy != want || got.Endpoint != "e" {
			t.Fatalf("got %+v of %q, want %+v", got.Policy, got.Endpoint, want)
		}
	})
}

func TestWhatAJobSaysGoesBeforeItsTask(t *testing.T) {
	s := stored(t, Config{
		Queues:    map[string]Queue{"q": {Timeout: time.Hour}},
		Endpoints: map[string]Endpoint{"other": {Retry: job.Overlay{Factor: new(7.0)}}},
		Tasks:     map[lane.Task]Task{{Name: "t", Version: "1"}: {Endpoint: "e", Timeout: time.Minute, Repeat: job.RepeatUnsafe}},
	})
	plain := create(t, s, New{Queue: "q", Task: "t", Payload: []byte("1")}).Job
	if plain.Endpoint != "e" || plain.Timeout != time.Minute || plain.Policy.Repeat != job.RepeatUnsafe {
		t.Errorf("the task's: %+v", plain)
	}
	own := create(t, s, New{Queue: "q", Task: "t", Payload: []byte("1"), Endpoint: "other", Timeout: new(time.Second)}).Job
	if own.Endpoint != "other" || own.Timeout != time.Second || own.Policy.Factor != 7 || own.Policy.From.Factor != job.LevelEndpoint {
		t.Errorf("its own: %+v", own)
	}
	if none := create(t, s, New{Queue: "q", Task: "t", Version: "2", Payload: []byte("1")}).Job; none.Endpoint != "" || none.Timeout != time.Hour || none.Policy.Repeat != "" {
		t.Errorf("a version without a contract: %+v", none)
	}
}

func TestTheLatestVersion(t *testing.T) {
	clock := newClock()
	s, err := NewServer(Options{Store: open(t, clock.options()), Config: Config{
		Queues: map[string]Queue{"q": {}}, Tasks: map[lane.Task]Task{{Name: "f", Version: "9"}: {}, {Name: "f", Version: "10"}: {}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	version := func(task string) string {
		return create(t, s, New{Queue: "q", Task: task, Payload: []byte("1")}).Job.Version
	}
	register := func(name, version string, u Update, timeout time.Duration) {
		t.Helper()
		clock.step(time.Second)
		if err := s.PutTask(t.Context(), Principal{}, lane.Task{Name: name, Version: version}, Task{Timeout: timeout}, u); err != nil {
			t.Fatal(err)
		}
	}
	if got := version("f"); got != "10" {
		t.Errorf("of the file the greatest: %s", got)
	}
	if got := version("new"); got != "1" {
		t.Errorf("never registered: %s", got)
	}
	register("a", "7", RefuseDifferent, 0)
	register("a", "2", RefuseDifferent, 0)
	if got := version("a"); got != "2" {
		t.Errorf("the last registered: %s", got)
	}
	register("a", "7", ReplaceContract, time.Minute) // changed, and not registered anew
	register("a", "7", RefuseDifferent, time.Minute)
	if got := version("a"); got != "2" {
		t.Errorf("after a change of an old one: %s", got)
	}
	register("f", "11", RefuseDifferent, 0)
	if got := version("f"); got != "11" {
		t.Errorf("past the file's: %s", got)
	}
}

// The same configuration gives the same version each time that it is read.
func TestTheLatestVersionIsOne(t *testing.T) {
	api := func(at int64) defined[Task] {
		return defined[Task]{Managed: Managed{By: ByAPI}, created: time.Unix(at, 0)}
	}
	c := Config{Tasks: map[lane.Task]Task{{Name: "a", Version: "2"}: {}, {Name: "b", Version: "1"}: {}, {Name: "b", Version: "01"}: {}}}
	d := definitions{tasks: map[lane.Task]defined[Task]{
		{Name: "a", Version: "1"}: api(20), {Name: "a", Version: "3"}: api(10), // 1 is newer than 3, the file's 2 greater than 1
		{Name: "c", Version: "1"}: api(10), {Name: "c", Version: "2"}: api(10),
	}}
	for range 100 {
		got := build(c, d).latest
		if want := map[string]string{"a": "2", "b": "1", "c": "2"}; !maps.Equal(got, want) {
			t.Fatalf("%v, not %v", got, want)
		}
	}
}

func TestVersionsAreComparedAsPeopleDo(t *testing.T) {
	sorted := []string{"", "1", "1.2", "1.10", "1.10.1", "2", "010", "10a", "a", "a2", "a10", "b"}
	for i, a := range sorted {
		for j, b := range sorted {
			if got := compareVersions(a, b); (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%q and %q: %d", a, b, got)
			}
		}
	}
}
