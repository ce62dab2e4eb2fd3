package jobqueue

import (
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
)

// maxTasks bounds the tasks of a source: one that works more works all.
const maxTasks = 100

// DestinationSettings are a queue destination's.
type DestinationSettings struct {
	Queue    string `yaml:"queue" doc:"the queue under jobs.queues"`
	Task     string `yaml:"task" doc:"the task of the jobs"`
	Version  string `yaml:"version" doc:"the task's version; 1 unless set"`
	Priority int    `yaml:"priority" doc:"from -100 to 100; higher goes first"`
}

// Check returns every problem of the settings.
func (s *DestinationSettings) Check() []connector.Problem {
	ps := checkQueue(s.Queue)
	if text := job.BadName(s.Task); text != "" {
		ps = append(ps, connector.Problem{Field: "task", Message: "task " + text})
	}
	if s.Version != "" {
		if text := job.BadName(s.Version); text != "" {
			ps = append(ps, connector.Problem{Field: "version", Message: "version " + text})
		}
	}
	if s.Priority < -job.MaxPriority || s.Priority > job.MaxPriority {
		ps = append(ps, connector.Problem{Field: "priority", Message: fmt.Sprintf("priority must be from -%d to %d, not %d", job.MaxPriority, job.MaxPriority, s.Priority)})
	}
	return ps
}

// Where implements connector.Located: the queue's name.
func (s *DestinationSettings) Where() string { return "queue " + s.Queue }

// SourceSettings are a queue source's.
type SourceSettings struct {
	Queue string   `yaml:"queue" doc:"the queue under jobs.queues"`
	Tasks []string `yaml:"tasks" doc:"the tasks to take, as name@version or as name for every version; all unless set"`
}

// Check returns every problem of the settings.
func (s *SourceSettings) Check() []connector.Problem {
	ps := checkQueue(s.Queue)
	if len(s.Tasks) > maxTasks {
		ps = append(ps, connector.Problem{Field: "tasks", Message: fmt.Sprintf("at most %d tasks can be named; leave tasks out to take all", maxTasks)})
	}
	if s.Tasks != nil && len(s.Tasks) == 0 {
		ps = append(ps, connector.Problem{Field: "tasks", Message: "an empty list takes nothing; name tasks, or leave it out to take all"})
	}
	seen := map[string]bool{}
	for i, t := range s.Tasks {
		field := fmt.Sprintf("tasks[%d]", i)
		if seen[t] {
			ps = append(ps, connector.Problem{Field: field, Message: fmt.Sprintf("%q is there twice", t)})
		}
		seen[t] = true
		name, version, pinned := strings.Cut(t, "@")
		if text := job.BadName(name); text != "" {
			ps = append(ps, connector.Problem{Field: field, Message: "the task's name " + text})
		}
		if pinned {
			if text := job.BadName(version); text != "" {
				ps = append(ps, connector.Problem{Field: field, Message: "the version behind @ " + text})
			}
		}
	}
	return ps
}

// Where implements connector.Located: the queue's name.
func (s *SourceSettings) Where() string { return "queue " + s.Queue }

// tasks returns the tasks of checked settings.
func (s *SourceSettings) tasks() []lane.Task {
	var ts []lane.Task
	for _, t := range s.Tasks {
		name, version, _ := strings.Cut(t, "@")
		ts = append(ts, lane.Task{Name: name, Version: version})
	}
	return ts
}

func checkQueue(name string) []connector.Problem {
	switch text := job.BadName(name); {
	case text != "":
		return []connector.Problem{{Field: "queue", Message: "queue " + text}}
	case job.OfRelay(name):
		return []connector.Problem{{Field: "queue", Message: "queue can't begin with \"" + job.RelayPrefix + "\"; such queues are the relay's own"}}
	}
	return nil
}
