package e2e

import (
	"encoding/json/jsontext"
	"encoding/json/v2"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// command is what a claimer is told to do: to claim, or to report.
type command struct {
	Queue   string   `json:"queue,omitzero"`
	Most    int      `json:"most,omitzero"`
	WaitMS  int64    `json:"wait_ms,omitzero"`
	Reports []report `json:"reports,omitzero"`
}

// carried is what came of it.
type carried struct {
	Code int      `json:"code"`
	Got  []leased `json:"got,omitzero"`
	Told []told   `json:"told,omitzero"`
}

// serveClaims makes this process a claimer of the server at the URL: it does what
// it reads, until there is no more.
func serveClaims(url string) (exit int) {
	api := &jobServer{url: url}
	worker := fmt.Sprintf("claimer-%06d", os.Getpid())
	in, out := jsontext.NewDecoder(os.Stdin), jsontext.NewEncoder(os.Stdout)
	for {
		var o command
		if err := json.UnmarshalDecode(in, &o); err != nil {
			if err == io.EOF {
				return 0
			}
			fmt.Fprintln(os.Stderr, "a claimer reads:", err)
			return 1
		}
		var d carried
		if o.Reports != nil {
			d.Code, d.Told = api.report(worker, o.Reports...)
		} else {
			d.Code, d.Got = api.claim(worker, o.Queue, "", o.Most, time.Duration(o.WaitMS)*time.Millisecond)
		}
		if err := json.MarshalEncode(out, d); err != nil {
			fmt.Fprintln(os.Stderr, "a claimer writes:", err)
			return 1
		}
	}
}

// claimer is a worker that is a process of its own. One goroutine uses it.
type claimer struct {
	testing.TB
	cmd      *exec.Cmd
	commands *jsontext.Encoder
	dones    *jsontext.Decoder
	got      []leased
	// late is what it had when the circuit opened, and has not reported on.
	late []leased
}

func (j *jobServer) claimer() *claimer {
	j.Helper()
	self, err := os.Executable()
	if err != nil {
		j.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env, cmd.Stderr = environment(envClaimer+"="+j.url), os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		j.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		j.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		j.Fatal(err)
	}
	c := &claimer{TB: j.TB, cmd: cmd, commands: jsontext.NewEncoder(in), dones: jsontext.NewDecoder(out)}
	j.Cleanup(c.kill)
	return c
}

// kill is kill -9.
func (c *claimer) kill() {
	_ = c.cmd.Process.Kill() // it may be dead already
	_ = c.cmd.Wait()
}

// do has a command carried out.
func (c *claimer) do(o command) (d carried) {
	err := json.MarshalEncode(c.commands, o)
	if err == nil {
		err = json.UnmarshalDecode(c.dones, &d)
	}
	if err != nil || d.Code != http.StatusOK {
		c.Errorf("a claimer was told %+v and answers %d: %v", o, d.Code, err)
	}
	return d
}

// claim adds to what it has, and says how much that was.
func (c *claimer) claim(queue string, wait time.Duration) int {
	got := c.do(command{Queue: queue, Most: 4, WaitMS: wait.Milliseconds()}).Got
	c.got = append(c.got, got...)
	return len(got)
}

// report reports on everything that it has, and has nothing then.
func (c *claimer) report(what func(leased) report) {
	var o command
	for _, l := range c.got {
		o.Reports = append(o.Reports, what(l))
	}
	if c.got = nil; o.Reports == nil {
		return
	}
	for i, told := range c.do(o).Told {
		if told.Status != "ok" {
			c.Errorf("%+v is answered %+v", o.Reports[i], told)
		}
	}
}

func fails(l leased) report { return failed(l, sick) }

// gang is all claimers of a test.
type gang struct {
	*jobServer
	all    []*claimer
	random *rand.Rand
}

// each does something with all claimers at once.
func (g *gang) each(do func(c *claimer, random *rand.Rand)) {
	var all sync.WaitGroup
	for _, c := range g.all {
		random := rand.New(rand.NewPCG(g.random.Uint64(), 0))
		all.Go(func() { do(c, random) })
	}
	all.Wait()
}

// have returns the claimers that have something.
func (g *gang) have() (some []*claimer) {
	for _, c := range g.all {
		if len(c.got) > 0 {
			some = append(some, c)
		}
	}
	return some
}

func (g *gang) circuit() (state string, generation int64) {
	g.Helper()
	code, text := g.call(http.MethodGet, "/v3/endpoints/e0/circuit", "", nil)
	var v struct {
		State      string `json:"state"`
		Generation int64  `json:"generation"`
	}
	if err := json.Unmarshal(text, &v); err != nil || code != http.StatusOK {
		g.Fatalf("the circuit is answered %d %s: %v", code, text, err)
	}
	return v.State, v.Generation
}

// is checks the circuit.
func (g *gang) is(when, want string, generation int64) {
	g.Helper()
	if state, n := g.circuit(); state != want || n != generation {
		g.Fatalf("%s the circuit is %s in generation %d, want %s in %d", when, state, n, want, generation)
	}
}

// reportLate lets each report on one job that it had before the circuit opened:
// half of them that it is done. Nothing moves.
func (g *gang) reportLate(when, state string, generation int64) {
	g.Helper()
	g.each(func(c *claimer, random *rand.Rand) {
		if len(c.late) == 0 {
			return
		}
		c.got, c.late = c.late[:1:1], c.late[1:]
		if random.IntN(2) == 0 {
			c.report(success)
		} else {
			c.report(fails)
		}
	})
	g.is("after late reports "+when, state, generation)
}

// open lets the circuit open under full hands.
func (g *gang) open() (generation int64) {
	g.Helper()
	_, before := g.circuit()
	g.each(func(c *claimer, _ *rand.Rand) { c.claim("work", 10*time.Second) })
	if n := len(g.have()); n != len(g.all) {
		g.Fatalf("%d of %d claimers got something of a closed circuit", n, len(g.all))
	}
	for _, c := range g.all {
		if state, _ := g.circuit(); state == "open" {
			break
		}
		c.report(fails)
	}
	generation = before + 1
	g.is("after failures in a row", "open", generation)
	for _, c := range g.all {
		c.got, c.late = nil, c.got
	}
	g.reportLate("while it is open", "open", generation)
	return generation
}

// probe lets all claim until one of them got something, and twice more then. It
// returns who got the one job that may be got.
func (g *gang) probe(queue string, generation int64) *claimer {
	g.Helper()
	var found atomic.Bool
	end := time.Now().Add(patience)
	g.each(func(c *claimer, random *rand.Rand) {
		for !found.Load() && time.Now().Before(end) {
			if c.claim(queue, time.Duration(random.Int64N(int64(300*time.Millisecond)))) > 0 {
				found.Store(true)
				return
			}
		}
		c.claim(queue, 0)
		c.claim(queue, 50*time.Millisecond)
	})
	have := g.have()
	if len(have) != 1 || len(have[0].got) != 1 {
		for _, c := range have {
			g.Errorf("process %d has %d jobs", c.cmd.Process.Pid, len(c.got))
		}
		g.Fatalf("%d of %d processes have something of a circuit that lets one job through", len(have), len(g.all))
	}
	g.is("with a probe out", "half_open", generation)
	return have[0]
}

// nobody lets all claim while one of them has the probe: it stays the only one.
func (g *gang) nobody(when string, but *claimer) {
	g.Helper()
	n := len(but.got)
	g.each(func(c *claimer, _ *rand.Rand) {
		c.claim("work", 0)
		c.claim("short", 50*time.Millisecond)
	})
	if len(g.have()) != 1 || len(but.got) != n {
		g.Fatalf("%s %d processes got something", when, len(g.have()))
	}
}

func (g *gang) cancel(l leased) {
	g.Helper()
	if code, text := g.call(http.MethodPost, "/v3/jobs/"+l.Job.ID+"/cancel", "", nil); code != http.StatusOK {
		g.Fatalf("a cancel is answered %d: %s", code, text)
	}
}

// makes creates n jobs of the endpoint.
func (g *gang) makes(queue, name string, n int) {
	g.Helper()
	for i := range n {
		if code, text := g.createFor(queue, "e0", fmt.Sprintf("%s-%03d", name, i)); code != http.StatusCreated {
			g.Fatalf("a job was answered %d: %s", code, text)
		}
	}
}

// cycle opens the circuit and closes it: a probe fails, and of the next ones the
// process is killed, one is handed back, one cancelled, and one well.
func (g *gang) cycle() {
	g.Helper()
	generation := g.open()
	g.probe("work", generation+1).report(fails)
	g.is("after a probe that failed", "open", generation+2)
	dies := g.probe("short", generation+3)
	dies.kill()
	for i, c := range g.all {
		if c == dies {
			g.all[i] = g.claimer()
			g.all[i].late = dies.late // whoever has a token may report
		}
	}
	g.is("after a probe's process was killed", "half_open", generation+3)
	g.probe("short", generation+3).report(func(l leased) report { return report{Lease: l.Lease, Type: "release"} })
	g.is("after a probe was handed back", "half_open", generation+3)
	dropped := g.probe("work", generation+3)
	g.cancel(dropped.got[0])
	g.nobody("while a cancelled probe has not reported", dropped)
	dropped.report(success)
	g.is("after a probe that was cancelled", "half_open", generation+3)
	well := g.probe("work", generation+3)
	for _, c := range g.all {
		if len(c.late) > 0 {
			g.cancel(c.late[0])
			break
		}
	}
	g.nobody("while a probe is out", well)
	had := well.got
	well.got = nil
	g.reportLate("while a probe is out", "half_open", generation+3)
	well.got = had
	g.nobody("after late reports", well)
	well.report(success)
	g.is("after a probe that was well", "closed", generation+4)
	for range 4 {
		g.reportLate("after it closed", "closed", generation+4)
	}
}

// TestOneProbeOfManyProcesses lets 16 processes ask for the jobs of an endpoint
// whose circuit opens, is probed, and closes.
func TestOneProbeOfManyProcesses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.writeRaw(stormConfig)
	s.rewrite("work: { lease: 1s, timeout: 1m }", "{ work: { lease: 1m, timeout: 2m }, short: { lease: 1s, timeout: 2m } }")
	s.rewrite("max_attempts: 3,", "max_attempts: 50,")
	s.start()
	g := &gang{jobServer: s.jobs(), random: rand.New(rand.NewPCG(seed(t), 5))}
	g.events("0", 0) // who reads events has them all written
	for range 16 {
		g.all = append(g.all, g.claimer())
	}
	g.makes("work", "first", 16*4)
	cycles := max(rounds(t)/7, 1)
	for cycle := range cycles {
		g.makes("work", fmt.Sprintf("more-%d", cycle), 16*3)
		g.makes("short", fmt.Sprintf("short-%d", cycle), 2)
		g.cycle()
	}
	b := newBook(g.jobServer)
	st := b.read(t)
	checkStory(t, s, newDiary(), st, map[string]jobView{})
	n := st.tally()
	if n["circuit.opened"] != 2*cycles || n["circuit.closed"] != cycles {
		t.Errorf("%v", n)
	}
	t.Logf("%d cycles: %v", cycles, n)
}
