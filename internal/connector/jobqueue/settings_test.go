package jobqueue_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/jobqueue"
)

func TestSettings(t *testing.T) {
	long := strings.Repeat("a", 129)
	for _, c := range []struct {
		settings connector.Settings
		fields   []string
	}{
		{&jobqueue.DestinationSettings{Queue: "q", Task: "t"}, nil},
		{&jobqueue.DestinationSettings{Queue: "a.b_c:d-E9", Task: strings.Repeat("a", 128), Version: "1.2", Priority: -100}, nil},
		{&jobqueue.DestinationSettings{}, []string{"queue", "task"}},
		{&jobqueue.DestinationSettings{Queue: "relay:web", Task: "a b", Version: "é", Priority: 101}, []string{"queue", "task", "version", "priority"}},
		{&jobqueue.DestinationSettings{Queue: long, Task: "a@1", Priority: -101}, []string{"queue", "task", "priority"}},
		{&jobqueue.SourceSettings{Queue: "q"}, nil},
		{&jobqueue.SourceSettings{Queue: "q", Tasks: []string{"a", "a@1", "b@2"}}, nil},
		{&jobqueue.SourceSettings{Queue: "q", Tasks: []string{}}, []string{"tasks"}},
		{&jobqueue.SourceSettings{Queue: "relay:web", Tasks: []string{"a", "a", "@1", "a@", "a@1@2"}}, []string{"queue", "tasks[1]", "tasks[2]", "tasks[3]", "tasks[4]"}},
		{&jobqueue.SourceSettings{Queue: "q", Tasks: strings.Split(strings.Repeat("a,", 101), ",")[:101]}, append([]string{"tasks"}, tasks(1, 100)...)},
	} {
		var got []string
		for _, p := range c.settings.Check() {
			got = append(got, p.Field)
			if p.Message == "" || p.Warning {
				t.Errorf("%+v", p)
			}
		}
		if diff := cmp.Diff(c.fields, got); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", c.settings, diff)
		}
	}
}

func tasks(from, to int) (fields []string) {
	for i := from; i <= to; i++ {
		fields = append(fields, fmt.Sprintf("tasks[%d]", i))
	}
	return fields
}

func TestKindsNeedJobs(t *testing.T) {
	d, s := jobqueue.DestinationKind(), jobqueue.SourceKind()
	if !s.Pauses {
		t.Error("a queue can wait")
	}
	if _, err := d.Open(d.New(), connector.Env{}); err == nil || !strings.Contains(err.Error(), "jobs") {
		t.Errorf("a destination without jobs: %v", err)
	}
	if _, err := s.Open(s.New(), connector.Env{}); err == nil || !strings.Contains(err.Error(), "jobs") {
		t.Errorf("a source without jobs: %v", err)
	}
	if w := (&jobqueue.SourceSettings{Queue: "emails"}).Where(); w != "queue emails" {
		t.Errorf("it leads to %q", w)
	}
}
