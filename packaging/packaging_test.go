// Package packaging_test catches: an alert rule or a panel that asks for a
// metric or a label that pawl does not have (it would never fire, and nobody
// would know); a rule without a runbook; a unit file that lost its hardening
// or is stopped before pawl has stopped; a container that runs as root.
package packaging_test

import (
	"encoding/json/v2"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/telemetry"
)

// known returns every metric that a scrape of pawl can hold, with its labels.
func known(t *testing.T) map[string][]string {
	t.Helper()
	tel := telemetry.New(telemetry.Options{
		StateFolder: t.TempDir(), StoreFolder: t.TempDir(),
		Snapshot: func() telemetry.State {
			return telemetry.State{
				Sources:   []telemetry.SourceState{{Name: "web"}},
				Lanes:     []telemetry.LaneState{{Destination: "a", RetriesLeft: new(0)}},
				Endpoints: []telemetry.EndpointState{{Destination: "a", Name: "a", Health: event.Healthy}},
				Jobs: &telemetry.JobState{
					Queues:   []telemetry.QueueState{{Name: "q"}},
					Finished: map[string]map[job.Status]int64{"q": {}},
				},
			}
		},
	})
	tel.SetTopology(telemetry.Topology{
		Sources:      []string{"web"},
		Destinations: []telemetry.Destination{{Name: "a", Endpoints: []string{"a"}}, {Name: "b", Endpoints: []string{"b"}}},
		Routes:       []telemetry.Route{{Name: "r", Fallbacks: []string{"static"}}},
		Stores:       []string{"s"},
	})
	tel.Observe(event.Event{Kind: event.Hopped, Destination: "a", To: "b", Hop: message.HopFull})
	tel.Observe(event.Event{Kind: event.Raced, Destination: "a", Race: event.RaceHedge})
	tel.Observe(event.Event{Kind: event.BatchSent, Destination: "a", Number: 1})
	families, err := tel.Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	metrics := map[string][]string{"up": {}}
	for _, f := range families {
		labels := []string{}
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, l.GetName())
		}
		metrics[f.GetName()] = labels
		if f.GetMetric()[0].GetHistogram() != nil {
			metrics[f.GetName()+"_bucket"] = append(slices.Clone(labels), "le")
			metrics[f.GetName()+"_sum"], metrics[f.GetName()+"_count"] = labels, labels
		}
	}
	return metrics
}

var (
	metricName = regexp.MustCompile(`\b(?:(?:pawl|process|go)_[a-z0-9_]+|up\b)`)
	selector   = regexp.MustCompile(`\b((?:pawl|process|go)_[a-z0-9_]+|up)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`([a-z_]+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping   = regexp.MustCompile(`\bby \(([^)]*)\)`)
	template   = regexp.MustCompile(`\$labels\.([a-z_]+)|\{\{ ?([a-z_]+) ?\}\}`)
)

// check returns what is wrong with a PromQL expression and the text that shows
// its result.
func check(metrics map[string][]string, expr, text string) []string {
	var wrong []string
	labels := []string{"job", "instance"} // what every scrape adds
	names := metricName.FindAllString(expr, -1)
	if len(names) == 0 {
		wrong = append(wrong, "no metric")
	}
	for _, name := range names {
		has, ok := metrics[name]
		if !ok {
			wrong = append(wrong, "no metric "+name)
		}
		labels = append(labels, has...)
	}
	for _, s := range selector.FindAllStringSubmatch(expr, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			if !slices.Contains(metrics[s[1]], m[1]) && m[1] != "job" && m[1] != "instance" {
				wrong = append(wrong, fmt.Sprintf("%s has no label %s", s[1], m[1]))
			}
			wrong = append(wrong, checkOutcome(s[1], m[1], m[3])...)
		}
	}
	shown := labels
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		shown = nil
		for _, l := range strings.Split(g[1], ",") {
			l = strings.TrimSpace(l)
			shown = append(shown, l)
			if !slices.Contains(labels, l) {
				wrong = append(wrong, "grouped by an unknown label "+l)
			}
		}
	}
	for _, m := range template.FindAllStringSubmatch(text, -1) {
		if l := m[1] + m[2]; !slices.Contains(shown, l) {
			wrong = append(wrong, "shows the label "+l+", which the result does not have")
		}
	}
	if strings.Count(expr, "(") != strings.Count(expr, ")") || strings.Count(expr, "{") != strings.Count(expr, "}") {
		wrong = append(wrong, "brackets do not match")
	}
	return wrong
}

// checkOutcome returns the words of a pattern that the label outcome never has.
func checkOutcome(metric, label, pattern string) []string {
	if label != "outcome" {
		return nil
	}
	values := map[string][]string{
		"pawl_dlq_total":               {"stored", "failed"},
		"pawl_delivery_attempts_total": {"ok", "retry", "permanent", "cancelled"},
		"pawl_source_messages_total":   {"refused", "nacked"},
		"pawl_notifications_total":     {"sent", "failed", "dropped"},
		"pawl_job_attempts_total":      {"succeeded", "failed", "released", "timed_out", "lost", "unreceived"},
		"pawl_event_deliveries_total":  {"delivered", "failed"},
	}[metric]
	var wrong []string
	for v := range strings.SplitSeq(pattern, "|") {
		if !slices.Contains(values, v) {
			wrong = append(wrong, fmt.Sprintf("%s never has the outcome %q", metric, v))
		}
	}
	return wrong
}

func TestCheckFindsMistakes(t *testing.T) {
	metrics := map[string][]string{"pawl_dlq_total": {"reason", "outcome"}, "up": {}}
	for _, bad := range [][2]string{
		{`1 > 0`, ""},
		{`pawl_dlq > 0`, ""},
		{`pawl_dlq_total{destination="x"} > 0`, ""},
		{`pawl_dlq_total{outcome="lost"} > 0`, ""},
		{`sum by (route) (pawl_dlq_total)`, ""},
		{`sum by (reason) (pawl_dlq_total`, ""},
		{`sum by (reason) (pawl_dlq_total)`, "{{ $labels.instance }}"},
		{`up`, "{{reason}}"},
	} {
		if len(check(metrics, bad[0], bad[1])) == 0 {
			t.Errorf("nothing is found wrong with %q, %q", bad[0], bad[1])
		}
	}
	if wrong := check(metrics, `sum by (reason) (rate(pawl_dlq_total{outcome="stored"}[5m]))`, "{{reason}}"); wrong != nil {
		t.Errorf("a good expression: %q", wrong)
	}
}

var (
	command = regexp.MustCompile("`pawl ([^`]*)`")
	flag    = regexp.MustCompile(`--[a-z-]+`)
)

// checkCommands returns the commands of a runbook, and their flags, that the
// reference does not have.
func checkCommands(reference, text string) []string {
	var wrong []string
	for _, c := range command.FindAllStringSubmatch(text, -1) {
		words := strings.Fields(c[1])
		section, there := "", false
		for n := min(len(words), 2); n > 0 && !there; n-- {
			_, section, there = strings.Cut(reference, "## pawl "+strings.Join(words[:n], " ")+"\n")
		}
		section, _, _ = strings.Cut(section, "\n## ")
		if !there {
			wrong = append(wrong, "no command "+c[0])
		}
		for _, f := range flag.FindAllString(c[1], -1) {
			if !strings.Contains(section, f+" ") {
				wrong = append(wrong, c[0]+" has no "+f)
			}
		}
	}
	return wrong
}

func TestCheckCommandsFindsMistakes(t *testing.T) {
	const reference = "## pawl dlq\n\n## pawl dlq list\n    --since TIME  x\n\n## pawl lint\n"
	for text, mistakes := range map[string]int{
		"`pawl dlq list --since 1h`": 0, "`pawl lint FILE`": 0, "`pawl dlq list --until 1h`": 1, "`pawl lnt`": 1, "`pawl lint --since 1h`": 1, "`pawl dlq`": 0,
	} {
		if got := checkCommands(reference, text); len(got) != mistakes {
			t.Errorf("%s: %q", text, got)
		}
	}
}

type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func TestAlertRules(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Load(read(t, "prometheus/pawl.rules.yaml"), &file, yaml.WithKnownFields(true)); err != nil {
		t.Fatal(err)
	}
	metrics, seen := known(t), map[string]bool{}
	reference := string(read(t, "../docs/reference/commands.md"))
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if seen[r.Alert] || r.Alert == "" {
				t.Errorf("alert %q is there twice or has no name", r.Alert)
			}
			seen[r.Alert] = true
			for _, w := range check(metrics, r.Expr, r.Annotations["summary"]) {
				t.Errorf("%s: %s", r.Alert, w)
			}
			if d, err := time.ParseDuration(r.For); r.For != "" && (err != nil || d <= 0) {
				t.Errorf("%s: for %q: %v", r.Alert, r.For, err)
			}
			if s := r.Labels["severity"]; s != "critical" && s != "warning" {
				t.Errorf("%s: severity %q", r.Alert, s)
			}
			for _, w := range checkCommands(reference, r.Annotations["runbook"]) {
				t.Errorf("%s: %s", r.Alert, w)
			}
			if len(r.Annotations["runbook"]) < 80 || r.Annotations["summary"] == "" {
				t.Errorf("%s: no summary, or no runbook that helps", r.Alert)
			}
		}
	}
	for _, need := range []string{
		"PawlDeadLettersGrowing", "PawlBreakerOpen", "PawlDeadLetterWriteFailing",
		"PawlSourceDown", "PawlDiskLow", "PawlConfigurationRefused",
		"PawlJobsWait", "PawlJobsFail", "PawlCircuitOpen", "PawlWorkersLost", "PawlJobStoreSlow", "PawlEventsNotDelivered",
	} {
		if !seen[need] {
			t.Errorf("no alert %s", need)
		}
	}
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Grid        struct {
		X int `json:"x"`
		Y int `json:"y"`
		W int `json:"w"`
		H int `json:"h"`
	} `json:"gridPos"`
	Targets []struct {
		Expr       string `json:"expr"`
		Legend     string `json:"legendFormat"`
		Datasource struct {
			UID string `json:"uid"`
		} `json:"datasource"`
	} `json:"targets"`
}

func TestBoard(t *testing.T) {
	var board struct {
		Title       string  `json:"title"`
		Panels      []panel `json:"panels"`
		Annotations struct {
			List []struct {
				Expr string `json:"expr"`
			} `json:"list"`
		} `json:"annotations"`
	}
	if err := json.Unmarshal(read(t, "grafana/pawl.json"), &board); err != nil {
		t.Fatal(err)
	}
	metrics, ids, used := known(t), map[int]bool{}, map[string]bool{}
	cells := map[[2]int]string{}
	for _, p := range board.Panels {
		if ids[p.ID] {
			t.Errorf("panel %q: id %d is taken", p.Title, p.ID)
		}
		ids[p.ID] = true
		if p.Grid.X+p.Grid.W > 24 {
			t.Errorf("panel %q is off the board", p.Title)
		}
		for x := range p.Grid.W {
			for y := range p.Grid.H {
				cell := [2]int{p.Grid.X + x, p.Grid.Y + y}
				if other, taken := cells[cell]; taken {
					t.Fatalf("panel %q lies on %q", p.Title, other)
				}
				cells[cell] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if p.Title == "" || p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %d (%q) lacks a title, a description or a query", p.ID, p.Title)
		}
		for _, q := range p.Targets {
			for _, w := range check(metrics, q.Expr, q.Legend) {
				t.Errorf("panel %q: %s", p.Title, w)
			}
			if q.Datasource.UID != "${datasource}" {
				t.Errorf("panel %q is bound to the data source %q", p.Title, q.Datasource.UID)
			}
			for _, m := range metricName.FindAllString(q.Expr, -1) {
				used[strings.TrimSuffix(m, "_bucket")] = true
			}
		}
	}
	for _, a := range board.Annotations.List {
		for _, w := range check(metrics, a.Expr, "") {
			t.Errorf("annotation: %s", w)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(metrics)) {
		series := strings.HasSuffix(name, "_bucket") || strings.HasSuffix(name, "_sum") || strings.HasSuffix(name, "_count")
		hidden := name == "pawl_build_info" || name == "pawl_events_unlabelled_total"
		if strings.HasPrefix(name, "pawl_") && !series && !hidden && !used[name] {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// unit reads a systemd unit: section to key to its values, in order.
func unit(t *testing.T, text string) map[string]map[string][]string {
	t.Helper()
	sections, current := map[string]map[string][]string{}, ""
	for n, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[' && line[len(line)-1] == ']':
			current = line[1 : len(line)-1]
			sections[current] = map[string][]string{}
		default:
			key, value, ok := strings.Cut(line, "=")
			if !ok || current == "" || key != strings.TrimSpace(key) {
				t.Fatalf("line %d: %q is no setting", n+1, line)
			}
			sections[current][key] = append(sections[current][key], value)
		}
	}
	return sections
}

func TestUnit(t *testing.T) {
	u := unit(t, string(read(t, "systemd/pawl.service")))
	if got := slices.Sorted(maps.Keys(u)); !slices.Equal(got, []string{"Install", "Service", "Unit"}) {
		t.Fatalf("sections = %q", got)
	}
	service := u["Service"]
	for key, want := range map[string][]string{
		"ExecReload":               {"/bin/kill -HUP $MAINPID"},
		"LimitNOFILE":              {"65536"}, // twice the connections, and more
		"Restart":                  {"on-failure"},
		"RestartPreventExitStatus": {"2"},
		"StateDirectory":           {"pawl"},
		"StateDirectoryMode":       {"0700"},
		"WorkingDirectory":         {"/var/lib/pawl"},
		"UMask":                    {"0077"},
		"CapabilityBoundingSet":    {""},
		"AmbientCapabilities":      {""},
		"NoNewPrivileges":          {"yes"},
		"ProtectSystem":            {"strict"},
		"ProtectHome":              {"yes"},
		"PrivateTmp":               {"yes"},
		"PrivateDevices":           {"yes"},
		"MemoryDenyWriteExecute":   {"yes"},
		"RestrictAddressFamilies":  {"AF_INET AF_INET6 AF_UNIX"},
		"SystemCallFilter":         {"@system-service", "~@privileged"},
	} {
		if !slices.Equal(service[key], want) {
			t.Errorf("%s = %q, want %q", key, service[key], want)
		}
	}
	const shutdownTimeout = 25 // the default of `shutdown_timeout`, in seconds
	if len(service["TimeoutStopSec"]) != 1 {
		t.Fatalf("TimeoutStopSec = %q", service["TimeoutStopSec"])
	}
	if n, err := strconv.Atoi(service["TimeoutStopSec"][0]); err != nil || n <= shutdownTimeout {
		t.Errorf("TimeoutStopSec = %d, %v: pawl would be killed while it finishes", n, err)
	}
	if start := service["ExecStart"]; len(start) != 1 || !strings.HasSuffix(start[0], " run -c /etc/pawl/pawl.yaml") {
		t.Errorf("ExecStart = %q", start)
	}
}

func TestContainerfile(t *testing.T) {
	var last []string // the instructions of the final stage
	for line := range strings.Lines(string(read(t, "container/Containerfile"))) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		if strings.HasPrefix(line, "FROM ") {
			last = nil
		}
		last = append(last, line)
	}
	for _, want := range []string{
		"FROM scratch", "USER 65532:65532", "VOLUME /var/lib/pawl", "WORKDIR /var/lib/pawl", "STOPSIGNAL SIGTERM",
		`ENTRYPOINT ["/usr/local/bin/pawl"]`,
		"COPY --from=build --chown=65532:65532 /out/state /var/lib/pawl",
	} {
		if !slices.Contains(last, want) {
			t.Errorf("the image lacks %q", want)
		}
	}
	mod := regexp.MustCompile(`(?m)^go (\S+)$`).FindSubmatch(read(t, "../go.mod"))
	if !strings.Contains(string(read(t, "container/Containerfile")), "FROM golang:"+string(mod[1])+" AS build") {
		t.Errorf("the image is not built with the Go %s of go.mod", mod[1])
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
