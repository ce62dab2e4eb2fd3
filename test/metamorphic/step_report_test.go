package metamorphic

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/storetest"
)

func (h *history) report() {
	var reports []store.Report
	for range 1 + h.IntN(4) {
		reports = append(reports, h.newReport())
	}
	h.say(reports)
}

func (h *history) say(reports []store.Report) {
	h.Helper()
	want := make([]store.Answer, len(reports))
	for i, r := range reports {
		h.tell("report %s of %s, hash %d, %+v, after %v", r.Type, r.Lease, r.Hash[0], r.Failure, r.After)
		settled := h.model.tokens[r.Lease] != nil && h.model.tokens[r.Lease].settled
		want[i] = h.model.report(r)
		switch {
		case want[i].Status == store.LeaseLost:
			h.happened["stale reports"]++
		case settled:
			h.happened["reports again"]++
		default:
			h.happened["reports"]++
		}
	}
	got, err := h.store.Report(h.ctx, reports)
	h.must(err)
	h.same("the answers", want, got)
}

func (h *history) newReport() store.Report {
	if len(h.said) > 0 && h.chance(0.15) {
		r := pick(h, h.said...)
		if h.chance(0.2) {
			r.Hash[1]++
		}
		return r
	}
	r := h.final(pick(h, store.Start, store.Heartbeat, store.AddLog, store.Complete, store.Fail, store.Fail, store.Release), "lse_garbage")
	r.Queues = pick(h, nil, nil, nil, []string{"a", "b"}, []string{})
	if running := h.model.running(); len(running) > 0 && h.chance(0.85) {
		r.Lease = pick(h, running...).lease.token
	} else if len(h.leases) > 0 {
		r.Lease = pick(h, h.leases...)
	}
	switch r.Type {
	case store.AddLog:
		for range 1 + h.IntN(3) {
			n := h.Int64N(6)
			r.Lines = append(r.Lines, job.LogLine{Seq: n, At: storetest.Start, Level: "info", Message: fmt.Sprint("line ", n, " of ", h.serial)})
		}
	case store.Complete:
		r.Note, r.Refused = pick(h, "", "cleaned"), pick(h, "", "", "", "", "at /total: want number")
	case store.Fail:
		r.Failure = h.newFailure()
	case store.Release:
		r.After = time.Duration(max(h.IntN(20)-10, 0)) * time.Second
	case store.Start, store.Heartbeat:
		return r
	}
	if r.Type != store.AddLog {
		h.said = append(h.said, r)
	}
	return r
}

// final is a report of its own hash.
func (h *history) final(kind store.ReportType, lease string) store.Report {
	h.serial++
	r := store.Report{Type: kind, Lease: lease}
	r.Hash[0], r.Hash[2] = byte(h.serial), byte(h.serial>>8)
	switch kind {
	case store.Complete:
		r.Result = fmt.Appendf(nil, "%d", h.serial)
	case store.Fail:
		r.Error = &job.Error{Type: "E", Message: fmt.Sprint("error ", h.serial), Stack: "at x"}
	}
	return r
}

func (h *history) newFailure() (f job.Failure) {
	f.Permanent = h.chance(0.1)
	if h.chance(0.3) {
		f.RetryIn = new(time.Duration(h.IntN(20)) * time.Second)
	}
	if h.chance(0.25) {
		f.RetryAfter = new(time.Duration(h.IntN(20)) * time.Second)
	}
	if h.chance(0.15) {
		f.Endpoint = job.EndpointOK
	}
	if h.chance(0.3) {
		f.Effect = job.EffectUnknown
	}
	return f
}

// sayOf reports of several jobs at once.
func (h *history) sayOf(kind store.ReportType, jobs []*modelJob) {
	h.Helper()
	var reports []store.Report
	for _, j := range jobs {
		r := h.final(kind, j.lease.token)
		h.said = append(h.said, r)
		reports = append(reports, r)
	}
	if len(reports) > 0 {
		h.say(reports)
	}
}
