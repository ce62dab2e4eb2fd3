package harness

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"time"
)

// Die creates n jobs and lets each fail for good, in batches.
func (j Jobs) Die(ctx context.Context, n int) error {
	return j.spread(n, func(c *Client, caller, _, many int) error {
		if _, err := c.Post("/v3/jobs/batch", j.batch(many, plain), time.Minute); err != nil {
			return err
		}
		for left := many; left > 0; {
			answer, err := c.Post("/v3/claims", claim(caller, left, "1s"), patience)
			if err != nil {
				return err
			}
			found := leases(answer)
			if len(found) == 0 {
				return fmt.Errorf("%d jobs are left and none is given out", left)
			}
			b := fmt.Appendf(nil, `{"worker":"bench-%04d","reports":[`, caller)
			for i, lease := range found {
				if i > 0 {
					b = append(b, ',')
				}
				b = fmt.Appendf(b, `{"lease":%q,"type":"fail","retryable":false,"endpoint":"ok"}`, lease)
			}
			if answer, err = c.Post("/v3/reports", append(b, "]}"...), patience); err != nil {
				return err
			}
			if took := bytes.Count(answer, []byte(`"status":"ok"`)); took != len(found) {
				return fmt.Errorf("%d of %d reports were taken: %.200s", took, len(found), answer)
			}
			left -= len(found)
		}
		return ctx.Err()
	})
}

// Replay brings every dead letter back, as fast as it goes and whatever becomes of
// them, and waits until it has done so. OK counts the jobs.
func (j Jobs) Replay(ctx context.Context) (Result, error) {
	c := NewClient(j.Address, benchKey)
	defer c.Close()
	began := time.Now()
	answer, err := c.Post("/v3/replays", []byte(`{"filter":{},"stop_share":0}`), time.Minute)
	if err != nil {
		return Result{}, err
	}
	var r struct {
		ID    string `json:"id"`
		State string `json:"state"`
		Done  int64  `json:"done"`
	}
	if err := json.Unmarshal(answer, &r); err != nil {
		return Result{}, err
	}
	for r.State == "running" {
		if sleep(ctx, 50*time.Millisecond); ctx.Err() != nil {
			return Result{}, ctx.Err()
		}
		request := fmt.Appendf(nil, "GET /v3/replays/%s HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\n\r\n", r.ID, benchKey)
		_, answer, err := c.Send(ctx, request, patience)
		if err != nil {
			return Result{}, err
		}
		if err := json.Unmarshal(answer, &r); err != nil {
			return Result{}, err
		}
	}
	if r.State != "done" {
		return Result{}, errors.New("the replay is " + r.State)
	}
	return Result{OK: r.Done, Took: time.Since(began)}, nil
}
