package job

import "strings"

// The bounds of what names and orders jobs.
const (
	// MaxName is how many characters a name has at most: of a queue, a task, a
	// version, an endpoint, a tag, a worker, a key. Long enough for the path of a
	// class with its package, short enough for a metric's label.
	MaxName = 128
	// MaxPriority is the highest priority; the lowest is −MaxPriority. Each is a
	// line of its own in every queue, so there are not more than people tell
	// apart.
	MaxPriority = 100
)

// RelayPrefix begins the names of the queues that the relay makes for its own
// sources, relay:<source>, and of the workers that take from queues for it.
// Nobody else's queue or worker is named so.
const RelayPrefix = "relay:"

// OfRelay reports whether a name is one that only the relay itself uses.
func OfRelay(name string) bool { return strings.HasPrefix(name, RelayPrefix) }

// BadName returns what is wrong with a name, "" for nothing. Every name has the
// same rule, so that it can stand in a URL, a label and a file's name as it is.
func BadName(name string) string {
	switch {
	case name == "":
		return "is missing"
	case len(name) > MaxName:
		return "is longer than 128 characters"
	}
	for i := range len(name) {
		c := name[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != ':' && c != '-' {
			return "may hold A-Z, a-z, 0-9 and . _ : - only"
		}
	}
	return ""
}
