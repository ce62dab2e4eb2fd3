package faulty

// Catches: a batch that counts as several attempts or meets no fault, one that
// passes a fault, and an ability that a wrapped destination gains or loses.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

func TestBatchIsOneAttempt(t *testing.T) {
	in := &inner{}
	told := map[Fault]int{}
	d, err := Wrap(in, settings(func(s *Settings) { s.Fail, s.RetryAfter, s.Seed = 0.5, 1e9, 3 }), func(f Fault) { told[f]++ })
	if err != nil {
		t.Fatal(err)
	}
	batch := []*message.Message{{ID: "a"}, {ID: "b"}, {ID: "c"}}
	failed := 0
	for range 100 {
		answer, err := d.(connector.Batcher).SendBatch(t.Context(), batch)
		switch f := failure.From(err); {
		case f == nil && answer.Status == 207 && len(answer.Each) == 3:
		case f != nil && answer.Status == 503 && answer.Header.Get("Retry-After") == "1" && f.RetryAfter == time.Second:
			failed++
		default:
			t.Fatalf("%+v, %v", answer, err)
		}
	}
	if failed != told[Fails] || in.batches != told[None] || told[Fails]+told[None] != 100 || failed < 30 || failed > 70 {
		t.Errorf("%d failed, %d arrived, told of %v", failed, in.batches, told)
	}
}

func TestBatchWhoseAnswerNeverEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := &inner{}
		d, err := Wrap(in, settings(func(s *Settings) { s.SlowBody = 1 }), nil)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		answer, err := d.(connector.Batcher).SendBatch(ctx, []*message.Message{{ID: "a"}})
		if f := failure.From(err); f == nil || !f.Tags.Has(failure.Timeout) || in.batches != 1 || answer.Status != 0 || answer.Each != nil {
			t.Errorf("%+v, %v; arrived %d times", answer, err, in.batches)
		}
	})
}

// taker takes every batch. It is safe for concurrent use.
type taker struct{}

func (taker) SendBatch(context.Context, []*message.Message) (connector.BatchAnswer, error) {
	return connector.BatchAnswer{}, nil
}

type sender struct{ connector.Destination }
type checks struct {
	connector.Destination
	connector.HealthChecker
}
type batches struct {
	connector.Destination
	connector.Batcher
}

func TestWrapKeepsAbilities(t *testing.T) {
	all := &inner{}
	for name, c := range map[string]struct {
		dest            connector.Destination
		checks, batches bool
	}{
		"neither": {sender{all}, false, false},
		"checks":  {checks{all, all}, true, false},
		"batches": {batches{all, all}, false, true},
		"both":    {all, true, true},
	} {
		d, err := Wrap(c.dest, NewSettings(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, canCheck := d.(connector.HealthChecker)
		_, canBatch := d.(connector.Batcher)
		if canCheck != c.checks || canBatch != c.batches {
			t.Errorf("%s: checks %v, batches %v", name, canCheck, canBatch)
		}
	}
	kind := DestinationKind()
	d, err := kind.Open(kind.New(), connector.Env{})
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := d.(connector.HealthChecker); !ok || !kind.Checks || kind.ChecksPath {
		t.Error("the kind says otherwise of checks than its destination")
	}
	if _, ok := d.(connector.Batcher); !ok || !kind.Batches {
		t.Error("the kind says otherwise of batches than its destination")
	}
}
