package jq

// Would catch: a body that others share and a program changes, and programs that
// get in each other's way.

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/transform"
)

func deepCopy(v any) any {
	switch v := v.(type) {
	case []any:
		c := make([]any, len(v))
		for i, x := range v {
			c[i] = deepCopy(x)
		}
		return c
	case map[string]any:
		c := make(map[string]any, len(v))
		for k, x := range v {
			c[k] = deepCopy(x)
		}
		return c
	}
	return v
}

var mutations = []string{
	`.a = 1`, `.a |= . + [1]`, `.a += [1]`, `.a[0] = 9`, `.a[5] = 9`, `del(.a[0])`, `del(.a)`, `.a[1:] = [7]`,
	`.o.x = 1`, `.o |= with_entries(.value = 0)`, `walk(if type == "array" then . + [0] else . end)`,
	`.a | sort`, `.a | reverse`, `.a | sort_by(-.)`, `.a | unique`, `map_values(null)`, `to_entries`,
	`delpaths([paths])`, `setpath(["a", 0]; 5)`, `reduce range(5) as $i (.; .a += [$i])`,
	`reduce range(5) as $i (.; .a[$i] = $i)`, `[.a, .a] | add`, `.a + .a`, `.o * {x: {y: 1}}`, `.a as [$x] | .a[0] |= $x`,
	`(.. | numbers) |= . + 1`, `[..]`, `.a | flatten`, `[.a] | transpose`, `group_by(.)?`, `.a - [1]`, `limit(1; .a[] = 0)`,
}

func TestSharedBodyIsNeverChanged(t *testing.T) {
	programs := make([]*Program, len(mutations))
	for i, src := range mutations {
		programs[i] = compile(t, src)
	}
	rapid.Check(t, func(t *rapid.T) {
		m := body(rapid.SampledFrom([]string{
			`{"a":[3,1,2],"o":{"x":{"z":1}}}`, `{"a":[],"o":{}}`, `{"a":[1,[2,[3]]],"o":{"x":[1]}}`,
		}).Draw(t, "body"))
		v, err := transform.Body(m)
		if err != nil {
			t.Fatal(err)
		}
		before := deepCopy(v)
		for range rapid.IntRange(1, 5).Draw(t, "programs") {
			i := rapid.IntRange(0, len(programs)-1).Draw(t, "program")
			_, _ = programs[i].Eval(context.Background(), m)
			if diff := cmp.Diff(before, v); diff != "" {
				t.Fatalf("%s changed the shared body (-before +after):\n%s", mutations[i], diff)
			}
		}
	})
}

func TestConcurrentUse(t *testing.T) {
	p := compile(t, `.a += [$msg.id] | .n * 2, empty | tostring | test("^\(4)")`)
	m := body(`{"a":[1],"n":2}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 100 {
				if ok, err := p.Bool(context.Background(), m); !ok || err != nil {
					t.Error(ok, err)
					return
				}
			}
		})
	}
	wg.Wait()
}
