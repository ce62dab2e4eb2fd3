package http

import (
	"bytes"
	"context"
	"fmt"
	nethttp "net/http"
	"testing"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/connector/connectortest"
	"github.com/pawlhq/pawl/internal/testbed"
)

// sender posts messages to a source.
type sender struct{ client nethttp.Client }

func (s *sender) Send(ctx context.Context, m connectortest.Sent) (connectortest.Reply, error) {
	r, err := nethttp.NewRequestWithContext(ctx, nethttp.MethodPost, "http://"+address+"/", bytes.NewReader(m.Body))
	if err != nil {
		return "", err
	}
	r.Header.Set("Idempotency-Key", m.ID)
	res, err := s.client.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case nethttp.StatusOK, nethttp.StatusAccepted:
		return connectortest.Acked, nil
	case nethttp.StatusServiceUnavailable:
		if res.Header.Get("Retry-After") == "" {
			return connectortest.Nacked, nil
		}
		return connectortest.PushedBack, nil
	}
	return "", fmt.Errorf("status %d", res.StatusCode)
}

func TestSourceSuite(t *testing.T) {
	connectortest.Source(t, connectortest.SourceHarness{
		Open: func(t *testing.T) (connector.Source, connectortest.Feed) {
			n := &testbed.Network{}
			settings := newSourceSettings().(*SourceSettings)
			settings.Listen, settings.MaxBody = address, 4<<20
			s, err := SourceKind().Open(settings, connector.Env{Name: "web", Listen: n.Listen})
			if err != nil {
				t.Fatal(err)
			}
			transport := &nethttp.Transport{DialContext: n.Dial}
			t.Cleanup(transport.CloseIdleConnections)
			return s, &sender{nethttp.Client{Transport: transport}}
		},
		Clock: connectortest.InBubble, Keys: connectortest.Yes, Refuses: connectortest.Yes, Empty: connectortest.Yes,
	})
}
