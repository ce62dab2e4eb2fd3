package cli

import (
	"bytes"
	"io"
	"sync"
)

// heldLog keeps what is logged until it is known how the command begins or ends:
// an error says by itself what the log would say before it. Safe for concurrent
// use.
type heldLog struct {
	to io.Writer

	mu       sync.Mutex
	held     bytes.Buffer
	released bool
}

// Write keeps the text, or hands it on once it was released.
func (h *heldLog) Write(text []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.released {
		return h.to.Write(text)
	}
	return h.held.Write(text)
}

// release hands on what was kept, and what comes.
func (h *heldLog) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.released = true
	_, _ = h.held.WriteTo(h.to) // there is nobody to tell
}
