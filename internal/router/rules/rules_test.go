package rules

// These tests would catch rules tried in the wrong order, a failing condition
// taken for false, and a mistake that is reported alone while others wait.

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/router"
	"github.com/pawlhq/pawl/internal/transform/jq"
)

func compile(when string) (Condition, error) {
	p, err := jq.Compile(when)
	if err != nil {
		return nil, err
	}
	return p, nil
}

func TestRoute(t *testing.T) {
	rules := []Rule{
		{When: `.n == 1`, To: []string{"one"}},
		{When: `.n < 3`, To: []string{"small", "log"}},
		{When: `.s | test("^a")`, To: []string{"a"}},
		{When: ``, To: []string{"rest"}},
	}
	for _, tt := range []struct {
		match Match
		body  string
		want  router.Decision
		err   string
	}{
		{"", `{"n":1}`, router.Decision{Targets: []string{"one"}, By: "rules", Reason: "rule 1 (.n == 1)"}, ""},
		{MatchFirst, `{"n":2}`, router.Decision{Targets: []string{"small", "log"}, By: "rules", Reason: "rule 2 (.n < 3)"}, ""},
		{MatchFirst, `{"n":5,"s":"ab"}`, router.Decision{Targets: []string{"a"}, By: "rules", Reason: `rule 3 (.s | test("^a"))`}, ""},
		{MatchFirst, `{"n":5,"s":"b"}`, router.Decision{Targets: []string{"rest"}, By: "rules", Reason: "rule 4 (always)"}, ""},
		{MatchFirst, `{"n":5}`, router.Decision{}, "rule 3: jq: "},
		{MatchAll, `{"n":1,"s":"ab"}`, router.Decision{Targets: []string{"one", "small", "log", "a", "rest"}, By: "rules", Reason: `rules 1 (.n == 1), 2 (.n < 3), 3 (.s | test("^a")), 4 (always)`}, ""},
		{MatchAll, `{"n":1}`, router.Decision{}, "rule 3: jq: "},
	} {
		r, err := New(rules, tt.match, compile)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Route(t.Context(), &message.Message{Body: []byte(tt.body)})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s %s: %s", tt.match, tt.body, diff)
		}
		if (err != nil) != (tt.err != "") || err != nil && !strings.HasPrefix(err.Error(), tt.err) {
			t.Errorf("%s %s: error %v, want %q", tt.match, tt.body, err, tt.err)
		}
	}
}

func TestNoRuleMatches(t *testing.T) {
	for _, match := range []Match{MatchFirst, MatchAll} {
		r, err := New([]Rule{{When: "false", To: []string{"x"}}, {When: "null", To: []string{"y"}}}, match, compile)
		if err != nil {
			t.Fatal(err)
		}
		got, err := r.Route(t.Context(), &message.Message{})
		if diff := cmp.Diff(router.Decision{By: "rules", Reason: "no rule matches"}, got); diff != "" || err != nil {
			t.Error(diff, err)
		}
	}
}

// In a chain a failing rule leaves the choice to the next router.
func TestFailingRuleInAChain(t *testing.T) {
	failing := conditionFunc(func() (bool, error) { return false, errors.New("broken") })
	r, err := New([]Rule{{When: "x", To: []string{"x"}}, {To: []string{"y"}}}, "", func(string) (Condition, error) { return failing, nil })
	if err != nil {
		t.Fatal(err)
	}
	_, err = router.Chain{Routers: []router.Router{r}}.Route(t.Context(), &message.Message{})
	if !errors.Is(err, router.ErrNoRoute) || !strings.Contains(err.Error(), "rules: rule 1: broken") {
		t.Errorf("got %v", err)
	}
}

type conditionFunc func() (bool, error)

func (f conditionFunc) Bool(context.Context, *message.Message) (bool, error) { return f() }

func TestEveryMistakeAtOnce(t *testing.T) {
	_, err := New([]Rule{{When: ".a |"}, {When: "foo", To: []string{"x"}}}, "some", compile)
	if err == nil {
		t.Fatal("the rules are taken")
	}
	for _, want := range []string{`match is "some"`, "rule 1: to is empty", "rule 1: when: jq: line 1", "rule 2: when: jq: line 1, column 1: function not defined: foo/0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not in:\n%v", want, err)
		}
	}
	if _, err := New(nil, "", compile); err == nil || !strings.Contains(err.Error(), "there is no rule") {
		t.Errorf("no rules: %v", err)
	}
	if _, err := New(make([]Rule, MaxRules+1), "", compile); err == nil || !strings.Contains(err.Error(), fmt.Sprint(MaxRules)) {
		t.Errorf("too many rules: %v", err)
	}
}

func TestReasonsAreOneShortLine(t *testing.T) {
	got := nameOf(7, ".a\n  == "+strings.Repeat("é", 200))
	if want := "7 (.a == " + strings.Repeat("é", maxName-7) + "…)"; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}
