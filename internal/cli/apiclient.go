package cli

import (
	"bytes"
	"context"
	"encoding/json/v2"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/pawlhq/pawl/internal/app"
	"github.com/pawlhq/pawl/internal/problem"
)

const (
	// serverEnv and keyEnv are the environment of the commands that call the job
	// API.
	serverEnv = "PAWL_SERVER"
	keyEnv    = "PAWL_API_KEY"
	// defaultServer is where pawl serves its API unless told.
	defaultServer = "http://127.0.0.1:7077"
	// maxAPIAnswer bounds an answer in bytes: the largest is a page of 500 jobs
	// with payloads of 1 MiB at most, of which a person wants no more than this.
	maxAPIAnswer = 256 << 20
	// maxKeyFile bounds a file with a key.
	maxKeyFile = 4 << 10
)

// refusal is what the API says no with.
type refusal struct {
	Status int             `json:"status"`
	Title  string          `json:"title"`
	Detail string          `json:"detail"`
	Job    string          `json:"job"`
	Errors []problem.Fault `json:"errors"`
}

// Error is the detail, and each fault on a line of its own.
func (r *refusal) Error() string {
	text := r.Detail
	if text == "" {
		text = orElse(r.Title, http.StatusText(r.Status))
	}
	if text == "" {
		text = fmt.Sprintf("the server answered %d", r.Status)
	}
	text = printable(text)
	if len(r.Errors) == 1 && strings.Contains(r.Detail, r.Errors[0].Message) {
		return text
	}
	for _, f := range r.Errors {
		text += "\n  " + printable(strings.TrimPrefix(orElse(f.Pointer, f.Parameter)+": "+f.Message, ": "))
	}
	return text
}

// usage reports whether the command was called with something that the server
// can't take, rather than answered with a no.
func (r *refusal) usage() bool {
	switch r.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestEntityTooLarge,
		http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity:
		return true
	}
	return false
}

// apiClient calls a pawl over HTTP. Safe for concurrent use.
type apiClient struct {
	base string // without a slash at its end
	key  string // "" sends none
	http *http.Client
	seen atomic.Pointer[serverTime]
}

// serverTime is what an answer said of the server's clock, and when it came.
type serverTime struct{ said, came time.Time }

// Now is the server's time, to a second, as its last answer told it; this
// machine's where none has.
func (c *apiClient) Now() time.Time {
	if t := c.seen.Load(); t != nil {
		return t.said.Add(time.Since(t.came))
	}
	return time.Now()
}

// newAPIClient follows no redirect: the key is for the server that was named.
func newAPIClient(base, key string, transport http.RoundTripper) *apiClient {
	return &apiClient{base: strings.TrimRight(base, "/"), key: key, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// errNoAnswer marks a server that could not be reached, or that broke off.
var errNoAnswer = errors.New("no answer")

// Do sends in as JSON (nil sends no body) and decodes the answer into out (nil
// drops it). The error is a *refusal where the server says no.
func (c *apiClient) Do(ctx context.Context, method, path string, in, out any) error {
	return c.do(ctx, method, path, nil, in, out)
}

func (c *apiClient) do(ctx context.Context, method, path string, header map[string]string, in, out any) error {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.base+path, body)
	if err != nil {
		return err
	}
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.key != "" {
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return c.explain(ctx, err)
	}
	defer answer.Body.Close()
	if at, err := http.ParseTime(answer.Header.Get("Date")); err == nil {
		c.seen.Store(&serverTime{at, time.Now()})
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAPIAnswer+1))
	switch {
	case err != nil:
		return c.explain(ctx, err)
	case len(text) > maxAPIAnswer:
		return fmt.Errorf("%s: the answer is longer than %d bytes; ask for less with --limit", c.base, maxAPIAnswer)
	case answer.StatusCode >= 300:
		return refusalOf(answer, text)
	case out == nil:
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("%s: the answer can't be read, is this a pawl? %w", c.base, err)
	}
	return nil
}

func (c *apiClient) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return fmt.Errorf("%w from %s: %w; start pawl there, or name another with --server or %s", errNoAnswer, c.base, err, serverEnv)
	}
	return fmt.Errorf("%w from %s: %w", errNoAnswer, c.base, err)
}

func refusalOf(answer *http.Response, text []byte) error {
	r := &refusal{}
	kind, _, err := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if err != nil || kind != problem.MediaType || json.Unmarshal(text, r) != nil {
		r = &refusal{Detail: fmt.Sprintf("%s answered %s, and not as pawl does; is this the address of its API?", answer.Request.URL.Host, answer.Status)}
	}
	r.Status = answer.StatusCode
	return r
}

// inProcess is a transport to a handler of this process.
type inProcess struct{ handler http.Handler }

// RoundTrip calls the handler.
func (t inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	w := &inMemory{status: http.StatusOK, header: http.Header{}}
	t.handler.ServeHTTP(w, r)
	return &http.Response{
		StatusCode: w.status, Status: fmt.Sprintf("%d %s", w.status, http.StatusText(w.status)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// inMemory keeps an answer.
type inMemory struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (w *inMemory) Header() http.Header         { return w.header }
func (w *inMemory) WriteHeader(status int)      { w.status = status }
func (w *inMemory) Write(b []byte) (int, error) { return w.body.Write(b) }

// apiFlags say which server is called, and with which key.
type apiFlags struct{ server, keyFile string }

func (f *apiFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.server, "server", "", "`URL` of the job API (default $"+serverEnv+", else where the configuration serves it, else "+defaultServer+")")
	c.Flags().StringVar(&f.keyFile, "key-file", "", "`FILE` with the API key (default $"+keyEnv+", else "+"pawl.key in the state folder where the server is this machine)")
}

// api returns a client of the server that the flags and the environment name.
func (sh *shell) api(f *apiFlags) (*apiClient, error) {
	said, err := fromEnv(serverEnv)
	if err != nil {
		return nil, err
	}
	base := orElse(f.server, said)
	if base == "" {
		base = orElse(sh.ownServer(), defaultServer)
	}
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return nil, usagef("--server: %q is no address of a pawl; write it like %s", base, defaultServer)
	}
	key, err := sh.apiKey(f, u)
	if err != nil {
		return nil, err
	}
	return newAPIClient(base, key, http.DefaultTransport), nil
}

// fromEnv reads a variable of the environment, "" where it is not set. One of white
// space alone was meant to say something.
func fromEnv(name string) (string, error) {
	said := os.Getenv(name)
	if text := strings.TrimSpace(said); text != "" || said == "" {
		return text, nil
	}
	return "", usagef("%s is blank; unset it to do without", name)
}

// ownServer is where the configuration of this folder, or of -c, serves the job
// API; "" where there is none that loads, or no port that is known beforehand.
func (sh *shell) ownServer() string {
	c, report := app.Load(sh.paths, sh.kinds)
	if report.Errors() > 0 || c.Jobs == nil {
		return ""
	}
	host, port, err := net.SplitHostPort(c.Jobs.Listen)
	if err != nil || port == "0" {
		return ""
	}
	if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "http"
	if c.Jobs.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + net.JoinHostPort(host, port)
}

// apiKey finds the key. The one in the state folder is an admin's: it goes to
// nobody but this machine.
func (sh *shell) apiKey(f *apiFlags, server *url.URL) (string, error) {
	if f.keyFile != "" {
		return readKey(f.keyFile)
	}
	key, err := fromEnv(keyEnv)
	if err != nil {
		return "", err
	}
	if key != "" {
		if strings.ContainsFunc(key, notInKeys) {
			return "", usagef("the API key: %s holds no key, or more than one", keyEnv)
		}
		return key, nil
	}
	ip := net.ParseIP(server.Hostname())
	if server.Hostname() == "localhost" || ip != nil && ip.IsLoopback() {
		if state, err := sh.stateFolder(); err == nil {
			if file, there := app.KeyFile(state); there {
				return readKey(file)
			}
		}
	}
	return "", usagef("no API key: set %s, or name a file with --key-file; pawl keys create makes one", keyEnv)
}

// notInKeys reports whether a key never holds the letter: a key goes into a header.
func notInKeys(r rune) bool { return r <= ' ' || r >= 0x7f }

func readKey(file string) (string, error) {
	f, err := os.Open(file)
	if err != nil {
		return "", usagef("the API key: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxKeyFile))
	key := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", usagef("the API key: %w", err)
	case key == "" || strings.ContainsFunc(key, notInKeys):
		return "", usagef("the API key: %s holds no key, or more than one", file)
	}
	return key, nil
}
