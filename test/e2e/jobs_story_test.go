package e2e

import (
	"cmp"
	"encoding/json/v2"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// story is everything that happened, oldest first.
type story struct{ all []happened }

// tally counts what happened by its type.
func (st *story) tally() map[string]int {
	n := map[string]int{}
	for _, e := range st.all {
		n[e.Type]++
		if e.broughtBy() != "" {
			n["brought back"]++
		}
	}
	return n
}

// broughtBy is the replay that brought a job back; "" for none.
func (e happened) broughtBy() string {
	if id, ok := strings.CutPrefix(e.Data.By, "replay "); ok && e.Type == "job.retried" {
		return id
	}
	return ""
}

// by are the events of each of what a key tells apart, "" left out.
func (st *story) by(key func(happened) string) map[string][]happened {
	all := map[string][]happened{}
	for _, e := range st.all {
		if k := key(e); k != "" {
			all[k] = append(all[k], e)
		}
	}
	return all
}

// checkStory is the oracle of what happened: it is one story, and jobs, circuits
// and replays are as it ends.
func checkStory(t *testing.T, s *site, d *diary, st *story, views map[string]jobView) {
	t.Helper()
	for i := 1; i < len(st.all); i++ {
		if st.all[i].At.Before(st.all[i-1].At) {
			t.Errorf("%v is before %v", st.all[i], st.all[i-1])
		}
	}
	jobs := st.by(func(e happened) string { return e.Job })
	for id := range views {
		if len(jobs[id]) == 0 {
			t.Errorf("nothing is told of job %s", id)
		}
	}
	for id, told := range jobs {
		v, there := views[id]
		if !there { // whoever made it had no answer
			var code int
			if code, v = s.jobs().get(id); code != http.StatusOK {
				t.Errorf("job %s is told of and is answered %d", id, code)
				continue
			}
			views[id] = v
		}
		checkTold(t, v, told)
	}
	began := started(views)
	for at, claim := range d.leases {
		if _, there := began[at]; !there {
			t.Errorf("%s was handed to claim %s, and is no attempt", at, claim)
		}
	}
	attempts := map[string][]attemptView{}
	for _, v := range views {
		if v.Endpoint != nil {
			attempts[*v.Endpoint] = append(attempts[*v.Endpoint], v.Attempts...)
		}
	}
	for endpoint, told := range st.by(func(e happened) string { return e.Endpoint }) {
		checkCircuit(t, endpoint, told, began, attempts[endpoint])
		checkEndpoint(t, s, endpoint, told, views)
	}
	checkReplays(t, s, st, jobs, views)
}

// started is when each attempt began.
func started(views map[string]jobView) map[string]time.Time {
	all := map[string]time.Time{}
	for id, v := range views {
		for _, a := range v.Attempts {
			all[place(id, a.Number)] = a.StartedAt
		}
	}
	return all
}

// checkTold compares what was told of a job with its attempts: each has what
// became of it told once, in order, and a dead letter comes back before its next.
func checkTold(t *testing.T, v jobView, told []happened) {
	t.Helper()
	next := func() (e happened) {
		if len(told) > 0 {
			e, told = told[0], told[1:]
		}
		return e
	}
	if e := next(); e.Type != "job.created" {
		t.Errorf("job %s begins with %v", v.ID, e)
	}
	dead, reason := false, ""
	for _, a := range v.Attempts {
		if dead {
			if e := next(); e.broughtBy() == "" || e.Data.Attempt != a.Number-1 || e.Data.Reason != reason {
				t.Errorf("job %s was dead before attempt %d and came back by %v", v.ID, a.Number, e)
			}
			dead = false
		}
		if a.outcome() == "released" || a.outcome() == "cancelled" {
			continue
		}
		e := next()
		if e.Data.Attempt != a.Number || e.Data.Outcome != a.outcome() || e.Data.By != "" {
			t.Errorf("attempt %d of job %s is %s, and what is told is %v", a.Number, v.ID, a.outcome(), e)
		}
		if !a.ended().Equal(e.At) {
			t.Errorf("attempt %d of job %s ended at %v, and what is told is %v", a.Number, v.ID, a.ended(), e)
		}
		want := "job.retried"
		switch {
		case a.outcome() == "succeeded":
			want = "job.succeeded"
		case e.Type == "job.failed":
			want, dead, reason = "job.failed", true, e.Data.Reason
		}
		if e.Type != want {
			t.Errorf("attempt %d of job %s is %s, and what is told is %v", a.Number, v.ID, a.outcome(), e)
		}
	}
	if dead && len(told) > 0 && told[0].broughtBy() != "" { // and then it was cancelled
		next()
		dead = false
	}
	if v.Status == "cancelled" {
		if e := next(); e.Type != "job.cancelled" || e.Data.By == "" {
			t.Errorf("job %s is cancelled, and what is told is %v", v.ID, e)
		}
	}
	if len(told) > 0 {
		t.Errorf("job %s is told of beyond its attempts: %v", v.ID, told)
	}
	if dead != (v.Status == "failed") || dead != v.DeadLetter || dead && (v.Reason == nil || *v.Reason != reason) {
		t.Errorf("job %s is %s, a dead letter: %v; by its story: %v, for %q", v.ID, v.Status, v.DeadLetter, dead, reason)
	}
}

// cooling is a circuit from when it opened to when its probe reported.
type cooling struct{ opened, half, over time.Time }

// checkCircuit follows a circuit. It opens by failures alone, and closes by a
// probe or a person; while it is open nothing is claimed, and while it is half open one
// job at a time.
func checkCircuit(t *testing.T, endpoint string, told []happened, started map[string]time.Time, attempts []attemptView) (all []cooling) {
	t.Helper()
	state, generation, closedAt := "closed", int64(0), time.Time{}
	counted, surely := 0, 0 // failures since it closed; and those in a row that began after
	var now cooling
	for i, e := range told {
		if strings.HasPrefix(e.Type, "circuit.") {
			if generation++; e.Data.Generation != generation {
				t.Errorf("%s: generation %d comes after %d: %v", endpoint, e.Data.Generation, generation-1, e)
			}
		}
		var why happened // the end of an attempt that moved it
		if i+1 < len(told) {
			why = told[i+1]
		}
		probe := !started[place(why.Job, why.Data.Attempt)].Before(now.half)
		switch was := state; e.Type {
		case "circuit.opened":
			if was == "half_open" {
				now.over = e.At
				all = append(all, now)
			}
			if was == "open" || !why.isSick() || was == "half_open" && !probe || was == "closed" && counted+1 < circuitFailures {
				t.Errorf("%s opens from %s after %d failures by %v", endpoint, was, counted, why)
			}
			state, now = "open", cooling{opened: e.At}
		case "circuit.half_open":
			if was != "open" || e.At.Sub(now.opened) < circuitCooldown {
				t.Errorf("%s: %v after it was %s since %v", endpoint, e, was, now.opened)
			}
			state, now.half = "half_open", e.At
		case "circuit.closed":
			byHand := e.Data.By != "" && endpoint == resetEndpoint && was != "closed"
			if now.over = e.At; !byHand && (was != "half_open" || !why.isWell() || !probe) {
				t.Errorf("%s closes from %s by %v", endpoint, was, why)
			}
			all = append(all, now)
			state, closedAt, counted, surely = "closed", e.At, 0, 0
		default:
			if e.isWell() {
				surely = 0
			}
			if state != "closed" || !e.isSick() {
				continue
			}
			counted++
			if started[place(e.Job, e.Data.Attempt)].After(closedAt) {
				surely++
			}
			if surely >= circuitFailures && endpoint != resetEndpoint { // which begins to count anew untold
				t.Errorf("%s is closed after %d failures in a row: %v", endpoint, surely, e)
			}
		}
	}
	checkGate(t, endpoint, told, all, attempts)
	return all
}

// isSick and isWell say what the end of an attempt tells a circuit.
func (e happened) isSick() bool {
	return e.Data.Outcome == "failed" && e.Data.Error != nil && (e.Data.Error.Type == sick || e.Data.Error.Type == fatal)
}

func (e happened) isWell() bool {
	return e.Data.Outcome == "succeeded" || e.Data.Outcome == "failed" && e.Data.Error != nil && e.Data.Error.Type == badData
}

// checkGate looks at what was claimed while an endpoint's gate was shut. What
// began in the very millisecond of a change may be of before it.
func checkGate(t *testing.T, endpoint string, told []happened, coolings []cooling, attempts []attemptView) {
	t.Helper()
	slices.SortFunc(attempts, func(a, b attemptView) int {
		return cmp.Or(a.StartedAt.Compare(b.StartedAt), a.ended().Compare(b.ended()))
	})
	within := func(from, to time.Time) []attemptView { // from is part of it
		first := func(at time.Time) int {
			i, _ := slices.BinarySearchFunc(attempts, at, func(a attemptView, at time.Time) int { return a.StartedAt.Compare(at) })
			return i
		}
		if !from.Before(to) {
			return nil
		}
		return attempts[first(from):first(to)]
	}
	const tick = time.Millisecond
	for _, c := range coolings {
		until := c.half
		if until.IsZero() { // a person closed it
			until = c.over
		}
		if got := within(c.opened.Add(tick), until); len(got) > 0 {
			t.Errorf("%s opened at %v, and before %v there began %v", endpoint, c.opened, until, got)
		}
		if c.half.IsZero() {
			continue
		}
		var before attemptView
		for _, a := range within(c.half, c.over) {
			if a.StartedAt.Before(before.ended()) {
				t.Errorf("%s was half open from %v, and two had it at once: %v and %v", endpoint, c.half, before, a)
			}
			before = a
		}
	}
	for i, e := range told {
		if e.Type != "endpoint.held" {
			continue
		}
		until := e.Data.HeldUntil
		for _, later := range told[i:] {
			if later.Type == "circuit.closed" {
				if later.At.Before(until) {
					until = later.At
				}
				break
			}
		}
		if got := within(e.At.Add(tick), until); len(got) > 0 {
			t.Errorf("%s was held from %v until %v, and there began %v", endpoint, e.At, until, got)
		}
	}
}

// checkEndpoint compares an endpoint's circuit and counts with what happened.
func checkEndpoint(t *testing.T, s *site, endpoint string, told []happened, views map[string]jobView) {
	t.Helper()
	code, text := s.jobs().call(http.MethodGet, "/v3/endpoints/"+endpoint, "", nil)
	var got struct {
		Circuit struct {
			State      string `json:"state"`
			Generation int64  `json:"generation"`
		} `json:"circuit"`
		Counts map[string]int `json:"counts"`
	}
	if err := json.Unmarshal(text, &got); err != nil || code != http.StatusOK {
		t.Fatalf("endpoint %s is answered %d %s: %v", endpoint, code, text, err)
	}
	state, generation := "closed", int64(0)
	for _, e := range told {
		if to, ok := strings.CutPrefix(e.Type, "circuit."); ok {
			state, generation = strings.Replace(to, "opened", "open", 1), e.Data.Generation
		}
	}
	if got.Circuit.State != state || got.Circuit.Generation != generation {
		t.Errorf("the circuit of %s is %+v; by its story: %s, %d", endpoint, got.Circuit, state, generation)
	}
	counts := map[string]int{"queued": 0, "running": 0, "succeeded": 0, "failed": 0, "cancelled": 0}
	for _, v := range views {
		if v.Endpoint != nil && *v.Endpoint == endpoint {
			counts[v.Status]++
		}
	}
	if fmt.Sprint(got.Counts) != fmt.Sprint(counts) {
		t.Errorf("endpoint %s counts %v; there are %v", endpoint, got.Counts, counts)
	}
}

// checkReplays compares replays with what happened: each brought no job back
// twice, and none that was no dead letter when it began; and of those that were,
// and that it was asked for, one that is done passed none over.
func checkReplays(t *testing.T, s *site, st *story, jobs map[string][]happened, views map[string]jobView) {
	t.Helper()
	code, replays := s.jobs().replays(true)
	if code != http.StatusOK {
		t.Fatalf("replays are answered %d", code)
	}
	brought, succeeded, failedAgain := map[string]int{}, map[string]int{}, map[string]int{}
	for _, told := range jobs {
		by := ""
		for _, e := range told {
			switch {
			case e.broughtBy() != "":
				by = e.broughtBy()
				brought[by]++
			case e.Type == "job.succeeded":
				succeeded[by]++
			case e.Type == "job.failed":
				failedAgain[by]++
				by = "" // whoever brings it back next has it
			}
		}
	}
	moved := st.by(func(e happened) string { return e.Replay })
	for _, r := range replays {
		if last := moved[r.ID]; len(last) == 0 || last[len(last)-1].Data.State != r.State || !r.over() {
			t.Errorf("replay %s is %s; by its story: %v", r.ID, r.State, last)
		}
		if r.Done != brought[r.ID] || r.Succeeded != succeeded[r.ID] || r.FailedAgain != failedAgain[r.ID] {
			t.Errorf("%+v; it brought back %d, of which %d succeeded and %d failed again", r, brought[r.ID], succeeded[r.ID], failedAgain[r.ID])
		}
		delete(brought, r.ID)
		for id, told := range jobs {
			checkBrought(t, r, views[id], told)
		}
	}
	if len(brought) > 0 {
		t.Errorf("replays that are not there brought back %v", brought)
	}
}

// checkBrought follows one job through one replay.
func checkBrought(t *testing.T, r replayView, v jobView, told []happened) {
	t.Helper()
	mine := 0
	for i, e := range told {
		fits := e.Type == "job.failed" && (r.Filter.Endpoint == "" || r.Filter.Endpoint == e.Endpoint) && (r.Filter.Reason == "" || r.Filter.Reason == e.Data.Reason)
		if e.broughtBy() == r.ID {
			mine++
		}
		if i+1 < len(told) && told[i+1].broughtBy() == r.ID && (!fits || e.At.After(r.Before)) {
			t.Errorf("replay %+v brought back job %s after %v", r, v.ID, e)
		}
		letter := fits && e.At.Before(r.Before) && (i+1 == len(told) || told[i+1].At.After(r.Before))
		if letter && r.State == "done" && i+1 == len(told) {
			t.Errorf("replay %+v passed over job %s, a dead letter since %v", r, v.ID, e)
		}
	}
	if mine > 1 {
		t.Errorf("replay %s brought back job %s %d times", r.ID, v.ID, mine)
	}
}
