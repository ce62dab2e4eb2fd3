package lane

// heap is a binary heap whose items know their place in it, so that one in the
// middle can be moved or taken out. The first item is the least by less. Where
// less leaves two items without an order, which of them comes first depends on
// what went in before.
type heap[T any] struct {
	items []T
	less  func(a, b T) bool
	// place is where an item keeps its index, nowhere while it is in no heap. It
	// is nil where nothing is taken out but the first.
	place func(T) *int
	// steps counts items that were compared or moved.
	steps *int
}

// nowhere is the place of an item that is in no heap.
const nowhere = -1

func (h *heap[T]) len() int { return len(h.items) }

func (h *heap[T]) first() T { return h.items[0] }

// push adds an item that is in no heap.
func (h *heap[T]) push(x T) {
	h.items = append(h.items, x)
	if h.place != nil {
		*h.place(x) = len(h.items) - 1
	}
	h.up(len(h.items) - 1)
}

// pop takes the first item out.
func (h *heap[T]) pop() T {
	x := h.items[0]
	h.removeAt(0)
	return x
}

// remove takes the item out.
func (h *heap[T]) remove(x T) { h.removeAt(*h.place(x)) }

func (h *heap[T]) removeAt(i int) {
	last := len(h.items) - 1
	h.swap(i, last)
	if h.place != nil {
		*h.place(h.items[last]) = nowhere
	}
	var none T
	h.items[last] = none
	h.items = h.items[:last]
	if i < last {
		h.settle(i)
	}
}

// fix puts an item in order that has changed.
func (h *heap[T]) fix(x T) { h.settle(*h.place(x)) }

func (h *heap[T]) settle(i int) {
	if !h.down(i) {
		h.up(i)
	}
}

func (h *heap[T]) up(i int) {
	for i > 0 {
		*h.steps++
		parent := (i - 1) / 2
		if !h.less(h.items[i], h.items[parent]) {
			return
		}
		h.swap(i, parent)
		i = parent
	}
}

// down reports whether the item moved.
func (h *heap[T]) down(i int) bool {
	from := i
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h.items); child++ {
			*h.steps++
			if h.less(h.items[child], h.items[least]) {
				least = child
			}
		}
		if least == i {
			return i != from
		}
		h.swap(i, least)
		i = least
	}
}

func (h *heap[T]) swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	if h.place != nil {
		*h.place(h.items[i]), *h.place(h.items[j]) = i, j
	}
}
