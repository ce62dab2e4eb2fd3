package problem

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Whatever a mux would redirect is answered 404, and everything else is served.
func TestNothingIsRedirected(t *testing.T) {
	served := ""
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(_ http.ResponseWriter, r *http.Request) { served = r.URL.EscapedPath() })
	for path, want := range map[string]string{
		"/": "", "/v3/jobs": "", "/v3/jobs/": "", "/v3/jobs/a%2Fb": "", "/v3/jobs/%2e%2e": "", "/v3/jobs/...": "", "/v3/queues/.x/pause": "",
		"/v3/queues//pause": "is empty", "//v3/jobs": "is empty", "/v3//": "is empty", "//": "is empty",
		"/v3/jobs/../keys": "is ..,", "/v3/jobs/..": "is ..,", "/v3/./jobs": "is .,", "/v3/jobs/.": "is .,",
	} {
		served = ""
		w := httptest.NewRecorder()
		ExactPaths(mux).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://x"+path, nil))
		switch {
		case want == "" && (w.Code != http.StatusOK || served != path):
			t.Errorf("%s: %d, served %q", path, w.Code, served)
		case want != "" && (w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), want)):
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
