package sim

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
)

// drawBatches has some destinations send several messages in one request. It has
// numbers of its own, as drawLimits has.
func (p *Plan) drawBatches() {
	r := rand.New(rand.NewPCG(p.Seed, 0x8ebc6af09c88c6e3))
	for i := range p.Destinations {
		d := &p.Destinations[i]
		if chance(r, 0.25) && (d.Group == nil || d.Group.Hedge == nil) {
			d.Batch = &deliver.Batch{MaxMessages: 2 + r.IntN(6), MaxBytes: 1 << 10, MaxWait: between(r, 0, 300*time.Millisecond)}
		}
	}
}

// items returns the messages of a batch: one a line.
func items(body []byte) (all []arrival, err error) {
	for line := range bytes.Lines(body) {
		m, err := message.Decode(bytes.TrimSpace(line))
		if err != nil {
			return nil, fmt.Errorf("the item %q: %w", line, err)
		}
		all = append(all, arrival{id: m.ID, body: string(m.Body)})
	}
	return all, nil
}

// each answers a batch by its messages: every other one of them failed.
func each(w http.ResponseWriter, all []arrival) {
	fmt.Fprint(w, `{"results":[`)
	for i := range all {
		status := http.StatusOK
		if all[i].accepted = i%2 == 0; !all[i].accepted {
			status = http.StatusBadGateway
		}
		if i > 0 {
			fmt.Fprint(w, ",")
		}
		fmt.Fprintf(w, `{"id":%q,"status":%d}`, all[i].id, status)
	}
	fmt.Fprint(w, "]}")
}

// requests are the sends as the endpoint sees them: those of one batch are one.
func (o *oracle) requests(at place, sends []span) []span {
	sends = slices.Clone(sends)
	for _, e := range o.batches[at] {
		left := e.Number - 1
		sends = slices.DeleteFunc(sends, func(s span) bool {
			same := left > 0 && s.end.Equal(e.At) && s.begin.Equal(e.At.Add(-e.Took))
			if same {
				left--
			}
			return same
		})
	}
	return sends
}

// judgeBatch checks the size of one.
func (o *oracle) judgeBatch(e event.Event) {
	d := o.homes[e.Endpoint]
	if d.Batch == nil || e.Number > d.Batch.MaxMessages || e.Number < 1 {
		o.w.wrong("", "a batch of %d messages to %s, more than there may be", e.Number, e.Endpoint)
	}
}
