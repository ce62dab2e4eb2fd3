// These tests would catch a letter that was stored and is not listed, is listed
// after it was replayed or purged, or is replayed twice or by two at once; a
// purge that takes what is younger or in hand; a crash that loses a letter or a
// mark; damage in a file that hides the letters behind it; a write chain that
// acknowledges what nothing stored, holds a message up for a notice, or tells a
// body; and an index that outgrows its bound.
package deadletter_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pawlhq/pawl/internal/core/message"
	"github.com/pawlhq/pawl/internal/deadletter"
	"github.com/pawlhq/pawl/internal/seglog/faultfs"
)

var day0 = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)

// letter makes the n-th letter: of message m<n>, dead n hours after day0.
func letter(n int, change ...func(*message.DeadLetter)) *message.DeadLetter {
	at := day0.Add(time.Duration(n) * time.Hour)
	l := &message.DeadLetter{
		Message: &message.Message{
			ID: fmt.Sprintf("m%d", n), Source: "web", Time: at.Add(-time.Minute), ContentType: "text/plain",
			Body: []byte("a secret body"),
		},
		Death: message.Death{
			Letter: deadletter.NewID(at), Relay: "shop", At: at, Reason: message.ReasonDelivery,
			Destination: "ledger", Route: "orders", Attempts: 5, Error: "HTTP 503",
		},
	}
	for _, c := range change {
		c(l)
	}
	return l
}

func open(t testing.TB, dir string, o deadletter.Options) *deadletter.Files {
	t.Helper()
	s, err := deadletter.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func store(t testing.TB, s deadletter.Store, letters ...*message.DeadLetter) {
	t.Helper()
	for _, l := range letters {
		if err := s.Append(context.Background(), l); err != nil {
			t.Fatal(err)
		}
	}
}

// list returns the message ids that the filter lets through.
func list(t testing.TB, s deadletter.Store, f deadletter.Filter) []string {
	t.Helper()
	var ids []string
	err := s.List(context.Background(), f, func(e deadletter.Entry) error {
		ids = append(ids, e.Message.ID)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func want(t testing.TB, s deadletter.Store, f deadletter.Filter, ids ...string) {
	t.Helper()
	if d := cmp.Diff(ids, list(t, s, f), cmpopts.EquateEmpty()); d != "" {
		t.Errorf("%+v (-want +got):\n%s", f, d)
	}
	if n, err := s.Count(t.Context(), f); n != len(ids) || err != nil {
		t.Errorf("%+v: count %d, %v; want %d", f, n, err, len(ids))
	}
}

var sameLetter = cmp.Options{cmpopts.IgnoreUnexported(message.Message{}), cmpopts.EquateEmpty()}

func TestStoreOnTheRealDisk(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "dead")
	s := open(t, dir, deadletter.Options{})
	if st := s.Stats(); st.Open != 0 || !st.Oldest.IsZero() {
		t.Errorf("stats of an empty store: %+v", st)
	}
	a, b, c := letter(1), letter(2), letter(3)
	store(t, s, a, b, c)
	store(t, s, a) // written again since its first write was thought lost
	want(t, s, deadletter.Filter{}, "m1", "m2", "m3")
	got, err := s.Get(t.Context(), b.Letter)
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	if d := cmp.Diff(b, got[0].DeadLetter, sameLetter); d != "" {
		t.Errorf("read back (-want +got):\n%s", d)
	}
	if err := s.MarkReplayed(t.Context(), a.Letter, deadletter.Delivered); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		want(t, s, deadletter.Filter{}, "m2", "m3")
		want(t, s, deadletter.Filter{State: deadletter.AllStates}, "m1", "m2", "m3")
		if st := s.Stats(); st.Open != 2 || !st.Oldest.Equal(b.At) || st.Damaged != 0 {
			t.Errorf("stats: %+v", st)
		}
		if err := errors.Join(s.Writable(), s.Close(), s.Close()); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir, deadletter.Options{})
	}
	if err := s.MarkReplayed(t.Context(), a.Letter, deadletter.Delivered); err != nil {
		t.Errorf("marked twice: %v", err)
	}
	if err := s.MarkReplayed(t.Context(), "nobody", deadletter.Delivered); !errors.Is(err, deadletter.ErrNotFound) {
		t.Errorf("marking an unknown letter: %v", err)
	}
	if err := s.MarkReplayed(t.Context(), b.Letter, deadletter.Abandoned); err == nil {
		t.Error("an abandoned replay was marked")
	}
	if _, err := s.Get(t.Context(), "nobody"); !errors.Is(err, deadletter.ErrNotFound) {
		t.Errorf("getting an unknown letter: %v", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

func TestFilters(t *testing.T) {
	s := open(t, "dead", deadletter.Options{FS: faultfs.New(), MaxSegment: 1200})
	for n := range 60 {
		store(t, s, letter(n, func(l *message.DeadLetter) {
			switch n % 3 {
			case 1:
				l.Destination = "mail"
			case 2:
				l.Reason, l.Destination = message.ReasonSchema, ""
			}
		}))
	}
	twin := letter(7, func(l *message.DeadLetter) { l.Destination = "mail" })
	odd := letter(61, func(l *message.DeadLetter) { l.Letter = "not a ULID: \"x\"" })
	store(t, s, twin, odd)
	var schema []string
	for n := 2; n < 60; n += 3 {
		schema = append(schema, fmt.Sprintf("m%d", n))
	}
	want(t, s, deadletter.Filter{Reason: message.ReasonSchema}, schema...)
	want(t, s, deadletter.Filter{Since: day0.Add(58 * time.Hour)}, "m58", "m59", "m61")
	want(t, s, deadletter.Filter{Since: day0.Add(50 * time.Hour), Destination: "mail"}, "m52", "m55", "m58")
	want(t, s, deadletter.Filter{Destination: "nowhere"})
	want(t, s, deadletter.Filter{IDs: []string{"m3", "m7", "m99"}}, "m3", "m7", "m7")
	want(t, s, deadletter.Filter{IDs: []string{twin.Letter}}, "m7")
	want(t, s, deadletter.Filter{IDs: []string{odd.Letter}}, "m61")
	if err := s.MarkReplayed(t.Context(), odd.Letter, deadletter.FailedAgain); err != nil {
		t.Fatal(err)
	}
	want(t, s, deadletter.Filter{IDs: []string{odd.Letter}})
	got, err := s.Get(t.Context(), "m7")
	if err != nil || len(got) != 2 || got[1].Letter != twin.Letter {
		t.Errorf("%v, %v", got, err)
	}
	for _, f := range []deadletter.Filter{{Reason: "odd"}, {IDs: make([]string, deadletter.MaxIDs+1)}} {
		_, err := s.Count(t.Context(), f)
		if err == nil || s.List(t.Context(), f, nil) == nil {
			t.Errorf("a filter with reason %q and %d ids was taken", f.Reason, len(f.IDs))
		}
	}
}

// What List shows is what was there when it began, and its fn may use the store.
func TestListIsOfOneMoment(t *testing.T) {
	s := open(t, "dead", deadletter.Options{FS: faultfs.New(), MaxSegment: 8 << 10})
	for n := range 40 { // past the number read one by one, and into a second segment
		store(t, s, letter(n))
	}
	seen := 0
	err := s.List(t.Context(), deadletter.Filter{}, func(e deadletter.Entry) error {
		seen++
		store(t, s, letter(100+seen))
		return s.MarkReplayed(t.Context(), e.Letter, deadletter.Delivered)
	})
	if err != nil || seen != 40 || s.Stats().Open != 40 {
		t.Errorf("%d seen, %v, %+v", seen, err, s.Stats())
	}
	stop := errors.New("enough")
	if err := s.List(t.Context(), deadletter.Filter{}, func(deadletter.Entry) error { return stop }); err != stop {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err = s.List(ctx, deadletter.Filter{}, func(deadletter.Entry) error { n++; cancel(); return nil })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%d, %v", n, err)
	}
}

func TestDamage(t *testing.T) {
	disk := faultfs.New()
	s := open(t, "dead", deadletter.Options{FS: disk})
	store(t, s, letter(1), letter(2))
	good := disk.Get("dead/000001.ndjson")
	_ = s.Close()
	lines := strings.SplitAfter(string(good), "\n")
	deep := strings.Replace(lines[0], `"shop"`, `"shop","hops":"none"`, 1) // its facts can be read, the whole can't
	deep = strings.Replace(deep, "m1", "m3", 1)
	deep = strings.Replace(deep, `"letter":"`, `"letter":"x`, 1)
	disk.Put("dead/000001.ndjson", []byte(lines[0]+"garbage\n\x00\x00\n{\"id\":\"x\"}\n"+deep+lines[1]+`{"id":"torn`))
	disk.Put("dead/marks/000001.ndjson", []byte("garbage\n{\"mark\":\"odd\"}\n"))
	s = open(t, "dead", deadletter.Options{FS: disk})
	if st := s.Stats(); st.Damaged != 5 || st.Open != 3 {
		t.Errorf("stats: %+v", st)
	}
	var ids []string
	err := s.List(t.Context(), deadletter.Filter{}, func(e deadletter.Entry) error {
		ids = append(ids, e.Message.ID)
		return nil
	})
	if !errors.Is(err, deadletter.ErrDamaged) {
		t.Errorf("list: %v", err)
	}
	if d := cmp.Diff([]string{"m1", "m2"}, ids); d != "" {
		t.Error(d)
	}
	// A file with damage is never removed, whatever is purged.
	if n, err := s.Purge(t.Context(), day0.AddDate(1, 0, 0)); n != 3 || err != nil {
		t.Errorf("purged %d, %v", n, err)
	}
	if !slices.Contains(disk.Files(), "dead/000001.ndjson") {
		t.Error("the damaged file is gone")
	}
	store(t, s, letter(9))
	want(t, s, deadletter.Filter{}, "m9")
}

// What can't be found again is refused, so that the caller knows.
func TestAppendRefuses(t *testing.T) {
	s := open(t, "dead", deadletter.Options{FS: faultfs.New()})
	for name, change := range map[string]func(*message.DeadLetter){
		"no letter id": func(l *message.DeadLetter) { l.Letter = "" },
		"no reason":    func(l *message.DeadLetter) { l.Reason = "" },
		"no id":        func(l *message.DeadLetter) { l.Message.ID = "" },
	} {
		if err := s.Append(t.Context(), letter(1, change)); err == nil {
			t.Errorf("%s: stored", name)
		}
	}
}

// The index holds about 90 bytes a letter, whatever the letters' size.
func TestIndexIsCompact(t *testing.T) {
	const letters, bound = 100_000, 120
	line := func(n int) string {
		return fmt.Sprintf(`{"id":"message-%d","source":"s","time":"2026-11-01T00:00:00Z","attributes":{"dlq":{"letter":"%s","relay":"r","at":"2026-11-01T00:00:00Z","reason":"delivery","destination":"d%d","attempts":1,"error":"e"}},"body":"x"}`+"\n",
			n, deadletter.NewID(day0), n%10)
	}
	var b strings.Builder
	for n := range letters {
		b.WriteString(line(n))
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "000001.ndjson"), []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	b.Reset()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := open(t, dir, deadletter.Options{})
	runtime.GC()
	runtime.ReadMemStats(&after)
	per := float64(int64(after.HeapAlloc)-int64(before.HeapAlloc)) / letters
	t.Logf("%.0f bytes a letter", per)
	if per > bound {
		t.Errorf("%.0f bytes a letter, the bound is %d", per, bound)
	}
	if s.Stats().Open != letters {
		t.Errorf("%+v", s.Stats())
	}
}
