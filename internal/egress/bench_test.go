package egress

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
)

// BenchmarkDo sends 1 KiB over loopback from many callers: our own path beside
// net/http's Transport as it is used without this package. The server's share
// is in all figures alike.
func BenchmarkDo(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"status":"ok"}`)
	}))
	defer server.Close()
	u, err := url.Parse(server.URL + "/events")
	if err != nil {
		b.Fatal(err)
	}
	body := bytes.Repeat([]byte("x"), 1024)
	target, err := NewTarget(http.MethodPost, u, Field{"Content-Type", "application/json"})
	if err != nil {
		b.Fatal(err)
	}
	for _, bench := range []struct {
		name string
		opts Options
	}{{"direct", Options{}}, {"standard", Options{Protocol: HTTP2}}} {
		b.Run(bench.name, func(b *testing.B) {
			client, err := New(bench.opts)
			if err != nil {
				b.Fatal(err)
			}
			defer client.Close()
			b.ReportAllocs()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				ctx := b.Context()
				for pb.Next() {
					req := Request{Target: target, Header: []Field{{"Idempotency-Key", "k-1"}}, Body: body}
					if resp, err := client.Do(ctx, &req); err != nil || resp.Status != 200 {
						b.Error(resp, err)
						return
					}
				}
			})
		})
	}
	b.Run("transport", func(b *testing.B) {
		transport := &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true}
		defer transport.CloseIdleConnections()
		b.ReportAllocs()
		b.SetParallelism(16)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, u.String(), bytes.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				req.Header.Set("Idempotency-Key", "k-1")
				resp, err := transport.RoundTrip(req)
				if err != nil {
					b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
			}
		})
	})
}
