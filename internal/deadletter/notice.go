package deadletter

import (
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/pawlhq/pawl/internal/core/message"
)

// The bounds of notices.
const (
	// maxNotices is how many wait for a terminal or pipe that does not take
	// them; more are counted.
	maxNotices = 256
	// maxNoticeText is how much of an error a notice tells, in bytes: a few
	// lines of a terminal. The letter has all of it.
	maxNoticeText = 500
)

// notice writes a line for each stored letter, without ever holding one up.
type notice struct {
	w io.Writer

	mu      sync.Mutex
	waiting []string
	missed  int
	busy    bool
}

// tell queues the line of a letter.
func (n *notice) tell(l *message.DeadLetter) {
	about := ""
	switch {
	case l.Destination != "":
		about = ", destination " + plain(l.Destination)
	case l.Route != "":
		about = ", route " + plain(l.Route)
	}
	line := fmt.Sprintf("pawl: dead letter %s of message %s (%s%s): %s\n",
		plain(l.Letter), plain(l.Message.ID), l.Reason, about, plain(cut(l.Error)))
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == maxNotices {
		n.missed++
		return
	}
	n.waiting = append(n.waiting, line)
	if !n.busy {
		n.busy = true
		go n.write()
	}
}

// write writes what waits, then ends. A failing writer loses the notice: the
// letter itself is stored.
func (n *notice) write() {
	for {
		n.mu.Lock()
		lines, missed := n.waiting, n.missed
		n.waiting, n.missed = nil, 0
		if len(lines) == 0 && missed == 0 {
			n.busy = false
			n.mu.Unlock()
			return
		}
		n.mu.Unlock()
		text := strings.Join(lines, "")
		if missed > 0 {
			text += fmt.Sprintf("pawl: and %d dead letters more\n", missed)
		}
		_, _ = io.WriteString(n.w, text)
	}
}

func cut(s string) string {
	if len(s) > maxNoticeText {
		return strings.ToValidUTF8(s[:maxNoticeText], "") + "…"
	}
	return s
}
