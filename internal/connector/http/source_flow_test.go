package http

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	nethttp "net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pawlhq/pawl/internal/connector"
	"github.com/pawlhq/pawl/internal/core/event"
	"github.com/pawlhq/pawl/internal/ingress"
	"github.com/pawlhq/pawl/internal/setting"
	"github.com/pawlhq/pawl/internal/testbed"
)

// slowly settles after d, and tells on nackable whether a nack would have been
// heard.
func slowly(d time.Duration, status event.Settlement, nackable *bool) func(context.Context, connector.Delivery) connector.Settlement {
	return func(_ context.Context, in connector.Delivery) connector.Settlement {
		time.Sleep(d)
		if nackable != nil {
			*nackable = in.Nackable()
		}
		return connector.Settlement{Status: status, ID: in.Message.ID}
	}
}

// TestLateAnswerPromisesNoMoreThanIsTrue: the message is in memory alone, so a
// caller must not be told that it is safe.
func TestLateAnswerPromisesNoMoreThanIsTrue(t *testing.T) {
	for want, header := range map[string][]string{"same key": {"Idempotency-Key", "k"}, "second message": nil} {
		withSource(t, nil, func(r *rig) {
			r.relay.set(slowly(time.Minute, event.SettledDelivered, new(bool)))
			a := r.post("{}", header...)
			detail := a.field(t, "detail")
			if a.status != 504 || !strings.Contains(detail, want) || strings.Contains(detail, "need not") || strings.Contains(detail, "will be") {
				t.Errorf("%v: %d %s", header, a.status, detail)
			}
		})
	}
}

func TestLateSettlementIsA504AndTheMessageGoesOn(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		var nackable bool
		r.relay.settle = slowly(time.Minute, event.SettledDeadLettered, &nackable)
		nackable = true
		begin := time.Now()
		a := r.post("{}", "Idempotency-Key", "k1")
		if took := time.Since(begin); a.status != 504 || took != 25*time.Second || a.field(t, "id") != "k1" ||
			a.field(t, "type") != "urn:pawl:problem:still-working" || a.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("after %v: %d %v %s", took, a.status, a.header, a.body)
		}
		// The connection is still the handler's, so another request needs its own.
		r.relay.set(nil)
		if a := r.post("{}"); a.status != 200 || r.net.Dials() != 2 {
			t.Errorf("the next request: %d over %d connections", a.status, r.net.Dials())
		}
		r.stop() // waits for the message that goes on
		if err := <-r.done; err != nil || time.Since(begin) < time.Minute {
			t.Errorf("Run ended %v after %v, before its message", err, time.Since(begin))
		}
		r.done <- nil
		if nackable {
			t.Error("Nackable after the 504 says that somebody waits")
		}
	})
}

func TestAnswerInTimeStopsThe504(t *testing.T) {
	withSource(t, func(s *SourceSettings) { s.AckTimeout = setting.Duration(2 * time.Minute) }, func(r *rig) {
		// Longer than the listener's own bounds on reading and writing.
		r.relay.settle = func(ctx context.Context, in connector.Delivery) connector.Settlement {
			time.Sleep(2*time.Minute - 1)
			if ctx.Err() != nil {
				t.Error("the caller counts as gone though it still waits")
			}
			return connector.Settlement{Status: event.SettledDelivered, ID: in.Message.ID}
		}
		for range 2 {
			if a := r.post("{}"); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		}
		if r.net.Dials() != 1 {
			t.Errorf("%d connections for two requests in a row", r.net.Dials())
		}
	})
}

func TestNackThatWasPromisedReachesTheCaller(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		r.relay.settle = func(_ context.Context, in connector.Delivery) connector.Settlement {
			if !in.Nackable() || !in.Nackable() {
				t.Error("nobody waits right after the request came")
			}
			time.Sleep(26 * time.Second) // ack_timeout passes between the question and the nack
			return connector.Settlement{Status: event.SettledNacked, ID: in.Message.ID}
		}
		if a := r.post("{}"); a.status != 503 {
			t.Errorf("%d: a 504 was sent for a message that is gone", a.status)
		}
	})
}

func TestCallerThatIsGoneCantBeNacked(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		nackable := true
		done := make(chan struct{})
		r.relay.settle = func(ctx context.Context, in connector.Delivery) connector.Settlement {
			defer close(done)
			time.Sleep(5 * time.Second)
			nackable = in.Nackable()
			return connector.Settlement{Status: event.SettledDeadLettered}
		}
		c, err := r.net.Dial(r.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
		time.Sleep(time.Second)
		c.(*testbed.Conn).Reset()
		<-done
		if nackable {
			t.Error("Nackable says that a caller who hung up still waits")
		}
	})
}

func TestStopFinishesWhatIsInFlightAndTurnsAwayTheRest(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		r.relay.settle = slowly(10*time.Second, event.SettledDelivered, nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			if a := r.post("{}"); a.status != 200 {
				t.Errorf("in flight: %d", a.status)
			}
		})
		synctest.Wait()
		begin := time.Now()
		r.stop()
		synctest.Wait()
		if a := r.post("{}"); a.status != 503 || a.header.Get("Retry-After") != "1" {
			t.Errorf("while stopping: %d %v", a.status, a.header)
		}
		err := <-r.done
		if took := time.Since(begin); err != nil || took != 10*time.Second {
			t.Errorf("Run: %v after %v", err, took)
		}
		r.done <- err
		wg.Wait()
		if a := r.post("{}"); a.status != 503 || a.header.Get("Retry-After") != "1" { // others may share the listener
			t.Errorf("between Run and Close: %d %v", a.status, a.header)
		}
		if err := r.source.Close(); err != nil {
			t.Error(err)
		}
		if _, err := r.net.Dial(r.Context(), "tcp", address); err == nil {
			t.Error("the listener is still open")
		}
		if r.relay.count() != 1 {
			t.Errorf("%d messages", r.relay.count())
		}
	})
}

func TestRequestsWaitForRunToBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n testbed.Network
		settings := newSourceSettings().(*SourceSettings)
		settings.Listen = address
		s, err := OpenSource(settings, connector.Env{Name: "web", Listen: n.Listen}) // its own listener
		if err != nil {
			t.Fatal(err)
		}
		transport := &nethttp.Transport{DialContext: n.Dial}
		defer transport.CloseIdleConnections()
		post := func() int {
			res, err := (&nethttp.Client{Transport: transport}).Post("http://"+address+"/", "", strings.NewReader("{}"))
			if err != nil {
				t.Error(err)
				return 0
			}
			defer res.Body.Close()
			_, _ = io.Copy(io.Discard, res.Body)
			return res.StatusCode
		}
		if status := post(); status != 503 {
			t.Errorf("Run never began: %d, want 503", status)
		}
		statuses := make(chan int)
		go func() { statuses <- post() }()
		synctest.Wait()
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		var h relay
		go func() { done <- s.Run(ctx, &h) }()
		if status := <-statuses; status != 200 {
			t.Errorf("a request that waited for Run: %d", status)
		}
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s.Close() != nil || s.Close() != nil {
			t.Error("Close twice")
		}
	})
}

func TestCloseGivesUpAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n testbed.Network
		settings := newSourceSettings().(*SourceSettings)
		settings.Listen = address
		s, err := OpenSource(settings, connector.Env{Name: "web", Listen: n.Listen})
		if err != nil {
			t.Fatal(err)
		}
		h := relay{settle: slowly(time.Hour, event.SettledDelivered, nil)}
		done := make(chan error)
		go func() { done <- s.Run(t.Context(), &h) }()
		c, err := n.Dial(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")
		synctest.Wait()
		begin := time.Now()
		_ = s.Close()
		if err := <-done; err != nil || time.Since(begin) != 0 {
			t.Errorf("Run: %v after %v", err, time.Since(begin))
		}
		if _, err := nethttp.ReadResponse(bufio.NewReader(c), nil); err == nil {
			t.Error("a connection outlived Close")
		}
		time.Sleep(2 * time.Hour) // the handler ends, so that the bubble can
	})
}

// certificateFiles writes a self-signed certificate for name.
func certificateFiles(t *testing.T, name string) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	write := func(file, kind string, b []byte) string {
		path := filepath.Join(t.TempDir(), file)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cert, key = write("cert.pem", "CERTIFICATE", der), write("key.pem", "PRIVATE KEY", keyDER)
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool = x509.NewCertPool()
	pool.AddCert(leaf)
	return cert, key, pool
}

func TestHTTP2WithClientCertificate(t *testing.T) {
	cert, key, trust := certificateFiles(t, "pawl.test")
	clientCert, clientKey, _ := certificateFiles(t, "client.test")
	pair, err := tls.LoadX509KeyPair(clientCert, clientKey)
	if err != nil {
		t.Fatal(err)
	}
	withSource(t, func(s *SourceSettings) {
		s.TLS = &setting.ServerTLS{Cert: cert, Key: key, ClientCA: clientCert}
	}, func(r *rig) {
		transport := &nethttp.Transport{DialContext: r.net.Dial, ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{
			RootCAs: trust, ServerName: "pawl.test", Certificates: []tls.Certificate{pair},
		}}
		defer transport.CloseIdleConnections()
		post := func() (int, string) {
			r.Helper()
			res, err := (&nethttp.Client{Transport: transport}).Post("https://"+address+"/", "", strings.NewReader("{}"))
			if err != nil {
				r.Fatal(err)
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			if err != nil || res.ProtoMajor != 2 {
				r.Fatalf("%s: %v", res.Proto, err)
			}
			return res.StatusCode, string(b)
		}
		if status, body := post(); status != 200 || !strings.Contains(body, "delivered") {
			t.Errorf("%d %s", status, body)
		}
		if caller := r.relay.last(r.T).Caller; !strings.HasPrefix(caller, "cert:") {
			t.Errorf("caller %q", caller)
		}
		nackable := true
		ended := make(chan struct{})
		r.relay.set(func(ctx context.Context, in connector.Delivery) connector.Settlement {
			defer close(ended)
			time.Sleep(time.Minute)
			nackable = in.Nackable()
			if ctx.Err() != nil {
				t.Error("the message was given up with its request")
			}
			return connector.Settlement{Status: event.SettledDeadLettered}
		})
		begin := time.Now()
		if status, _ := post(); status != 504 || time.Since(begin) != 25*time.Second {
			t.Errorf("%d after %v", status, time.Since(begin))
		}
		<-ended
		if nackable {
			t.Error("Nackable after the 504 says that somebody waits")
		}
		nack := slowly(26*time.Second, event.SettledNacked, nil)
		r.relay.set(func(ctx context.Context, in connector.Delivery) connector.Settlement {
			in.Nackable()
			return nack(ctx, in)
		})
		if status, _ := post(); status != 503 {
			t.Errorf("a promised nack: %d", status)
		}
	})
}

func TestHeaderOf64KiB(t *testing.T) {
	withSource(t, nil, func(r *rig) {
		if a := r.post("{}", "X-Big", strings.Repeat("x", ingress.MaxHeaderBytes-2048)); a.status != 200 {
			t.Errorf("just below: %d", a.status)
		}
		a, err := r.raw("POST / HTTP/1.1\r\nHost: x\r\nX-Big: " + strings.Repeat("x", ingress.MaxHeaderBytes+8192) + "\r\n\r\n")
		if err != nil || a.status != 431 {
			t.Errorf("above: %+v, %v", a, err)
		}
	})
}
