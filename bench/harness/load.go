package harness

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Load is what callers do: each keeps one connection and sends the next request
// when the last was answered.
type Load struct {
	Address string
	// Paths are spread over the callers, the first to the first.
	Paths   []string
	Callers int
	// Body is the size of a request's body in bytes.
	Body int
	// Timeout is when a caller gives an answer up.
	Timeout time.Duration
}

// Result is what callers saw.
type Result struct {
	OK, Failed int64
	Took       time.Duration
	latencies  []time.Duration // of those that were answered 2xx, sorted
}

// Rate is the answers 2xx a second.
func (r Result) Rate() float64 { return float64(r.OK) / r.Took.Seconds() }

// took adds an answer.
func (r *Result) took(latency time.Duration) {
	r.OK++
	r.latencies = append(r.latencies, latency)
}

// merge adds up what each caller saw in a stretch of the length.
func merge(each []Result, length time.Duration) Result {
	sum := Result{Took: length}
	for _, r := range each {
		sum.OK += r.OK
		sum.Failed += r.Failed
		sum.latencies = append(sum.latencies, r.latencies...)
	}
	slices.Sort(sum.latencies)
	return sum
}

// Quantile returns a latency, 0 without answers.
func (r Result) Quantile(q float64) time.Duration {
	if len(r.latencies) == 0 {
		return 0
	}
	return r.latencies[min(int(q*float64(len(r.latencies))), len(r.latencies)-1)]
}

// Run sends until d has passed and returns what each path's callers saw, by
// path.
func (l Load) Run(ctx context.Context, d time.Duration) map[string]Result {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	began := time.Now()
	each := make([]Result, l.Callers)
	var all sync.WaitGroup
	for i := range l.Callers {
		all.Go(func() { each[i] = l.call(ctx, l.Paths[i%len(l.Paths)]) })
	}
	all.Wait()
	took := time.Since(began)
	sums := map[string]Result{}
	for i, r := range each {
		path := l.Paths[i%len(l.Paths)]
		sum := sums[path]
		sum.OK += r.OK
		sum.Failed += r.Failed
		sum.Took = took
		sum.latencies = append(sum.latencies, r.latencies...)
		sums[path] = sum
	}
	for path, sum := range sums {
		slices.Sort(sum.latencies)
		sums[path] = sum
	}
	return sums
}

// Merge adds up the results of several paths.
func Merge(results map[string]Result, keep func(path string) bool) Result {
	var sum Result
	for path, r := range results {
		if !keep(path) {
			continue
		}
		sum.OK += r.OK
		sum.Failed += r.Failed
		sum.Took = r.Took
		sum.latencies = append(sum.latencies, r.latencies...)
	}
	slices.Sort(sum.latencies)
	return sum
}

// call is one caller.
func (l Load) call(ctx context.Context, path string) (res Result) {
	request := fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: bench\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n", path, l.Body)
	request = append(request, bytes.Repeat([]byte("x"), l.Body)...)
	var c net.Conn
	var r *bufio.Reader
	drop := func() {
		if c != nil {
			c.Close()
			c = nil
		}
	}
	defer drop()
	for ctx.Err() == nil {
		if c == nil {
			var err error
			if c, err = net.Dial("tcp", l.Address); err != nil {
				res.Failed++
				sleep(ctx, 10*time.Millisecond)
				continue
			}
			r = bufio.NewReaderSize(c, 8<<10)
		}
		began := time.Now()
		end := began.Add(l.Timeout)
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(end) {
			end = deadline.Add(200 * time.Millisecond) // what is in flight may still arrive
		}
		if err := c.SetDeadline(end); err != nil {
			drop()
			continue
		}
		status, err := roundTrip(c, r, request)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				res.Failed++
			}
			drop()
		case status >= 200 && status < 300:
			res.took(time.Since(began))
		default:
			res.Failed++
			sleep(ctx, 10*time.Millisecond) // a polite caller that was told to wait
		}
	}
	return res
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// roundTrip sends the request and reads the whole answer, whose body is dropped.
func roundTrip(c net.Conn, r *bufio.Reader, request []byte) (status int, err error) {
	if _, err := c.Write(request); err != nil {
		return 0, err
	}
	h, err := readHead(r)
	if err != nil {
		return 0, err
	}
	if h.chunked {
		err = skipChunks(r)
	} else {
		_, err = r.Discard(h.length)
	}
	if err == nil && h.closes {
		c.Close() // the next write fails and the caller dials anew
	}
	return h.status, err
}

// head is what callers need of the head of an answer.
type head struct {
	status, length  int
	chunked, closes bool
}

func readHead(r *bufio.Reader) (h head, err error) {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return h, err
	}
	if len(line) < 12 {
		return h, fmt.Errorf("bad status line %q", line)
	}
	if h.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return h, err
	}
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return h, err
		}
		line = bytes.TrimRight(line, "\r\n")
		if len(line) == 0 {
			return h, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimSpace(value)
		switch {
		case bytes.EqualFold(name, []byte("Content-Length")):
			if h.length, err = strconv.Atoi(string(value)); err != nil {
				return h, err
			}
		case bytes.EqualFold(name, []byte("Transfer-Encoding")):
			h.chunked = true
		case bytes.EqualFold(name, []byte("Connection")):
			h.closes = bytes.EqualFold(value, []byte("close"))
		}
	}
}
