package cli

import (
	"encoding/json/jsontext"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/httpapi"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/setting"
)

var taskThing = thing{noun: "task", plural: "tasks", name: "TASK@VERSION", path: taskPath}

func taskPath(name string) (string, error) {
	task, version, ok := strings.Cut(name, "@")
	if !ok || task == "" || version == "" {
		return "", usagef("%q is no version of a task; write it like welcome@1", name)
	}
	return "/v3/tasks/" + pathWord(task) + "/" + pathWord(version), nil
}

func tasksCommand(sh *shell) *cobra.Command {
	return taskThing.command(sh, "See and set the contracts of tasks, over the job API of a running pawl, here or\nelsewhere.",
		"  pawl tasks list\n  pawl tasks set welcome@1 --endpoint mailer --input-schema welcome.json",
		func(f *apiFlags) []*cobra.Command {
			return []*cobra.Command{
				listCommand(sh, f, taskThing, append([]string{"TASK"}, append(countsHeader, "ENDPOINT", "REPEAT", "SAID IN")...),
					func(p *httpapi.Tasks) ([]httpapi.Task, *string) { return p.Tasks, p.NextCursor },
					func(t *httpapi.Task) []string {
						return append(append([]string{printable(t.Name + "@" + t.Version)}, countsRow(t.Counts)...), printable(textOf(t.Endpoint)), t.Repeat, managedText(t.Managed))
					}),
				getCommand(sh, f, taskThing, taskText), tasksSetCommand(sh, f),
			}
		})
}

func textOf(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func taskText(t *httpapi.Task) string {
	var f facts
	f.line("task", t.Name+"@"+t.Version)
	f.managed(t.Managed)
	f.line("endpoint", textOf(t.Endpoint))
	f.line("timeout", durationText(t.Timeout))
	f.line("repeat", t.Repeat)
	f.retry(t.Retry)
	f.schema("input", t.InputSchema)
	f.schema("output", t.OutputSchema)
	f.counts(t.Counts)
	return f.String()
}

func (f *facts) schema(name string, s httpapi.Value) {
	if text := excerpt(s); text != "null" {
		f.line(name, text)
	}
}

func tasksSetCommand(sh *shell, api *apiFlags) *cobra.Command {
	var s httpapi.TaskSettings
	var timeout, input, output string
	var retry map[string]string
	c := setCommand(sh, api, taskThing, "--endpoint mailer --input-schema welcome.json", func() (_ any, err error) {
		if s.Timeout, err = spanFlag("timeout", timeout); err != nil {
			return nil, err
		}
		if s.InputSchema, err = schemaFlag("input-schema", input); err != nil {
			return nil, err
		}
		if s.OutputSchema, err = schemaFlag("output-schema", output); err != nil {
			return nil, err
		}
		s.Retry, err = parseRetry(retry)
		return s, err
	}, taskText)
	f := c.Flags()
	f.StringVar(&s.Endpoint, "endpoint", "", "the outside service that it calls: `NAME`")
	f.StringVar(&timeout, "timeout", "", "how long an attempt may take: `TIME` (default: the queue's)")
	f.StringVar(&s.Repeat, "repeat", "", "safe, or unsafe `WORD`: one whose effect is not known is not repeated by itself (default safe)")
	f.StringVar(&input, "input-schema", "", "`FILE` with the JSON Schema of payloads")
	f.StringVar(&output, "output-schema", "", "`FILE` with the JSON Schema of results")
	retryFlag(f, &retry, "how its jobs are retried")
	f.BoolVar(&s.Update, "update", false, "replace a contract that differs")
	return c
}

// schemaFlag reads a schema; nil where the flag says nothing.
func schemaFlag(flag, file string) (httpapi.Value, error) {
	if file == "" {
		return nil, nil
	}
	text, err := setting.ReadFile(file, jobserver.MaxSchema)
	if err != nil {
		return nil, usagef("--%s: %w", flag, err)
	}
	if !jsontext.Value(text).IsValid() {
		return nil, usagef("--%s: %s is no JSON", flag, file)
	}
	return httpapi.Value(text), nil
}
