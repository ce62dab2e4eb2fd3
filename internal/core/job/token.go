package job

import (
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"math"
	"strings"
)

// A lease token is tokenPrefix and the base64url of the row's number (7 bytes),
// the attempt's (4) and a MAC over both (16): 27 bytes, so no bit of the text is
// left over and one lease has one text.
const (
	tokenPrefix = "lse_"
	tokenSeq    = 7
	tokenSigned = tokenSeq + 4
	tokenBytes  = tokenSigned + 16
	tokenLength = tokenBytes / 3 * 4
)

// Tokens makes and reads the lease tokens of one store. A token says which
// attempt of which job it was given for; whether that is still the current one,
// only the store knows. It does not change and is safe for concurrent use.
type Tokens struct{ key *macKey }

// NewTokens makes the Tokens of the store that has the key; see NewIDs.
func NewTokens(key []byte) Tokens { return Tokens{derive(key, "pawl lease token 1")} }

// Make returns the token, 40 characters, for an attempt of the job in row seq.
// It is "" where seq is not from 0 to MaxSeq or the attempt not from 0 to
// 2³¹−1, which no store gets to.
func (t Tokens) Make(seq int64, attempt int) string {
	if seq < 0 || seq > MaxSeq || attempt < 0 || attempt > math.MaxInt32 {
		return ""
	}
	var b [1 + tokenBytes]byte // the first byte of seq is 0 and is left out
	binary.BigEndian.PutUint64(b[:8], uint64(seq))
	binary.BigEndian.PutUint32(b[8:], uint32(attempt))
	mac := t.key.sum(b[1 : 1+tokenSigned])
	copy(b[1+tokenSigned:], mac[:])

	var text [len(tokenPrefix) + tokenLength]byte
	copy(text[:], tokenPrefix)
	base64.RawURLEncoding.Encode(text[len(tokenPrefix):], b[1:])
	return string(text[:])
}

// Parse returns what Make was given. ok is false for a text that these Tokens
// never made.
func (t Tokens) Parse(token string) (seq int64, attempt int, ok bool) {
	text, found := strings.CutPrefix(token, tokenPrefix)
	if !found || len(text) != tokenLength {
		return 0, 0, false
	}
	var encoded [tokenLength]byte
	copy(encoded[:], text)
	var b [1 + tokenBytes]byte
	// The decoder passes over line ends, which then are missing in n.
	if n, err := base64.RawURLEncoding.Decode(b[1:], encoded[:]); err != nil || n != tokenBytes {
		return 0, 0, false
	}
	mac := t.key.sum(b[1 : 1+tokenSigned])
	if subtle.ConstantTimeCompare(mac[:tokenBytes-tokenSigned], b[1+tokenSigned:]) != 1 {
		return 0, 0, false
	}
	return int64(binary.BigEndian.Uint64(b[:8])), int(binary.BigEndian.Uint32(b[8:12])), true
}
