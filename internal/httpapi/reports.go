package httpapi

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/httpapi/wirejson"
	"github.com/pawlhq/pawl/internal/jobserver"
	"github.com/pawlhq/pawl/internal/store"
)

var (
	reportsMembers = []string{"worker", "reports"}
	lineMembers    = []string{"seq", "at", "level", "message"}
	errorMembers   = []string{"type", "message", "stack"}
	reportMembers  = []string{"lease", "type", "lines", "result", "error", "retryable", "retry_in", "retry_after", "endpoint", "effect"}
	// ofType are the members that a report of each type may have beside lease
	// and type.
	ofType = map[store.ReportType][]string{
		store.Start: nil, store.Heartbeat: nil, store.Release: nil,
		store.AddLog: {"lines"}, store.Complete: {"result"}, store.Fail: {"error", "retryable", "retry_in", "retry_after", "endpoint", "effect"},
	}
)

// reports are the reports of a request as far as they were read.
type reports struct {
	worker string
	all    []store.Report
	// wrong says of each what is wrong with it; "" for nothing.
	wrong []string
	bad   int
	now   time.Time // for log lines that say no time
	// queues are those that the key is limited to; nil is every queue.
	queues []string
}

func (s *reports) read(r *wirejson.Reader) {
	r.Object(reportsMembers, func(member string) {
		switch member {
		case "worker":
			s.worker = r.Text()
		case "reports":
			// What was found up to here is the request's; what one report adds
			// is its own.
			before := r.Take()
			r.Array(jobserver.MaxBatch, "reports", func(i int) {
				report := readReport(r, s.now)
				report.Queues = s.queues
				wrong := ""
				if found := r.Take(); len(found.Problems) > 0 {
					wrong = told(found, "/reports/"+strconv.Itoa(i))
					s.bad++
				}
				s.all, s.wrong = append(s.all, report), append(s.wrong, wrong)
			})
			r.Put(before)
		}
	})
}

// told writes the problems of one report as a sentence, by their place in it.
func told(found wirejson.Found, at string) string {
	const enough = 5 // a worker's author reads the first and repairs them all
	var b strings.Builder
	for i, p := range found.Problems {
		if i == enough {
			b.WriteString("; and " + strconv.Itoa(len(found.Problems)-i+found.More) + " more")
			break
		}
		if i > 0 {
			b.WriteString("; ")
		}
		if place := strings.TrimPrefix(p.Pointer, at); place != "" {
			b.WriteString(place + " ")
		}
		b.WriteString(p.Message)
	}
	return b.String()
}

func readReport(r *wirejson.Reader, now time.Time) store.Report {
	var p store.Report
	seen := r.Object(reportMembers, func(member string) {
		switch member {
		case "lease":
			p.Lease = r.Text()
		case "type":
			p.Type = readType(r)
		case "lines":
			r.Array(jobserver.MaxLines, "lines", func(int) { p.Lines = append(p.Lines, readLine(r, now)) })
		case "result":
			p.Result = r.Value(jobserver.MaxPayload)
		case "error":
			p.Error = new(readError(r))
		case "retryable":
			p.Failure.Permanent = !r.Flag()
		case "retry_in":
			p.Failure.RetryIn = r.AnyDuration()
		case "retry_after":
			p.Failure.RetryAfter = r.AnyDuration()
		case "endpoint":
			p.Failure.Endpoint = only(r, job.EndpointOK)
		case "effect":
			p.Failure.Effect = only(r, job.EffectUnknown)
		}
	})
	if r.Problems() > 0 {
		return p
	}
	fits, known := ofType[p.Type]
	for i, member := range reportMembers {
		switch {
		case i < 2: // every report has these
			if !seen.Has(i) {
				r.WrongMember(member, "is missing")
			}
		case known && seen.Has(i) && !slices.Contains(fits, member):
			r.WrongMember(member, "is nothing that a report of type %s has", p.Type)
		}
	}
	return p
}

// only reads a text that can be nothing but one word: left out, it says the rest.
func only[T ~string](r *wirejson.Reader, word T) T {
	before := r.Problems()
	if t := T(r.Text()); t != word && r.Problems() == before {
		r.Wrong("must be %q; leave it out otherwise", string(word))
	}
	return word
}

func readType(r *wirejson.Reader) store.ReportType {
	before := r.Problems()
	t := store.ReportType(r.Text())
	if _, known := ofType[t]; known || r.Problems() > before {
		return t
	}
	types := []string{"start", "heartbeat", "log", "complete", "fail", "release"}
	if near := nearest.To(string(t), types); near != "" {
		r.Wrong("unknown type; did you mean %q?", near)
	} else {
		r.Wrong("unknown type; known are %s", strings.Join(types, ", "))
	}
	return t
}

func readLine(r *wirejson.Reader, now time.Time) job.LogLine {
	line := job.LogLine{At: now}
	seen := r.Object(lineMembers, func(member string) {
		switch member {
		case "seq":
			line.Seq = r.Int(0, 1<<53) // what every language's numbers hold
		case "at":
			if t := r.Time(); t != nil {
				line.At = *t
			}
		case "level":
			line.Level = r.Text()
		case "message":
			line.Message = r.Text()
		}
	})
	if !seen.Has(0) {
		r.WrongMember("seq", "is missing: it keeps a repeated line from being kept twice")
	}
	return line
}

func readError(r *wirejson.Reader) job.Error {
	var e job.Error
	r.Object(errorMembers, func(member string) {
		switch member {
		case "type":
			e.Type = r.Text()
		case "message":
			e.Message = r.Text()
		case "stack":
			e.Stack = r.Text()
		}
	})
	return e
}

// report takes in what a worker says, each report by itself.
func (a *api) report(q *request) error {
	s := reports{now: a.store.Now()}
	if len(q.who.Queues) > 0 {
		s.queues = q.who.Queues
	}
	if err := q.read(wirejson.Keep, s.read); err != nil {
		return err
	}
	sound := s.all
	if s.bad > 0 {
		sound = make([]store.Report, 0, len(s.all)-s.bad)
		for i, wrong := range s.wrong {
			if wrong == "" {
				sound = append(sound, s.all[i])
			}
		}
	}
	var answers []jobserver.Answer
	if len(sound) > 0 || len(s.all) == 0 {
		var err error
		if answers, err = a.server.Report(q.Context(), s.worker, sound); err != nil {
			return err
		}
	}
	a.server.Refused(s.bad)
	const row = 160
	now := a.store.Now()
	b := append(appendTime(append(make([]byte, 0, 64+row*len(s.all)), `{"now":`...), now), `,"results":[`...)
	for i, wrong := range s.wrong {
		if i > 0 {
			b = append(b, ',')
		}
		if wrong != "" {
			b = append(appendText(append(b, `{"status":"invalid","detail":`...), wrong), '}')
			continue
		}
		b, answers = appendAnswer(b, &answers[0], now), answers[1:]
	}
	return q.answer(http.StatusOK, append(b, `]}`...))
}

// appendAnswer writes what became of one report.
func appendAnswer(b []byte, a *jobserver.Answer, now time.Time) []byte {
	b = appendText(append(b, `{"status":`...), string(a.Status))
	if a.Detail != "" {
		b = appendText(append(b, `,"detail":`...), a.Detail)
	}
	if a.JobStatus != "" {
		b = appendText(append(b, `,"job_status":`...), string(a.JobStatus))
	}
	if !a.RunAt.IsZero() {
		b = appendTime(append(b, `,"run_at":`...), a.RunAt)
	}
	if !a.LeaseUntil.IsZero() {
		b = strconv.AppendInt(append(b, `,"lease_ms":`...), max(a.LeaseUntil.Sub(now).Milliseconds(), 0), 10)
		b = appendTime(append(b, `,"lease_expires_at":`...), a.LeaseUntil)
		b = appendFlag(append(b, `,"cancel":`...), a.Cancel)
	}
	return append(b, '}')
}
