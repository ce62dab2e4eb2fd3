package harness

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// LaneContenders have one input for every lane and choose the destination by
// path. Benthos is there as one would write it first, and with outputs that turn
// messages away rather than wait: its nearest to a lane that is full. It has no
// buffer, since a message is to be answered after its delivery.
func LaneContenders(bin, sink string, lanes Lanes) []Contender {
	pawl, benthos := filepath.Join(bin, "pawl"), filepath.Join(bin, "benthos")
	switchTo := func(output func(to string) string) func(dir, listen, _ string) (*exec.Cmd, error) {
		return func(dir, listen, _ string) (*exec.Cmd, error) {
			var b strings.Builder
			b.WriteString("output:\n  switch:\n    cases:\n")
			for i := range lanes {
				fmt.Fprintf(&b, "      - check: '@lane == \"%d\"'\n        output: { %s }\n", i, output(fmt.Sprintf("%s/%d", sink, i)))
			}
			return benthosRun(benthos, dir, listen, b.String())
		}
	}
	return []Contender{
		{Name: "pawl", Command: func(dir, listen, _ string) (*exec.Cmd, error) {
			var b strings.Builder
			fmt.Fprintf(&b, "sources:\n  - { name: in, type: http, listen: %q, path: / }\n", listen)
			b.WriteString("routes:\n  - name: all\n    from: [in]\n    router:\n      type: rules\n      rules:\n")
			for i := range lanes {
				fmt.Fprintf(&b, "        - { when: '$msg.path == \"/%d\"', to: [out%d] }\n", i, i)
			}
			b.WriteString("destinations:\n")
			for i := range lanes {
				fmt.Fprintf(&b, "  - { name: out%d, type: http, url: \"http://%s/%d\" }\n", i, sink, i)
			}
			return pawlRun(pawl, dir, b.String())
		}},
		{Name: "benthos", Version: BenthosVersion, Command: switchTo(func(to string) string { return benthosClient(to, benthosLike) })},
		{Name: "benthos drop_on", Version: BenthosVersion, Command: switchTo(benthosDropping)},
	}
}

// benthosDropping is an output of 64 workers that turns a message away after
// 1 s, and at once while the one before it is still unanswered. drop_on has one
// message in hand at a time; hence the copies.
func benthosDropping(to string) string {
	return "broker: { pattern: greedy, copies: 64, outputs: [ { drop_on: { back_pressure: 1s, output: { " +
		benthosClient(to, "max_in_flight: 1, retries: 0") + " } } } ] }"
}

// GroupContenders have one destination of two endpoints that take the same
// messages.
func GroupContenders(bin, first, second string) []Contender {
	pawl, benthos := filepath.Join(bin, "pawl"), filepath.Join(bin, "benthos")
	group := func(strategy, hedge string) Contender {
		name := "pawl " + strategy
		if hedge != "" {
			name += " hedged"
		}
		return Contender{Name: name, Command: func(dir, listen, _ string) (*exec.Cmd, error) {
			return pawlRun(pawl, dir, pawlOne(listen)+pawlGroup(fmt.Sprintf("strategy: %s, idempotent: true%s", strategy, hedge), first, second))
		}}
	}
	broker := func(pattern string) Contender {
		return Contender{Name: "benthos " + pattern, Version: BenthosVersion, Command: func(dir, listen, _ string) (*exec.Cmd, error) {
			return benthosRun(benthos, dir, listen, fmt.Sprintf("output:\n  broker:\n    pattern: %s\n    outputs:\n      - { %s }\n      - { %s }\n", pattern,
				benthosClient(first+"/", benthosLike), benthosClient(second+"/", benthosLike)))
		}}
	}
	const hedge = ", hedge: { after: 50ms }"
	return []Contender{
		group("round_robin", ""), group("round_robin", hedge), group("least_latency", ""), group("least_latency", hedge),
		broker("round_robin"), broker("greedy"),
	}
}

// pawlOne is an input whose messages all go to out.
func pawlOne(listen string) string {
	return fmt.Sprintf("sources:\n  - { name: in, type: http, listen: %q, path: / }\nroutes:\n  - { name: all, from: [in], to: [out] }\ndestinations:\n", listen)
}

// pawlGroup is out as a group of endpoints.
func pawlGroup(settings string, members ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "  - { name: out, type: group, %s, members: [", settings)
	for i, at := range members {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, " { name: m%d, type: http, url: \"http://%s/\" }", i, at)
	}
	b.WriteString(" ] }\n")
	return b.String()
}

// Fallback says whether there is somewhere else to go.
type Fallback string

// What there is when the primary is away.
const (
	NoFallback   Fallback = "no fallback"
	WithFallback Fallback = "with a fallback"
)

// OutageContenders send to a primary, and where there is a fallback to that after
// about deadline without success: pawl as a plain destination and as a group
// whose members are checked each second, Benthos with the retries that come
// nearest to it.
func OutageContenders(bin, primary, second string, f Fallback, deadline time.Duration) []Contender {
	pawl, benthos := filepath.Join(bin, "pawl"), filepath.Join(bin, "benthos")
	run := func(out string) func(dir, listen, _ string) (*exec.Cmd, error) {
		return func(dir, listen, _ string) (*exec.Cmd, error) { return pawlRun(pawl, dir, pawlOne(listen)+out) }
	}
	const check = "strategy: failover, health_check: { path: /ready, interval: 1s, timeout: 1s }"
	plain, checked := fmt.Sprintf("  - { name: out, type: http, url: \"http://%s/\" }\n", primary), pawlGroup(check, primary)
	output := fmt.Sprintf("output:\n  %s\n", benthosClient(primary+"/", benthosLike))
	if f == WithFallback {
		plain = fmt.Sprintf("  - { name: out, type: http, url: \"http://%s/\", deadline: %s, fallback: [second] }\n  - { name: second, type: http, url: \"http://%s/\" }\n", primary, deadline, second)
		checked = pawlGroup(check+fmt.Sprintf(", deadline: %s", deadline), primary, second)
		retries := 0
		for wait, all := benthosPeriod, benthosPeriod; all <= deadline; wait, all = 2*wait, all+2*wait {
			retries++
		}
		before := fmt.Sprintf("max_in_flight: 64, retries: %d, retry_period: %s, backoff_on: [ 429, 503 ]", retries, benthosPeriod)
		output = fmt.Sprintf("output:\n  fallback:\n    - { %s }\n    - { %s }\n", benthosClient(primary+"/", before), benthosClient(second+"/", benthosLike))
	}
	return []Contender{
		{Name: "pawl", Command: run(plain), Letters: pawlLetters(pawl)},
		{Name: "pawl checked", Command: run(checked), Letters: pawlLetters(pawl)},
		{Name: "benthos", Version: BenthosVersion, Command: func(dir, listen, _ string) (*exec.Cmd, error) {
			return benthosRun(benthos, dir, listen, output)
		}},
	}
}

// benthosPeriod is what an output waits before its first retry, doubled with each.
const benthosPeriod = 200 * time.Millisecond
