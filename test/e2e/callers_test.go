package e2e

import (
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// answer is what a caller was told about one message.
type answer struct {
	code       int // 0: the connection broke
	status     string
	id         string
	detail     string
	retryAfter string
}

var client = &http.Client{
	Timeout:   time.Minute,
	Transport: &http.Transport{MaxIdleConnsPerHost: 256},
}

// send sends the message of a key once.
func send(url, key string) answer { return sendBody(url, key, bodyOf(key), nil) }

func sendBody(url, key, body string, header http.Header) answer {
	r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return answer{detail: err.Error()}
	}
	if header != nil {
		r.Header = header.Clone()
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Authorization", "Bearer "+inToken)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	res, err := client.Do(r)
	if err != nil {
		return answer{detail: err.Error()}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{detail: err.Error()}
	}
	a := answer{code: res.StatusCode, retryAfter: res.Header.Get("Retry-After")}
	var told struct {
		ID     string `json:"id"`
		Status any    `json:"status"` // a word, or a problem's number
		Detail string `json:"detail"`
	}
	if err := json.Unmarshal(text, &told); err == nil {
		a.id, a.detail = told.ID, told.Detail
		a.status, _ = told.Status.(string)
	} else {
		a.detail = string(text)
	}
	return a
}

// callers send keyed messages until they are stopped, and note what they were
// told last about each.
type callers struct {
	testing.TB
	url  string
	next atomic.Int64
	stop chan struct{}
	all  sync.WaitGroup

	mu      sync.Mutex
	answers map[string]answer
}

// load starts n callers. Each sends a message with prefix and a number in its
// key, waits every between two, and does not repeat what failed.
func load(t testing.TB, url, prefix string, n int, every time.Duration) *callers {
	c := &callers{TB: t, url: url, stop: make(chan struct{}), answers: map[string]answer{}}
	for range n {
		c.all.Go(func() {
			pace := time.NewTicker(max(every, time.Microsecond))
			defer pace.Stop()
			for {
				select {
				case <-c.stop:
					return
				case <-pace.C:
				}
				key := fmt.Sprintf("%s-%06d", prefix, c.next.Add(1))
				c.note(key, send(c.url, key))
			}
		})
	}
	return c
}

func (c *callers) note(key string, a answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[key] = a
}

// end stops the callers and returns what they were told.
func (c *callers) end() map[string]answer {
	close(c.stop)
	c.all.Wait()
	return c.answers
}

// acked counts messages that were answered 200 so far.
func (c *callers) acked() int { return c.answered(http.StatusOK) }

// answered counts messages that were answered with the code so far.
func (c *callers) answered(code int) (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.answers {
		if a.code == code {
			n++
		}
	}
	return n
}

// codes counts answers by their code, for messages.
func codes(answers map[string]answer) map[int]int {
	n := map[int]int{}
	for _, a := range answers {
		n[a.code]++
	}
	return n
}
