package cli

import (
	"bufio"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/httpapi"
)

// eventQuery holds the flags that choose events.
type eventQuery struct {
	types, queues []string
	after         string
	follow        bool
}

func eventsCommand(sh *shell) *cobra.Command {
	var api apiFlags
	var q eventQuery
	c := &cobra.Command{
		Use:   "events",
		Short: "Show what happened on the job server",
		Long: `Show the events that are kept, oldest first. With --follow what happens from now on,
until it is interrupted; it outlasts a restart of the server. With --json one object
a line.`,
		Example: `  pawl events --type job.failed
  pawl events --follow --queue emails
  pawl events --after 4711 --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := sh.api(&api)
			if err != nil {
				return err
			}
			if q.follow {
				return sh.follow(c.Context(), client, &q)
			}
			return sh.events(c.Context(), client, &q)
		},
	}
	f := c.Flags()
	f.StringSliceVar(&q.types, "type", nil, "only events of this `TYPE`, such as job.failed; may be repeated")
	f.StringSliceVar(&q.queues, "queue", nil, "only events about jobs of this `QUEUE`; may be repeated")
	f.StringVar(&q.after, "after", "", "only what is behind the event with this `ID`")
	f.BoolVar(&q.follow, "follow", false, "go on with what happens")
	api.add(c)
	return sh.talks(c)
}

func (q *eventQuery) values() url.Values {
	v := url.Values{}
	if len(q.types) > 0 {
		v.Set("type", strings.Join(q.types, ","))
	}
	if len(q.queues) > 0 {
		v.Set("queue", strings.Join(q.queues, ","))
	}
	if q.after != "" {
		v.Set("cursor", q.after)
	}
	return v
}

var eventFlags = flagNames{"type": "--type", "queue": "--queue", "cursor": "--after"}

// events prints what is kept.
func (sh *shell) events(ctx context.Context, client *apiClient, q *eventQuery) error {
	v := q.values()
	for {
		var page httpapi.Events
		if err := client.Do(ctx, http.MethodGet, "/v3/events?"+v.Encode(), nil, &page); err != nil {
			return eventFlags.explain(err)
		}
		if page.Gone {
			fmt.Fprintln(sh.err, "pawl: some events behind it are not there any more")
		}
		for i := range page.Events {
			if err := sh.printEvent(&page.Events[i]); err != nil {
				return err
			}
		}
		if page.NextCursor == v.Get("cursor") {
			return nil // there is nothing behind
		}
		v.Set("cursor", page.NextCursor)
	}
}

func (sh *shell) printEvent(e *httpapi.Event) error {
	if sh.json {
		return sh.printJSON(e)
	}
	words := []string{e.ID, localTime(e.At), e.Type}
	for _, w := range []string{e.Job, e.Queue, e.Endpoint, e.Replay, e.Subscription} {
		if w != "" {
			words = append(words, printable(w))
		}
	}
	if text := excerpt(e.Data); text != "{}" && text != "null" {
		words = append(words, printable(text))
	}
	_, err := fmt.Fprintln(sh.out, strings.Join(words, "  "))
	return err
}

// follow prints what happens, and begins anew behind what it had where the server
// goes away.
func (sh *shell) follow(ctx context.Context, client *apiClient, q *eventQuery) error {
	return sh.persist(ctx, func() {}, func() (answered, done bool, err error) {
		answered, err = sh.stream(ctx, client, q)
		if !answered {
			err = eventFlags.explain(err)
		}
		return answered, false, err
	})
}

// maxEventLine bounds a line of a stream: an event with an error and its stack.
const maxEventLine = 1 << 20

// stream prints the events of one connection and moves the query on. begun says
// that the server took it.
func (sh *shell) stream(ctx context.Context, client *apiClient, q *eventQuery) (begun bool, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, client.base+"/v3/events?"+q.values().Encode(), nil)
	if err != nil {
		return false, err
	}
	r.Header.Set("Accept", "text/event-stream")
	if client.key != "" {
		r.Header.Set("Authorization", "Bearer "+client.key)
	}
	answer, err := client.http.Do(r)
	if err != nil {
		return false, client.explain(ctx, err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, err := io.ReadAll(io.LimitReader(answer.Body, maxEventLine))
		if err != nil {
			return false, client.explain(ctx, err)
		}
		return false, refusalOf(answer, text)
	}
	lines := bufio.NewScanner(answer.Body)
	lines.Buffer(nil, maxEventLine)
	kind := ""
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			kind = value
		case "id":
			q.after = value
		case "data":
			if kind == "gone" {
				fmt.Fprintln(sh.err, "pawl: some events behind it are not there any more")
				continue
			}
			var e httpapi.Event
			if err := json.Unmarshal([]byte(value), &e); err != nil {
				return true, fmt.Errorf("%s: an event can't be read, is this a pawl? %w", client.base, err)
			}
			if err := sh.printEvent(&e); err != nil {
				return true, err
			}
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return true, fmt.Errorf("%s: an event is longer than %d bytes", client.base, maxEventLine)
	} else if err != nil {
		return true, client.explain(ctx, err)
	}
	return true, fmt.Errorf("%w: the stream ended", errNoAnswer)
}
