package jobserver

// What these tests would catch: a key that is kept in the clear, good after its
// expiry or its revocation, or good for more than its scopes and queues; an
// admin key that is made where there is one; a given key that could be guessed.

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// addKey makes and stores a key.
func addKey(t *testing.T, s *Server, ask KeyRequest) (secret string, k store.Key) {
	t.Helper()
	secret, k, err := NewKey(ask, s.store.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.store.AddKey(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	return secret, k
}

func TestNewKey(t *testing.T) {
	now := time.Now()
	seen := map[string]bool{}
	for range 100 {
		secret, k, err := NewKey(KeyRequest{Name: "n", Scopes: []store.Scope{store.ScopeWork}}, now)
		if err != nil {
			t.Fatal(err)
		}
		if seen[secret] || seen[k.ID] {
			t.Fatal("two keys are alike")
		}
		seen[secret], seen[k.ID] = true, true
		if len(secret) != len(KeyPrefix)+43 || !strings.HasPrefix(secret, KeyPrefix) || !strings.HasPrefix(k.ID, "key_") {
			t.Fatalf("a key of %d characters, id %s", len(secret), k.ID)
		}
		if k.Hash != hashKey(secret) || !k.CreatedAt.Equal(now) {
			t.Fatalf("kept as %+v", k)
		}
		if err := checkGiven(secret); err != nil {
			t.Fatalf("a key that was made could not be given: %v", err)
		}
	}
}

func TestNewKeyTellsWhatIsWrong(t *testing.T) {
	now := time.Now()
	_, _, err := NewKey(KeyRequest{Name: "a b", Scopes: []store.Scope{"produce", "works"}, Queues: []string{""}, Expires: now}, now)
	want := `0 /name may hold A-Z, a-z, 0-9 and . _ : - only
0 /scopes/1 unknown scope "works"; known are produce, work, operate, admin; did you mean "work"?
0 /queues/0 is missing
0 /expires is past: the key would never be good`
	if diff := cmp.Diff(want, problems(t, err)); diff != "" {
		t.Error(diff)
	}
	// What begins like an id is one: a name would revoke another key.
	_, _, err = NewKey(KeyRequest{Name: "key_01k", Scopes: []store.Scope{store.ScopeWork}}, now)
	if got := problems(t, err); got != `0 /name can't begin with "key_"; the ids of keys do` {
		t.Error(got)
	}
	_, _, err = NewKey(KeyRequest{Name: "n", Queues: make([]string, MaxQueues+1)}, now)
	want = `0 /scopes is empty; a key needs one of produce, work, operate, admin
0 /queues holds 101 queues; at most 100 are allowed`
	if diff := cmp.Diff(want, problems(t, err)); diff != "" {
		t.Error(diff)
	}
}

func TestWhatAKeyAllows(t *testing.T) {
	all := store.Scopes()
	for name, c := range map[string]struct {
		p     Principal
		queue string
		want  []store.Scope
	}{
		"produce":       {Principal{Scopes: []store.Scope{store.ScopeProduce}}, "q", []store.Scope{store.ScopeProduce}},
		"operate":       {Principal{Scopes: []store.Scope{store.ScopeOperate}}, "q", []store.Scope{store.ScopeOperate}},
		"two":           {Principal{Scopes: []store.Scope{store.ScopeProduce, store.ScopeWork}}, "q", []store.Scope{store.ScopeProduce, store.ScopeWork}},
		"admin":         {Principal{Scopes: []store.Scope{store.ScopeAdmin}}, "q", all},
		"none":          {Principal{}, "q", nil},
		"its queue":     {Principal{Scopes: all, Queues: []string{"p", "q"}}, "q", all},
		"another queue": {Principal{Scopes: all, Queues: []string{"p"}}, "q", nil},
	} {
		var got []store.Scope
		for _, scope := range all {
			if c.p.Has(scope) && c.p.Sees(c.queue) {
				got = append(got, scope)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: may %v, not %v", name, got, c.want)
		}
	}
}

func TestAuthenticate(t *testing.T) {
	clock := newClock()
	s, err := NewServer(Options{Store: open(t, sqlite.Options{Wall: clock.wall, Mono: clock.mono})})
	if err != nil {
		t.Fatal(err)
	}
	good, k := addKey(t, s, KeyRequest{Name: "good", Scopes: []store.Scope{store.ScopeWork}, Queues: []string{"q"}})
	short, _ := addKey(t, s, KeyRequest{Name: "short", Scopes: []store.Scope{store.ScopeWork}, Expires: s.store.Now().Add(time.Minute)})
	gone, _ := addKey(t, s, KeyRequest{Name: "gone", Scopes: []store.Scope{store.ScopeAdmin}})

	want := Principal{ID: k.ID, Name: "good", Scopes: []store.Scope{store.ScopeWork}, Queues: []string{"q"}}
	for range 2 { // read, and cached
		got, err := s.Authenticate(t.Context(), good)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}
	for _, secret := range []string{short, gone} {
		if _, err := s.Authenticate(t.Context(), secret); err != nil {
			t.Errorf("a key that is good: %v", err)
		}
	}
	clock.step(time.Minute)
	if err := s.store.RevokeKey(t.Context(), "gone"); err != nil {
		t.Fatal(err)
	}
	for secret, text := range map[string]string{
		short: "expired", gone: "revoked", "": "begins with", "x" + good: "begins with", good + "x": "not known", KeyPrefix: "not known",
		strings.ToUpper(good): "begins with", KeyPrefix + strings.Repeat("x", maxSecret): "begins with",
	} {
		p, err := s.Authenticate(t.Context(), secret)
		if !errors.Is(err, ErrUnauthenticated) || !strings.Contains(err.Error(), text) || p.Name != "" {
			t.Errorf("%q is %+v, %v", secret, p, err)
		}
	}
}

func TestFirstKey(t *testing.T) {
	s := stored(t, Config{})
	secret, err := FirstKey(t.Context(), s.store, s.store.Now())
	if err != nil || secret == "" {
		t.Fatalf("%q, %v", secret, err)
	}
	p, err := s.Authenticate(t.Context(), secret)
	if err != nil || !p.Has(store.ScopeOperate) || p.Name != "admin" {
		t.Errorf("it is %+v, %v", p, err)
	}
	if again, err := FirstKey(t.Context(), s.store, s.store.Now()); again != "" || err != nil {
		t.Errorf("a second one was made: %v", err)
	}
	// Who revoked every key did so on purpose.
	if err := s.store.RevokeKey(t.Context(), "admin"); err != nil {
		t.Fatal(err)
	}
	if again, err := FirstKey(t.Context(), s.store, s.store.Now()); again != "" || err != nil {
		t.Errorf("one was made after the revocation: %v", err)
	}
}

func TestGivenKey(t *testing.T) {
	s := stored(t, Config{})
	one, two := KeyPrefix+strings.Repeat("a", minSecret), KeyPrefix+strings.Repeat("b", minSecret)
	for _, secret := range []string{one, one, two, two} {
		if err := GivenKey(t.Context(), s.store, secret, s.store.Now()); err != nil {
			t.Fatal(err)
		}
	}
	for _, secret := range []string{one, two} {
		if p, err := s.Authenticate(t.Context(), secret); err != nil || !p.Has(store.ScopeWork) {
			t.Errorf("%+v, %v", p, err)
		}
	}
	if keys, err := s.store.Keys(t.Context()); err != nil || len(keys) != 2 {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if err := s.store.RevokeKey(t.Context(), "admin"); err != nil {
		t.Fatal(err)
	}
	if err := GivenKey(t.Context(), s.store, one, s.store.Now()); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("a revoked key that is given again: %v", err)
	}
	if _, err := s.Authenticate(t.Context(), one); err == nil {
		t.Error("giving a revoked key made it good")
	}
}

func TestGivenKeysThatCouldBeGuessed(t *testing.T) {
	for secret, text := range map[string]string{
		"":                                  "begins with pawl_",
		strings.Repeat("a", 40):             "begins with pawl_",
		KeyPrefix + strings.Repeat("a", 31): "at least 32 characters",
		KeyPrefix + strings.Repeat("a", 31) + "\n":   "A-Z",
		KeyPrefix + strings.Repeat("a", 31) + "é":    "A-Z",
		KeyPrefix + strings.Repeat("a", maxSecret+1): "at most 512",
	} {
		if err := checkGiven(secret); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", secret, err)
		} else if secret != "" && strings.Contains(err.Error(), secret) {
			t.Error("the error tells the key")
		}
	}
}
