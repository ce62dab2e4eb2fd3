package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/pawlhq/pawl/internal/jobserver"
)

// flagNames are the flags that members of a request come from, by their JSON
// pointer or, of a query or header, their name.
type flagNames map[string]string

// of returns the flag of a member, or of what it is in: /retry/initial is --retry
// initial, /tags/3 is --tag, number 4. "" where it comes from none.
func (n flagNames) of(member string) string {
	if flag, ok := n[member]; ok {
		return flag
	}
	i := strings.LastIndexByte(member, '/')
	if i < 0 {
		return ""
	}
	flag, ok := n[member[:i]]
	if !ok {
		return ""
	}
	if place, err := strconv.Atoi(member[i+1:]); err == nil {
		return fmt.Sprintf("%s, number %d", flag, place+1)
	}
	return flag + " " + member[i+1:]
}

// told is a fault of a member as who typed the flag is told it.
func (n flagNames) told(member, message string) (string, bool) {
	flag := n.of(member)
	if flag == "" {
		return "", false
	}
	// Most faults are said of the member: is missing, must be.
	for _, verb := range []string{"is ", "must ", "can't ", "may ", "has ", "holds "} {
		if strings.HasPrefix(message, verb) {
			return flag + " " + message, true
		}
	}
	return flag + ": " + message, true
}

// explain names the flags in an error that tells what is wrong with a request.
// Any other, and one about something that comes from no flag, stays as it is.
func (n flagNames) explain(err error) error {
	var lines []string
	add := func(member, message string) (known bool) {
		line, known := n.told(member, message)
		lines = append(lines, printable(line))
		return known
	}
	if refused, ok := errors.AsType[*refusal](err); ok && refused.usage() {
		for _, f := range refused.Errors {
			if !add(orElse(f.Pointer, f.Parameter), f.Message) {
				return err
			}
		}
	}
	if invalid, ok := errors.AsType[*jobserver.InvalidError](err); ok {
		for _, p := range invalid.Problems {
			if !add(p.Pointer, p.Message) {
				return err
			}
		}
	}
	if len(lines) == 0 {
		return err
	}
	return usagef("%s", strings.Join(lines, "\n  "))
}
