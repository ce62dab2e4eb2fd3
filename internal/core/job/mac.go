package job

import (
	"crypto/hmac"
	"crypto/sha256"
)

// macKey is a key of HMAC-SHA256 (RFC 2104) with its pads done: every sum works
// on the stack, so one key serves all callers at once without an allocation.
// crypto/hmac keeps a state for each caller, which costs more than the sum.
type macKey struct{ inner, outer [sha256.BlockSize]byte }

// maxMAC is the longest message that sum takes.
const maxMAC = 16

// derive makes the key for one use of the store's key. Each use has its own, so
// what one signs is nothing to another.
func derive(store []byte, use string) *macKey {
	h := hmac.New(sha256.New, store)
	h.Write([]byte(use))
	var k macKey
	copy(k.inner[:], h.Sum(nil)) // shorter than a block, as HMAC wants its key
	k.outer = k.inner
	for i := range k.inner {
		k.inner[i] ^= 0x36
		k.outer[i] ^= 0x5c
	}
	return &k
}

// sum returns the HMAC of at most maxMAC bytes.
func (k *macKey) sum(message []byte) [sha256.Size]byte {
	var in [sha256.BlockSize + maxMAC]byte
	copy(in[:], k.inner[:])
	n := copy(in[sha256.BlockSize:], message)
	digest := sha256.Sum256(in[:sha256.BlockSize+n])
	var out [sha256.BlockSize + sha256.Size]byte
	copy(out[:], k.outer[:])
	copy(out[sha256.BlockSize:], digest[:])
	return sha256.Sum256(out[:])
}
