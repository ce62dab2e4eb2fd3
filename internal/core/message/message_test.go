package message_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/core/message"
)

func TestWithLeavesTheOriginalAlone(t *testing.T) {
	m := letter().Message
	m.Headers = map[string][]string{"x": {"1"}}
	before, err := message.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	c := m.With(func(c *message.Message) {
		c.ID, c.Key, c.Body = "other", "k", []byte("other")
		c.Headers["x"] = []string{"2"}
		delete(c.Attributes, "http")
	})
	after, err := message.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("the original changed (-want +got)\n%s", diff)
	}
	if c.ID != "other" || c.Headers["x"][0] != "2" || c.Source != m.Source || !c.Time.Equal(m.Time) {
		t.Errorf("the copy is %+v", c)
	}
}

func TestParseOnce(t *testing.T) {
	m := &message.Message{ID: "a", Body: []byte("x")}
	var calls atomic.Int32
	fault := errors.New("not JSON")
	decode := func(b []byte) (any, error) {
		calls.Add(1)
		return string(b), fault
	}
	if v, err := m.Parse(decode); v != "x" || !errors.Is(err, fault) {
		t.Fatalf("%v, %v", v, err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if v, err := m.Parse(decode); v != "x" || !errors.Is(err, fault) {
				t.Errorf("%v, %v", v, err)
			}
		})
	}
	wg.Wait()
	if calls.Load() != 1 {
		t.Errorf("decoded %d times", calls.Load())
	}
	c := m.With(func(c *message.Message) { c.Body = []byte("y") })
	if v, _ := c.Parse(decode); v != "y" {
		t.Errorf("the copy's body parsed as %v", v)
	}
}
