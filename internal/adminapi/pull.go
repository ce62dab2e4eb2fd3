package adminapi

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/pawlhq/pawl/internal/core/breaker"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/limit"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/problem"
)

// Lever is a request to move a lever: whose, and by whom.
type Lever struct {
	Name string `json:"name"`
	By   string `json:"by"`
}

func (a *API) pause(w http.ResponseWriter, r *http.Request) {
	a.setPaused(w, r, "paused", a.opts.Relay.PauseSource, a.opts.Fleet.Pause)
}

func (a *API) resume(w http.ResponseWriter, r *http.Request) {
	a.setPaused(w, r, "resumed", a.opts.Relay.ResumeSource, a.opts.Fleet.Resume)
}

// Moved is the answer to a pause or a resumption: of the source, the destination, or
// both where they have one name.
type Moved struct {
	Pull
	Moved []string `json:"moved"`
}

// setPaused pauses or resumes the source and the destination of the name.
func (a *API) setPaused(w http.ResponseWriter, r *http.Request, what string, source, destination func(string) bool) {
	var l Lever
	if !decode(w, r, &l) {
		return
	}
	a.opts.Levers.turn.Lock()
	defer a.opts.Levers.turn.Unlock()
	var moved []string
	if source(l.Name) {
		moved = append(moved, "source")
	}
	if destination(l.Name) {
		moved = append(moved, "destination")
	}
	if len(moved) == 0 {
		fail(w, problem.BadRequest, fmt.Sprintf("there is no source or destination %q", l.Name))
		return
	}
	now := time.Now()
	p := Pull{l.By, now}
	if what == "paused" {
		p = a.opts.Levers.pull(pauseLever, l.Name, what, l.By, now)
	} else {
		a.opts.Levers.release(pauseLever, l.Name)
	}
	a.tellLever(l.Name, what, l.By, now)
	answer(w, Moved{p, moved})
}

// tellLever sends the event of a lever that was moved.
func (a *API) tellLever(name, what, by string, now time.Time) {
	a.opts.Events(event.Event{Kind: event.LeverPulled, At: now, Name: name, Detail: what + " by " + by})
}

// Auto leaves a lever to the configuration and to pawl itself.
const Auto = "auto"

// ForceBreaker is a request to hold a destination's breaker open or closed, or to
// leave it to itself.
type ForceBreaker struct {
	Name string `json:"name"`
	By   string `json:"by"`
	To   string `json:"to"` // open, close or auto
}

func (a *API) forceBreaker(w http.ResponseWriter, r *http.Request) {
	var l ForceBreaker
	if !decode(w, r, &l) {
		return
	}
	to, known := map[string]breaker.Forced{"open": breaker.ForceOpen, "close": breaker.ForceClosed, Auto: breaker.ForceAuto}[l.To]
	if !known {
		fail(w, problem.BadRequest, fmt.Sprintf("to is %q; it must be open, close or auto", l.To))
		return
	}
	a.opts.Levers.turn.Lock()
	defer a.opts.Levers.turn.Unlock()
	if a.refused(w, l.Name, a.opts.Fleet.ForceBreaker(l.Name, to)) {
		return
	}
	a.moved(w, breakerLever, Lever{l.Name, l.By}, l.To, "breaker "+l.To)
}

func (a *API) clearHold(w http.ResponseWriter, r *http.Request) {
	var l Lever
	if !decode(w, r, &l) || a.refused(w, l.Name, a.opts.Fleet.ClearHold(l.Name)) {
		return
	}
	now := time.Now()
	a.tellLever(l.Name, "hold cleared", l.By, now)
	answer(w, Pull{l.By, now})
}

// SetRate is a request to limit a destination at run time. Either To is auto, for
// what the configuration says, or PerSecond is set.
type SetRate struct {
	Name      string  `json:"name"`
	By        string  `json:"by"`
	To        string  `json:"to,omitzero"`
	PerSecond float64 `json:"per_second,omitzero"`
	Burst     int     `json:"burst,omitzero"` // PerSecond rounded up unless set
}

func (a *API) setRate(w http.ResponseWriter, r *http.Request) {
	var l SetRate
	if !decode(w, r, &l) {
		return
	}
	rate, what := (*limit.Rate)(nil), Auto
	switch {
	case l.To == Auto && l.PerSecond == 0 && l.Burst == 0:
	case l.To != "":
		fail(w, problem.BadRequest, "say to: auto alone, or per_second and burst")
		return
	default:
		rate = &limit.Rate{PerSecond: l.PerSecond, Burst: cmp.Or(l.Burst, limit.NewRate(l.PerSecond).Burst)}
		if found := rate.Check(); len(found) > 0 {
			fail(w, problem.BadRequest, found[0].Field+" "+found[0].Message)
			return
		}
		what = RateText(rate.PerSecond) + " burst " + strconv.Itoa(rate.Burst)
	}
	a.opts.Levers.turn.Lock()
	defer a.opts.Levers.turn.Unlock()
	if a.refused(w, l.Name, a.opts.Fleet.SetRate(l.Name, rate)) {
		return
	}
	a.moved(w, rateLever, Lever{l.Name, l.By}, what, "rate "+what)
}

// RateText writes a rate for people, to six digits: 20/s, 0.0166667/s.
func RateText(perSecond float64) string {
	rounded, err := strconv.ParseFloat(strconv.FormatFloat(perSecond, 'g', 6, 64), 64)
	if err != nil { // it was written just above
		rounded = perSecond
	}
	return strconv.FormatFloat(rounded, 'f', -1, 64) + "/s"
}

// moved remembers where a lever stands now, tells of it and answers.
func (a *API) moved(w http.ResponseWriter, which lever, l Lever, at, what string) {
	now := time.Now()
	p := Pull{l.By, now}
	if at == Auto {
		a.opts.Levers.release(which, l.Name)
	} else {
		p = a.opts.Levers.pull(which, l.Name, at, l.By, now)
	}
	a.tellLever(l.Name, what, l.By, now)
	answer(w, p)
}

// refused answers where a lever could not be moved.
func (a *API) refused(w http.ResponseWriter, name string, m deliver.Moved) bool {
	switch m {
	case deliver.LeverMoved:
		return false
	case deliver.NoDestination:
		fail(w, problem.BadRequest, a.opts.missing(name).Error())
	case deliver.NoBreaker:
		fail(w, problem.BadRequest, fmt.Sprintf("%s has no circuit breaker (circuit_breaker: false); pause stops what is sent to it", name))
	case deliver.NotHeld:
		fail(w, problem.BadRequest, fmt.Sprintf("%s is not held", name))
	}
	return true
}
