package httpapi

// What these tests would catch: a store's trouble that a client takes for
// success, for its own fault, or for a reason not to come back; trouble that
// nobody is told of.

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/problem"
	"github.com/pawlhq/pawl/internal/store"
	"github.com/pawlhq/pawl/internal/store/sqlite"
)

// failing is a store whose calls fail as it is told.
type failing struct {
	*sqlite.Store
	err error
}

func (f *failing) Create(ctx context.Context, jobs []store.NewJob) ([]store.Created, error) {
	if f.err != nil {
		return nil, f.err
	}
	return f.Store.Create(ctx, jobs)
}

func (f *failing) Claim(context.Context, store.Want) (store.Claim, error) {
	return store.Claim{}, f.err
}
func (f *failing) Report(context.Context, []store.Report) ([]store.Answer, error) { return nil, f.err }
func (f *failing) Job(context.Context, string) (*job.Job, error)                  { return nil, f.err }
func (f *failing) List(context.Context, store.Filter) (store.Page, error) {
	return store.Page{}, f.err
}
func (f *failing) Logs(context.Context, string, int) (store.Log, error) { return store.Log{}, f.err }
func (f *failing) Counts(context.Context) ([]store.LaneCount, error)    { return nil, f.err }
func (f *failing) Pause(context.Context, lane.Gate, string) error       { return f.err }
func (f *failing) KeyByHash(ctx context.Context, h [32]byte) (store.Key, error) {
	if f.err != nil && errors.Is(f.err, errKeys) {
		return store.Key{}, f.err
	}
	return f.Store.KeyByHash(ctx, h)
}

var errKeys = errors.New("keys")

func TestTheStoresTroubleIsTold(t *testing.T) {
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	broken := &failing{Store: s}
	r := rigOn(t, s, broken)
	calls := map[string]func() answer{
		"create": func() answer { return r.call("admin", "POST", "/v3/jobs", aJob) },
		"batch":  func() answer { return r.call("admin", "POST", "/v3/jobs/batch", `{"jobs":[`+aJob+`]}`) },
		"list":   func() answer { return r.call("admin", "GET", "/v3/jobs", "") },
		"get":    func() answer { return r.call("admin", "GET", "/v3/jobs/job_1", "") },
		"logs":   func() answer { return r.call("admin", "GET", "/v3/jobs/job_1/attempts/1/logs", "") },
		"claim": func() answer {
			return r.call("admin", "POST", "/v3/claims", `{"worker":"worker-1","queues":["emails"]}`)
		},
		"report": func() answer {
			return r.call("admin", "POST", "/v3/reports", `{"worker":"worker-1","reports":[{"lease":"x","type":"start"}]}`)
		},
		"queues":   func() answer { return r.call("admin", "GET", "/v3/queues", "") },
		"pause":    func() answer { return r.call("admin", "POST", "/v3/queues/emails/pause", "") },
		"endpoint": func() answer { return r.call("admin", "POST", "/v3/endpoints/mailer/pause", "") },
	}
	for _, c := range []struct {
		err        error
		retryAfter string
		says       string
	}{
		{store.ErrReserve, "30", "nothing was written: the store's disk is full but for what is kept for claims and reports, which still work"},
		{store.ErrFull, "30", "nothing was written: the store's disk is full"},
		{store.ErrUnavailable, "2", "nothing was written: the store can't write at the moment"},
		{store.ErrUnknown, "2", "A repeat with the same Idempotency-Key, claim_id or lease is safe"},
		{store.ErrClosed, "2", "nothing was done: the server is stopping"},
		{store.ErrBusy, "2", "nothing was claimed: too many claims wait already"},
		{context.Canceled, "2", "the call was given up before it was done"},
		{errKeys, "", ""},
	} {
		broken.err = fmt.Errorf("deep inside: %w", c.err)
		for name, call := range calls {
			a := call()
			if c.err == errKeys {
				a.fails(problem.Internal)
				continue
			}
			d := a.fails(problem.Unavailable)
			if got := a.header.Get("Retry-After"); got != c.retryAfter || !strings.Contains(d.Detail, c.says) || strings.Contains(d.Detail, "deep inside") {
				t.Errorf("%s, %v: Retry-After %q, %s", name, c.err, got, d.Detail)
			}
		}
	}
}

func TestWhatNobodyExpectedIsLoggedAndNotTold(t *testing.T) {
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	broken := &failing{Store: s}
	r := rigOn(t, s, broken)
	var log bytes.Buffer
	r.serve(Handler(Options{Server: r.server, Store: broken, Log: slog.New(slog.NewTextHandler(&log, nil))}))
	broken.err = errors.New("the disk's secret is 42")
	if d := r.call("admin", "POST", "/v3/jobs", aJob).fails(problem.Internal); strings.Contains(d.Detail, "42") {
		t.Error(d.Detail)
	}
	if text := log.String(); !strings.Contains(text, "the disk's secret is 42") || !strings.Contains(text, "path=/v3/jobs") || strings.Contains(text, "pawl_") {
		t.Error(text)
	}
}

// TestARepeatWhoseJobIsGone is a key whose job was removed between the find and
// the read.
func TestARepeatWhoseJobIsGone(t *testing.T) {
	s, err := sqlite.Open(context.Background(), sqlite.Options{Path: filepath.Join(t.TempDir(), "pawl.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	broken := &failing{Store: s}
	r := rigOn(t, s, &gone{broken})
	r.make(aJob, KeyHeader, "k")
	a := r.call("produce", "POST", "/v3/jobs", aJob, KeyHeader, "k")
	if d := a.fails(problem.Unavailable); a.header.Get("Retry-After") == "" || !strings.Contains(d.Detail, "removed") {
		t.Error(d.Detail)
	}
}

// gone is a store whose jobs can't be read any more.
type gone struct{ *failing }

func (gone) Job(context.Context, string) (*job.Job, error) { return nil, store.ErrNotFound }
