package jobserver

import (
	"fmt"
	"strconv"
	"unicode"
	"unicode/utf8"
)

// Problem is one thing that is wrong with a request.
type Problem struct {
	// Pointer is the JSON pointer of the member in its job: "/queue"; "" is the
	// job itself. In a claim or a report it is the member in the request.
	Pointer string `json:"pointer"`
	Message string `json:"message"`
	// Job is which job of the call the problem is in.
	Job int `json:"-"`
}

// InvalidError is a request that says what can't be done: a 422.
type InvalidError struct {
	// Problems are in the order of the request, MaxProblems at most.
	Problems []Problem
	// More counts those that were left out.
	More int
}

// Error is the first problem and how many more there are.
func (e *InvalidError) Error() string {
	if len(e.Problems) == 0 {
		return "the request is not valid"
	}
	p := e.Problems[0]
	text := p.Message
	if p.Pointer != "" {
		text = p.Pointer + ": " + p.Message
	}
	if more := len(e.Problems) - 1 + e.More; more > 0 {
		text += fmt.Sprintf(" (and %d more)", more)
	}
	return text
}

// InBatch returns the error with the pointers of a batch: /jobs/3/queue.
func (e *InvalidError) InBatch() *InvalidError {
	in := &InvalidError{Problems: make([]Problem, len(e.Problems)), More: e.More}
	for i, p := range e.Problems {
		p.Pointer = "/jobs/" + strconv.Itoa(p.Job) + p.Pointer
		in.Problems[i] = p
	}
	return in
}

// invalid is an InvalidError of one problem.
func invalid(pointer, format string, args ...any) *InvalidError {
	return &InvalidError{Problems: []Problem{{Pointer: pointer, Message: fmt.Sprintf(format, args...)}}}
}

// checker gathers what is wrong with a request.
type checker struct {
	found InvalidError
	job   int // the job that is looked at
}

func (c *checker) add(pointer, format string, args ...any) {
	if len(c.found.Problems) == MaxProblems {
		c.found.More++
		return
	}
	c.found.Problems = append(c.found.Problems, Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...), Job: c.job})
}

// err returns nil where nothing was found.
func (c *checker) err() error {
	if len(c.found.Problems) == 0 {
		return nil
	}
	return &c.found
}

// plain reports whether a text is UTF-8 without control characters.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c >= utf8.RuneSelf || c == 0x7f {
			return plainUnicode(s)
		}
	}
	return true
}

func plainUnicode(s string) bool {
	for _, r := range s {
		if unicode.IsControl(r) {
			return false
		}
	}
	return utf8.ValidString(s)
}
