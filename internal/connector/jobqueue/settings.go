package jobqueue

import (
	"fmt"
	"strings"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/lane"
)

// The bounds of the settings; those of the job server.
const (
	maxName     = 128 // bytes of a name
	maxPriority = 100 // and −100
	maxTasks    = 100 // tasks of a source: one that works more works all
)

// ownPrefix begins the names of the queues that the relay makes for itself.
const ownPrefix = "relay:"

// DestinationSettings are a queue destination's.
type DestinationSettings struct {
	Queue    string `yaml:"queue" doc:"the queue under jobs.queues"`
	Task     string `yaml:"task" doc:"the task of the jobs"`
	Version  string `yaml:"version" doc:"the task's version; its newest unless set"`
	Priority int    `yaml:"priority" doc:"from -100 to 100; higher goes first"`
}

// Check returns every problem of the settings.
func (s *DestinationSettings) Check() []connector.Problem {
	ps := checkQueue(s.Queue)
	if text := badName(s.Task); text != "" {
		ps = append(ps, connector.Problem{Field: "task", Message: "task " + text})
	}
	if s.Version != "" {
		if text := badName(s.Version); text != "" {
			ps = append(ps, connector.Problem{Field: "version", Message: "version " + text})
		}
	}
	if s.Priority < -maxPriority || s.Priority > maxPriority {
		ps = append(ps, connector.Problem{Field: "priority", Message: fmt.Sprintf("priority must be from -%d to %d, not %d", maxPriority, maxPriority, s.Priority)})
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
	seen := map[string]bool{}
	for i, t := range s.Tasks {
		field := fmt.Sprintf("tasks[%d]", i)
		if seen[t] {
			ps = append(ps, connector.Problem{Field: field, Message: fmt.Sprintf("%q is there twice", t)})
		}
		seen[t] = true
		name, version, pinned := strings.Cut(t, "@")
		if text := badName(name); text != "" {
			ps = append(ps, connector.Problem{Field: field, Message: "the task's name " + text})
		}
		if pinned {
			if text := badName(version); text != "" {
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
	switch text := badName(name); {
	case text != "":
		return []connector.Problem{{Field: "queue", Message: "queue " + text}}
	case strings.HasPrefix(name, ownPrefix):
		return []connector.Problem{{Field: "queue", Message: "queue can't begin with " + ownPrefix + ": such queues are the relay's own"}}
	}
	return nil
}

// badName returns what is wrong with a name, "" for nothing.
func badName(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > maxName:
		return fmt.Sprintf("is longer than %d characters", maxName)
	case strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("._:-", r))
	}):
		return "may hold letters, digits and . _ : - only"
	}
	return ""
}
