package http

import (
	"crypto/rand"
	"encoding/json/jsontext"
	"errors"
	"io"
	"mime"
	nethttp "net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/oklog/ulid/v2"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/problem"
)

// incoming is a request that was read and believed: a message, or a handshake
// to be answered at once.
type incoming struct {
	delivery  connector.Delivery
	handshake *fixedAnswer
}

// errUnauthenticated names no part of the proof.
var errUnauthenticated = refusal{problem.Unauthenticated, "the request does not prove that it may send here"}

// take reads a request, checks who sent it, and makes a message of it. Every
// error is a refusal. Who can be refused by the header alone is refused before
// the body is read; a signature is checked over the bytes as they came, before
// anything is made of them.
func (s *Source) take(r *nethttp.Request) (incoming, error) {
	now := time.Now()
	who, ok := s.verifier.claim(r.Header, now)
	if !ok {
		return incoming{}, errUnauthenticated
	}
	unpack, err := encodingOf(r.Header)
	if err != nil {
		return incoming{}, err
	}
	form, err := formOf(r.Header)
	if err != nil {
		return incoming{}, err
	}
	body, err := readBody(r.Body, r.ContentLength, s.maxBody, s.bodies)
	if err != nil {
		return incoming{}, err
	}
	if who.holds != nil && !who.holds(body) {
		return incoming{}, errUnauthenticated
	}
	if body, err = unpack(body, s.maxBody); err != nil {
		return incoming{}, err
	}
	if contentType, answer, ok := handshake(s.preset, r.Header, body); ok {
		return incoming{handshake: &fixedAnswer{contentType, answer}}, nil
	}
	id, keyed, err := s.ids.of(r.Header, body)
	if err != nil {
		return incoming{}, err
	}
	m, err := compose(r, form, body, s.maxBody)
	if err != nil {
		return incoming{}, err
	}
	m.ID, m.Source, m.Time, m.Headers = id, s.name, now, keptHeaders(r.Header, s.drop)
	return incoming{delivery: connector.Delivery{Message: m, Caller: callerOf(who, r), Keyed: keyed}}, nil
}

// FromRequest makes the message that a source of type http without
// authentication would make of a request with this body, for commands that show
// what would become of one. r.Body is not read; max bounds what the message's
// body may become. An error says what the source would refuse.
func FromRequest(r *nethttp.Request, body []byte, max int) (*message.Message, error) {
	form, err := formOf(r.Header)
	if err != nil {
		return nil, err
	}
	m, err := compose(r, form, body, max)
	if err != nil {
		return nil, err
	}
	m.Time, m.Headers = time.Now().UTC(), keptHeaders(r.Header, nil)
	m.ID, _, err = newIDRule(&SourceSettings{}).of(r.Header, body)
	return m, err
}

// compose makes what a message has of a request's body and of what stands
// beside its headers.
func compose(r *nethttp.Request, form form, body []byte, max int) (*message.Message, error) {
	contentType := utf8Value(r.Header.Get("Content-Type"))
	if form == isForm {
		contentType = "application/json"
		if isJSON(body) {
			form = noForm
		}
	}
	about, err := aboutRequest(r, form)
	if err != nil {
		return nil, err
	}
	if form == isForm {
		if body, err = formToJSON(body, max); err != nil {
			return nil, err
		}
	}
	return &message.Message{ContentType: contentType, Body: body, Attributes: map[string]jsontext.Value{"http": about}}, nil
}

// callerOf names the sender: by its credential, or else by its certificate
// where the listener wants one.
func callerOf(who claim, r *nethttp.Request) string {
	if who.caller == "" && r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return callerWord("cert", string(r.TLS.PeerCertificates[0].RawSubjectPublicKeyInfo))
	}
	return who.caller
}

// idRule says where a message's id comes from.
type idRule struct {
	headers []string // canonical, the first that is there counts
	field   string   // of a JSON body; "" for none
	prefix  string
}

func newIDRule(settings *SourceSettings) idRule {
	rule := idRule{prefix: settings.KeyPrefix}
	switch a := settings.Auth; {
	case settings.IDHeader != "":
		rule.headers = []string{nethttp.CanonicalHeaderKey(settings.IDHeader)}
	case a != nil && a.Preset != "":
		header, field := presetID(a.Preset)
		if rule.field = field; header != "" {
			rule.headers = []string{header}
		}
	case a != nil && a.StandardWebhooks != nil:
		// Only webhook-id is signed: a replay under another key must not pass
		// as another message.
		rule.headers = []string{"Webhook-Id"}
	default:
		rule.headers = []string{"Idempotency-Key", "Webhook-Id"}
	}
	return rule
}

// of returns the id that the caller gave, verbatim behind the prefix, and true,
// or one of our own.
func (rule idRule) of(h nethttp.Header, body []byte) (id string, keyed bool, err error) {
	given, where := "", ""
	for _, name := range rule.headers {
		values := h[name]
		if len(values) > 1 {
			return "", false, refuse(problem.BadRequest, "%s stands more than once", name)
		}
		if len(values) == 1 && values[0] != "" {
			given, where = values[0], name
			break
		}
	}
	if given == "" && rule.field != "" {
		given, where = topStrings(body, rule.field)[rule.field], "the body's "+rule.field
	}
	if given == "" {
		return newID(time.Now()), false, nil
	}
	if err := checkID(given, message.MaxID-len(rule.prefix)); err != nil {
		return "", false, refuse(problem.BadRequest, "%s can't be an id: %v", where, err)
	}
	return rule.prefix + given, true, nil
}

// entropy makes ULIDs of one millisecond count up, so that ids sort as they
// were made. ULIDs need the lock.
var entropy = struct {
	sync.Mutex
	source *ulid.MonotonicEntropy
}{source: ulid.Monotonic(rand.Reader, 0)}

// newID makes an id for a message whose caller gave none.
func newID(now time.Time) string {
	ms := ulid.Timestamp(now)
	entropy.Lock()
	id, err := ulid.New(ms, entropy.source)
	entropy.Unlock()
	if err != nil { // the millisecond's ids are used up: one in 2^47 of them
		id = ulid.MustNew(ms, rand.Reader)
	}
	return id.String()
}

// saidElsewhere are headers that no message keeps since it says in another place
// (content type), or no longer is (encoding), what they say.
var saidElsewhere = map[string]bool{"Content-Type": true, "Content-Encoding": true}

// keptHeaders returns the sender's headers but for credentials, those of the
// connection, and those in drop, names in lower case. Values that are not UTF-8 are taken for ISO-8859-1, which is what
// HTTP once said they are.
func keptHeaders(h nethttp.Header, drop map[string]bool) map[string][]string {
	named := connectionOptions(h["Connection"])
	kept := make(map[string][]string, len(h))
	for name, values := range h {
		if saidElsewhere[name] || isCredential(name) || drop[name] || named[name] || connector.IsConnectionField(name) {
			continue
		}
		for i, v := range values {
			values[i] = utf8Value(v)
		}
		kept[strings.ToLower(name)] = values
	}
	return kept
}

// connectionOptions returns the headers that Connection names; nil for the
// common keep-alive.
func connectionOptions(values []string) map[string]bool {
	var named map[string]bool
	for _, v := range values {
		for option := range strings.SplitSeq(v, ",") {
			option = nethttp.CanonicalHeaderKey(strings.TrimSpace(option))
			if option == "" || option == "Keep-Alive" || option == "Close" {
				continue
			}
			if named == nil {
				named = map[string]bool{}
			}
			named[option] = true
		}
	}
	return named
}

// utf8Value returns a header's value as UTF-8.
func utf8Value(v string) string {
	if utf8.ValidString(v) {
		return v
	}
	runes := make([]rune, len(v))
	for i := range len(v) {
		runes[i] = rune(v[i])
	}
	return string(runes)
}

// form says whether a body is a form.
type form uint8

const (
	noForm form = iota
	isForm
)

// formOf looks for a form. Uploads are refused: their parts have no place in
// one message.
func formOf(h nethttp.Header) (form, error) {
	contentType := h.Get("Content-Type")
	if contentType == "" || contentType == "application/json" { // by far the most common
		return noForm, nil
	}
	media, _, err := mime.ParseMediaType(contentType)
	switch {
	case err != nil:
		return noForm, nil // the body is bytes of a type that only the sender knows
	case media == "application/x-www-form-urlencoded":
		return isForm, nil
	case media == "multipart/form-data":
		return noForm, refuse(problem.UnsupportedMedia, "multipart forms are not taken; send JSON or a urlencoded form")
	}
	return noForm, nil
}

// aboutRequest makes the attribute http: what the request says beside headers
// and body.
func aboutRequest(r *nethttp.Request, f form) (jsontext.Value, error) {
	b := make([]byte, 0, 128+len(r.URL.Path)+len(r.URL.RawQuery))
	b = append(b, `{"method":`...)
	b = appendText(b, r.Method)
	b = append(b, `,"path":`...)
	b = appendText(b, r.URL.Path)
	b = append(b, `,"query":{`...)
	if r.URL.RawQuery != "" {
		query, err := url.ParseQuery(r.URL.RawQuery)
		if err != nil {
			return nil, refuse(problem.BadRequest, "the query can't be read; write it like a=1&b=2, other characters escaped with %%")
		}
		first := true
		for name, values := range sorted(query) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = appendText(b, name)
			b = append(b, ':')
			b = appendTexts(b, values)
		}
	}
	b = append(b, `},"remote":`...)
	b = appendText(b, r.RemoteAddr)
	if f == isForm {
		b = append(b, `,"form":true`...)
	}
	return append(b, '}'), nil
}

func appendTexts(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, t := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendText(b, t)
	}
	return append(b, ']')
}

// appendText appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendText(b []byte, text string) []byte {
	if !utf8.ValidString(text) {
		text = strings.ToValidUTF8(text, "\uFFFD")
	}
	b, _ = jsontext.AppendQuote(b, text) // errors are for invalid UTF-8 only
	return b
}

// asReadError makes a refusal of what reading a body failed with.
func asReadError(err error) error {
	var timeout interface{ Timeout() bool }
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return refuse(problem.Timeout, "the body did not arrive in time")
	case errors.Is(err, io.ErrUnexpectedEOF):
		return refuse(problem.BadRequest, "the body ended early")
	}
	return refuse(problem.BadRequest, "the body could not be read")
}
