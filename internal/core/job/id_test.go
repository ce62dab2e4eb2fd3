// These tests catch an id or a lease token that leads to another row, sorts
// wrongly, has two spellings, is taken though the store never made it, or costs
// more than its one string. The golden ones catch a change of the written form,
// which would make every stored reference to a job worthless.
package job_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/pawlhq/pawl/internal/core/job"
)

var (
	storeKey = bytes.Repeat([]byte{0x5a}, 32)
	otherKey = bytes.Repeat([]byte{0x5b}, 32)
)

// derived is HMAC over a message under a key for one use, by the standard
// library.
func derived(use string, message []byte) []byte {
	key := hmac.New(sha256.New, storeKey)
	key.Write([]byte(use))
	mac := hmac.New(sha256.New, key.Sum(nil))
	mac.Write(message)
	return mac.Sum(nil)
}

func times() *rapid.Generator[time.Time] {
	return rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(0, 1<<48-1).Draw(t, "ms")).UTC()
	})
}

func TestIDIsWhatItSays(t *testing.T) {
	shape := regexp.MustCompile(`^job_[0-7][0-9a-hjkmnp-tv-z]{25}$`)
	rapid.Check(t, func(t *rapid.T) {
		at, seq := times().Draw(t, "at"), rapid.Int64Range(0, job.MaxSeq).Draw(t, "seq")
		ids := job.NewIDs(storeKey)
		id := ids.Make(at, seq)
		if !shape.MatchString(id) {
			t.Fatalf("%q has another shape", id)
		}
		gotSeq, gotAt, ok := ids.Parse(id)
		if !ok || gotSeq != seq || !gotAt.Equal(at) {
			t.Fatalf("%s of row %d at %v is read as %d, %v, %t", id, seq, at, gotSeq, gotAt, ok)
		}
		// By the text alone, with the standard library's HMAC.
		var raw [16]byte
		for _, c := range []byte(strings.TrimPrefix(id, "job_")) {
			carry := uint(strings.IndexByte("0123456789abcdefghjkmnpqrstvwxyz", c))
			for i := len(raw) - 1; i >= 0; i-- {
				v := uint(raw[i])<<5 | carry
				raw[i], carry = byte(v), v>>8
			}
		}
		if mac := derived("pawl job id 1", raw[:12]); !bytes.Equal(mac[:4], raw[12:]) {
			t.Fatalf("%s has a MAC that HMAC-SHA256 does not give", id)
		}
		if ms := binary.BigEndian.Uint64(append([]byte{0, 0}, raw[:6]...)); int64(ms) != at.UnixMilli() {
			t.Fatalf("%s begins with %d ms, not with its time", id, ms)
		}
	})
}

func TestGoldenIDAndToken(t *testing.T) {
	at := time.Date(2026, 12, 1, 3, 0, 0, 123e6, time.UTC)
	if got, want := job.NewIDs(storeKey).Make(at, 4711), "job_01m8qrpyzv0000000jczsst5fc"; got != want {
		t.Errorf("the id is %s, want %s", got, want)
	}
	if got, want := job.NewTokens(storeKey).Make(4711, 3), "lse_AAAAAAASZwAAAAOXPIxzHwvpRejFiABvG-Qg"; got != want {
		t.Errorf("the token is %s, want %s", got, want)
	}
}

func TestIDsSortByTimeThenRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := job.NewIDs(storeKey)
		near := rapid.Int64Range(0, 3) // so that times are often equal
		ms := rapid.Int64Range(0, 1<<48-8).Draw(t, "ms")
		a, b := ms+near.Draw(t, "a"), ms+near.Draw(t, "b")
		seqs := rapid.Int64Range(0, job.MaxSeq)
		s, u := seqs.Draw(t, "row a"), seqs.Draw(t, "row b")
		want := a < b || a == b && s < u
		if got := ids.Make(time.UnixMilli(a), s) < ids.Make(time.UnixMilli(b), u); got != want && (a != b || s != u) {
			t.Fatalf("row %d at %d sorts before row %d at %d: %t", s, a, u, b, got)
		}
	})
}

// refusals are texts that are no id and no token, made of one that is.
func refusals(good string) map[string]string {
	return map[string]string{
		"nothing":              "",
		"the prefix alone":     good[:4],
		"no prefix":            good[4:],
		"another prefix":       "jop_" + good[4:],
		"upper case":           strings.ToUpper(good),
		"upper case after it":  good[:4] + strings.ToUpper(good[4:]),
		"one short":            good[:len(good)-1],
		"one long":             good + "0",
		"a space behind":       good + " ",
		"a space in front":     " " + good,
		"a line end within":    good[:9] + "\n" + good[10:],
		"a line end more":      good[:9] + "\n" + good[9:],
		"a NUL within":         good[:9] + "\x00" + good[10:],
		"not ASCII":            good[:8] + "é" + good[10:],
		"excluded letter":      good[:len(good)-1] + "u",
		"padded":               good + "=",
		"standard base64 sign": good[:9] + "+" + good[10:],
	}
}

func TestIDsRefuse(t *testing.T) {
	ids, at := job.NewIDs(storeKey), time.UnixMilli(1_790_000_000_123)
	good := ids.Make(at, 99)
	bad := refusals(good)
	bad["another store's"] = job.NewIDs(otherKey).Make(at, 99)
	bad["a lease token"] = job.NewTokens(storeKey).Make(99, 1)
	bad["130 bits"] = "job_8" + good[5:]
	for what, id := range bad {
		if id == good {
			t.Fatalf("%s: is the good one", what)
		}
		if seq, _, ok := ids.Parse(id); ok || seq != 0 {
			t.Errorf("%s: %q is taken for row %d", what, id, seq)
		}
	}
	// Every other digit, at every place.
	for i := len("job_"); i < len(good); i++ {
		for c := range 256 {
			id := good[:i] + string([]byte{byte(c)}) + good[i+1:]
			if _, _, ok := ids.Parse(id); ok != (id == good) {
				t.Errorf("%q is taken: %t", id, ok)
			}
		}
	}
}

func TestTokensRefuse(t *testing.T) {
	tokens := job.NewTokens(storeKey)
	good := tokens.Make(99, 1)
	bad := refusals(good)
	delete(bad, "excluded letter") // base64url has every letter
	bad["another store's"] = job.NewTokens(otherKey).Make(99, 1)
	bad["an id"] = job.NewIDs(storeKey).Make(time.UnixMilli(0), 99)
	for what, token := range bad {
		if token == good {
			t.Fatalf("%s: is the good one", what)
		}
		if seq, attempt, ok := tokens.Parse(token); ok || seq != 0 || attempt != 0 {
			t.Errorf("%s: %q is taken for attempt %d of row %d", what, token, attempt, seq)
		}
	}
	// Where the MAC ends with a zero byte, its last digit says nothing.
	for attempt := range 2000 {
		token := tokens.Make(99, attempt)
		if _, _, ok := tokens.Parse(token[:len(token)-1] + "\n"); ok {
			t.Errorf("%q is taken with a line end for its last digit", token)
		}
	}
	for i := len("lse_"); i < len(good); i++ {
		for c := range 256 {
			token := good[:i] + string([]byte{byte(c)}) + good[i+1:]
			if _, _, ok := tokens.Parse(token); ok != (token == good) {
				t.Errorf("%q is taken: %t", token, ok)
			}
		}
	}
}

func TestTokenIsWhatItSays(t *testing.T) {
	shape := regexp.MustCompile(`^lse_[0-9A-Za-z_-]{36}$`)
	rapid.Check(t, func(t *rapid.T) {
		seq, attempt := rapid.Int64Range(0, job.MaxSeq).Draw(t, "seq"), rapid.IntRange(0, 1<<31-1).Draw(t, "attempt")
		tokens := job.NewTokens(storeKey)
		token := tokens.Make(seq, attempt)
		if !shape.MatchString(token) {
			t.Fatalf("%q has another shape", token)
		}
		gotSeq, gotAttempt, ok := tokens.Parse(token)
		if !ok || gotSeq != seq || gotAttempt != attempt {
			t.Fatalf("%s of attempt %d of row %d is read as %d, %d, %t", token, attempt, seq, gotAttempt, gotSeq, ok)
		}
		raw, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(token, "lse_"))
		if err != nil {
			t.Fatal(err)
		}
		if mac := derived("pawl lease token 1", raw[:11]); !bytes.Equal(mac[:16], raw[11:]) {
			t.Fatalf("%s has a MAC that HMAC-SHA256 does not give", token)
		}
	})
}

// What does not fit gets no id that would lead elsewhere.
func TestNoIDOutOfBounds(t *testing.T) {
	ids, tokens, at := job.NewIDs(storeKey), job.NewTokens(storeKey), time.UnixMilli(1)
	for what, got := range map[string]string{
		"row -1":              ids.Make(at, -1),
		"row 2^48":            ids.Make(at, job.MaxSeq+1),
		"before 1970":         ids.Make(time.UnixMilli(-1), 1),
		"after 2^48 ms":       ids.Make(time.UnixMilli(1<<48), 1),
		"token of row -1":     tokens.Make(-1, 1),
		"token of row 2^48":   tokens.Make(job.MaxSeq+1, 1),
		"token, attempt -1":   tokens.Make(1, -1),
		"token, attempt 2^31": tokens.Make(1, 1<<31),
	} {
		if got != "" {
			t.Errorf("%s: %q", what, got)
		}
	}
}

func TestIDsAndTokensCostOneString(t *testing.T) {
	ids, tokens, at := job.NewIDs(storeKey), job.NewTokens(storeKey), time.UnixMilli(1_790_000_000_000)
	id, token := ids.Make(at, 7), tokens.Make(7, 1)
	for _, c := range []struct {
		what string
		most float64
		call func()
	}{
		{"making an id", 1, func() { ids.Make(at, 7) }},
		{"reading an id", 0, func() { ids.Parse(id) }},
		{"making a token", 1, func() { tokens.Make(7, 1) }},
		{"reading a token", 0, func() { tokens.Parse(token) }},
	} {
		if got := testing.AllocsPerRun(100, c.call); got > c.most {
			t.Errorf("%s allocates %v times, want at most %v", c.what, got, c.most)
		}
	}
}

// Whatever is taken is the one text that is made.
func FuzzParseID(f *testing.F) {
	ids := job.NewIDs(storeKey)
	f.Add(ids.Make(time.UnixMilli(1_790_000_000_000), 5))
	f.Add("job_zzzzzzzzzzzzzzzzzzzzzzzzzz")
	f.Fuzz(func(t *testing.T, text string) {
		if seq, at, ok := ids.Parse(text); ok && ids.Make(at, seq) != text {
			t.Errorf("%q is taken as the id %q", text, ids.Make(at, seq))
		}
	})
}

func FuzzParseToken(f *testing.F) {
	tokens := job.NewTokens(storeKey)
	f.Add(tokens.Make(5, 1))
	f.Add("lse_" + strings.Repeat("_", 36))
	f.Fuzz(func(t *testing.T, text string) {
		if seq, attempt, ok := tokens.Parse(text); ok && tokens.Make(seq, attempt) != text {
			t.Errorf("%q is taken as the token %q", text, tokens.Make(seq, attempt))
		}
	})
}
