package router

// These tests would catch a chain that stops at a router which failed, asks
// one too many, forgets why nobody decided, or names a destination twice.

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
)

type fake struct {
	typ   string
	d     Decision
	err   error
	asked *[]string
}

func (f fake) Type() string { return f.typ }

func (f fake) Route(context.Context, *message.Message) (Decision, error) {
	*f.asked = append(*f.asked, f.typ)
	return f.d, f.err
}

func TestChain(t *testing.T) {
	var asked []string
	r := func(typ string, err error, to ...string) Router {
		return fake{typ: typ, d: Decision{Targets: to}, err: err, asked: &asked}
	}
	why := fake{typ: "why", d: Decision{Reason: "no rule matches"}, asked: &asked}
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		chain []Router
		want  Decision
		err   string
		asked []string
	}{
		"the first decides":         {[]Router{r("a", nil, "x"), r("b", nil, "y")}, Decision{Targets: []string{"x"}, By: "a"}, "", []string{"a"}},
		"an error hands over":       {[]Router{r("a", broken), r("b", nil, "y")}, Decision{Targets: []string{"y"}, By: "b"}, "", []string{"a", "b"}},
		"an error beats targets":    {[]Router{r("a", broken, "x"), r("b", nil, "y")}, Decision{Targets: []string{"y"}, By: "b"}, "", []string{"a", "b"}},
		"empty hands over":          {[]Router{r("a", nil), r("b", nil, "y")}, Decision{Targets: []string{"y"}, By: "b"}, "", []string{"a", "b"}},
		"repeats are taken once":    {[]Router{r("a", nil, "x", "y", "x")}, Decision{Targets: []string{"x", "y"}, By: "a"}, "", []string{"a"}},
		"nobody decides":            {[]Router{r("a", broken), r("b", nil), why}, Decision{}, "no router decided: a: broken; b: chose nothing; why: no rule matches", []string{"a", "b", "why"}},
		"nobody is there to decide": {nil, Decision{}, "no router decided", nil},
	} {
		asked = nil
		got, err := Chain{Routers: tt.chain}.Route(t.Context(), &message.Message{})
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if diff := cmp.Diff(tt.asked, asked); diff != "" {
			t.Errorf("%s: asked %s", name, diff)
		}
		switch {
		case tt.err == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case tt.err != "" && (err == nil || err.Error() != tt.err || !errors.Is(err, ErrNoRoute)):
			t.Errorf("%s: got %v, want %s", name, err, tt.err)
		}
	}
}

func TestChainTellsOfEachHandover(t *testing.T) {
	var asked []string
	var got [][3]string
	c := Chain{
		Routers: []Router{fake{typ: "a", err: errors.New("broken"), asked: &asked}, fake{typ: "b", asked: &asked}},
		Handed:  func(_ *message.Message, from, to, reason string) { got = append(got, [3]string{from, to, reason}) },
	}
	if _, err := c.Route(t.Context(), &message.Message{}); err == nil {
		t.Error("somebody decided")
	}
	want := [][3]string{{"a", "b", "broken"}, {"b", "", "chose nothing"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestChainEndsWithItsContext(t *testing.T) {
	var asked []string
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Chain{Routers: []Router{fake{typ: "a", asked: &asked}}}.Route(ctx, &message.Message{})
	if !errors.Is(err, context.Canceled) || errors.Is(err, ErrNoRoute) || asked != nil {
		t.Errorf("got %v, asked %v", err, asked)
	}
}
