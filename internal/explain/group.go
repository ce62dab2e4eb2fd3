package explain

import (
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/balance"
	"github.com/pawlhq/pawl/internal/setting"
)

// Group is how a group picks among its members.
type Group struct {
	Strategy balance.Strategy `json:"strategy"`
	Members  []Member         `json:"members"`
	// Health is nil where members are not checked.
	Health *Health `json:"health_check,omitzero"`
}

// Member is one endpoint of a group.
type Member struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Where string `json:"where,omitzero"`
	// Share is the part of the messages that it is the first to get while all
	// members are well; 0 where that is not fixed (least_latency).
	Share float64 `json:"share"`
	// Workers is how many attempts it may have in flight.
	Workers int              `json:"workers"`
	Timeout setting.Duration `json:"timeout"`
	// Breaker is nil where it has none.
	Breaker *Breaker `json:"breaker,omitzero"`
}

// Health is how members are asked whether they are well.
type Health struct {
	Path     string           `json:"path,omitzero"`
	Interval setting.Duration `json:"interval"`
	Timeout  setting.Duration `json:"timeout"`
	// UnhealthyAfter failures in a row make a member unhealthy, HealthyAfter
	// passes healthy again.
	UnhealthyAfter int `json:"unhealthy_after"`
	HealthyAfter   int `json:"healthy_after"`
	// NoticedAfter bounds the time from a member's end until it is passed over:
	// that many intervals, and the timeout of the last check.
	NoticedAfter setting.Duration `json:"noticed_after"`
}

// Hedge says when a message that has no answer yet goes to another member too.
type Hedge struct {
	// After is a duration, or p95: the 95th percentile of the last minute, which
	// is known from MinSamples answers on.
	After      string `json:"after"`
	MinSamples int    `json:"min_samples,omitzero"`
	Max        int    `json:"max"`
	// Sends is what one message can cost in a round that is slow and not down.
	Sends int `json:"sends"`
}

func groupOf(c *config.Config, d *config.Destination) *Group {
	of := d.Group
	if of == nil {
		return nil
	}
	g := &Group{Strategy: of.Strategy}
	weights := 0
	for i := range of.Members {
		weights += of.Members[i].Weight
	}
	for i := range of.Members {
		m := &of.Members[i]
		g.Members = append(g.Members, Member{
			Name: m.Name, Type: m.Type, Where: where(c, m.Settings),
			Share: share(of, i, weights), Workers: balance.Share(d.Delivery.Workers, len(of.Members)),
			Timeout: setting.Duration(m.Delivery.Timeout), Breaker: breakerOf(m.Delivery.Breaker),
		})
	}
	if h := of.Health; h != nil {
		g.Health = &Health{
			Path: h.Path, Interval: setting.Duration(h.Interval), Timeout: setting.Duration(h.Timeout),
			UnhealthyAfter: h.UnhealthyAfter, HealthyAfter: h.HealthyAfter,
			NoticedAfter: setting.Duration(h.Interval)*setting.Duration(h.UnhealthyAfter) + setting.Duration(h.Timeout),
		}
	}
	return g
}

// share is the part of the messages that the i-th member is the first to get.
func share(g *config.Group, i, weights int) float64 {
	switch g.Strategy {
	case balance.Failover:
		if i == 0 {
			return 1
		}
	case balance.RoundRobin:
		return 1 / float64(len(g.Members))
	case balance.Weighted:
		return float64(g.Members[i].Weight) / float64(max(weights, 1))
	case balance.LeastLatency:
	}
	return 0
}

func hedgeOf(v *config.Delivery) *Hedge {
	h := v.Hedge
	if h == nil {
		return nil
	}
	e := &Hedge{After: hedgeAfter(h), Max: h.Max, Sends: 1 + h.Max}
	if h.After == 0 {
		e.MinSamples = balance.MinSamples
	}
	return e
}

// hedgeAfter is the time of a hedge as it is written.
func hedgeAfter(h *config.Hedge) string {
	if h.After == 0 {
		return "p95"
	}
	return setting.Duration(h.After).String()
}
