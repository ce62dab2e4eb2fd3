package adminapi

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"

	"github.com/pawlhq/pawl/internal/problem"
)

// RequireKey lets only calls to next that carry one of the keys as a bearer
// token. How long a refusal takes tells nothing of a key.
func RequireKey(keys []string, next http.Handler) http.Handler {
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
		if good != 1 || !strings.EqualFold(scheme, "Bearer") {
			w.Header().Set("WWW-Authenticate", `Bearer realm="pawl"`)
			fail(w, problem.Unauthenticated, "the API needs one of http.keys as a bearer token")
			return
		}
		next.ServeHTTP(w, r)
	})
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
