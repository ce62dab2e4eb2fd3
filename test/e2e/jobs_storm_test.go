package e2e

import (
	"encoding/json/v2"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"
)

// circuitFailures in a row open a circuit of these tests, for circuitCooldown: the
// shortest there is.
const (
	circuitFailures = 3
	circuitCooldown = time.Second
)

// A person closes the circuit of the last one, which asks for no rest: to close
// it ends that too, and tells nothing where the circuit is closed already.
var stormEndpoints = []string{"e0", "e1", "e2", "e3"}

const resetEndpoint = "e3"

// stormConfig has endpoints whose circuits open soon and not for long.
const stormConfig = `relay: e2e
state: $STATE
http: { listen: "$ADMIN" }
shutdown_timeout: 10s
jobs:
  allow_private_webhooks: true
  retry: { max_attempts: 3, initial: 10ms, factor: 1, max_delay: 10ms }
  queues:
    work: { lease: 1s, timeout: 1m }
  endpoints:
    e0: { circuit: { failures: 3, cooldown: 1s } }
    e1: { circuit: { failures: 3, cooldown: 1s } }
    e2: { circuit: { failures: 3, cooldown: 1s } }
    e3: { circuit: { failures: 3, cooldown: 1s } }
`

// What workers call their failures. The circuit counts sick alone.
const (
	sick    = "sick"
	fatal   = "fatal"    // sick, and no retry helps
	badData = "bad_data" // the endpoint is well
	asked   = "asked"    // the endpoint asks to be left alone
)

// weather is how the endpoints are: each is sick for some attempts, and then well
// for some. Safe for concurrent use.
type weather struct {
	mu   sync.Mutex
	sick map[string]bool
	left map[string]int
}

func newWeather() *weather { return &weather{sick: map[string]bool{}, left: map[string]int{}} }

func (w *weather) isSick(endpoint string, random *rand.Rand) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.left[endpoint] == 0 {
		w.sick[endpoint], w.left[endpoint] = !w.sick[endpoint], 1+random.IntN(8)
		if !w.sick[endpoint] {
			w.left[endpoint] *= 4
		}
	}
	w.left[endpoint]--
	return w.sick[endpoint]
}

// says reports as the weather is.
func (w *weather) says(l leased, random *rand.Rand) (report, bool) {
	if l.Job.Endpoint == nil {
		return someFail(l, random)
	}
	kind := random.IntN(20)
	switch {
	case kind == 0:
		return report{}, false
	case kind == 1:
		return report{Lease: l.Lease, Type: "release"}, true
	case kind == 2 || kind == 3:
		r := failed(l, badData)
		r.Endpoint, r.Retryable = "ok", new(false)
		return r, true
	case kind == 4 && *l.Job.Endpoint != resetEndpoint:
		r := failed(l, asked)
		r.RetryAfter = "100ms"
		return r, true
	case !w.isSick(*l.Job.Endpoint, random):
		return success(l), true
	case kind == 5:
		r := failed(l, fatal)
		r.Retryable = new(false)
		return r, true
	}
	return failed(l, sick), true
}

// replayView is a replay as the API shows it.
type replayView struct {
	ID     string `json:"id"`
	Filter struct {
		Endpoint string `json:"endpoint"`
		Reason   string `json:"reason"`
	} `json:"filter"`
	Before      time.Time `json:"before"`
	State       string    `json:"state"`
	Done        int       `json:"done"`
	Skipped     int       `json:"skipped"`
	Succeeded   int       `json:"succeeded"`
	FailedAgain int       `json:"failed_again"`
}

func (r replayView) over() bool { return r.State == "done" || r.State == "cancelled" }

// replays returns the newest replays, or all of them.
func (j *jobServer) replays(all bool) (code int, list []replayView) {
	for cursor := ""; ; {
		code, text := j.call(http.MethodGet, "/v3/replays?limit=100"+cursor, "", nil)
		if code != http.StatusOK {
			return code, nil
		}
		var page struct {
			Replays []replayView `json:"replays"`
			Next    *string      `json:"next_cursor"`
		}
		if err := json.Unmarshal(text, &page); err != nil {
			j.Errorf("replays: %v in %s", err, text)
			return 0, nil
		}
		list = append(list, page.Replays...)
		if page.Next == nil || !all {
			return code, list
		}
		cursor = "&cursor=" + *page.Next
	}
}

// operate begins replays of dead letters, and pauses, resumes and cancels them. It
// cancels a job now and then, and closes a circuit.
func (c *crew) operate(random *rand.Rand) {
	for tick := time.NewTicker(50 * time.Millisecond); !c.stopped(); <-tick.C {
		_, list := c.api.replays(false)
		list = slices.DeleteFunc(list, replayView.over)
		code, text := 0, []byte(nil)
		move := func(r replayView, to string) {
			code, text = c.api.call(http.MethodPost, "/v3/replays/"+r.ID+"/"+to, "", nil)
		}
		switch {
		case c.drain:
			for _, r := range list {
				if r.State != "running" {
					move(r, "resume")
				}
			}
		case random.IntN(16) == 0:
			code, text = c.api.call(http.MethodPost, "/v3/endpoints/"+resetEndpoint+"/circuit/reset", "", nil)
		case random.IntN(8) == 0:
			if id := c.someJob(random); id != "" {
				code, text = c.api.call(http.MethodPost, "/v3/jobs/"+id+"/cancel", "", nil)
			}
		case len(list) < 2 && random.IntN(3) == 0:
			code, text = c.api.call(http.MethodPost, "/v3/replays", "", aReplay(random))
		case len(list) > 0:
			switch r := list[random.IntN(len(list))]; {
			case random.IntN(40) == 0:
				move(r, "cancel")
			case r.State != "running" && random.IntN(2) == 0:
				move(r, "resume")
			case r.State == "running" && random.IntN(4) == 0:
				move(r, "pause")
			}
		}
		switch code {
		case 0, http.StatusOK, http.StatusCreated, http.StatusConflict, http.StatusServiceUnavailable:
		default:
			c.api.Errorf("an operator was answered %d: %s", code, text)
		}
	}
}

// someJob is one that waits or runs; "" for none.
func (c *crew) someJob(random *rand.Rand) string {
	status := []string{"queued", "running"}[random.IntN(2)]
	code, text := c.api.call(http.MethodGet, "/v3/jobs?queue=work&limit=10&status="+status, "", nil)
	var page struct {
		Jobs []jobView `json:"jobs"`
	}
	if code != http.StatusOK {
		return ""
	}
	if err := json.Unmarshal(text, &page); err != nil || len(page.Jobs) == 0 {
		return ""
	}
	if id := page.Jobs[random.IntN(len(page.Jobs))].ID; c.diary.knows(id) {
		return id
	}
	return ""
}

// aReplay asks for one at some rate, of some dead letters.
func aReplay(random *rand.Rand) map[string]any {
	filter := map[string]any{}
	switch random.IntN(3) {
	case 0:
		filter["endpoint"] = stormEndpoints[random.IntN(len(stormEndpoints))]
	case 1:
		filter["reason"] = "exhausted"
	}
	return map[string]any{"filter": filter, "per_second": []int{0, 10, 50}[random.IntN(3)], "stop_share": []float64{0, 0.5}[random.IntN(2)]}
}

// TestKillStorm kills pawl at random moments while circuits open and close,
// replays bring dead letters back, and readers follow the events.
func TestKillStorm(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(seed(t), 4))
	s := newSite(t)
	s.writeRaw(stormConfig)
	d, w := newDiary(), newWeather()
	b := newBook(s.jobs())
	hook := newWebhook(t)
	n := rounds(t)
	for round := range n {
		p := s.start()
		if round == 0 {
			b.follow()
			hook.subscribe(s.jobs())
		}
		before, moved := d.tally(), b.moves()
		c := &crew{
			api: s.jobs(), diary: d, stop: make(chan struct{}), prefix: fmt.Sprintf("r%03d", round), says: w.says,
			endpoints: append([]string{""}, stormEndpoints...), pace: 20 * time.Millisecond,
		}
		operator := rand.New(rand.NewPCG(random.Uint64(), 0))
		c.all.Go(func() { c.operate(operator) })
		c.begin(random.Uint64())
		eventually(t, "jobs are created and completed, and a circuit moves", func() bool {
			now := d.tally()
			return now["created"] >= before["created"]+20 && now["complete"] >= before["complete"]+10 && b.moves() > moved
		})
		<-time.After(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
		hook.failing(round < n/2) // those of later rounds would be waited for at the end
		p.kill()
		c.end()
	}
	p := s.start()
	finishReplays(t, s, d)
	finishAll(t, s, d)
	st := b.story(t)
	hook.check(t, st)
	views := checkJobs(t, s, d)
	checkStory(t, s, d, st, views)
	p.stop()
	t.Logf("%d rounds: %v; %v", n, d.tally(), st.tally())
	for _, what := range []string{"circuit.opened", "circuit.half_open", "circuit.closed", "endpoint.held", "replay.moved", "brought back"} {
		if st.tally()[what] < n/10 {
			t.Errorf("%d %s: the test looks at nothing", st.tally()[what], what)
		}
	}
}

// finishReplays lets every replay come to its end.
func finishReplays(t *testing.T, s *site, d *diary) {
	t.Helper()
	c := &crew{api: s.jobs(), diary: d, stop: make(chan struct{}), prefix: "replays", drain: true}
	c.all.Go(func() { c.operate(nil) })
	c.begin(1)
	defer c.end()
	eventually(t, "every replay is over", func() bool {
		code, list := s.jobs().replays(true)
		return code == http.StatusOK && !slices.ContainsFunc(list, func(r replayView) bool { return !r.over() })
	})
}
