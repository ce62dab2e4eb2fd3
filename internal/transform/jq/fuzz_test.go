package jq

// Would catch: a program or a body that crashes, never ends, or changes what is
// shared.

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/transform"
)

func FuzzCompileAndEval(f *testing.F) {
	for _, s := range runaways[3:7] { // those that are cut at once; the others make fuzzing slow
		f.Add(s, `{"a":[1,2]}`)
	}
	for _, s := range mutations {
		f.Add(s, `{"a":[3,1],"o":{"x":1}}`)
	}
	f.Add(`.a`, `not json`)
	f.Add(`"\(.a)\n" + @csv`, `[1,"x",null]`)
	f.Fuzz(func(t *testing.T, src, in string) {
		p, err := Compile(src)
		if err != nil {
			return
		}
		m := body(in)
		v, _ := transform.Body(m)
		before := deepCopy(v)
		start := time.Now()
		out, err := p.Apply(context.Background(), m)
		if took := time.Since(start); took > 30*time.Second {
			t.Fatalf("%q took %v", src, took)
		}
		if err == nil && len(out.Body) > MaxOutput {
			t.Fatalf("%q gives %d bytes", src, len(out.Body))
		}
		if strings.Contains(in, "\x00") { // cmp is slow on long texts; the shape is what counts
			return
		}
		if diff := cmp.Diff(before, v); diff != "" {
			t.Fatalf("%q changed the body: %s", src, diff)
		}
	})
}
