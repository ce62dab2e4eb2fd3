package adminapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/problem"
)

// What a Lookup says of a token that it does not let in.
var (
	ErrUnknownKey = errors.New("no such key, or it is not good any more")
	ErrMayNot     = errors.New("the key's scopes do not include this")
)

// Lookup asks elsewhere for a token that is none of the keys. nil lets it in,
// ErrUnknownKey and ErrMayNot do not, and another error could not tell.
type Lookup func(ctx context.Context, token string) error

// RequireKey lets only calls to next that carry one of the keys, or one that
// lookup knows (nil knows none), as a bearer token. How long a refusal takes
// tells nothing of a key.
func RequireKey(keys []string, lookup Lookup, next http.Handler) http.Handler {
	hashes := make([][sha256.Size]byte, len(keys))
	for i, key := range keys {
		hashes[i] = sha256.Sum256([]byte(key))
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		given := sha256.Sum256([]byte(strings.TrimSpace(token)))
		good := 0
		for i := range hashes { // all of them, whichever matches
			good |= subtle.ConstantTimeCompare(given[:], hashes[i][:])
		}
		err := ErrUnknownKey
		switch {
		case !strings.EqualFold(scheme, "Bearer"):
		case good == 1:
			err = nil
		case lookup != nil:
			err = lookup(r.Context(), strings.TrimSpace(token))
		}
		switch {
		case err == nil:
			next.ServeHTTP(w, r)
		case errors.Is(err, ErrUnknownKey):
			w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
			fail(w, problem.Unauthenticated, wantedKey(lookup))
		case errors.Is(err, ErrMayNot):
			fail(w, problem.Forbidden, "this call needs a key with the scope operate or admin that is not limited to queues")
		default:
			w.Header().Set("Retry-After", problem.RetryAfter(time.Second))
			fail(w, problem.Unavailable, "keys can't be looked up at the moment: "+err.Error())
		}
	})
}

func wantedKey(lookup Lookup) string {
	if lookup == nil {
		return "the API needs one of http.keys as a bearer token"
	}
	return "the API needs a key as a bearer token: one of scope operate or admin (pawl keys create), or one of http.keys"
}

// LocalOnly keeps web pages out of next: a browser on this machine would carry
// a page's request here, under a name that the page's owner points at
// 127.0.0.1. Such a request says where it comes from, or asks for another host.
func LocalOnly(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !localHost(r.Host) || r.Header.Get("Origin") != "" || !ownSite(r.Header.Get("Sec-Fetch-Site")) {
			http.Error(w, "the admin API is for programs on this machine, not for web pages", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localHost says whether a Host names this machine: an address that needs no
// look-up, or localhost.
func localHost(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	ip := net.ParseIP(strings.Trim(host, "[]"))
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

// ownSite says whether a Sec-Fetch-Site is no page of another's: none is what
// somebody typed.
func ownSite(site string) bool { return site == "" || site == "none" || site == "same-origin" }
