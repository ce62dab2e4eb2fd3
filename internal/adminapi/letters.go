package adminapi

import (
	"context"
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
	"github.com/pawlhq/pawl/internal/problem"
)

// LetterLine is one dead letter in a list.
type LetterLine struct {
	Letter      string         `json:"letter"`
	ID          string         `json:"id"` // the message's
	Reason      message.Reason `json:"reason"`
	Destination string         `json:"destination,omitzero"`
	Route       string         `json:"route,omitzero"`
	At          time.Time      `json:"at"`
	Attempts    int            `json:"attempts"`
	Error       string         `json:"error"`
	Replays     int            `json:"replays"`
}

// LineOf returns the list's line of a letter.
func LineOf(l *message.DeadLetter) LetterLine {
	return LetterLine{
		Letter: l.Letter, ID: l.Message.ID, Reason: l.Reason, Destination: l.Destination, Route: l.Route,
		At: l.At.UTC(), Attempts: l.Attempts, Error: l.Error, Replays: len(l.Replays),
	}
}

// Letter is one whole dead letter: its written form, what became of it, and its
// story for people.
type Letter struct {
	State    string         `json:"state"`
	Envelope jsontext.Value `json:"letter"`
	Timeline string         `json:"timeline"`
}

// LetterOf returns an entry of the store as it is shown.
func LetterOf(e deadletter.Entry) (Letter, error) {
	text, err := message.EncodeLetter(e.DeadLetter)
	if err != nil {
		return Letter{}, err
	}
	return Letter{State: e.State.String(), Envelope: text, Timeline: deadletter.Timeline(e.DeadLetter)}, nil
}

// Choice says which dead letters are meant. What is left out lets all pass.
type Choice struct {
	Since       *time.Time     `json:"since,omitzero"`
	Reason      message.Reason `json:"reason,omitzero"`
	Destination string         `json:"destination,omitzero"`
	IDs         []string       `json:"ids,omitzero"`
}

// Filter returns the choice as the store takes it.
func (c Choice) Filter() deadletter.Filter {
	f := deadletter.Filter{Reason: c.Reason, Destination: c.Destination, IDs: c.IDs}
	if c.Since != nil {
		f.Since = *c.Since
	}
	return f
}

// check returns what is wrong with the choice.
func (c Choice) check() error {
	if c.Reason != "" && !slices.Contains(message.Reasons(), c.Reason) {
		return fmt.Errorf("there is no reason %q; it is one of %v", c.Reason, message.Reasons())
	}
	return c.Filter().Check()
}

// listLetters streams the open letters of a choice in the query.
func (a *API) listLetters(w http.ResponseWriter, r *http.Request) {
	q, err := query(r, "since", "reason", "destination", "id")
	if err != nil {
		fail(w, problem.BadRequest, err.Error())
		return
	}
	c := Choice{Reason: message.Reason(q.Get("reason")), Destination: q.Get("destination"), IDs: q["id"]}
	if text := q.Get("since"); text != "" {
		t, err := time.Parse(time.RFC3339, text)
		if err != nil {
			fail(w, problem.BadRequest, fmt.Sprintf("since is %q; it must be a time like 2026-01-02T15:04:05Z", text))
			return
		}
		c.Since = &t
	}
	if err := c.check(); err != nil {
		fail(w, problem.BadRequest, err.Error())
		return
	}
	s, err := newStream(w)
	if err != nil {
		return
	}
	err = a.opts.Letters.List(r.Context(), c.Filter(), func(e deadletter.Entry) error { return s.line(LineOf(e.DeadLetter)) })
	if err != nil {
		_ = s.line(Broken{err.Error()}) // the reader is told if it is still there
	}
}

// Broken is the last line of a stream that ended too early.
type Broken struct {
	Error string `json:"broken"`
}

// getLetters answers with every letter of an id.
func (a *API) getLetters(w http.ResponseWriter, r *http.Request) {
	entries, err := a.opts.Letters.Get(r.Context(), r.PathValue("id"))
	switch {
	case errors.Is(err, deadletter.ErrNotFound):
		fail(w, problem.NotFound, err.Error())
		return
	case err != nil:
		fail(w, problem.Unavailable, err.Error())
		return
	}
	all := make([]Letter, 0, len(entries))
	for _, e := range entries {
		l, err := LetterOf(e)
		if err != nil {
			fail(w, problem.Unavailable, err.Error())
			return
		}
		all = append(all, l)
	}
	answer(w, all)
}

// Replay is a request to replay dead letters.
type Replay struct {
	Choice
	// To replays to this destination instead of where each letter failed.
	To     string  `json:"to,omitzero"`
	DryRun bool    `json:"dry_run,omitzero"`
	Rate   float64 `json:"rate,omitzero"` // letters a second; 0 is as fast as they go
}

// ReplayLine is one line of a replay's progress; the last one is Done.
type ReplayLine struct {
	// Total is how many letters matched when it began.
	Total       int `json:"total"`
	Delivered   int `json:"delivered"`
	FailedAgain int `json:"failed_again"`
	// Left is what is neither: to come, or still open at the end.
	Left int  `json:"left"`
	Done bool `json:"done,omitzero"`
	// Busy is how many of those left another replay has in hand.
	Busy int `json:"busy,omitzero"`
	// Error says why it ended early, or why the last letter that is left was.
	Error string `json:"error,omitzero"`
}

// replayLine returns the line of a replay's progress.
func replayLine(p deadletter.Progress) ReplayLine {
	l := ReplayLine{Total: p.Total, Delivered: p.Delivered, FailedAgain: p.FailedAgain, Left: p.Left}
	if p.Err != nil {
		l.Error = p.Err.Error()
	}
	return l
}

// RunReplay replays letters of the store through the relay. It is what the API
// and a command without a running relay share. progress is told after each
// letter, one call at a time. An error is a mistake in the request: nothing was
// done.
func RunReplay(ctx context.Context, o Options, req Replay, progress func(ReplayLine)) (ReplayLine, error) {
	if err := req.check(o); err != nil {
		return ReplayLine{}, err
	}
	sum, err := o.Letters.Replay(ctx, deadletter.ReplayOptions{
		Filter: req.Filter(), DryRun: req.DryRun, Rate: req.Rate, Write: o.WriteLetter,
		Progress: func(p deadletter.Progress) { progress(replayLine(p)) },
		Deliver: func(ctx context.Context, l *message.DeadLetter) deadletter.ReplayOutcome {
			return o.Relay.Replay(ctx, l, req.To)
		},
	})
	line := replayLine(sum.Progress)
	line.Done, line.Busy = true, sum.Busy
	if err != nil {
		line.Error = err.Error()
	}
	return line, nil
}

// check returns what is wrong with the request.
func (r Replay) check(o Options) error {
	if err := r.Choice.check(); err != nil {
		return err
	}
	if r.Rate < 0 {
		return fmt.Errorf("rate is %v; it must be letters a second, or left out", r.Rate)
	}
	if r.To != "" && !o.HasDestination(r.To) {
		return o.missing(r.To)
	}
	return nil
}

// ErrNoDestination says that a request names a destination that is not
// configured.
var ErrNoDestination = errors.New("there is no destination")

// missing says that no destination has the name.
func (o *Options) missing(name string) error {
	if o.Fleet == nil {
		return fmt.Errorf("%w %q", ErrNoDestination, name)
	}
	for _, l := range o.Fleet.Status() {
		for _, e := range l.Endpoints {
			if e.Name == name && l.Destination != name {
				return fmt.Errorf("%w %q: it is a member of a group, name the group %s", ErrNoDestination, name, l.Destination)
			}
		}
	}
	return fmt.Errorf("%w %q", ErrNoDestination, name)
}

func (a *API) replayLetters(w http.ResponseWriter, r *http.Request) {
	var req Replay
	if !decode(w, r, &req) {
		return
	}
	if err := req.check(a.opts); err != nil {
		fail(w, problem.BadRequest, err.Error())
		return
	}
	s, err := newStream(w)
	if err != nil {
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	last, err := RunReplay(ctx, a.opts, req, func(l ReplayLine) {
		if err := s.line(l); err != nil {
			cancel() // nobody watches any more: stop, the rest stays open
		}
	})
	if err != nil { // a reload took the destination away just now
		last = ReplayLine{Done: true, Error: err.Error()}
	}
	_ = s.line(last) // the reader is told if it is still there
}

// Purge is a request to give up the letters that died before a time.
type Purge struct {
	Before time.Time `json:"before"`
}

// Purged is the answer to a purge.
type Purged struct {
	Purged int `json:"purged"`
}

func (a *API) purgeLetters(w http.ResponseWriter, r *http.Request) {
	var req Purge
	if !decode(w, r, &req) {
		return
	}
	if req.Before.IsZero() {
		fail(w, problem.BadRequest, "before is missing; it says from when on letters are kept")
		return
	}
	n, err := a.opts.Letters.Purge(r.Context(), req.Before)
	if err != nil {
		fail(w, problem.Unavailable, fmt.Sprintf("%d letters were purged, then: %v", n, err))
		return
	}
	answer(w, Purged{n})
}

// Send is a request to send one message.
type Send struct {
	To      string         `json:"to"`
	Message jsontext.Value `json:"message"` // in its written form
	// DeadLetter keeps a letter where the message is not delivered.
	DeadLetter bool `json:"dead_letter,omitzero"`
}

// Sent is what became of it.
type Sent struct {
	ID        string        `json:"id"`
	Delivered bool          `json:"delivered"`
	Endpoint  string        `json:"endpoint,omitzero"` // where it arrived
	Attempts  int           `json:"attempts"`
	Millis    float64       `json:"ms"`
	Hops      []message.Hop `json:"hops,omitzero"`
	Error     string        `json:"error,omitzero"`
	Letter    string        `json:"letter,omitzero"` // the dead letter's id, where one was kept
}

// RunSend sends one message. It is what the API and a command without a running
// relay share. An unknown destination is an error.
func RunSend(ctx context.Context, o Options, req Send) (Sent, error) {
	m, err := message.Decode(req.Message)
	if err != nil {
		return Sent{}, err
	}
	if !o.HasDestination(req.To) {
		return Sent{}, o.missing(req.To)
	}
	res, err := o.Send(ctx, req.To, m)
	if err != nil {
		return Sent{}, err
	}
	sent := Sent{
		ID: m.ID, Delivered: res.Status == deliver.Delivered, Endpoint: res.Endpoint, Attempts: res.Attempts,
		Millis: float64(res.Took.Microseconds()) / 1000, Hops: res.Hops,
	}
	if sent.Delivered {
		return sent, nil
	}
	tags, why := res.Last()
	sent.Error = why
	if !req.DeadLetter {
		return sent, nil
	}
	l := &message.DeadLetter{Message: m, Death: message.Death{
		Relay: o.RelayName, At: time.Now(), Reason: message.ReasonDelivery, Destination: req.To,
		Attempts: res.Attempts, Tags: tags, Error: why, Hops: res.Hops,
	}}
	if err := o.WriteLetter(ctx, l); err != nil {
		return sent, err
	}
	sent.Letter = l.Letter
	return sent, nil
}

func (a *API) send(w http.ResponseWriter, r *http.Request) {
	var req Send
	if !decode(w, r, &req) {
		return
	}
	if err := takeTime(w); err != nil {
		return // the connection is gone, and nothing was sent
	}
	sent, err := RunSend(r.Context(), a.opts, req)
	if err != nil {
		fail(w, problem.BadRequest, err.Error())
		return
	}
	answer(w, sent)
}
