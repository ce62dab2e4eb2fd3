package deliver

import "github.com/pawlhq/pawl/internal/connector"

// line is an open connector with a count of the sends that use it, so that a
// reload can put a new one in its place and close the old one after its last
// send. It is kept under the lock of its post. A nil line stands for none.
type line struct {
	dest    connector.Destination
	uses    int
	retired bool
}

// use counts a send; giveBack must follow.
func (n *line) use() {
	if n != nil {
		n.uses++
	}
}

// giveBack ends a use and says whether the connector is to be closed now.
func (n *line) giveBack() (over bool) {
	if n == nil {
		return false
	}
	n.uses--
	return n.retired && n.uses == 0
}

// replaced returns the line of dest, which stands in this one's place from now
// on, and this one where it is to be closed now. The same connector again changes
// nothing.
func (n *line) replaced(dest connector.Destination) (now, closes *line) {
	if n != nil && n.dest == dest {
		return n, nil
	}
	if n.retire() {
		closes = n
	}
	return &line{dest: dest}, closes
}

// retire says that no further send will use the line, and whether it is to be
// closed now: it is there and nobody uses it.
func (n *line) retire() (over bool) {
	if n == nil || n.retired {
		return false
	}
	n.retired = true
	return n.uses == 0
}
