// Package rules is the router that chooses by conditions over the message, in
// order.
//
// A condition that fails to evaluate (an error, more than one value) is not
// the same as one that is false: what it was meant to catch might be this very
// message. So the router then decides nothing, even where another rule would
// have matched, and the next of its chain is asked with the error as the
// reason. A rule before it that matched under match: first has decided
// already; the rules behind it are not looked at.
package rules

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/router"
)

// Type is the router's word in the configuration.
const Type = "rules"

// Condition is a compiled when. Safe for concurrent use.
type Condition interface {
	// Bool reports whether the message meets the condition.
	Bool(ctx context.Context, m *message.Message) (bool, error)
}

// Rule is one line of the configuration.
type Rule struct {
	// When is the condition's text; empty means always.
	When string
	// To names the destinations, at least one.
	To []string
}

// Match says how many rules decide.
type Match string

// The ways to match.
const (
	MatchFirst Match = "first" // the first rule that matches decides; the default
	MatchAll   Match = "all"   // every rule that matches adds its destinations
)

// MaxRules bounds the rules of one router: each is evaluated for a message
// that none matches.
const MaxRules = 500

// Router chooses by rules. Safe for concurrent use.
type Router struct {
	match Match
	rules []rule
}

type rule struct {
	when Condition // nil is always
	name string    // for reasons: its number from 1 and its text
	to   []string
}

// New compiles rules. match may be "", which is MatchFirst. compile makes a
// condition of a when. Every mistake is reported at once, joined by newlines,
// each with the rule's number counted from 1.
func New(rules []Rule, match Match, compile func(when string) (Condition, error)) (*Router, error) {
	r := &Router{match: match}
	var wrong []string
	switch match {
	case MatchFirst, MatchAll:
	case "":
		r.match = MatchFirst
	default:
		wrong = append(wrong, fmt.Sprintf("rules: match is %q; it can be first or all", match))
	}
	if len(rules) == 0 {
		wrong = append(wrong, "rules: there is no rule; write at least one")
	}
	if len(rules) > MaxRules {
		return nil, fmt.Errorf("rules: there are %d rules; %d are the most", len(rules), MaxRules)
	}
	for i, in := range rules {
		text := strings.TrimSpace(in.When)
		out := rule{name: nameOf(i+1, text), to: slices.Clone(in.To)}
		if len(in.To) == 0 {
			wrong = append(wrong, fmt.Sprintf("rules: rule %d: to is empty; name at least one destination", i+1))
		}
		if text != "" {
			c, err := compile(text)
			if err != nil {
				wrong = append(wrong, fmt.Sprintf("rules: rule %d: when: %v", i+1, err))
			}
			out.when = c
		}
		r.rules = append(r.rules, out)
	}
	if len(wrong) > 0 {
		return nil, fmt.Errorf("%s", strings.Join(wrong, "\n"))
	}
	return r, nil
}

// Type returns "rules".
func (r *Router) Type() string { return Type }

// Route evaluates the rules in order. No match is an empty decision; a rule
// that fails is an error that names it.
func (r *Router) Route(ctx context.Context, m *message.Message) (router.Decision, error) {
	var d router.Decision
	var matched []string
	for i, rule := range r.rules {
		ok := rule.when == nil
		if !ok {
			var err error
			if ok, err = rule.when.Bool(ctx, m); err != nil {
				return router.Decision{}, fmt.Errorf("rule %d: %w", i+1, err)
			}
		}
		if !ok {
			continue
		}
		if r.match == MatchFirst {
			return router.Decision{Targets: rule.to, By: Type, Reason: "rule " + rule.name}, nil
		}
		d.Targets = append(d.Targets, rule.to...)
		matched = append(matched, rule.name)
	}
	if len(matched) == 0 {
		return router.Decision{By: Type, Reason: "no rule matches"}, nil
	}
	d.By, d.Reason = Type, "rules "+strings.Join(matched, ", ")
	return d, nil
}

// maxName bounds a rule's text in a reason, in characters: enough to know it
// by.
const maxName = 80

// nameOf is a rule's number and text, on one line.
func nameOf(number int, text string) string {
	if text == "" {
		return fmt.Sprintf("%d (always)", number)
	}
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > maxName {
		runes = append(runes[:maxName-1], '…')
	}
	return fmt.Sprintf("%d (%s)", number, string(runes))
}
