package cli

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/chaos"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/deliver"
)

// chaosSend makes the messages, sends them and reports.
func (sh *shell) chaosSend(ctx context.Context, p *chaosPlan) (err error) {
	p.sample.id = "sample" // which each message replaces
	m, err := p.sample.message(sh)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "pawl-chaos-")
	if err != nil {
		return fmt.Errorf("%w: %w", errSetup, err)
	}
	rec := chaos.NewRecorder(time.Now(), nil)
	rep, err := sh.chaosLoad(ctx, p, rec, m, state)
	if rep == nil {
		return errors.Join(err, os.RemoveAll(state))
	}
	if rep.State == "" {
		err = errors.Join(err, os.RemoveAll(state))
	}
	return errors.Join(sh.chaosReport(p, *rep), err)
}

// chaosLoad runs the load on an engine of its own, and reads the dead letters
// back. The report is nil where nothing was sent.
func (sh *shell) chaosLoad(ctx context.Context, p *chaosPlan, rec *chaos.Recorder, sample *message.Message, state string) (*chaos.Report, error) {
	log := &heldLog{to: sh.err}
	redact := p.config.Secrets.Redact
	events := func(e event.Event) {
		e.Error = redact(e.Error)
		rec.Observe(e)
	}
	l, err := app.OpenLocal(chaosConfig(p.config, state), sh.kinds, log, events, p.wrap(rec))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errSetup, err)
	}
	log.release()
	admin := l.Admin()
	run := strings.ToLower(rand.Text()[:10])
	live := sh.liveView(p, rec)
	err = chaos.Run(ctx, rec, chaos.Load{
		Count: p.count, Rate: p.perSec,
		Message: func(n int) *message.Message {
			return sample.With(func(m *message.Message) {
				m.ID, m.Source, m.Time = fmt.Sprintf("chaos-%s-%06d", run, n+1), "chaos", time.Now()
			})
		},
		Deliver: func(ctx context.Context, m *message.Message) error {
			return deliverOrKeep(ctx, admin, p.target.Name, m)
		},
	})
	ended := time.Now()
	live.end()
	awaitAttempts(admin.Fleet)
	kept, lerr := recordLetters(admin.Letters, rec)
	rep := rec.Report(ended, p.setup(""))
	if kept > 0 {
		rep.State = state
	}
	return &rep, errors.Join(err, lerr, l.Close())
}

// lingering bounds how long the end of a run waits for attempts whose message has
// its end already: a trial goes on up to its timeout. lingerTick is how often they
// are looked at.
const (
	lingering  = 10 * time.Second
	lingerTick = 5 * time.Millisecond
)

// awaitAttempts waits until nothing is in flight any more, so that the report has
// what a hedge overtook. What gives back its worker tells of itself right after:
// so nothing must be in flight twice in a row.
func awaitAttempts(fleet *deliver.Fleet) {
	tick := time.NewTicker(lingerTick)
	defer tick.Stop()
	for end, quiet := time.Now().Add(lingering), 0; quiet < 2 && time.Now().Before(end); <-tick.C {
		quiet++
		for _, lane := range fleet.Status() {
			if lane.Busy > 0 {
				quiet = 0
			}
		}
	}
}

// chaosConfig is the configuration in a state folder of its own, with dead
// letters and jobs in there, and nothing that is shared with others.
func chaosConfig(c *config.Config, state string) *config.Config {
	c = c.InState(state)
	c.DeadLetter = config.DeadLetter{
		Type: config.DeadLetterFile, Path: filepath.Join(state, "dead"), Retry: c.DeadLetter.Retry, Origin: config.Said, At: c.DeadLetter.At,
	}
	if c.Jobs != nil {
		jobs := *c.Jobs
		jobs.File = filepath.Join(state, "pawl.db")
		c.Jobs = &jobs
	}
	c.Notify, c.Stores = nil, nil
	c.Destinations = slices.Clone(c.Destinations)
	for i := range c.Destinations {
		c.Destinations[i].Delivery.BudgetStore = "" // the other relays have no part in this
	}
	return c
}

// deliverOrKeep brings a message to its end, as the relay does.
func deliverOrKeep(ctx context.Context, admin adminapi.Options, to string, m *message.Message) error {
	res, err := admin.Send(ctx, to, m)
	if err != nil {
		return err
	}
	switch res.Status {
	case deliver.Delivered:
		return nil
	case deliver.Failed:
	case deliver.Cancelled, deliver.Deferred:
		return errors.Join(ctx.Err(), errors.New("given up before its end"))
	}
	tags, why := res.Last()
	return admin.WriteLetter(context.WithoutCancel(ctx), &message.DeadLetter{Message: m, Death: message.Death{
		Relay: admin.RelayName, At: time.Now(), Reason: message.ReasonDelivery, Destination: to,
		Attempts: res.Attempts, Tags: tags, Error: why, Hops: res.Hops,
	}})
}

// recordLetters tells the recorder of every dead letter that can be read.
func recordLetters(store deadletter.Store, rec *chaos.Recorder) (n int, err error) {
	err = store.List(context.Background(), deadletter.Filter{}, func(e deadletter.Entry) error {
		n++
		l := chaos.Letter{ID: e.Message.ID, Letter: e.Letter, Reason: string(e.Reason), Attempts: e.Attempts, Tags: e.Tags, Error: e.Error, At: e.At}
		if len(e.Hops) > 0 {
			l.Reason = string(e.Hops[len(e.Hops)-1].Reason)
		}
		rec.Kept(l)
		return nil
	})
	return n, err
}

// chaosRun is pawl run with the faults.
func (sh *shell) chaosRun(ctx context.Context, p *chaosPlan) error {
	reach := map[string]struct{}{}
	for _, name := range p.reach {
		reach[name] = struct{}{}
	}
	rec := chaos.NewRecorder(time.Now(), func(destination string) bool { _, ok := reach[destination]; return ok })
	err := sh.run(ctx, false, func(o *app.Options) { o.Wrap, o.Events, o.Alerts = p.wrap(rec), rec.Observe, app.AlertNobody })
	if errors.Is(err, errSetup) {
		return err
	}
	return errors.Join(sh.chaosReport(p, rec.Report(time.Now(), p.setup(p.config.State))), err)
}

func (p *chaosPlan) setup(state string) chaos.Setup {
	traffic := chaos.Made
	if p.mode == chaosRuns {
		traffic = chaos.Received
	}
	return chaos.Setup{Destination: p.destination, Traffic: traffic, Command: p.command, Seed: p.seed, Faults: p.faultText(), State: state}
}

// chaosReport prints the report and writes the page. Lost messages are a no.
func (sh *shell) chaosReport(p *chaosPlan, rep chaos.Report) error {
	var err error
	if sh.json {
		err = sh.printJSON(rep)
	} else {
		_, err = fmt.Fprint(sh.out, sh.chaosText(rep))
	}
	if p.html != "" {
		err = errors.Join(err, writePage(p.html, rep))
	}
	if err == nil && rep.Messages.Lost > 0 {
		return errNo
	}
	return err
}

func writePage(path string, rep chaos.Report) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	if err := errors.Join(rep.WriteHTML(f), f.Close()); err != nil {
		return fmt.Errorf("--html: %w", err)
	}
	return nil
}
