package explain

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/pawlhq/pawl/internal/core/circuit"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/setting"
)

// Job is what would happen to a job whose every attempt fails.
type Job struct {
	Task     string `json:"task"`
	Version  string `json:"version"`
	Queue    string `json:"queue"`
	Endpoint string `json:"endpoint,omitzero"`
	// Contract says that the configuration has the task. Near is one that it has
	// and that looks like it; "" for none.
	Contract bool   `json:"contract"`
	Near     string `json:"near,omitzero"`
	// Attempts are the counted ones, where a worker takes the job as soon as it is
	// due. Unsafe tasks have no next one after a timeout, nor where a worker says
	// that the effect is not known.
	Attempts []Attempt  `json:"attempts"`
	Repeat   job.Repeat `json:"repeat"`
	// GivenUpAfter bounds the time from the first attempt to the dead letter. No
	// wait for a worker, no hold and no open circuit is reckoned in.
	GivenUpAfter Window `json:"given_up_after"`
	// Lost and Unreceived are how many attempts in a row are not counted that a
	// worker let fall, or never answered for.
	Lost       int `json:"lost"`
	Unreceived int `json:"unreceived"`
	// Circuit is the endpoint's; nil without one.
	Circuit *JobCircuit `json:"circuit,omitzero"`
	// Settings are the numbers that decide, and the level each comes from.
	Settings []Setting `json:"settings"`
}

// JobCircuit is when the circuit of an endpoint opens, and for how long.
type JobCircuit struct {
	Failures int              `json:"failures"`
	Cooldown setting.Duration `json:"cooldown"`
}

// JobOf explains a job of the task in the queue, for the endpoint that it names
// itself; "" for the task's. Without a queue it is the only one that there is.
func JobOf(c jobserver.Config, name lane.Task, queue, endpoint string) (Job, error) {
	if queue == "" {
		if len(c.Queues) != 1 {
			return Job{}, fmt.Errorf("the configuration has %d queues: say which with --queue", len(c.Queues))
		}
		for only := range c.Queues {
			queue = only
		}
	}
	p, err := c.Plan(queue, name, endpoint)
	if err != nil {
		return Job{}, err
	}
	j := Job{
		Task: p.Task.Name, Version: p.Task.Version, Queue: queue, Endpoint: p.Endpoint, Contract: p.Contract,
		Repeat: cmp.Or(p.Policy.Repeat, job.RepeatSafe), Lost: job.MaxLost, Unreceived: job.MaxUnreceived, Settings: jobSettings(&p),
	}
	if !p.Contract {
		var all []string
		for t := range c.Tasks {
			all = append(all, t.Name)
		}
		j.Near = nearest.To(name.Name, all)
	}
	timeout := setting.Duration(p.Timeout)
	var since Window
	for n := 1; n <= p.Policy.MaxAttempts; n++ {
		a := Attempt{Number: n, Sends: 1}
		if n > 1 {
			lo, hi := p.Policy.Schedule().Bounds(n - 1)
			a.Wait = Window{setting.Duration(lo), setting.Duration(hi)}
		}
		since = since.add(a.Wait)
		a.Since, a.Slowest = since, since.Latest+setting.Duration(n-1)*timeout
		j.Attempts = append(j.Attempts, a)
	}
	last := j.Attempts[len(j.Attempts)-1]
	j.GivenUpAfter = Window{last.Since.Earliest, last.Slowest + timeout}
	j.Circuit = jobCircuit(p.Circuit)
	return j, nil
}

func jobCircuit(c *circuit.Settings) *JobCircuit {
	if c == nil {
		return nil
	}
	return &JobCircuit{c.Failures, setting.Duration(c.Cooldown)}
}

func jobSettings(p *jobserver.Plan) []Setting {
	v, from := &p.Policy, &p.Policy.From
	of := func(name, value string, from job.Level) Setting { return Setting{name, value, string(from)} }
	return []Setting{
		of("retry."+job.FieldMaxAttempts, strconv.Itoa(v.MaxAttempts), from.MaxAttempts),
		of("retry."+job.FieldInitial, setting.Duration(v.Initial).String(), from.Initial),
		of("retry."+job.FieldFactor, strconv.FormatFloat(v.Factor, 'g', -1, 64), from.Factor),
		of("retry."+job.FieldMaxDelay, setting.Duration(v.MaxDelay).String(), from.MaxDelay),
		of("retry."+job.FieldJitter, strconv.FormatFloat(v.Jitter, 'g', -1, 64), from.Jitter),
		of("timeout", setting.Duration(p.Timeout).String(), p.TimeoutFrom),
		of("lease", setting.Duration(p.Lease).String(), p.LeaseFrom),
	}
}
