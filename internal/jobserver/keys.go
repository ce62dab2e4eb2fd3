package jobserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/nearest"
	"github.com/pawlhq/pawl/internal/store"
)

const (
	// KeyPrefix begins every API key, so that a reader, and a scanner that looks
	// for secrets, knows what it is.
	KeyPrefix = "pawl_"
	// keyBytes is how much of a key is random: nobody guesses 256 bits.
	keyBytes = 32
	// minSecret is how long a key's secret part is at least where an operator
	// makes it: 128 bits in hex digits.
	minSecret = 32
	// maxSecret bounds what is hashed for a request that has no valid key.
	maxSecret = 512
)

// ErrUnauthenticated: there is no such key, or it is not good any more. What
// wraps it says which.
var ErrUnauthenticated = errors.New("the API key is not valid")

// KeyRequest is a key that somebody asks for.
type KeyRequest struct {
	// Name is one that no other key has. None begins with store.KeyIDPrefix: what
	// begins so is an id.
	Name   string
	Scopes []store.Scope // at least one
	Queues []string      // limits it to these queues; empty is every queue
	// Expires is when it is good no more; zero is never.
	Expires time.Time
}

// NewKey makes a key from 256 random bits. The secret is in nothing but the
// result: the Key to store has its hash. Errors: *InvalidError, with pointers
// into {name, scopes, queues, expires}.
func NewKey(ask KeyRequest, now time.Time) (secret string, k store.Key, err error) {
	var random [keyBytes]byte
	_, _ = rand.Read(random[:]) // never fails: the process would end
	secret = KeyPrefix + base64.RawURLEncoding.EncodeToString(random[:])
	k, err = keyOf(secret, ask, now)
	if err != nil {
		return "", store.Key{}, err
	}
	return secret, k, nil
}

// keyOf returns the key of a secret, as it is stored.
func keyOf(secret string, ask KeyRequest, now time.Time) (store.Key, error) {
	var c checker
	if bad := job.BadName(ask.Name); bad != "" {
		c.add("/name", "%s", bad)
	} else if strings.HasPrefix(ask.Name, store.KeyIDPrefix) {
		c.add("/name", "can't begin with %q; the ids of keys do", store.KeyIDPrefix)
	}
	if len(ask.Scopes) == 0 {
		c.add("/scopes", "is empty; a key needs one of %s", scopeList())
	}
	for i, scope := range ask.Scopes {
		if !slices.Contains(store.Scopes(), scope) {
			text := fmt.Sprintf("unknown scope %q; known are %s", scope, scopeList())
			if near := nearest.To(string(scope), scopeNames()); near != "" {
				text += fmt.Sprintf("; did you mean %q?", near)
			}
			c.add(fmt.Sprintf("/scopes/%d", i), "%s", text)
		}
	}
	if len(ask.Queues) > MaxQueues {
		c.add("/queues", "holds %d queues; at most %d are allowed", len(ask.Queues), MaxQueues)
	} else {
		for i, q := range ask.Queues {
			if bad := job.BadName(q); bad != "" {
				c.add(fmt.Sprintf("/queues/%d", i), "%s", bad)
			}
		}
	}
	if !ask.Expires.IsZero() && !ask.Expires.After(now) {
		c.add("/expires", "is past: the key would never be good")
	}
	if err := c.err(); err != nil {
		return store.Key{}, err
	}
	return store.Key{
		ID: store.KeyIDPrefix + strings.ToLower(ulid.MustNew(ulid.Timestamp(now), rand.Reader).String()), Name: ask.Name, Hash: hashKey(secret),
		Scopes: slices.Clone(ask.Scopes), Queues: slices.Clone(ask.Queues), CreatedAt: now, ExpiresAt: ask.Expires,
	}, nil
}

func scopeNames() []string {
	var names []string
	for _, s := range store.Scopes() {
		names = append(names, string(s))
	}
	return names
}

func scopeList() string { return strings.Join(scopeNames(), ", ") }

// hashKey is what is kept of a key. A fast hash is enough: 256 random bits are
// found by no dictionary.
func hashKey(secret string) [sha256.Size]byte { return sha256.Sum256([]byte(secret)) }

// FirstKey makes and stores an admin key where the store has no key at all, not
// even a revoked one, and returns its secret; "" where there is one.
func FirstKey(ctx context.Context, keys store.Keys, now time.Time) (secret string, err error) {
	have, err := keys.Keys(ctx)
	if err != nil || len(have) > 0 {
		return "", err
	}
	secret, k, err := NewKey(KeyRequest{Name: adminName, Scopes: []store.Scope{store.ScopeAdmin}}, now)
	if err != nil {
		return "", err
	}
	if err := keys.AddKey(ctx, k); err != nil {
		return "", err
	}
	return secret, nil
}

// adminName is the name of the admin key that a server makes for itself.
const adminName = "admin"

// CheckGivenKey says what is wrong with an admin key that the operator chose. One
// that was revoked is an error that is ErrUnauthenticated, since it would look as
// if it were set.
func CheckGivenKey(ctx context.Context, keys store.Keys, secret string) error {
	if err := checkGiven(secret); err != nil {
		return err
	}
	k, err := keys.KeyByHash(ctx, hashKey(secret))
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil
	case err == nil && !k.Revoked.IsZero():
		return fmt.Errorf("%w: the admin key that is set was revoked", ErrUnauthenticated)
	}
	return err
}

// GivenKey stores an admin key that the operator chose, where it is not there
// yet. Keys that were given before stay good until they are revoked. What
// CheckGivenKey refuses is refused here too.
func GivenKey(ctx context.Context, keys store.Keys, secret string, now time.Time) error {
	if err := CheckGivenKey(ctx, keys, secret); err != nil {
		return err
	}
	_, err := keys.KeyByHash(ctx, hashKey(secret))
	if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	// The name tells which of the keys that were ever given it is, and is new
	// whatever names there are.
	k, err := keyOf(secret, KeyRequest{Name: adminName, Scopes: []store.Scope{store.ScopeAdmin}}, now)
	if err != nil {
		return err
	}
	err = keys.AddKey(ctx, k)
	if errors.Is(err, store.ErrExists) {
		k.Name = adminName + "-" + strings.TrimPrefix(k.ID, "key_")
		err = keys.AddKey(ctx, k)
	}
	return err
}

// checkGiven refuses a key that could be guessed, or that no header carries.
func checkGiven(secret string) error {
	rest, ok := strings.CutPrefix(secret, KeyPrefix)
	switch {
	case !ok:
		return fmt.Errorf("an API key begins with %s", KeyPrefix)
	case len(rest) < minSecret:
		return fmt.Errorf("an API key has at least %d characters after %s, this one has %d", minSecret, KeyPrefix, len(rest))
	case len(secret) > maxSecret:
		return fmt.Errorf("an API key has at most %d characters, this one has %d", maxSecret, len(secret))
	}
	if i := strings.IndexFunc(rest, func(r rune) bool { return !strings.ContainsRune(keyAlphabet, r) }); i >= 0 {
		return errors.New("an API key holds A-Z, a-z, 0-9, _ and - only")
	}
	return nil
}

// keyAlphabet is what a key is written in: base64url.
const keyAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// Principal is who a request comes from.
//
// The zero Principal is this process itself: it has no scope to call with, and
// every queue.
type Principal struct {
	ID     string // of the key
	Name   string
	Scopes []store.Scope
	// Queues are what the key is limited to, in every scope; nil is every queue.
	Queues []string
}

// Has reports whether the key has the scope; admin includes every other.
func (p Principal) Has(scope store.Scope) bool {
	return slices.Contains(p.Scopes, scope) || slices.Contains(p.Scopes, store.ScopeAdmin)
}

// Sees reports whether the key's queues include this one.
func (p Principal) Sees(queue string) bool {
	return len(p.Queues) == 0 || slices.Contains(p.Queues, queue)
}

// Authenticate returns whose key the secret is. The store caches keys, so this
// costs a hash; expiry and revocation count from the next call on, on another
// node within a second. Errors: ErrUnauthenticated, or the store's.
func (s *Server) Authenticate(ctx context.Context, secret string) (Principal, error) {
	if !strings.HasPrefix(secret, KeyPrefix) || len(secret) > maxSecret {
		return Principal{}, fmt.Errorf("%w: a key begins with %s", ErrUnauthenticated, KeyPrefix)
	}
	hash := hashKey(secret)
	k, err := s.store.KeyByHash(ctx, hash)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return Principal{}, fmt.Errorf("%w: it is not known", ErrUnauthenticated)
	case err != nil:
		return Principal{}, err
	// A look-up by hash tells nothing of a key by its time: who guesses does not
	// know which hash he tries. That the right one came back is checked so too.
	case subtle.ConstantTimeCompare(k.Hash[:], hash[:]) != 1:
		return Principal{}, fmt.Errorf("%w: it is not known", ErrUnauthenticated)
	case !k.Revoked.IsZero():
		return Principal{}, fmt.Errorf("%w: it was revoked", ErrUnauthenticated)
	case !k.ExpiresAt.IsZero() && !s.store.Now().Before(k.ExpiresAt):
		return Principal{}, fmt.Errorf("%w: it has expired", ErrUnauthenticated)
	}
	return Principal{ID: k.ID, Name: k.Name, Scopes: k.Scopes, Queues: k.Queues}, nil
}
