package harness

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Fill creates n jobs with more members each, in batches.
func (j Jobs) Fill(ctx context.Context, n int, more func(i int) string) error {
	return j.spread(n, func(c *Client, _, from, many int) error {
		_, err := c.Post("/v3/jobs/batch", j.batch(many, func(i int) string { return more(from + i) }), 60*time.Second)
		return errors.Join(err, ctx.Err())
	})
}

// Finish creates n jobs and completes them, in batches.
func (j Jobs) Finish(ctx context.Context, n int) error {
	return j.end(ctx, n, plain, `"type":"complete"`)
}

// Die creates n jobs and lets each fail for good, in batches.
func (j Jobs) Die(ctx context.Context, n int) error {
	return j.end(ctx, n, plain, `"type":"fail","retryable":false,"endpoint":"ok"`)
}

// Hold creates n jobs, with members that name their endpoints, and fails each so
// that its endpoint is left alone for an hour.
func (j Jobs) Hold(ctx context.Context, n int, more func(i int) string) error {
	return j.end(ctx, n, more, `"type":"fail","retryable":false,"retry_after":"1h"`)
}

// Pause shuts an endpoint's gate.
func (j Jobs) Pause(endpoint string) error {
	c := NewClient(j.Address, benchKey)
	defer c.Close()
	_, err := c.Post("/v3/endpoints/"+endpoint+"/pause", nil, patience)
	return err
}

// Open opens the circuit of an endpoint for a day.
func (j Jobs) Open(ctx context.Context, endpoint string) error {
	c := NewClient(j.Address, benchKey)
	defer c.Close()
	if _, err := c.call("PUT", "/v3/endpoints/"+endpoint, []byte(`{"circuit":{"failures":1,"cooldown":"24h"}}`), patience); err != nil {
		return err
	}
	return j.end(ctx, 1, func(int) string { return fmt.Sprintf(`"endpoint":%q,`, endpoint) }, `"type":"fail","retryable":false`)
}

// end creates n jobs and ends each by a report, in batches.
func (j Jobs) end(ctx context.Context, n int, more func(i int) string, report string) error {
	return j.spread(n, func(c *Client, caller, from, many int) error {
		if _, err := c.Post("/v3/jobs/batch", j.batch(many, func(i int) string { return more(from + i) }), time.Minute); err != nil {
			return err
		}
		for left := many; left > 0; {
			answer, err := c.Post("/v3/claims", claim(caller, left, "1s"), patience)
			if err != nil {
				return err
			}
			done, err := reportAll(c, caller, leases(answer), report)
			if err != nil || done == 0 {
				return errors.Join(err, fmt.Errorf("%d jobs are left and %d were ended", left, done), ctx.Err())
			}
			left -= done
		}
		return ctx.Err()
	})
}

// spread calls for every thousand of n, several callers at once.
func (j Jobs) spread(n int, call func(c *Client, caller, from, many int) error) error {
	const step = 1000 // the most that one request takes
	froms := make(chan int, n/step+1)
	for from := 0; from < n; from += step {
		froms <- from
	}
	close(froms)
	failures := make([]error, 4)
	var all sync.WaitGroup
	for caller := range failures {
		all.Go(func() {
			c := NewClient(j.Address, benchKey)
			defer c.Close()
			for from := range froms {
				if failures[caller] = call(c, caller, from, min(step, n-from)); failures[caller] != nil {
					return
				}
			}
		})
	}
	all.Wait()
	return errors.Join(failures...)
}
