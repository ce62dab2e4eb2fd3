// Command demo shows what pawl is for, with nothing but Go: a relay, an API that
// is flaky and dies for a while, callers, and a line for what happens to each
// message. It ends after 20 seconds, or with Ctrl-C, and then brings the dead
// letters back.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pawlhq/pawl/internal/adminapi"
	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/builtin"
	"github.com/pawlhq/pawl/internal/config"
)

const (
	length = 20 * time.Second
	every  = 150 * time.Millisecond // a message
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

func demo(ctx context.Context) (err error) {
	state, err := os.MkdirTemp("", "pawl-demo-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	api, err := startAPI()
	if err != nil {
		return err
	}
	defer api.server.Close()
	listen, err := freeAddress()
	if err != nil {
		return err
	}
	for name, value := range map[string]string{
		"PAWL_DEMO_STATE": state, "PAWL_DEMO_LISTEN": listen, "PAWL_DEMO_API": "http://" + api.address,
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
	show(ctx, pawl, api, "http://"+listen+"/events")
	stopPawl()
	return <-ended
}

// show sends messages, prints what becomes of them, and at the end brings the
// dead letters back.
func show(ctx context.Context, pawl *app.App, api *flakyAPI, url string) {
	fmt.Printf("pawl demo: a message every %s to %s, for %s\n", every, url, length)
	lines, end := pawl.Admin().Tail.Watch(adminapi.WatchAll)
	defer end()
	var printing, callers sync.WaitGroup
	done := make(chan struct{})
	printing.Go(func() { printLines(lines, done) })
	ctx, cancel := context.WithTimeout(ctx, length)
	defer cancel()
	var sum tally
	began := time.Now()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 1; ctx.Err() == nil; n++ {
		api.play(time.Since(began))
		callers.Go(func() { sum.add(call(url, n)) })
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	callers.Wait()
	api.set(healthy)
	close(done)
	printing.Wait()
	letters := pawl.Admin().Letters.Stats().Open
	fmt.Printf("\n%s\n%d dead letters are kept. The API is well again, so they are replayed:\n", &sum, letters)
	last, err := adminapi.RunReplay(context.Background(), pawl.Admin(), adminapi.Replay{}, func(adminapi.ReplayLine) {})
	if err != nil {
		fmt.Println("demo:", err)
		return
	}
	fmt.Printf("%d delivered, %d failed again, %d left. Nothing was lost.\n", last.Delivered, last.FailedAgain, last.Left)
}

// tally counts the answers that the callers got.
type tally struct {
	mu      sync.Mutex
	answers map[int]int
}

func (t *tally) add(status int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.answers == nil {
		t.answers = map[int]int{}
	}
	t.answers[status]++
}

// String says what the callers were told.
func (t *tally) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return fmt.Sprintf("callers were told: %d times 200 (delivered, or kept as a dead letter), %d times to try again",
		t.answers[http.StatusOK], t.answers[http.StatusServiceUnavailable]+t.answers[http.StatusGatewayTimeout])
}

// call sends the n-th message and returns the status of the answer, 0 for none.
func call(url string, n int) int {
	kind := "order"
	if n%6 == 0 {
		kind = "report"
	}
	body := fmt.Sprintf(`{"type":%q,"id":%d,"total":%d.50}`, kind, n, n%90+10)
	r, err := http.NewRequest(http.MethodPost, url, bytes.NewReader([]byte(body)))
	if err != nil {
		return 0
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Idempotency-Key", fmt.Sprintf("%s-%d", kind, n))
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, answer.Body) // only the status matters
	return answer.StatusCode
}

// printLines prints what happens until done.
func printLines(lines <-chan adminapi.Line, done <-chan struct{}) {
	for {
		select {
		case l := <-lines:
			if text := describe(l); text != "" {
				fmt.Printf("%s  %s\n", l.At.Local().Format("15:04:05.000"), text)
			}
		case <-done:
			return
		}
	}
}

// describe writes the lines that tell the story.
func describe(l adminapi.Line) string {
	switch l.Event {
	case "settled":
		return fmt.Sprintf("%-10s %s, attempts %d, %.0f ms", l.ID, l.Status, l.Attempts, l.Millis)
	case "hop":
		to := l.To
		if to == "" {
			to = "the dead letters"
		}
		return fmt.Sprintf("%-10s   leaves %s (%s) for %s", l.ID, l.Destination, l.Status, to)
	case "attempt":
		if l.Status != "ok" {
			return fmt.Sprintf("%-10s   attempt %d at %s failed: %s", l.ID, l.Attempts, l.Destination, l.Error)
		}
	case "breaker":
		return fmt.Sprintf("---------- the circuit breaker of %s is %s", l.Destination, l.Status)
	}
	return ""
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
