package job

import (
	"crypto/subtle"
	"encoding/binary"
	"strings"
	"time"
)

// An id is idPrefix and idLength digits of base 32 (Crockford's alphabet, in
// lower case) for 128 bits: 48 of the time of creation in Unix milliseconds, 48
// of the row's number, 32 of a MAC over both. So ids sort by time, one that this
// store did not make is refused without a read, and one that it made leads to
// its row without an index on ids.
const (
	idPrefix = "job_"
	idLength = 26
	idBytes  = 16
	idSigned = 12 // bytes before the MAC
)

// MaxSeq is the highest number of a row that an id and a lease token hold: at a
// million jobs a second it is reached after nine years.
const MaxSeq = 1<<48 - 1

// digits is Crockford's alphabet: no i, l, o and u.
const digits = "0123456789abcdefghjkmnpqrstvwxyz"

// digitOf is the value of a digit, or noDigit.
var digitOf = func() (values [256]byte) {
	for i := range values {
		values[i] = noDigit
	}
	for v, c := range []byte(digits) {
		values[c] = byte(v)
	}
	return values
}()

const noDigit = 0xff

// IDs makes and reads the ids of one store's jobs. It does not change and is
// safe for concurrent use.
type IDs struct{ key *macKey }

// NewIDs makes the IDs of the store that has the key: 16 random bytes or more,
// kept as long as the store. Tokens may be made from the same one.
func NewIDs(key []byte) IDs { return IDs{derive(key, "pawl job id 1")} }

// Make returns the id of the job in row seq, made at the time, which counts in
// whole milliseconds. It is "" where seq is not from 0 to MaxSeq or the time not
// from 1970 to the year 10889, which no store gets to.
func (i IDs) Make(at time.Time, seq int64) string {
	ms := at.UnixMilli()
	if seq < 0 || seq > MaxSeq || ms < 0 || ms >= 1<<48 {
		return ""
	}
	var b [idBytes]byte
	binary.BigEndian.PutUint64(b[:8], uint64(ms)<<16|uint64(seq)>>32)
	binary.BigEndian.PutUint32(b[8:idSigned], uint32(seq))
	mac := i.key.sum(b[:idSigned])
	copy(b[idSigned:], mac[:])

	var text [len(idPrefix) + idLength]byte
	copy(text[:], idPrefix)
	hi, lo := binary.BigEndian.Uint64(b[:8]), binary.BigEndian.Uint64(b[8:])
	for at := len(text) - 1; at >= len(idPrefix); at-- {
		text[at] = digits[lo&31]
		hi, lo = hi>>5, lo>>5|hi<<59
	}
	return string(text[:])
}

// Parse returns what Make was given. ok is false for a text that these IDs never
// made, but for one in four thousand million of them: the caller still compares
// the time with the row's.
func (i IDs) Parse(id string) (seq int64, at time.Time, ok bool) {
	text, found := strings.CutPrefix(id, idPrefix)
	if !found || len(text) != idLength || digitOf[text[0]] > 7 { // 26 digits hold 130 bits
		return 0, time.Time{}, false
	}
	var hi, lo uint64
	for _, c := range []byte(text) {
		v := digitOf[c]
		if v == noDigit {
			return 0, time.Time{}, false
		}
		hi, lo = hi<<5|lo>>59, lo<<5|uint64(v)
	}
	var b [idBytes]byte
	binary.BigEndian.PutUint64(b[:8], hi)
	binary.BigEndian.PutUint64(b[8:], lo)
	mac := i.key.sum(b[:idSigned])
	if subtle.ConstantTimeCompare(mac[:idBytes-idSigned], b[idSigned:]) != 1 {
		return 0, time.Time{}, false
	}
	return int64(hi&0xffff)<<32 | int64(lo>>32), time.UnixMilli(int64(hi >> 16)).UTC(), true
}
