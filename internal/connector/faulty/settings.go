package faulty

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/setting"
)

// Settings are the faults. The zero value has none.
type Settings struct {
	Fail       setting.Ratio    `yaml:"fail" doc:"share of attempts that are answered with status"`
	Hang       setting.Ratio    `yaml:"hang" doc:"share of attempts that are never answered"`
	Reset      setting.Ratio    `yaml:"reset" doc:"share of attempts whose connection breaks"`
	SlowBody   setting.Ratio    `yaml:"slow_body" doc:"share of attempts that arrive and whose answer never ends"`
	Latency    string           `yaml:"latency" doc:"how long an answer takes: 50ms, or at random from a range 50ms-2s"`
	Status     int              `yaml:"status" doc:"HTTP status of a failed attempt, 300 to 599"`
	RetryAfter setting.Duration `yaml:"retry_after" doc:"what a failed attempt asks to wait; 0s asks for nothing"`
	Seed       uint64           `yaml:"seed" doc:"the same seed gives the same faults in the same order"`
}

// defaultStatus: an endpoint that is overloaded or restarting, the usual case.
const defaultStatus = 503

// NewSettings returns the defaults: no fault, and 503 for those that are asked
// for.
func NewSettings() *Settings { return &Settings{Status: defaultStatus} }

// maxLatency bounds the latency: past every timeout that anybody sets.
const maxLatency = 24 * time.Hour

// Check returns every problem of the settings.
func (s *Settings) Check() []connector.Problem {
	var ps []connector.Problem
	if sum := s.Fail + s.Hang + s.Reset + s.SlowBody; sum > 1+1e-9 {
		ps = append(ps, connector.Problem{Field: "fail", Message: fmt.Sprintf("fail, hang, reset and slow_body are %.2f together; an attempt has one fault, so 1 is the most", float64(sum))})
	}
	if s.Status < 300 || s.Status > 599 {
		ps = append(ps, connector.Problem{Field: "status", Message: fmt.Sprintf("status %d is no failure; it can be 300 to 599", s.Status)})
	}
	if _, err := parseLatency(s.Latency); err != nil {
		ps = append(ps, connector.Problem{Field: "latency", Message: err.Error()})
	}
	return ps
}

// latency is a range of durations; both ends are part of it.
type latency struct{ least, most time.Duration }

// parseLatency reads "", a duration, or two with a dash between.
func parseLatency(text string) (latency, error) {
	if text == "" {
		return latency{}, nil
	}
	from, to, isRange := strings.Cut(text, "-")
	if !isRange {
		to = from
	}
	least, err := setting.ParseDuration(from)
	if err != nil {
		return latency{}, fmt.Errorf("bad latency %q; write it like 50ms or 50ms-2s", text)
	}
	most, err := setting.ParseDuration(to)
	if err != nil {
		return latency{}, fmt.Errorf("bad latency %q; write it like 50ms or 50ms-2s", text)
	}
	switch {
	case least > most:
		return latency{}, fmt.Errorf("bad latency %q: the first end is the longer one", text)
	case most.D() > maxLatency:
		return latency{}, fmt.Errorf("bad latency %q: %v is the most", text, setting.Duration(maxLatency))
	}
	return latency{least.D(), most.D()}, nil
}

// at returns the duration for u in [0, 1).
func (l latency) at(u float64) time.Duration {
	return l.least + time.Duration(u*float64(l.most-l.least))
}
