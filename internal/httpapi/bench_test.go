package httpapi

// What the handlers cost by themselves: on a store that does nothing, without a
// network.

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pawlhq/pawl/internal/core/job"
	"github.com/pawlhq/pawl/internal/core/lane"
	"github.com/pawlhq/pawl/internal/store"
)

// instant is a store that answers at once.
type instant struct {
	store.Store
	key store.Key
	job *job.Job
}

func (s *instant) SetLimits(context.Context, map[lane.Gate]store.Limits) error { return nil }

func (s *instant) Now() time.Time { return moment }
func (s *instant) KeyByHash(context.Context, [32]byte) (store.Key, error) {
	return s.key, nil
}
func (s *instant) Create(_ context.Context, jobs []store.NewJob) ([]store.Created, error) {
	made := make([]store.Created, len(jobs))
	for i := range made {
		made[i] = store.Created{ID: s.job.ID, CreatedAt: moment, RunAt: moment}
	}
	return made, nil
}

func (s *instant) Claim(_ context.Context, w store.Want) (store.Claim, error) {
	got := store.Claim{Now: moment, Jobs: make([]store.Claimed, w.Max)}
	for i := range got.Jobs {
		got.Jobs[i] = store.Claimed{Job: s.job, Lease: "lse_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", LeaseFor: time.Minute, LeaseUntil: moment, Deadline: moment}
	}
	return got, nil
}

func (s *instant) List(context.Context, store.Filter) (store.Page, error) {
	return store.Page{Jobs: []*job.Job{s.job}, Next: "next"}, nil
}

func (s *instant) Job(context.Context, string) (*job.Job, error) { return s.job, nil }

func (s *instant) Report(_ context.Context, reports []store.Report) ([]store.Answer, error) {
	answers := make([]store.Answer, len(reports))
	for i := range answers {
		answers[i] = store.Answer{Status: store.ReportTaken, JobStatus: job.Succeeded}
	}
	return answers, nil
}

// nobody is a caller that listens to nothing.
type nobody struct{ header http.Header }

func (w *nobody) Header() http.Header         { return w.header }
func (w *nobody) Write(b []byte) (int, error) { return len(b), nil }
func (w *nobody) WriteHeader(status int) {
	if status >= 300 {
		panic(status)
	}
}

type body struct{ bytes.Reader }

func (*body) Close() error { return nil }

func benchmark(b *testing.B, path, text string, per int) {
	h, secret := offline(b)
	req, err := http.NewRequestWithContext(b.Context(), "POST", path, http.NoBody)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+secret)
	req.Header.Set("Content-Type", "application/json")
	req.ContentLength = int64(len(text))
	from := new(body)
	req.Body = from
	w := &nobody{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		from.Reset([]byte(text))
		clear(w.header)
		h.ServeHTTP(w, req)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*per), "ns/job")
	_, _ = io.Copy(io.Discard, from)
}

func BenchmarkCreate(b *testing.B) {
	benchmark(b, "/v3/jobs", `{"queue":"emails","task":"send","payload":{"user_id":7,"text":"`+strings.Repeat("x", 200)+`"}}`, 1)
}

func BenchmarkCreateBatch64(b *testing.B) {
	one := `{"queue":"emails","task":"send","payload":{"user_id":7,"text":"` + strings.Repeat("x", 200) + `"}}`
	benchmark(b, "/v3/jobs/batch", `{"jobs":[`+strings.Repeat(one+",", 63)+one+`]}`, 64)
}

func BenchmarkClaim64(b *testing.B) {
	benchmark(b, "/v3/claims", `{"worker":"worker-1","queues":["emails"],"max":64,"wait":"0s"}`, 64)
}

func BenchmarkClaim1(b *testing.B) {
	benchmark(b, "/v3/claims", `{"worker":"worker-1","queues":["emails"]}`, 1)
}

func BenchmarkReport64(b *testing.B) {
	var reports []string
	for i := range 64 {
		reports = append(reports, `{"lease":"lse_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA`+strconv.Itoa(i)+`","type":"complete","result":{"n":1}}`)
	}
	benchmark(b, "/v3/reports", `{"worker":"worker-1","reports":[`+strings.Join(reports, ",")+`]}`, 64)
}
