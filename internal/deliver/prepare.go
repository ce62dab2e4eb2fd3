package deliver

import (
	"runtime/debug"

	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
)

// prepare makes the body for the member that the stay's own pass is for. Where
// that fails the member is out for this message, and what the pass held is given
// back: no attempt was made.
func (s *stay) prepare() bool { return s.prepareFor(&s.own.pass) }

func (s *stay) prepareFor(p *pass) bool {
	b := s.visited(p.at)
	if b.sends != nil {
		return true
	}
	m, f := s.prepared(p.at.name, s.at.endpoint(p))
	if f != nil {
		b.tried, b.out = true, true
		s.last = f
		s.at.lane.post.abandon(p, f)
		return false
	}
	b.sends = m
	return true
}

// prepared returns the message as an endpoint gets it. For the only endpoint of
// a destination it is made before anything is waited for, and once.
func (s *stay) prepared(name string, e *Endpoint) (*message.Message, *failure.Error) {
	switch {
	case e.Transform == nil:
		return s.req.Message, nil
	case s.only != nil && name == s.at.endpoints[0].EndpointName:
		return s.only, nil
	}
	m, f := s.transform(e)
	if f != nil {
		return nil, redacted(&s.at.fleet.opts, f)
	}
	if len(s.at.endpoints) == 1 {
		s.only = m
	}
	return m, nil
}

// transform makes the message that an endpoint gets.
func (s *stay) transform(e *Endpoint) (m *message.Message, f *failure.Error) {
	defer func() {
		if p := recover(); p != nil {
			s.at.fleet.opts.Log.Error("a transform panicked", "destination", s.at.spec.Name, "endpoint", e.EndpointName, "panic", p, "stack", string(debug.Stack()))
			f = transformFailure("it panicked; see the log", nil)
		}
	}()
	m, err := e.Transform(s.ctx, s.req.Message)
	if err != nil {
		return nil, transformFailure(err.Error(), err)
	}
	return m, nil
}

func transformFailure(why string, err error) *failure.Error {
	return &failure.Error{
		Tags: failure.Tags{failure.Transform}, Class: failure.Permanent, Verdict: failure.Neutral,
		Message: "the destination's transform failed: " + why, Err: err,
	}
}
