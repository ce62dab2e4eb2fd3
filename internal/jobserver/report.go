package jobserver

import (
	"context"
	"fmt"
	"slices"

	"github.com/pawlhq/pawl/internal/core/duration"
	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
)

// Invalid is the status of a report that can't be taken as it is: it changed
// nothing, and Detail says why. The lease still holds.
const Invalid store.AnswerStatus = "invalid"

// Answer is what became of one report.
type Answer struct {
	store.Answer
	// Detail says what is wrong with an Invalid report.
	Detail string
}

// Report takes in what a worker says, 1 to MaxBatch reports, each by itself:
// one that is bad is answered Invalid and fails no other. The answers are in
// the order of the reports.
//
// Texts are cleaned and cut here, a note tells it; the hash of a report that
// ends its attempt is made here.
//
// Errors: *InvalidError is about the request as a whole; the rest are the
// store's, and then no report is known to be taken.
func (s *Server) Report(ctx context.Context, worker string, reports []store.Report) ([]Answer, error) {
	var c checker
	if bad := badWorker(worker); bad != "" {
		c.add("/worker", "%s", bad)
	}
	if len(reports) == 0 || len(reports) > MaxBatch {
		c.add("/reports", "must hold from 1 to %d reports, not %d", MaxBatch, len(reports))
	}
	if err := c.err(); err != nil {
		return nil, err
	}
	answers := make([]Answer, len(reports))
	sound := make([]store.Report, 0, len(reports))
	at := make([]int, 0, len(reports)) // where in answers each of sound belongs
	for i := range reports {
		r := reports[i]
		if wrong := prepare(&r); wrong != "" {
			answers[i] = Answer{Answer: store.Answer{Status: Invalid}, Detail: wrong}
			s.totals.invalid.Add(1)
			continue
		}
		sound, at = append(sound, r), append(at, i)
	}
	if len(sound) == 0 {
		return answers, nil
	}
	s.workers.heard(worker, s.store.Now())
	if err := s.holdAgainst(ctx, sound); err != nil {
		return nil, err
	}
	taken, err := s.store.Report(ctx, sound)
	if err != nil {
		return nil, err
	}
	now := s.store.Now()
	for i, a := range taken {
		answers[at[i]].Answer = a
		if t := sound[i].Type; t == store.Complete || t == store.Fail {
			if ran, ok := s.runs.end(sound[i].Lease, now); ok && a.Status == store.ReportTaken {
				s.totals.run.ObserveTime(ran)
			}
		}
		s.totals.answered(sound[i].Type, a.Status)
	}
	return answers, nil
}

// Refused counts reports that could not be read, beside those that Report finds
// invalid.
func (s *Server) Refused(n int) { s.totals.invalid.Add(int64(n)) }

// holdAgainst holds the results of a request against the schemas that their jobs
// were created with. A schema that is not there, or can't be used, refuses no
// result: that the work was done is worth more.
func (s *Server) holdAgainst(ctx context.Context, reports []store.Report) error {
	if !s.contracts.Load() {
		return nil
	}
	var leases []string
	var at []int
	for i := range reports {
		if reports[i].Type == store.Complete {
			leases, at = append(leases, reports[i].Lease), append(at, i)
		}
	}
	if len(leases) == 0 {
		return nil
	}
	hashes, err := s.store.Outputs(ctx, leases)
	if err != nil {
		return err
	}
	for i, hash := range hashes {
		if hash == (job.SchemaHash{}) {
			continue
		}
		r := &reports[at[i]]
		if r.Refused = s.refuses(ctx, hash, r.Result); r.Refused != "" {
			clean, _ := job.Error{Type: string(job.ReasonOutputSchema), Message: r.Refused}.Clean()
			r.Error = &clean
		}
	}
	return nil
}

// refuses says how a result does not fit a schema; "" where it does.
func (s *Server) refuses(ctx context.Context, hash job.SchemaHash, result []byte) string {
	compiled, err := s.schemas.get(hash, func() ([]byte, error) { return s.store.Schema(ctx, hash) })
	if err != nil {
		s.log.Error("a result could not be held against its schema, and was taken as it is", "schema", fmt.Sprintf("%x", hash), "error", err)
		return ""
	}
	if result == nil {
		result = []byte("null")
	}
	all, total, err := violations(compiled, result)
	switch {
	case err != nil:
		s.log.Error("a result could not be held against its schema, and was taken as it is", "schema", fmt.Sprintf("%x", hash), "error", err)
		return ""
	case total > 0:
		return refusal(all, total)
	}
	return ""
}

func (t *totals) answered(kind store.ReportType, status store.AnswerStatus) {
	if status == store.LeaseLost {
		t.leaseLost.Add(1)
		return
	}
	switch kind {
	case store.Complete:
		t.succeeded.Add(1)
	case store.Fail:
		t.failed.Add(1)
	case store.Release:
		t.released.Add(1)
	case store.Start, store.Heartbeat, store.AddLog:
	}
}

// prepare cleans a report and sums it up. It returns what is wrong with one
// that can't be taken.
func prepare(r *store.Report) (wrong string) {
	switch r.Type {
	case store.Start, store.Heartbeat:
		return ""
	case store.AddLog:
		return prepareLines(r)
	case store.Complete:
		if len(r.Result) > MaxPayload {
			return fmt.Sprintf("the result has %d bytes; at most %d are allowed", len(r.Result), MaxPayload)
		}
	case store.Fail:
		if r.Error != nil {
			clean, note := r.Error.Clean()
			r.Error, r.Note = &clean, note
		}
	case store.Release:
		if r.After < 0 {
			return fmt.Sprintf("the wait must not be negative, it is %s", duration.Text(r.After))
		}
	default:
		return fmt.Sprintf("unknown type %q; known are start, heartbeat, log, complete, fail, release", r.Type)
	}
	hash, err := hashReport(r)
	if err != nil {
		return fmt.Sprintf("the result is no JSON: %v", err)
	}
	r.Hash = hash
	return ""
}

// prepareLines cleans log lines. The slice that came is left alone: a line is
// copied where it has to be changed.
func prepareLines(r *store.Report) (wrong string) {
	if len(r.Lines) > MaxLines {
		return fmt.Sprintf("the report has %d lines; at most %d are allowed", len(r.Lines), MaxLines)
	}
	if len(r.Lines) == 0 {
		return "the report has no lines"
	}
	lines := r.Lines
	for i, line := range r.Lines {
		if line.Seq < 0 {
			return fmt.Sprintf("line %d: seq must not be negative, it is %d", i+1, line.Seq)
		}
		clean := line.Clean()
		if clean == line {
			continue
		}
		if &lines[0] == &r.Lines[0] {
			lines = slices.Clone(lines)
		}
		lines[i] = clean
	}
	r.Lines = lines
	return ""
}
