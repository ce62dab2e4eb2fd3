package explain

import (
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/setting"
)

// Breaker is when an endpoint's circuit breaker opens, and what then.
type Breaker struct {
	// It opens when the last Window holds outcomes of Messages and this share of
	// the outcomes are failures, or when that many messages failed in a row.
	Ratio    float64          `json:"failure_ratio"`
	Messages int              `json:"min_requests"`
	Window   setting.Duration `json:"window"`
	// OpenFor is how long it stays open, each time that its trials fail, until the
	// longest is reached.
	OpenFor []setting.Duration `json:"open_for"`
	// Trials may be in flight at once, and as many passes close it.
	Trials int `json:"half_open_max"`
}

// AtOpen is what a message does when every breaker of a destination is open.
type AtOpen string

// What a message does at an open breaker.
const (
	// HopsAtOpen: it goes on to the fallback at once.
	HopsAtOpen AtOpen = "hops"
	// WaitsAtOpen: with nowhere to go it waits until the breaker lets it try.
	WaitsAtOpen AtOpen = "waits"
	// FailsAtOpen: with nowhere to go it becomes a dead letter at once.
	FailsAtOpen AtOpen = "fails"
)

// atOpen says what a message does at d's open breaker; "" where that never opens.
func atOpen(d *config.Destination, w *walk) AtOpen {
	switch {
	case breakersOf(d) == nil:
		return ""
	case len(w.at) > 1:
		return HopsAtOpen
	case d.Delivery.WhenOpen == config.WhenOpenFail:
		return FailsAtOpen
	}
	return WaitsAtOpen
}

func breakerOf(s *breaker.Settings) *Breaker {
	if s == nil {
		return nil
	}
	b := &Breaker{Ratio: s.FailureRatio, Messages: s.MinRequests, Window: setting.Duration(s.Window), Trials: s.HalfOpenMax}
	var before setting.Duration
	// It doubles at least, from a millisecond to a day in less than 28 steps.
	for _, at := range openingsOf(*s, 28) {
		open := at - before
		if n := len(b.OpenFor); n > 0 && b.OpenFor[n-1] == open {
			break
		}
		b.OpenFor, before = append(b.OpenFor, open), at
	}
	return b
}
