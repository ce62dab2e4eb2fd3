// Command demo shows what pawl is for, with nothing but Go: a relay, endpoints
// that are flaky, die and come back, callers, and a line for what became of each
// message. It ends after 15 seconds, or with Ctrl-C, brings the dead letters
// back, and counts whether anything was lost.
package main

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
)

const (
	length = 15 * time.Second
	every  = 200 * time.Millisecond // a message
	// replayTime bounds the replay at the end: the endpoints are well.
	replayTime = 5 * time.Second
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	i := black
	if _, no := os.LookupEnv("NO_COLOR"); !no && os.Getenv("TERM") != "dumb" && term.IsTerminal(int(os.Stdout.Fd())) {
		i = coloured
	}
	if err := demo(ctx, os.Stdout, i); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context, out io.Writer, i ink) (err error) {
	state, err := os.MkdirTemp("", "pawl-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	others, err := startEndpoints()
	if err != nil {
		return err
	}
	defer others.server.Close()
	listen, err := freeAddress()
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"PAWL_DEMO_STATE": state, "PAWL_DEMO_LISTEN": listen, "PAWL_DEMO_API": "http://" + others.address,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	kinds := builtin.Connectors()
	pawl, err := app.New(app.Options{
		Load: func() (*config.Config, *config.Report) {
			return app.Load([]string{filepath.Join("examples", "demo", "pawl.yaml")}, kinds)
		},
		Registry: kinds, Stderr: os.Stderr, Version: "demo",
	})
	if err != nil {
		return err
	}
	runCtx, stopPawl := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- pawl.Run(runCtx) }()
	callers := newCallers("http://" + listen + "/events")
	intro(out, i, callers.url)
	play(ctx, newStory(out, i), pawl, others, callers)
	err = bringBack(out, i, pawl, others)
	stopPawl()
	if err = errors.Join(err, <-ended); err != nil {
		return err
	}
	return account(out, i, callers, others, filepath.Join(state, "orders.ndjson"))
}

func intro(out io.Writer, i ink, url string) {
	fmt.Fprintf(out, "%s\n", i.paint(bold, "pawl demo: orders go to a shop, with a file as fallback; reports to an archive, without one"))
	fmt.Fprintf(out, "A message every %v to %s, for %v. A line for each, when it has ended:\n", every, url, length)
	for _, e := range ends[:sentBack] {
		fmt.Fprintf(out, "  %s", i.paint(e.colour, e.words))
	}
	fmt.Fprint(out, "\n\n")
}

// play sends messages and tells what becomes of them.
func play(ctx context.Context, s *story, pawl *app.App, others *endpoints, callers *callers) {
	lines, end := pawl.Admin().Tail.Watch(adminapi.WatchAll)
	defer end()
	var telling, calls sync.WaitGroup
	over := make(chan struct{})
	telling.Go(func() { tell(s, lines, over) })
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	next := 0
	for n := 1; ctx.Err() == nil; n++ {
		for ; next < len(acts) && time.Since(s.began) >= acts[next].from; next++ {
			others.shop.Store(int32(acts[next].mood))
			s.say(bold, "--- "+acts[next].words)
		}
		calls.Go(func() { callers.call(n) })
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	calls.Wait() // a message's lines come before its answer
	close(over)
	telling.Wait()
	s.table()
}

// tell takes lines until over, and then what is left of them.
func tell(s *story, lines <-chan adminapi.Line, over <-chan struct{}) {
	for {
		select {
		case l := <-lines:
			s.take(l)
			continue
		default:
		}
		select {
		case l := <-lines:
			s.take(l)
		case <-over:
			if len(lines) == 0 {
				return
			}
		}
	}
}

// bringBack replays the dead letters, now that the endpoints are well.
func bringBack(out io.Writer, i ink, pawl *app.App, others *endpoints) error {
	others.shop.Store(int32(healthy))
	others.archive.Store(int32(healthy))
	fmt.Fprintf(out, "\n%s\n", i.paint(bold, fmt.Sprintf("The archive is well again: pawl dlq replay --all brings back %d dead letters", pawl.Admin().Letters.Stats().Open)))
	ctx, cancel := context.WithTimeout(context.Background(), replayTime)
	defer cancel()
	last, err := adminapi.RunReplay(ctx, pawl.Admin(), adminapi.Replay{}, func(adminapi.ReplayLine) {})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "  %-28s %5d\n  %-28s %5d\n", "delivered", last.Delivered, "failed again", last.FailedAgain)
	return nil
}

// account holds what callers were told against what arrived.
func account(out io.Writer, i ink, c *callers, others *endpoints, file string) error {
	kept, err := inFile(file)
	if err != nil {
		return err
	}
	var lost []string
	for _, id := range c.acked() {
		if !others.has(id) && !kept[id] {
			lost = append(lost, id)
		}
	}
	if len(lost) > 0 {
		return fmt.Errorf("%d messages were answered 200 and arrived nowhere: %v", len(lost), lost)
	}
	fmt.Fprintf(out, "\n%s\n", i.paint(green, fmt.Sprintf("%d messages were answered 200; every one is at the shop, at the archive or in the fallback's file. Nothing was lost.", len(c.acked()))))
	return nil
}

// inFile returns the ids of the messages that the fallback wrote.
func inFile(file string) (map[string]bool, error) {
	text, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	ids := map[string]bool{}
	for line := range bytes.Lines(text) {
		var m struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		ids[m.ID] = true
	}
	return ids, nil
}

// callers send messages and remember which were answered 200.
type callers struct {
	url string
	mu  sync.Mutex
	ok  []string
}

func newCallers(url string) *callers { return &callers{url: url} }

// call sends the n-th message.
func (c *callers) call(n int) {
	kind := "order"
	if n%6 == 0 {
		kind = "report"
	}
	id := fmt.Sprintf("%s-%d", kind, n)
	body := fmt.Sprintf(`{"type":%q,"id":%d,"total":%d.50}`, kind, n, n%90+10)
	r, err := http.NewRequest(http.MethodPost, c.url, bytes.NewReader([]byte(body)))
	if err != nil {
		return // it counts as not answered
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", id)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // only the status matters
	if answer.StatusCode != http.StatusOK {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ok = append(c.ok, id)
}

func (c *callers) acked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.ok)
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
