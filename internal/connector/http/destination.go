package http

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	nethttp "net/http"
	"path"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/core/failure"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/egress"
)

// DestinationKinds declares the destinations of type http and https. They
// differ in the URLs they take.
func DestinationKinds() []connector.DestinationKind {
	kind := func(typ, doc string, secure bool) connector.DestinationKind {
		return connector.DestinationKind{
			Type: typ,
			Doc:  doc,
			New:  func() connector.Settings { return newDestinationSettings(secure) },
			Open: func(s connector.Settings, env connector.Env) (connector.Destination, error) {
				settings, ok := s.(*DestinationSettings)
				if !ok {
					return nil, fmt.Errorf("%s destination: settings of type %T", typ, s)
				}
				return OpenDestination(settings, env)
			},
			Batches: true, Checks: true, ChecksPath: true,
		}
	}
	return []connector.DestinationKind{
		kind("http", "Sends each message as one HTTP request, with TLS or without.", false),
		kind("https", "Sends each message as one HTTP request over TLS.", true),
	}
}

// Destination sends messages as HTTP requests. Safe for concurrent use.
type Destination struct {
	client *egress.Client
	method string
	target *egress.Target // nil where the URL depends on the message
	url    urlOf
	static []egress.Field // what every request carries
	varied []variedField
	signer signer
	idName string // header of the message's id; "" where the signature brings it
	// ownType and ownTrace say that the headers set Content-Type, Traceparent.
	ownType, ownTrace bool
	globs             []string        // what is forwarded
	taken             map[string]bool // canonical names that are not
	answers           answers
	batchForm         batchForm
	health            *egress.Target // nil where nobody checks
}

// answers says what is kept of an endpoint's answer.
type answers uint8

const (
	statusOnly answers = iota // header and body cost time that nobody wants
	keepAll
)

// OpenDestination makes a destination of checked settings. It opens no
// connection yet.
func OpenDestination(s *DestinationSettings, env connector.Env) (*Destination, error) {
	d := &Destination{method: s.Method, idName: env.IdempotencyHeader, globs: env.ForwardHeaders, taken: map[string]bool{}, batchForm: batchForm{s.BatchFormat, s.BatchItems}}
	if d.idName == "" {
		d.idName = "Idempotency-Key"
	}
	if env.KeepAnswers {
		d.answers = keepAll
	}
	var err error
	if d.signer, err = newSigner(s.Sign); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	if err := d.setHeaders(s, env.Compile); err != nil {
		return nil, err
	}
	of, fixed, err := newURLOf(s.URL, env.Compile)
	if err != nil {
		return nil, fmt.Errorf("url: %w", err)
	}
	d.url = of
	if fixed != nil {
		if d.target, err = egress.NewTarget(d.method, fixed, d.static...); err != nil {
			return nil, err
		}
	}
	if env.HealthPath != "" {
		base, err := parseURL(s.URL)
		if err != nil {
			return nil, fmt.Errorf("url: %w", err)
		}
		if d.health, err = newHealthTarget(base.origin, env.HealthPath, d.static); err != nil {
			return nil, fmt.Errorf("health_check.path: %w", err)
		}
	}
	d.client, err = newClient(s, env)
	return d, err
}

func newClient(s *DestinationSettings, env connector.Env) (*egress.Client, error) {
	conf, err := s.TLS.Config()
	if err != nil {
		return nil, err
	}
	proxy, err := s.proxy()
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	o := egress.Options{
		TLS: conf, Proxy: proxy, Dial: env.Dial,
		ConnectTimeout: s.ConnectTimeout.D(), DenyPrivate: s.DenyPrivate,
		OnResend: func() {
			env.Emit(event.Event{Kind: event.ConnectionRetried, At: time.Now(), Destination: env.Name, Endpoint: env.Name})
		},
	}
	if s.HTTP2 {
		o.Protocol = egress.HTTP2
	}
	return egress.New(o)
}

// setHeaders sorts the headers into those that are always the same and those
// that depend on the message.
func (d *Destination) setHeaders(s *DestinationSettings, compile func(string) (connector.Expr, error)) error {
	for name, value := range sorted(s.Headers) {
		text, err := connector.ParseTemplate(value.Reveal())
		if err != nil {
			return fmt.Errorf("headers.%s: %w", name, err)
		}
		canonical := nethttp.CanonicalHeaderKey(name)
		d.taken[canonical] = true
		d.ownType = d.ownType || canonical == "Content-Type"
		if fixed, constant := text.Constant(); constant {
			d.static = append(d.static, egress.Field{Name: name, Value: fixed})
			continue
		}
		if compile == nil {
			return fmt.Errorf("headers.%s: %w", name, errNoExpressions)
		}
		expr, err := text.Compile(compile)
		if err != nil {
			return fmt.Errorf("headers.%s: %w", name, err)
		}
		d.varied = append(d.varied, variedField{name, expr})
	}
	if !d.taken["User-Agent"] {
		d.static = append(d.static, egress.Field{Name: "User-Agent", Value: userAgent()})
	}
	if a := s.Auth; a != nil {
		d.static = append(d.static, egress.Field{Name: "Authorization", Value: a.header()})
	}
	return d.reserve()
}

// reserve marks the headers that a request has from elsewhere, so that the
// sender's are not forwarded over them. The settings must not set the key and
// the signature, nor the signature the key: either would get lost.
func (d *Destination) reserve() error {
	key := nethttp.CanonicalHeaderKey(d.idName)
	if key == batchIDs {
		return fmt.Errorf("idempotency_header: %s carries the ids of a batch; name another", batchIDs)
	}
	for _, name := range append(d.signer.headers(), d.idName, batchIDs) {
		if d.taken[nethttp.CanonicalHeaderKey(name)] {
			return fmt.Errorf("headers.%s: pawl sets this one itself; leave it out", name)
		}
	}
	d.ownTrace = d.taken["Traceparent"]
	_, standard := d.signer.(standardSigner)
	for _, name := range d.signer.headers() {
		canonical := nethttp.CanonicalHeaderKey(name)
		d.taken[canonical] = true
		switch {
		case canonical != key:
		case standard && name == standardwebhooks.HeaderWebhookID:
			d.idName = "" // the signature brings it
		default:
			return fmt.Errorf("sign: %s carries the message's id (idempotency_header); name another", name)
		}
	}
	for _, name := range []string{d.idName, "Authorization", "Content-Type", "Content-Encoding", "Cookie", "User-Agent", "Traceparent", "Tracestate", batchIDs} {
		d.taken[nethttp.CanonicalHeaderKey(name)] = true
	}
	return nil
}

// header returns the Authorization of a login.
func (l *Login) header() string {
	if l.Bearer != nil {
		return "Bearer " + l.Bearer.Token.Reveal()
	}
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(l.Basic.User+":"+l.Basic.Password.Reveal()))
}

// userAgent is pawl with its version, where the build has one.
var userAgent = sync.OnceValue(func() string {
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return "pawl/" + strings.TrimPrefix(info.Main.Version, "v")
	}
	return "pawl"
})

// variedField is a header whose value depends on the message.
type variedField struct {
	name string
	text connector.Expr
}

func (f variedField) value(ctx context.Context, m *message.Message) (string, error) {
	v, err := f.text.String(ctx, m)
	if err != nil {
		return "", fmt.Errorf("header %s: %w", f.name, err)
	}
	if !connector.IsFieldValue(v) {
		return "", fmt.Errorf("header %s would hold a control character", f.name)
	}
	return v, nil
}

// Send implements connector.Destination.
func (d *Destination) Send(ctx context.Context, m *message.Message) (connector.Answer, error) {
	now := time.Now()
	target := d.target
	if target == nil {
		u, err := d.url.message(ctx, m)
		if err != nil {
			return connector.Answer{}, unfit(ctx, "url: ", err)
		}
		if target, err = egress.NewTarget(d.method, u, d.static...); err != nil {
			return connector.Answer{}, unfit(ctx, "url: ", err)
		}
	}
	fields, err := d.fields(ctx, m, now)
	if err != nil {
		return connector.Answer{}, unfit(ctx, "", err)
	}
	res, err := d.client.Do(ctx, &egress.Request{
		Target: target, Header: fields, Body: m.Body, KeepBody: d.answers == keepAll,
	})
	answer := d.answer(res)
	if err != nil {
		return answer, err
	}
	if f := egress.Failure(res, time.Now()); f != nil {
		return answer, f
	}
	return answer, nil
}

// fields returns the header fields of one request.
func (d *Destination) fields(ctx context.Context, m *message.Message, now time.Time) ([]egress.Field, error) {
	fields := make([]egress.Field, 0, 8+len(d.varied))
	if d.idName != "" {
		fields = append(fields, egress.Field{Name: d.idName, Value: m.ID})
	}
	if m.ContentType != "" && !d.ownType {
		fields = append(fields, egress.Field{Name: "Content-Type", Value: m.ContentType})
	}
	if !d.ownTrace {
		fields = appendTrace(fields, connector.TraceOf(ctx), m.Headers)
	}
	for _, f := range d.varied {
		v, err := f.value(ctx, m)
		if err != nil {
			return nil, err
		}
		fields = append(fields, egress.Field{Name: f.name, Value: v})
	}
	if len(d.globs) > 0 {
		fields = d.forward(fields, m.Headers)
	}
	return d.signer.sign(fields, m, now)
}

// appendTrace appends the trace context: of the attempt where pawl traces, else
// the sender's as it came, so that the trace is not broken here.
func appendTrace(fields []egress.Field, tc connector.TraceContext, headers map[string][]string) []egress.Field {
	if tc.Parent == "" {
		parent := headers["traceparent"]
		if len(parent) != 1 { // W3C: more than one is none
			return fields
		}
		tc = connector.TraceContext{Parent: parent[0], State: strings.Join(headers["tracestate"], ",")}
	}
	fields = append(fields, egress.Field{Name: "Traceparent", Value: tc.Parent})
	if tc.State != "" {
		fields = append(fields, egress.Field{Name: "Tracestate", Value: tc.State})
	}
	return fields
}

// forward appends the sender's headers that are to be sent on, in the order of
// their names. What the request says itself is left out.
func (d *Destination) forward(fields []egress.Field, headers map[string][]string) []egress.Field {
	for name, values := range sorted(headers) {
		canonical := nethttp.CanonicalHeaderKey(name)
		if d.taken[canonical] || connector.IsConnectionField(canonical) {
			continue
		}
		lower := strings.ToLower(name)
		if !slices.ContainsFunc(d.globs, func(glob string) bool {
			match, err := path.Match(strings.ToLower(glob), lower)
			return err == nil && match
		}) {
			continue
		}
		for _, v := range values {
			fields = append(fields, egress.Field{Name: name, Value: v})
		}
	}
	return fields
}

// answer returns what is kept of a response, which may be nil.
func (d *Destination) answer(res *egress.Response) connector.Answer {
	if res == nil {
		return connector.Answer{}
	}
	if d.answers == statusOnly {
		return connector.Answer{Status: res.Status}
	}
	return connector.Answer{Status: res.Status, Header: res.Header(), Body: res.Body}
}

// unfit is a message of which no request can be made: the same the next time.
// An expression that the end of ctx cut short says nothing about the message.
func unfit(ctx context.Context, what string, err error) error {
	f := &failure.Error{
		Tags: failure.Tags{failure.Transform}, Class: failure.Permanent, Verdict: failure.Neutral,
		Message: "no request can be made of the message: " + what + err.Error(), Err: err,
	}
	switch ended := ctx.Err(); {
	case errors.Is(ended, context.DeadlineExceeded):
		f.Tags, f.Class = failure.Tags{failure.Timeout}, failure.Transient
	case ended != nil:
		f.Tags, f.Class = failure.Tags{failure.Cancelled}, failure.Transient
	}
	return f
}

// Close implements connector.Destination.
func (d *Destination) Close() error {
	d.client.Close()
	return nil
}
