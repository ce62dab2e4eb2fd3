// What these tests would catch: an endpoint that is not sick as it should be, does
// not come back, or loses count; ids that do not arrive; a load that waits.
package harness

import (
	"testing"
	"time"
)

func TestEndpoint(t *testing.T) {
	e, err := StartEndpoint(7 * time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, c := range []struct {
		state State
		want  Fate
	}{{Well, Delivered}, {Unavailable, Refused}, {Hanging, NoAnswer}, {Refusing, NoAnswer}, {Well, Delivered}} {
		if err := e.Set(c.state); err != nil {
			t.Fatal(err)
		}
		before := len(e.Arrivals())
		o := Open{Address: e.Address(), Paths: []string{"/0"}, PerSecond: 100, Callers: 10, Body: 64, Timeout: 100 * time.Millisecond, Prefix: string(c.state) + "-"}
		sent := o.Run(t.Context(), 30*time.Millisecond)
		if len(sent) != 3 || Count(sent, c.want) != 3 {
			t.Errorf("%s: sent %v, want 3 of fate %d", c.state, sent, c.want)
		}
		e.endRefusals()
		arrived := e.Arrivals()[before:]
		if len(arrived) < 3 || c.state != Refusing && len(arrived) != 3 {
			t.Fatalf("%s: %d arrived, want 3", c.state, len(arrived))
		}
		for _, a := range arrived {
			if a.State != c.state || a.Check || (a.ID != "") != (c.state != Refusing) {
				t.Errorf("%s: arrived as %+v", c.state, a)
			}
		}
	}
}

func TestOpenBoundsCallers(t *testing.T) {
	e, err := StartEndpoint(time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	if err := e.Set(Hanging); err != nil {
		t.Fatal(err)
	}
	o := Open{Address: e.Address(), Paths: []string{"/0"}, PerSecond: 1000, Callers: 2, Body: 64, Timeout: time.Second, Prefix: "m"}
	sent := o.Run(t.Context(), 5*time.Millisecond)
	if Count(sent, NoAnswer) != 2 || Count(sent, Unsent) != 3 {
		t.Errorf("sent %v, want 2 without an answer and 3 unsent", sent)
	}
}
