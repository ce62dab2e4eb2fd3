package explain

import (
	"fmt"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/setting"
)

// Amplification is how many sends one message can become at the most, over its
// whole chain: what an outage multiplies the load by.
type Amplification struct {
	Factors []Factor `json:"factors"`
	Sends   int      `json:"sends"`
	// Sum is how it is reckoned: "5 + 3 × 2 = 11".
	Sum string `json:"sum"`
	// Average is what the retry budgets bound the sends of many messages to, each
	// on average; 0 where no destination of the chain has one. A budget's
	// min_per_second comes on top.
	Average float64 `json:"average,omitzero"`
}

// Factor is one destination's part.
type Factor struct {
	Destination string `json:"destination"`
	// Attempts is how many can be made before the deadline; of a group rounds.
	Attempts int `json:"attempts"`
	// Endpoints is how many are tried in each. Hedges are among them: none goes to
	// a member that the round has tried.
	Endpoints int `json:"endpoints"`
}

// amplificationOf counts the sends of a message that finds everything away. w
// must be the walk with a failure that is worth a retry: its attempts are those
// of the fastest failures, which are the most.
func amplificationOf(w *walk) *Amplification {
	a := &Amplification{}
	var parts []string
	bounded := false
	for i := range w.steps {
		s := &w.steps[i]
		f := Factor{Destination: s.Destination, Attempts: len(s.Attempts)}
		if f.Attempts > 0 {
			f.Endpoints = s.Attempts[0].Sends
		}
		sends := 0
		for _, try := range s.Attempts {
			sends += try.Sends
		}
		part := fmt.Sprint(sends)
		if f.Endpoints > 1 && sends == f.Attempts*f.Endpoints { // the deadline may cut a round short
			part = fmt.Sprintf("%d × %d", f.Attempts, f.Endpoints)
		}
		parts = append(parts, part)
		a.Factors = append(a.Factors, f)
		a.Sends += sends
		average := float64(sends)
		if b := w.at[i].Delivery.RetryBudget; b != nil {
			bounded = true
			average = min(average, float64(f.Endpoints)*(1+b.Ratio))
		}
		a.Average += average
	}
	a.Sum = strings.Join(parts, " + ")
	if strings.ContainsAny(a.Sum, "+×") {
		a.Sum += fmt.Sprintf(" = %d", a.Sends)
	}
	if !bounded {
		a.Average = 0
	}
	return a
}

// Budget says how many retries all messages together may make in any stretch of
// Window: Ratio for each first attempt in it, and Floor. Past that a message
// leaves the destination, instead of waiting for its next attempt.
type Budget struct {
	Ratio  float64          `json:"ratio"`
	Floor  float64          `json:"floor"`
	Window setting.Duration `json:"window"`
	// Store is where several relays count it together; "" counts it here.
	Store string `json:"store,omitzero"`
}

func budgetOf(v *config.Delivery) *Budget {
	b := v.RetryBudget
	if b == nil {
		return nil
	}
	return &Budget{Ratio: b.Ratio, Floor: b.MinPerSecond * b.Window.Seconds(), Window: setting.Duration(b.Window), Store: v.BudgetStore}
}

// RateLimit says how fast sends may begin.
type RateLimit struct {
	PerSecond float64 `json:"per_second"`
	Burst     int     `json:"burst"`
	// Backlog is how long it takes until the last message of a full lane of Places
	// is sent for the first time.
	Places  int              `json:"places"`
	Backlog setting.Duration `json:"backlog"`
}

func rateLimitOf(v *config.Delivery) *RateLimit {
	if v.RateLimit == nil {
		return nil
	}
	now := time.Unix(0, 0)
	last := limit.NewBucket(*v.RateLimit, now).LookPast(now, v.MaxPending-1)
	return &RateLimit{v.RateLimit.PerSecond, v.RateLimit.Burst, v.MaxPending, setting.Duration(last.Sub(now))}
}

// Batch says how many messages go in one attempt.
type Batch struct {
	MaxMessages int          `json:"max_messages"`
	MaxBytes    setting.Size `json:"max_bytes"`
	// MaxWait is how long a message waits for others.
	MaxWait setting.Duration `json:"max_wait"`
}

func batchOf(v *config.Delivery) *Batch {
	b := v.Batch
	if b == nil {
		return nil
	}
	return &Batch{b.MaxMessages, setting.Size(b.MaxBytes), setting.Duration(b.MaxWait)}
}
