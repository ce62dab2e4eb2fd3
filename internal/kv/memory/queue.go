package memory

import (
	"container/heap"
	"time"
)

// queue is a heap of entries; the one that ends first is at its top.
type queue []*entry

func (q *queue) first() *entry {
	if len(*q) == 0 {
		return nil
	}
	return (*q)[0]
}

func (q *queue) add(e *entry) { heap.Push(q, e) }

func (q *queue) remove(e *entry) { heap.Remove(q, e.index) }

// move changes when an entry of it ends.
func (q *queue) move(e *entry, until time.Time) {
	e.until = until
	heap.Fix(q, e.index)
}

// Len is heap.Interface, as are the next four.
func (q queue) Len() int { return len(q) }

// Less says which ends first.
func (q queue) Less(i, j int) bool { return q[i].until.Before(q[j].until) }

// Swap keeps the entries' places right.
func (q queue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

// Push adds at the end.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.index = len(*q)
	*q = append(*q, e)
}

// Pop takes from the end.
func (q *queue) Pop() any {
	last := len(*q) - 1
	e := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	return e
}
