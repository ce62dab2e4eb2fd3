package sim

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// maxAsks bounds how often a caller sends one message. The troubles are over
// long before.
const maxAsks = 200

// record is what the callers know of one message.
type record struct {
	number int
	name   string // "c3-7", its body's own word and, where keyed, its key
	keyed  bool

	mu    sync.Mutex
	posts int
	acked string // the status of a 200; "" for none yet
	late  int    // the life that answered 504; 0 for none
}

func (r *record) body() string { return fmt.Sprintf("%d %s", r.number, r.name) }

// parse reads a body.
func parse(body []byte) (number int, name string, err error) {
	_, err = fmt.Sscanf(string(body), "%d %s", &number, &name)
	return number, name, err
}

// caller sends its messages one after the other, as a careful client does.
type caller struct {
	w       *world
	random  *rand.Rand
	client  http.Client
	records []*record
}

func (c *caller) run() {
	defer c.client.CloseIdleConnections()
	for _, r := range c.records {
		time.Sleep(time.Duration(c.random.Int64N(int64(c.w.plan.Pause))))
		twice := (r.keyed || c.w.plan.Dedupe) && chance(c.random, 0.15)
		leaves := chance(c.random, 0.5) // after a 504
		var twin sync.WaitGroup
		to := c.random.IntN(2)
		if twice {
			twin.Go(func() { c.send(r, to+1, leaves) })
		}
		c.send(r, to, leaves)
		twin.Wait()
	}
}

// send asks until the message is acknowledged, or a 504 said that it will be
// seen to and the caller leaves it at that. Each time it asks the next relay,
// where there are several.
func (c *caller) send(r *record, first int, leaves bool) {
	for i := range maxAsks {
		to := c.w.replicas[(first+i)%len(c.w.replicas)]
		life := to.running().number
		status, wait, err := c.post(r, to)
		switch {
		case err != nil:
			c.w.story.tell(r.name, "%s: no answer: %v", r.name, err)
			wait = 300 * time.Millisecond
		case status == http.StatusOK:
			return
		case status == http.StatusGatewayTimeout:
			c.w.promise(r, life)
			if leaves {
				return
			}
			wait = 500 * time.Millisecond
		case status != http.StatusServiceUnavailable:
			c.w.wrong(r.name, "answered %d", status)
			return
		case wait == 0:
			c.w.wrong(r.name, "answered 503 without a Retry-After")
			return
		}
		time.Sleep(wait)
	}
	c.w.wrong(r.name, "not acknowledged after %d asks", maxAsks)
}

// post sends the message to a relay once.
func (c *caller) post(r *record, to *replica) (status int, wait time.Duration, err error) {
	r.mu.Lock()
	r.posts++
	r.mu.Unlock()
	q, err := http.NewRequest(http.MethodPost, "http://"+to.address()+"/", bytes.NewReader([]byte(r.body())))
	if err != nil {
		return 0, 0, err
	}
	q.GetBody = nil // it must not be sent again behind the back of this test
	if r.keyed {
		q.Header.Set("Idempotency-Key", r.name)
	}
	a, err := c.client.Do(q)
	if err != nil {
		return 0, 0, err
	}
	defer a.Body.Close()
	text, err := io.ReadAll(a.Body)
	if err != nil {
		return 0, 0, err
	}
	if s := a.Header.Get("Retry-After"); s != "" {
		seconds, err := strconv.Atoi(s)
		if err != nil {
			return 0, 0, fmt.Errorf("Retry-After %q", s)
		}
		wait = time.Duration(seconds) * time.Second
	}
	if a.StatusCode == http.StatusOK {
		var answer struct{ ID, Status string }
		if err := json.Unmarshal(text, &answer, json.MatchCaseInsensitiveNames(true)); err != nil {
			return 0, 0, fmt.Errorf("the answer %q: %w", text, err)
		}
		r.mu.Lock()
		r.acked = answer.Status
		r.mu.Unlock()
		if r.keyed && answer.ID != r.name {
			c.w.wrong(r.name, "answered with the id %q", answer.ID)
		}
	}
	c.w.story.tell(r.name, "%s: answered %d %s", r.name, a.StatusCode, bytes.TrimSpace(text))
	return a.StatusCode, wait, nil
}
