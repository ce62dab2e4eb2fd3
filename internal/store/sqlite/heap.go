package sqlite

// heap is a binary heap, the least item first, whose items know their place in it,
// so that one in the middle can be moved or taken out.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	place func(T) *int // one more than the index; 0 is nowhere
}

// first is the least item; ok is false where there is none.
func (h *heap[T]) first() (item T, ok bool) {
	if len(h.items) == 0 {
		return item, false
	}
	return h.items[0], true
}

// put adds an item, or moves one whose order has changed.
func (h *heap[T]) put(item T) {
	p := h.place(item)
	if *p == 0 {
		h.items = append(h.items, item)
		*p = len(h.items)
	}
	h.up(*p - 1)
	h.down(*p - 1)
}

// remove takes an item out; one that is not in it is passed over.
func (h *heap[T]) remove(item T) {
	p := h.place(item)
	if *p == 0 {
		return
	}
	i, last := *p-1, len(h.items)-1
	*p = 0
	moved := h.items[last]
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if i == last {
		return
	}
	h.set(i, moved)
	h.up(i)
	h.down(*h.place(moved) - 1)
}

func (h *heap[T]) set(i int, item T) {
	h.items[i] = item
	*h.place(item) = i + 1
}

func (h *heap[T]) up(i int) {
	item := h.items[i]
	for i > 0 {
		parent := (i - 1) / 2
		if !h.less(item, h.items[parent]) {
			break
		}
		h.set(i, h.items[parent])
		i = parent
	}
	h.set(i, item)
}

func (h *heap[T]) down(i int) {
	item := h.items[i]
	for {
		child := 2*i + 1
		if child >= len(h.items) {
			break
		}
		if child+1 < len(h.items) && h.less(h.items[child+1], h.items[child]) {
			child++
		}
		if !h.less(h.items[child], item) {
			break
		}
		h.set(i, h.items[child])
		i = child
	}
	h.set(i, item)
}
