package http

import (
	"context"
	"errors"
	nethttp "net/http"
	"net/url"
	"strings"
	"time"

	"github.com/pawlhq/pawl/internal/egress"
)

var (
	errNoHealthPath  = errors.New("there is no path to ask for; set health_check.path")
	errBadHealthPath = errors.New("must begin with one slash and be the path of a URL, such as /ready")
)

// newHealthTarget is what a health check asks for: a GET of path at the origin
// of the destination's URL. The fixed headers and the login go along: the
// endpoint knows both already, and what stands before it may ask for them. Those
// that depend on a message, the content type and the signature don't.
func newHealthTarget(origin *url.URL, path string, static []egress.Field) (*egress.Target, error) {
	ref, err := url.Parse(path)
	if err != nil || !strings.HasPrefix(path, "/") || ref.Host != "" || ref.Fragment != "" {
		return nil, errBadHealthPath
	}
	u := *origin
	u.Path, u.RawPath, u.RawQuery = ref.Path, ref.RawPath, ref.RawQuery
	var fields []egress.Field
	for _, f := range static {
		if !strings.EqualFold(f.Name, "Content-Type") {
			fields = append(fields, f)
		}
	}
	return egress.NewTarget(nethttp.MethodGet, &u, fields...)
}

// Check implements connector.HealthChecker: any 2xx or 3xx is well. Redirects
// are not followed, and the answer's body is thrown away, bounded as any.
func (d *Destination) Check(ctx context.Context) error {
	if d.health == nil {
		return errNoHealthPath
	}
	res, err := d.client.Do(ctx, &egress.Request{Target: d.health})
	if err != nil {
		return err
	}
	if res.Status >= 300 && res.Status < 400 {
		return nil
	}
	if f := egress.Failure(res, time.Now()); f != nil {
		return f
	}
	return nil
}
