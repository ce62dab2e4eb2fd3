package lane

import "fmt"

// Left says what a board without lanes and shut gates still holds; "" for nothing.
func (b *Board) Left() string {
	n := []int{len(b.lanes), len(b.ids), len(b.queues), len(b.gates), b.due.len(), b.opening.len()}
	for _, held := range n {
		if held > 0 {
			return fmt.Sprintf("lanes, ids, queues, gates, due, opening: %v", n)
		}
	}
	return ""
}
