package app

import (
	"context"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/relay"
	"github.com/pawlhq/pawl/internal/router"
	"github.com/pawlhq/pawl/internal/router/rules"
	"github.com/pawlhq/pawl/internal/router/static"
	"github.com/pawlhq/pawl/internal/transform"
	"github.com/pawlhq/pawl/internal/transform/header"
	"github.com/pawlhq/pawl/internal/transform/jq"
	"github.com/pawlhq/pawl/internal/transform/schema"
)

// steps compiles transforms; nil for none.
func steps(list []config.Transform) (transform.Chain, error) {
	var chain transform.Chain
	for i, t := range list {
		step, err := step(t)
		if err != nil {
			return nil, fmt.Errorf("transforms[%d]: %w", i, err)
		}
		chain = append(chain, step)
	}
	return chain, nil
}

func step(t config.Transform) (transform.Transform, error) {
	switch {
	case t.JQ != "":
		return jq.Compile(t.JQ)
	case t.SetHeaders != nil:
		return header.NewSet(t.SetHeaders, compileExpr)
	default:
		return header.NewDrop(t.DropHeaders)
	}
}

func compileExpr(src string) (connector.Expr, error) { return jq.Compile(src) }

// success compiles a destination's success expression over
// {status, headers, body}; nil for none.
func success(src string) (func(context.Context, connector.Answer) (bool, error), error) {
	if src == "" {
		return nil, nil
	}
	program, err := jq.Compile(src)
	if err != nil {
		return nil, fmt.Errorf("success: %w", err)
	}
	return func(ctx context.Context, a connector.Answer) (bool, error) {
		m, err := answerMessage(a)
		if err != nil {
			return false, err
		}
		return program.Bool(ctx, m)
	}, nil
}

// answerMessage makes an answer something that jq can look at.
func answerMessage(a connector.Answer) (*message.Message, error) {
	body, err := transform.DecodeJSON(a.Body)
	if err != nil {
		body = strings.ToValidUTF8(string(a.Body), "\uFFFD")
	}
	text, err := json.Marshal(map[string]any{"status": a.Status, "headers": lowerNames(a.Header), "body": body})
	if err != nil {
		return nil, fmt.Errorf("the answer can't be looked at: %w", err)
	}
	return &message.Message{Body: text, ContentType: "application/json"}, nil
}

func lowerNames(h http.Header) map[string][]string {
	low := make(map[string][]string, len(h))
	for name, values := range h {
		low[strings.ToLower(name)] = values
	}
	return low
}

// routes compiles every route, by the name of its source.
func routes(c *config.Config, set *deliver.Set, events event.Sink) (map[string][]*relay.Route, error) {
	bySource := map[string][]*relay.Route{}
	for i := range c.Routes {
		r, err := route(&c.Routes[i], set, events)
		if err != nil {
			return nil, fmt.Errorf("route %s: %w", c.Routes[i].Name, err)
		}
		for _, source := range c.Routes[i].From {
			bySource[source] = append(bySource[source], r)
		}
	}
	return bySource, nil
}

func route(c *config.Route, set *deliver.Set, events event.Sink) (*relay.Route, error) {
	r := &relay.Route{Name: c.Name}
	if c.Filter != "" {
		program, err := jq.Compile(c.Filter)
		if err != nil {
			return nil, fmt.Errorf("filter: %w", err)
		}
		r.Filter = program.Bool
	}
	chain, err := steps(c.Transforms)
	if err != nil {
		return nil, err
	}
	if len(chain) > 0 {
		r.Transform = chain.Apply
	}
	if c.Schema != "" {
		s, err := schema.Load(c.Schema)
		if err != nil {
			return nil, fmt.Errorf("validate: %w", err)
		}
		r.Validate = func(ctx context.Context, m *message.Message) error { _, err := s.Apply(ctx, m); return err }
	}
	if r.Choose, err = choose(c, set, events); err != nil {
		return nil, err
	}
	return r, nil
}

// choose compiles what picks a route's destinations.
func choose(c *config.Route, set *deliver.Set, events event.Sink) (func(context.Context, *message.Message) ([]relay.Target, error), error) {
	targets := map[string]relay.Target{}
	for _, t := range c.Targets() {
		d, ok := set.Destination(t.Destination)
		if !ok {
			return nil, fmt.Errorf("destination %q is not there", t.Destination)
		}
		targets[t.Destination] = relay.Target{To: d, Required: requirement(t.Need)}
	}
	if len(c.Routers) == 0 {
		fixed := make([]relay.Target, 0, len(c.To))
		for _, t := range c.To {
			fixed = append(fixed, targets[t.Destination])
		}
		return func(context.Context, *message.Message) ([]relay.Target, error) { return fixed, nil }, nil
	}
	chain, err := routers(c, events)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, m *message.Message) ([]relay.Target, error) {
		d, err := chain.Route(ctx, m)
		if err != nil {
			return nil, err
		}
		chosen := make([]relay.Target, 0, len(d.Targets))
		for _, name := range d.Targets {
			chosen = append(chosen, targets[name])
		}
		return chosen, nil
	}, nil
}

func requirement(n config.Need) relay.Requirement {
	if n == config.BestEffort {
		return relay.BestEffort
	}
	return relay.Required
}

// routers compiles a route's chain of routers.
func routers(c *config.Route, events event.Sink) (router.Chain, error) {
	chain := router.Chain{Handed: func(m *message.Message, _, to, reason string) {
		if to != "" {
			events(event.Event{Kind: event.RouterFellBack, At: time.Now(), Route: c.Name, MessageID: m.ID, To: to, Error: reason})
		}
	}}
	for i, spec := range c.Routers {
		r, err := routerOf(spec)
		if err != nil {
			return chain, fmt.Errorf("router %d (%s): %w", i+1, spec.Type, err)
		}
		chain.Routers = append(chain.Routers, r)
	}
	return chain, nil
}

func routerOf(spec config.Router) (router.Router, error) {
	switch spec.Type {
	case config.RouterStatic:
		return static.New(names(spec.To))
	case config.RouterRules:
		match := rules.MatchFirst
		if spec.Match == config.MatchAll {
			match = rules.MatchAll
		}
		list := make([]rules.Rule, len(spec.Rules))
		for i, r := range spec.Rules {
			list[i] = rules.Rule{When: r.When, To: names(r.To)}
		}
		return rules.New(list, match, func(when string) (rules.Condition, error) { return jq.Compile(when) })
	}
	return nil, fmt.Errorf("type %q is not known", spec.Type)
}

func names(targets []config.Target) []string {
	list := make([]string, len(targets))
	for i, t := range targets {
		list[i] = t.Destination
	}
	return list
}
