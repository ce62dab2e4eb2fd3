package store

import (
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/internal/core/job"
)

// RelayWorker begins the names of the relay's own workers. No other worker is
// named so. Their leases end with their process: a store that is opened gives
// them back.
const RelayWorker = job.RelayPrefix

// HandBacks is how many attempts back a hand-back is kept; see Jobs.Report. Nothing
// counts how often a job is handed back, so that alone bounds its attempts.
const HandBacks = 100

const handBacks = " hand-backs in a row"

// HandBackNote is the note of a hand-back that takes the place of the one before
// it; see Jobs.Report. before and note are the notes of the two.
func HandBackNote(before, note string) string {
	n := 1
	if count, _, found := strings.Cut(before, handBacks); found {
		if was, err := strconv.Atoi(count); err == nil {
			n = was
		}
	}
	text := strconv.Itoa(n+1) + handBacks
	if note != "" {
		text += "; " + note
	}
	return text
}
