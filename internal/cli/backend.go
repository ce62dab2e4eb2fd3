package cli

import (
	"context"
	"encoding/json/v2"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/config"
	"github.com/pawlhq/pawl/internal/control"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/deadletter"
)

// backend is what does the work of dlq and send: the pawl that runs, or this
// process where none does.
type backend interface {
	list(ctx context.Context, c adminapi.Choice, fn func(adminapi.LetterLine) error) error
	get(ctx context.Context, id string) ([]adminapi.Letter, error)
	replay(ctx context.Context, r adminapi.Replay, progress func(adminapi.ReplayLine)) (adminapi.ReplayLine, error)
	purge(ctx context.Context, before time.Time) (int, error)
	send(ctx context.Context, s adminapi.Send) (adminapi.Sent, error)
	close() error
}

// owner finds who works on the state folder: the pawl that runs on it or, where
// none does, this command with the configuration. The other one is nil.
func (sh *shell) owner(ctx context.Context) (running *control.Client, own *config.Config, err error) {
	client, err := sh.client()
	if err != nil {
		return nil, nil, err
	}
	var s adminapi.Status
	err = client.Do(ctx, http.MethodGet, "/v3/status", nil, &s)
	if err == nil {
		return client, nil, nil
	}
	if !errors.Is(err, control.ErrNotRunning) {
		return nil, nil, err
	}
	c, err := sh.load()
	if err != nil {
		return nil, nil, err
	}
	if sh.state != "" {
		c = c.InState(sh.state)
	}
	return nil, c, nil
}

// backend finds the pawl that runs on the state folder, and takes the folder
// itself where none does.
func (sh *shell) backend(ctx context.Context, m missing) (backend, error) {
	running, c, err := sh.owner(ctx)
	if err != nil {
		return nil, err
	}
	if running != nil {
		return &remote{running}, nil
	}
	if m == refused {
		if err := absence(c); err != nil {
			return nil, err
		}
	}
	log := &heldLog{to: sh.err}
	l, err := app.OpenLocal(c, sh.kinds, log, event.Discard, nil)
	if err != nil {
		return nil, err
	}
	log.release()
	return &local{l, l.Admin()}, nil
}

// remote asks the running pawl, so that its limits and breakers hold and it
// stays the only writer.
type remote struct{ client *control.Client }

func (r *remote) close() error { return nil }

func (r *remote) list(ctx context.Context, c adminapi.Choice, fn func(adminapi.LetterLine) error) error {
	q := url.Values{}
	if c.Since != nil {
		q.Set("since", c.Since.UTC().Format(time.RFC3339))
	}
	if c.Reason != "" {
		q.Set("reason", string(c.Reason))
	}
	if c.Destination != "" {
		q.Set("destination", c.Destination)
	}
	q["id"] = c.IDs
	return r.client.Stream(ctx, http.MethodGet, "/v3/dead-letters?"+q.Encode(), nil, func(text []byte) error {
		var l struct {
			adminapi.LetterLine
			adminapi.Broken
		}
		if err := json.Unmarshal(text, &l); err != nil {
			return err
		}
		if l.Broken.Error != "" {
			return errors.New(l.Broken.Error)
		}
		return fn(l.LetterLine)
	})
}

func (r *remote) get(ctx context.Context, id string) (all []adminapi.Letter, err error) {
	// Dots too: .. is an id here, and a step up to a server.
	name := strings.ReplaceAll(url.PathEscape(id), ".", "%2E")
	err = r.client.Do(ctx, http.MethodGet, "/v3/dead-letters/"+name, nil, &all)
	return all, err
}

func (r *remote) replay(ctx context.Context, req adminapi.Replay, progress func(adminapi.ReplayLine)) (last adminapi.ReplayLine, err error) {
	err = r.client.Stream(ctx, http.MethodPost, "/v3/dead-letters/replay", req, func(text []byte) error {
		last = adminapi.ReplayLine{}
		if err := json.Unmarshal(text, &last); err != nil {
			return err
		}
		progress(last)
		return nil
	})
	if err == nil && !last.Done {
		err = errors.New("the running pawl ended before the replay did; run the command again to go on")
	}
	return last, err
}

func (r *remote) purge(ctx context.Context, before time.Time) (int, error) {
	var p adminapi.Purged
	err := r.client.Do(ctx, http.MethodPost, "/v3/dead-letters/purge", adminapi.Purge{Before: before}, &p)
	return p.Purged, err
}

func (r *remote) send(ctx context.Context, s adminapi.Send) (sent adminapi.Sent, err error) {
	err = r.client.Do(ctx, http.MethodPost, "/v3/send", s, &sent)
	return sent, err
}

// local works on the state folder by itself.
type local struct {
	app   *app.Local
	admin adminapi.Options
}

func (l *local) close() error { return l.app.Close() }

func (l *local) list(ctx context.Context, c adminapi.Choice, fn func(adminapi.LetterLine) error) error {
	return l.admin.Letters.List(ctx, c.Filter(), func(e deadletter.Entry) error { return fn(adminapi.LineOf(e.DeadLetter)) })
}

func (l *local) get(ctx context.Context, id string) ([]adminapi.Letter, error) {
	entries, err := l.admin.Letters.Get(ctx, id)
	if err != nil {
		return nil, err
	}
	all := make([]adminapi.Letter, 0, len(entries))
	for _, e := range entries {
		letter, err := adminapi.LetterOf(e)
		if err != nil {
			return nil, err
		}
		all = append(all, letter)
	}
	return all, nil
}

func (l *local) replay(ctx context.Context, req adminapi.Replay, progress func(adminapi.ReplayLine)) (adminapi.ReplayLine, error) {
	return adminapi.RunReplay(ctx, l.admin, req, progress)
}

func (l *local) purge(ctx context.Context, before time.Time) (int, error) {
	return l.admin.Letters.Purge(ctx, before)
}

func (l *local) send(ctx context.Context, s adminapi.Send) (adminapi.Sent, error) {
	return adminapi.RunSend(ctx, l.admin, s)
}
