package http

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // some senders have nothing newer; HMAC-SHA1 is not broken
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	nethttp "net/http"
	"strconv"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/setting"
)

const (
	// maxSignatures bounds the signatures of one request: each costs a compare
	// for each secret. A rotation has two.
	maxSignatures = 16
	// signedCaller is who signs. All secrets of a source are one sender's, old
	// and new, so that a repeat that is signed with the next secret is still
	// known as a repeat.
	signedCaller = "signed"
)

// algorithms and encodings hold the words of the settings; "" is the default.
var (
	algorithms = map[string]func() hash.Hash{
		"": sha256.New, "sha256": sha256.New, "sha512": sha512.New, "sha1": sha1.New,
	}
	inHex     = encoding{hex.EncodeToString, hex.DecodeString}
	inBase64  = encoding{base64.StdEncoding.EncodeToString, base64.StdEncoding.DecodeString}
	encodings = map[string]encoding{"": inHex, "hex": inHex, "base64": inBase64}
)

// encoding is how a signature is written.
type encoding struct {
	encode func([]byte) string
	decode func(string) ([]byte, error)
}

// payload is what a signature is made over: literal text, the time and the
// body, in order.
type payload []payloadPart

type payloadPart struct {
	literal string // or, where it is "", one of the two
	is      payloadWord
}

type payloadWord uint8

const (
	isLiteral payloadWord = iota
	isTimestamp
	isBody
)

// parsePayload reads text with {timestamp} and {body} in it. {body} must stand
// in it once; other braces are refused, so that a misspelt word is not signed.
func parsePayload(text string) (payload, error) {
	var p payload
	bodies := 0
	for text != "" {
		before, rest, found := strings.Cut(text, "{")
		if before != "" {
			p = append(p, payloadPart{literal: before})
		}
		if !found {
			break
		}
		word, after, closed := strings.Cut(rest, "}")
		switch {
		case closed && word == "timestamp":
			p = append(p, payloadPart{is: isTimestamp})
		case closed && word == "body":
			p = append(p, payloadPart{is: isBody})
			bodies++
		default:
			return nil, fmt.Errorf("{%s is neither {timestamp} nor {body}", word)
		}
		text = after
	}
	if bodies != 1 {
		return nil, errors.New("must hold {body} exactly once")
	}
	return p, nil
}

func (p payload) timed() bool {
	for _, part := range p {
		if part.is == isTimestamp {
			return true
		}
	}
	return false
}

// write writes what is signed.
func (p payload) write(w io.Writer, timestamp string, body []byte) {
	for _, part := range p {
		switch part.is {
		case isLiteral:
			_, _ = io.WriteString(w, part.literal)
		case isTimestamp:
			_, _ = io.WriteString(w, timestamp)
		case isBody:
			_, _ = w.Write(body)
		}
	}
}

// signature takes requests whose body is signed with a shared secret.
type signature struct {
	secrets   [][]byte
	hash      func() hash.Hash
	payload   payload
	decode    func(string) ([]byte, error)
	tolerance time.Duration // 0: the time is not signed
	// find returns the signed time and the encoded signatures that a header
	// carries.
	find func(h nethttp.Header) (timestamp string, encoded []string)
	drop []string // the headers that carry them
}

func newHMAC(a *HMACAuth) (*signature, error) {
	form, err := parsePayload(a.payload())
	if err != nil {
		return nil, err
	}
	s := &signature{
		secrets: revealed(joined(a.Secret, a.Secrets)),
		hash:    algorithms[a.Algorithm],
		payload: form,
		decode:  encodings[a.Encoding].decode,
		find:    findHeader(a.header(), a.Prefix, a.TimestampHeader),
		drop:    []string{a.header()},
	}
	if a.TimestampHeader != "" {
		s.drop = append(s.drop, a.TimestampHeader)
		if s.tolerance = a.Tolerance.D(); s.tolerance == 0 {
			s.tolerance = defaultTolerance
		}
	}
	return s, nil
}

// findHeader finds signatures that have a header of their own, as many as
// there are values.
func findHeader(header, prefix, timestampHeader string) func(nethttp.Header) (string, []string) {
	header, timestampHeader = nethttp.CanonicalHeaderKey(header), nethttp.CanonicalHeaderKey(timestampHeader)
	return func(h nethttp.Header) (timestamp string, encoded []string) {
		if times := h[timestampHeader]; len(times) == 1 {
			timestamp = times[0]
		}
		for _, v := range h[header] {
			if sig, ok := strings.CutPrefix(v, prefix); ok {
				encoded = append(encoded, sig)
			}
		}
		return timestamp, encoded
	}
}

func (s *signature) claim(h nethttp.Header, now time.Time) (claim, bool) {
	timestamp, encoded := s.find(h)
	if len(encoded) > maxSignatures || s.tolerance > 0 && !fresh(timestamp, now, s.tolerance) {
		return claim{}, false
	}
	var sent [][]byte
	for _, e := range encoded {
		if sig, err := s.decode(e); err == nil {
			sent = append(sent, sig)
		}
	}
	if len(sent) == 0 {
		return claim{}, false
	}
	return claim{caller: signedCaller, holds: func(body []byte) bool { return s.matches(sent, timestamp, body) }}, true
}

// matches reports whether one of the signatures is made with one of the
// secrets.
func (s *signature) matches(sent [][]byte, timestamp string, body []byte) bool {
	match := false
	for _, secret := range s.secrets {
		mac := hmac.New(s.hash, secret)
		s.payload.write(mac, timestamp, body)
		want := mac.Sum(nil)
		for _, sig := range sent {
			if hmac.Equal(sig, want) {
				match = true
			}
		}
	}
	return match
}

// fresh reports whether a time in whole seconds since 1970 is within tolerance
// of now, before or after.
func fresh(timestamp string, now time.Time, tolerance time.Duration) bool {
	if len(timestamp) == 0 || len(timestamp) > 11 { // 11 digits reach the year 5138
		return false
	}
	seconds, err := strconv.ParseUint(timestamp, 10, 63)
	if err != nil {
		return false
	}
	return now.Sub(time.Unix(int64(seconds), 0)).Abs() <= tolerance
}

func (*signature) challenge() string   { return `Signature realm="pawl"` }
func (s *signature) headers() []string { return s.drop }

func revealed(secrets []setting.Secret) [][]byte {
	keys := make([][]byte, len(secrets))
	for i, s := range secrets {
		keys[i] = []byte(s.Reveal())
	}
	return keys
}
