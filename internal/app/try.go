package app

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/explain"
	"github.com/pawlhq/pawl/internal/transform/jq"
	"github.com/pawlhq/pawl/internal/transform/schema"
)

// Trial is where a message would go from one source.
type Trial struct {
	Source string       `json:"source"`
	Routes []RouteTrial `json:"routes"`
}

// Taken counts the routes that would take the message.
func (t Trial) Taken() (n int) {
	for _, r := range t.Routes {
		if r.Taken {
			n++
		}
	}
	return n
}

// RouteTrial is what one route would make of a message.
type RouteTrial struct {
	Route string `json:"route"`
	// Taken says whether the filter lets it through.
	Taken bool `json:"taken"`
	// Why says why not, or what fails further on.
	Why string `json:"why,omitzero"`
	// DeadLetter is the reason of the letter that the message would become;
	// "" for none.
	DeadLetter message.Reason `json:"dead_letter,omitzero"`
	Steps      []StepTrial    `json:"steps,omitzero"`
	To         []TargetTrial  `json:"to,omitzero"`
}

// StepTrial is the message after one step of a route.
type StepTrial struct {
	Step string `json:"step"`
	// Body is the body: JSON as it is, other text as a string, and what is no
	// text by its size.
	Body    jsontext.Value      `json:"body,omitzero"`
	Headers map[string][]string `json:"headers,omitzero"`
}

// TargetTrial is a destination that the message would be sent to.
type TargetTrial struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type"`
	Where       string   `json:"where,omitzero"` // the host or the file; nothing secret
	Required    bool     `json:"required"`
	Path        []string `json:"path"` // where it goes when that fails
	// Body is what the destination gets where its own transforms change it.
	Body jsontext.Value `json:"body,omitzero"`
	Why  string         `json:"why,omitzero"` // its transform fails
}

// Try says where the message would go, for each route of its source. It sends
// nothing. The steps are those that the relay would take.
func Try(ctx context.Context, c *config.Config, m *message.Message) (Trial, error) {
	t := Trial{Source: m.Source, Routes: []RouteTrial{}}
	for i := range c.Routes {
		r := &c.Routes[i]
		for _, from := range r.From {
			if from != m.Source {
				continue
			}
			rt, err := tryRoute(ctx, c, r, m)
			if err != nil {
				return t, fmt.Errorf("route %s: %w", r.Name, err)
			}
			t.Routes = append(t.Routes, rt)
		}
	}
	return t, nil
}

func tryRoute(ctx context.Context, c *config.Config, r *config.Route, m *message.Message) (RouteTrial, error) {
	t := RouteTrial{Route: r.Name}
	if r.Filter != "" {
		program, err := jq.Compile(r.Filter)
		if err != nil {
			return t, err
		}
		takes, err := program.Bool(ctx, m)
		if err != nil {
			t.Taken = true
			return t.fails(message.ReasonTransform, fmt.Errorf("filter: %w", err)), nil
		}
		if !takes {
			t.Why = "the filter is not true: " + r.Filter
			return t, nil
		}
	}
	t.Taken = true
	for i, spec := range r.Transforms {
		s, err := step(spec)
		if err != nil {
			return t, err
		}
		if m, err = s.Apply(ctx, m); err != nil {
			return t.fails(message.ReasonTransform, fmt.Errorf("transforms[%d]: %w", i, err)), nil
		}
		t.Steps = append(t.Steps, StepTrial{Step: stepWords(spec), Body: shown(m.Body), Headers: changedHeaders(spec, m)})
	}
	if r.Schema != "" {
		s, err := schema.Load(r.Schema)
		if err != nil {
			return t, err
		}
		if _, err := s.Apply(ctx, m); err != nil {
			return t.fails(message.ReasonSchema, err), nil
		}
	}
	return t.choose(ctx, c, r, m)
}

func (t RouteTrial) fails(reason message.Reason, err error) RouteTrial {
	t.DeadLetter, t.Why = reason, err.Error()
	return t
}

// choose fills in where the message goes.
func (t RouteTrial) choose(ctx context.Context, c *config.Config, r *config.Route, m *message.Message) (RouteTrial, error) {
	chosen := r.To
	if len(r.Routers) > 0 {
		chain, err := routers(r, event.Discard)
		if err != nil {
			return t, err
		}
		d, err := chain.Route(ctx, m)
		if err != nil {
			return t.fails(message.ReasonNoRoute, err), nil
		}
		t.Why = d.By + ": " + d.Reason
		chosen = nil
		for _, target := range r.Targets() {
			for _, name := range d.Targets {
				if name == target.Destination {
					chosen = append(chosen, target)
				}
			}
		}
	}
	for _, target := range chosen {
		tt, err := tryTarget(ctx, c, target, m)
		if err != nil {
			return t, err
		}
		t.To = append(t.To, tt)
	}
	return t, nil
}

func tryTarget(ctx context.Context, c *config.Config, target config.Target, m *message.Message) (TargetTrial, error) {
	t := TargetTrial{Destination: target.Destination, Required: target.Need == config.Required}
	e, err := explain.Destination(c, target.Destination, nil)
	if err != nil {
		return t, err
	}
	t.Path = e.Path
	if !t.Required {
		t.Path = t.Path[:len(t.Path)-1] // best effort leaves no letter
	}
	d, ok := c.Destination(target.Destination)
	if !ok {
		return t, errors.New("the destination is not there")
	}
	t.Type = d.Type
	if l, ok := d.Settings.(connector.Located); ok {
		t.Where = c.Secrets.Redact(l.Where())
	}
	chain, err := steps(d.Delivery.Transforms)
	if err != nil {
		return t, err
	}
	if len(chain) == 0 {
		return t, nil
	}
	out, err := chain.Apply(ctx, m)
	if err != nil {
		t.Why = err.Error()
		return t, nil
	}
	t.Body = shown(out.Body)
	return t, nil
}

func stepWords(t config.Transform) string {
	switch {
	case t.JQ != "":
		return "jq " + t.JQ
	case t.SetHeaders != nil:
		return "set_headers"
	}
	return "drop_headers"
}

// changedHeaders shows the headers after a step that is about them.
func changedHeaders(t config.Transform, m *message.Message) map[string][]string {
	if t.JQ != "" {
		return nil
	}
	return m.Headers
}

// shown is a body as a JSON value for people.
func shown(body []byte) jsontext.Value {
	v := jsontext.Value(body)
	if v.IsValid() {
		return v
	}
	text := string(body)
	if !utf8.Valid(body) {
		text = fmt.Sprintf("(%d bytes that are no text)", len(body))
	}
	quoted, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return jsontext.Value(`""`)
	}
	return quoted
}
