package harness

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// benchKey is the first key of a server under measurement.
var benchKey = "pawl_" + strings.Repeat("b", 43)

// Extent is how much of a job server is in use.
type Extent string

const (
	// Plain is a queue, with keys, history and metrics on.
	Plain Extent = ""
	// Whole adds what jobs may have: a contract with schemas, an endpoint with a
	// circuit, a rate and a bound on its attempts, a bound of the queue, and
	// every event kept for a reader. No limit of it is ever reached.
	Whole Extent = "whole"
)

const wholeConfig = `
  retry: { max_attempts: 10 }
  queues:    { bench: { concurrency: 100000 } }
  endpoints: { far: { rate: { per_second: 100000, burst: 100000 }, concurrency: 100000, circuit: { failures: 3 }, retry: { initial: 1s } } }
  tasks:     { "noop@1": { endpoint: far, input_schema: input.json, output_schema: output.json, retry: { factor: 3 } } }
`

// PawlJobs is pawl as a job server on SQLite, with its relay idle and every
// commit synchronised.
func PawlJobs(bin string, extent Extent) Contender {
	return Contender{Name: "pawl", Command: func(dir, listen, _ string) (*exec.Cmd, error) {
		admin, err := FreeAddress()
		if err != nil {
			return nil, err
		}
		more := "  queues: { bench: {} }\n"
		files := map[string]string{adminFile: admin}
		if extent == Whole {
			more = wholeConfig
			files["input.json"] = `{"type":"object","properties":{"text":{"type":"string"}},"required":["text"]}`
			files["output.json"] = `{}`
		}
		files["pawl.yaml"] = fmt.Sprintf("relay: bench\nstate: %s\nhttp: { listen: %q }\nlog: { level: warn }\njobs:\n  listen: %q\n%s",
			filepath.Join(dir, "state"), admin, listen, more)
		for name, text := range files {
			if _, err := write(dir, name, text); err != nil {
				return nil, err
			}
		}
		cmd := exec.Command(filepath.Join(bin, "pawl"), "run", "-c", filepath.Join(dir, "pawl.yaml"))
		cmd.Env = append(os.Environ(), "PAWL_ADMIN_KEY="+benchKey)
		return cmd, nil
	}}
}

// ReadEvents reads the events once: a server that was asked for them keeps every
// one from then on.
func (j Jobs) ReadEvents(ctx context.Context) error {
	c := NewClient(j.Address, benchKey)
	defer c.Close()
	request := fmt.Appendf(nil, "GET /v3/events HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n", benchKey)
	status, answer, err := c.Send(ctx, request, patience)
	if err != nil {
		return err
	}
	if status/100 != 2 {
		return fmt.Errorf("/v3/events: %w: %d %s", errStatus, status, answer)
	}
	return nil
}

// Jobs is load on the job API of a server: queue bench, task noop.
type Jobs struct {
	Address string
	Callers int
	// Batch is how many jobs go into one request.
	Batch int
	// Payload is the size of a payload in bytes.
	Payload int
}

// patience is when a caller gives an answer up.
const patience = 10 * time.Second

// each runs the callers until d has passed and adds up what they saw. An answer
// that comes after d counts no more.
func (j Jobs) each(ctx context.Context, d time.Duration, call func(ctx context.Context, n int, c *Client, r *Result)) Result {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	began := time.Now()
	seen := make([]Result, j.Callers)
	var all sync.WaitGroup
	for n := range j.Callers {
		all.Go(func() {
			c := NewClient(j.Address, benchKey)
			defer c.Close()
			for ctx.Err() == nil {
				call(ctx, n, c, &seen[n])
			}
		})
	}
	all.Wait()
	return merge(seen, time.Since(began))
}

// fail counts a call that failed; a caller that was refused waits a little.
func fail(ctx context.Context, r *Result, err error) {
	if ctx.Err() != nil {
		return
	}
	if r.Failed++; r.Failed == 1 {
		fmt.Fprintln(os.Stderr, "bench:", err)
	}
	sleep(ctx, 10*time.Millisecond)
}

// one is a job as JSON; more are members of it, each with a comma behind.
func (j Jobs) one(more string) string {
	return fmt.Sprintf(`{"queue":"bench","task":"noop",%s"payload":{"text":"%s"}}`, more, strings.Repeat("x", max(j.Payload-len(`{"text":""}`), 0)))
}

// batch is the body of a batch of n jobs.
func (j Jobs) batch(n int, more func(i int) string) []byte {
	b := []byte(`{"jobs":[`)
	for i := range n {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, j.one(more(i))...)
	}
	return append(b, "]}"...)
}

func plain(int) string { return "" }

// Create creates one job after the other and measures each.
func (j Jobs) Create(ctx context.Context, d time.Duration) Result {
	body := []byte(j.one(""))
	return j.each(ctx, d, func(ctx context.Context, _ int, c *Client, r *Result) {
		began := time.Now()
		if _, err := c.Post("/v3/jobs", body, patience); err != nil {
			fail(ctx, r, err)
			return
		}
		r.took(time.Since(began))
	})
}

// Cycle creates, claims and completes jobs, Batch at a time, each caller in
// turn, and counts those whose completion was acknowledged. The latency is that
// of the whole turn.
func (j Jobs) Cycle(ctx context.Context, d time.Duration) Result {
	path, create := "/v3/jobs/batch", j.batch(j.Batch, plain)
	if j.Batch == 1 {
		path, create = "/v3/jobs", []byte(j.one(""))
	}
	return j.each(ctx, d, func(ctx context.Context, n int, c *Client, r *Result) {
		began := time.Now()
		if _, err := c.Post(path, create, patience); err != nil {
			fail(ctx, r, err)
			return
		}
		done, err := j.work(c, n, j.Batch)
		if err != nil {
			fail(ctx, r, err)
			return
		}
		for range done {
			r.took(time.Since(began))
		}
	})
}

// work claims up to n jobs and completes them.
func (j Jobs) work(c *Client, worker, n int) (done int, err error) {
	answer, err := c.Post("/v3/claims", claim(worker, n, "1s"), patience)
	if err != nil {
		return 0, err
	}
	return complete(c, worker, leases(answer))
}

func claim(worker, n int, wait string) []byte {
	return fmt.Appendf(nil, `{"worker":"bench-%04d","queues":["bench"],"max":%d,"wait":%q}`, worker, n, wait)
}

func complete(c *Client, worker int, leases []string) (done int, err error) {
	return reportAll(c, worker, leases, `"type":"complete"`)
}

// reportAll reports the same of every lease and returns how many reports were
// taken.
func reportAll(c *Client, worker int, leases []string, report string) (done int, err error) {
	if len(leases) == 0 {
		return 0, nil
	}
	b := fmt.Appendf(nil, `{"worker":"bench-%04d","reports":[`, worker)
	for i, lease := range leases {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(append(append(append(append(b, `{"lease":"`...), lease...), `",`...), report...), '}')
	}
	answer, err := c.Post("/v3/reports", append(b, "]}"...), patience)
	if err != nil {
		return 0, err
	}
	if done = bytes.Count(answer, []byte(`"status":"ok"`)); done != len(leases) {
		return done, fmt.Errorf("%d of %d reports were taken: %.200s", done, len(leases), answer)
	}
	return done, nil
}

// leases returns the lease tokens of a claim's answer. No payload of these
// benchmarks has such a member.
func leases(answer []byte) (found []string) {
	for _, part := range bytes.Split(answer, []byte(`"lease":"`))[1:] {
		token, _, _ := bytes.Cut(part, []byte(`"`))
		found = append(found, string(token))
	}
	return found
}

// Latency creates jobs at a rate, whatever the server does, while Callers
// workers wait for them, and measures from the moment at which a job was due to
// be created until a worker has it. Only jobs of the last d count, after warm.
func (j Jobs) Latency(ctx context.Context, perSecond int, warm, d time.Duration) Result {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	began := time.Now()
	from, until := began.Add(warm), began.Add(warm+d)
	workers, creators := make([]Result, j.Callers), make([]Result, 32)
	var all, producing sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			c := NewClient(j.Address, benchKey)
			defer c.Close()
			for ctx.Err() == nil {
				answer, err := c.Post("/v3/claims", claim(n, 64, "1s"), patience) // short, so that the end is seen
				if err != nil {
					fail(ctx, &workers[n], err)
					continue
				}
				now := time.Now()
				for _, at := range creations(answer) {
					if !at.Before(from) && at.Before(until) {
						workers[n].took(now.Sub(at))
					}
				}
				if _, err := complete(c, n, leases(answer)); err != nil {
					fail(ctx, &workers[n], err)
				}
			}
		})
	}
	for n := range creators {
		producing.Go(func() {
			c := NewClient(j.Address, benchKey)
			defer c.Close()
			for i := n; ; i += len(creators) {
				at := began.Add(time.Duration(i) * time.Second / time.Duration(perSecond))
				if !at.Before(until) || ctx.Err() != nil {
					return
				}
				sleep(ctx, time.Until(at))
				body := fmt.Appendf(nil, `{"queue":"bench","task":"noop","payload":{"at":%d}}`, at.UnixNano())
				if _, err := c.Post("/v3/jobs", body, patience); err != nil {
					fail(ctx, &creators[n], err)
				}
			}
		})
	}
	producing.Wait()
	sleep(ctx, 500*time.Millisecond) // what is on its way
	cancel()
	all.Wait()
	return merge(append(workers, creators...), d)
}

// creations returns the times in the payloads of a claim's answer.
func creations(answer []byte) (found []time.Time) {
	for _, part := range bytes.Split(answer, []byte(`"payload":{"at":`))[1:] {
		number, _, _ := bytes.Cut(part, []byte(`}`))
		if ns, err := strconv.ParseInt(string(number), 10, 64); err == nil {
			found = append(found, time.Unix(0, ns))
		}
	}
	return found
}
