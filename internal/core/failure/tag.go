package failure

import (
	"slices"
	"strings"
)

// Tag names one aspect of a failure: a class such as "5xx" or "grpc", a kind
// such as "connect", or an exact code such as "503" or "kafka:THROTTLED".
type Tag string

// The tags that do not depend on a protocol.
const (
	Connect Tag = "connect" // no connection: refused, reset, unreachable, broken handshake
	DNS     Tag = "dns"     // the name did not resolve; always beside Connect
	TLS     Tag = "tls"     // the certificate did not verify; stands alone
	Timeout Tag = "timeout" // the attempt ran past its timeout, or the endpoint said 408

	Status3xx Tag = "3xx"
	Status4xx Tag = "4xx"
	Status5xx Tag = "5xx"

	// Broken is an answer that is not the protocol: a malformed status line,
	// a body cut short, a header too large.
	Broken Tag = "broken"
	// Refused is an answer that the protocol calls a success and the
	// destination's own `success` expression does not.
	Refused Tag = "refused"
	// Transform is a destination's own transform that failed on a message.
	Transform Tag = "transform"
	// Expired is a message older than its destination's ttl.
	Expired Tag = "expired"
	// Cancelled is an attempt given up by pawl itself: shutdown, or a race lost.
	Cancelled Tag = "cancelled"
)

// Rank says how exact a tag is. The highest rank among the tags that a policy
// names decides whether a failure is retried.
type Rank int

// Ranks, from broad to exact.
const (
	RankClass Rank = 1 // 3xx, 4xx, 5xx, or a whole protocol such as grpc
	RankKind  Rank = 2 // connect, dns, tls, timeout and the like
	RankExact Rank = 3 // 503, grpc:UNAVAILABLE, file:ENOSPC
)

// Rank returns how exact the tag is. Three digits and anything with a colon
// are exact codes; the status classes and lone protocol names are classes.
func (t Tag) Rank() Rank {
	switch t {
	case Status3xx, Status4xx, Status5xx:
		return RankClass
	case Connect, DNS, TLS, Timeout, Broken, Refused, Transform, Expired, Cancelled:
		return RankKind
	}
	if slices.Contains(protocols, string(t)) {
		return RankClass
	}
	return RankExact
}

// Protocol returns the part before the colon, or "" for a tag without one.
func (t Tag) Protocol() string {
	p, _, ok := strings.Cut(string(t), ":")
	if !ok {
		return ""
	}
	return p
}

// protocols are the prefixes that exact tags may carry.
var protocols = []string{"amqp", "file", "grpc", "kafka", "mqtt", "nats", "queue", "redis", "smtp", "ws"}

var words = []Tag{
	Connect, DNS, TLS, Timeout, Broken, Refused, Transform, Expired, Cancelled,
	Status3xx, Status4xx, Status5xx,
}

// Known lists every tag that is a word of its own (classes, kinds, protocol
// names), for checks and suggestions. Exact codes are not listed.
func Known() []Tag {
	known := slices.Clone(words)
	for _, p := range protocols {
		known = append(known, Tag(p))
	}
	slices.Sort(known)
	return known
}

// Valid reports whether the tag can name a failure: a known word, a status
// from 100 to 599, or a known protocol with a code behind the colon.
func (t Tag) Valid() bool {
	if slices.Contains(words, t) || slices.Contains(protocols, string(t)) {
		return true
	}
	if p, code, ok := strings.Cut(string(t), ":"); ok {
		return code != "" && slices.Contains(protocols, p)
	}
	return len(t) == 3 && t[0] >= '1' && t[0] <= '5' && isDigit(t[1]) && isDigit(t[2])
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// Tags are the tags of one failure or of one list in a policy.
type Tags []Tag

// Has reports whether the list holds the tag.
func (ts Tags) Has(t Tag) bool { return slices.Contains(ts, t) }

// Highest returns the highest rank among the tags that both lists hold, or 0
// when they share none.
func (ts Tags) Highest(list Tags) Rank {
	var top Rank
	for _, t := range ts {
		if r := t.Rank(); r > top && list.Has(t) {
			top = r
		}
	}
	return top
}

// String joins the tags with a comma and a space.
func (ts Tags) String() string {
	words := make([]string, len(ts))
	for i, t := range ts {
		words[i] = string(t)
	}
	return strings.Join(words, ", ")
}
