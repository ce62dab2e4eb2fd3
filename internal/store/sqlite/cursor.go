package sqlite

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/pawlhq/pawl/internal/store"
)

// cursors makes and reads the cursors of lists: the seq that the last page ended
// at, and a mac over it and the filter, so that one is good for its list alone.
type cursors struct{ key []byte }

func newCursors(secret []byte) cursors {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("pawl list cursor 1"))
	return cursors{mac.Sum(nil)}
}

// cursorMac is how many bytes of the mac a cursor carries: a guess is a wrong
// page, not a secret.
const cursorMac = 8

func (c cursors) make(seq int64, f store.Filter) string {
	text := binary.BigEndian.AppendUint64(nil, uint64(seq)) //nolint:gosec // taken back in read
	return base64.RawURLEncoding.EncodeToString(append(text, c.mac(text, f)...))
}

// read returns the seq of a cursor that make made for the filter.
func (c cursors) read(cursor string, f store.Filter) (int64, error) {
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	if err != nil || len(text) != 8+cursorMac || !hmac.Equal(text[8:], c.mac(text[:8], f)) {
		return 0, store.ErrBadCursor
	}
	return int64(binary.BigEndian.Uint64(text)), nil //nolint:gosec // as above
}

// mac leaves out the limit: another size of page is the same list.
func (c cursors) mac(seq []byte, f store.Filter) []byte {
	mac := hmac.New(sha256.New, c.key)
	mac.Write(seq)
	fmt.Fprintf(mac, "%q %q %q %q %q %q %d %d", f.Queue, f.Task, f.Endpoint, f.Status, f.Reason, f.Tag,
		f.CreatedAfter.UnixMilli(), f.CreatedBefore.UnixMilli())
	return mac.Sum(nil)[:cursorMac]
}
