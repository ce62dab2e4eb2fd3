package httpapi

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
)

// query are the parameters of a request's URL.
type query struct {
	values url.Values
	faults []problem.Fault
}

// query returns the parameters; those that are not known, or there twice, are
// faults.
func (q *request) query(known ...string) *query {
	values, err := url.ParseQuery(q.URL.RawQuery)
	p := &query{values: values}
	if err != nil {
		p.add("", "the query can't be read: %v", err)
	}
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		switch {
		case slices.Contains(known, name):
			if len(values[name]) > 1 {
				p.add(name, "is there %d times; say it once", len(values[name]))
			}
		case len(known) == 0:
			p.add(cut(name), "unknown; this call has no parameters")
		default:
			if near := nearest.To(name, known); near != "" {
				p.add(name, "unknown; did you mean %s?", near)
			} else {
				p.add(cut(name), "unknown; known are %s", strings.Join(known, ", "))
			}
		}
		if len(p.faults) >= wirejson.MaxProblems {
			break
		}
	}
	return p
}

func cut(s string) string {
	const enough = 64
	if len(s) > enough {
		return strings.ToValidUTF8(s[:enough], "") + "…"
	}
	return s
}

func (p *query) add(name, format string, args ...any) {
	p.faults = append(p.faults, problem.Fault{Parameter: name, Message: fmt.Sprintf(format, args...)})
}

// err is everything that is wrong with the parameters, nil for nothing.
func (p *query) err() error {
	if len(p.faults) == 0 {
		return nil
	}
	detail := strings.TrimSpace(p.faults[0].Parameter + " " + p.faults[0].Message)
	if more := len(p.faults) - 1; more > 0 {
		detail += fmt.Sprintf(" (and %d more)", more)
	}
	return &refusal{problem.Document{Type: problem.Invalid, Detail: detail, Errors: p.faults}}
}

// text returns a parameter, "" where it was not said; said and empty is a fault.
func (p *query) text(name string) string {
	if values, ok := p.values[name]; ok {
		if values[0] != "" {
			return values[0]
		}
		p.add(name, "is empty; leave it out")
	}
	return ""
}

// name returns a parameter that is a name.
func (p *query) name(name string) string {
	s := p.text(name)
	if s != "" && job.BadName(s) != "" {
		p.add(name, "is no name: up to %d of A-Z, a-z, 0-9 and . _ : -", job.MaxName)
	}
	return s
}

// list returns a parameter that is a list, parted by commas, of at most so many.
func (p *query) list(name string, most int) []string {
	s := p.text(name)
	if s == "" {
		return nil
	}
	if n := strings.Count(s, ",") + 1; n > most {
		p.add(name, "names %d; at most %d are allowed", n, most)
		return nil
	}
	list := strings.Split(s, ",")
	if slices.Contains(list, "") {
		p.add(name, "has an empty place; part names by single commas")
	}
	return list
}

// names returns a parameter that is a list of names.
func (p *query) names(name string) []string {
	list := p.list(name, jobserver.MaxQueues)
	for _, s := range list {
		if job.BadName(s) != "" {
			p.add(name, "%q is no name: up to %d of A-Z, a-z, 0-9 and . _ : -", cut(s), job.MaxName)
		}
	}
	return list
}

// word returns a parameter that is one of a few words.
func word[T ~string](p *query, name string, words []T) T {
	s := T(p.text(name))
	if s != "" && !slices.Contains(words, s) {
		texts := make([]string, len(words))
		for i, w := range words {
			texts[i] = string(w)
		}
		if near := nearest.To(string(s), texts); near != "" {
			p.add(name, "is the unknown %q; did you mean %s?", cut(string(s)), near)
		} else {
			p.add(name, "must be one of %s", strings.Join(texts, ", "))
		}
	}
	return s
}

// limit returns how long a page may be, from 1 to store.MaxPage, or def.
func (p *query) limit(def int) int {
	const most = store.MaxPage
	s := p.text("limit")
	if s == "" {
		return def
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > most {
		p.add("limit", "must be a number from 1 to %d", most)
		return def
	}
	return n
}

// time returns a parameter that is a moment.
func (p *query) time(name string) time.Time {
	s := p.text(name)
	if s == "" {
		return time.Time{}
	}
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		p.add(name, "must be a time in RFC 3339 such as 2026-12-01T03:00:00Z (a + in a query is %%2B)")
	} else if t.IsZero() {
		p.add(name, "%s", wirejson.ZeroTime)
	}
	return t
}

// wait returns a parameter that is how long to wait.
func (p *query) wait(name string) time.Duration {
	s := p.text(name)
	if s == "" {
		return 0
	}
	d, err := duration.Parse(s)
	if err != nil || d > MaxWait {
		p.add(name, "must be a duration from 0s to %s, such as 30s", duration.Text(MaxWait))
		return 0
	}
	return d
}
