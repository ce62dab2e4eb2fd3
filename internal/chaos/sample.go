package chaos

import (
	"hash/fnv"
	"math"
	"slices"
	"time"
)

// sample keeps at most most things of messages. Past that it keeps those of every
// second message only, then of every fourth, and so on: what it has of a message
// is all there was. Which ones depends on their ids alone.
type sample[T any] struct {
	most  int
	id    func(*T) string
	kept  []T
	seen  int
	every uint64 // one message in so many; 0 stands for 1
}

func (s *sample[T]) add(v T) {
	s.seen++
	if !s.takes(s.id(&v)) {
		return
	}
	s.kept = append(s.kept, v)
	for len(s.kept) > s.most && s.every < 1<<62 {
		s.every = max(s.every, 1) * 2
		s.kept = slices.DeleteFunc(s.kept, func(v T) bool { return !s.takes(s.id(&v)) })
	}
	if len(s.kept) > s.most { // one message with more than all
		s.kept = s.kept[:s.most]
	}
}

func (s *sample[T]) takes(id string) bool {
	if s.every < 2 {
		return true
	}
	h := fnv.New64a()
	h.Write([]byte(id))
	return h.Sum64()%s.every == 0
}

// ranks keeps durations to rank them: all, or past maxLatencies every second,
// every fourth, and so on, of them.
type ranks struct {
	kept  []time.Duration
	seen  int
	every int
	most  time.Duration
}

func (r *ranks) add(d time.Duration) {
	r.most = max(r.most, d)
	r.every = max(r.every, 1)
	if r.seen%r.every == 0 {
		r.kept = append(r.kept, d)
	}
	r.seen++
	if len(r.kept) > maxLatencies {
		half := r.kept[:0]
		for i := 0; i < len(r.kept); i += 2 {
			half = append(half, r.kept[i])
		}
		r.kept, r.every = half, r.every*2
	}
}

// latency returns the nearest ranks.
func (r *ranks) latency() Latency {
	if len(r.kept) == 0 {
		return Latency{}
	}
	sorted := slices.Sorted(slices.Values(r.kept))
	at := func(share float64) Millis {
		return Millis(sorted[max(int(math.Ceil(share*float64(len(sorted))))-1, 0)])
	}
	return Latency{Count: r.seen, P50: at(0.5), P99: at(0.99), Max: Millis(r.most)}
}
