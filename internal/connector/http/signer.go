package http

import (
	"crypto/hmac"
	"errors"
	"hash"
	"strconv"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/egress"
)

// signer signs requests. Safe for concurrent use.
type signer interface {
	// sign appends the signature of m, made at now, to a request's fields.
	sign(fields []egress.Field, m *message.Message, now time.Time) ([]egress.Field, error)
	// headers are those that it sets.
	headers() []string
}

func newSigner(s *Sign) (signer, error) {
	switch {
	case s == nil:
		return unsigned{}, nil
	case s.HMAC != nil:
		return newHMACSigner(s.HMAC)
	default:
		hooks, err := newStandard(joined(s.StandardWebhooks.Secret, s.StandardWebhooks.Secrets))
		return standardSigner{hooks}, err
	}
}

// unsigned signs nothing.
type unsigned struct{}

func (unsigned) sign(fields []egress.Field, _ *message.Message, _ time.Time) ([]egress.Field, error) {
	return fields, nil
}
func (unsigned) headers() []string { return nil }

// hmacSigner sends a field for each secret, in the order of the settings: a
// receiver that knows one of them finds it, one that looks at the first field
// only gets the first secret's.
type hmacSigner struct {
	secrets                 [][]byte
	hash                    func() hash.Hash
	encode                  func([]byte) string
	payload                 payload
	header, prefix, timeHdr string
}

func newHMACSigner(f *HMACForm) (*hmacSigner, error) {
	form, err := parsePayload(f.payload())
	return &hmacSigner{
		secrets: revealed(joined(f.Secret, f.Secrets)),
		hash:    algorithms[f.Algorithm],
		encode:  encodings[f.Encoding].encode,
		payload: form,
		header:  f.header(), prefix: f.Prefix, timeHdr: f.TimestampHeader,
	}, err
}

func (s *hmacSigner) sign(fields []egress.Field, m *message.Message, now time.Time) ([]egress.Field, error) {
	timestamp := strconv.FormatInt(now.Unix(), 10)
	if s.timeHdr != "" {
		fields = append(fields, egress.Field{Name: s.timeHdr, Value: timestamp})
	}
	for _, secret := range s.secrets {
		mac := hmac.New(s.hash, secret)
		s.payload.write(mac, timestamp, m.Body)
		fields = append(fields, egress.Field{Name: s.header, Value: s.prefix + s.encode(mac.Sum(nil))})
	}
	return fields, nil
}

func (s *hmacSigner) headers() []string {
	if s.timeHdr == "" {
		return []string{s.header}
	}
	return []string{s.header, s.timeHdr}
}

// standardSigner signs as Standard Webhooks say, with one signature for each
// secret in one field, spaces between.
type standardSigner struct{ *standard }

func (s standardSigner) sign(fields []egress.Field, m *message.Message, now time.Time) ([]egress.Field, error) {
	signatures := make([]string, len(s.hooks))
	for i, hook := range s.hooks {
		var err error
		if signatures[i], err = hook.Sign(m.ID, now, m.Body); err != nil {
			return nil, errors.New("the signature could not be made") // the library has no such case today
		}
	}
	return append(fields,
		egress.Field{Name: standardwebhooks.HeaderWebhookID, Value: m.ID},
		egress.Field{Name: standardwebhooks.HeaderWebhookTimestamp, Value: strconv.FormatInt(now.Unix(), 10)},
		egress.Field{Name: standardwebhooks.HeaderWebhookSignature, Value: strings.Join(signatures, " ")},
	), nil
}
