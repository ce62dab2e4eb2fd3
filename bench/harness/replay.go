package harness

import (
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"time"
)

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
