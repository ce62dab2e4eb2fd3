package ingress

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"
)

// certificate makes a self-signed one for name, and a pool that trusts it.
func certificate(t *testing.T, name string) (*tls.Config, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}, pool
}

func TestTLSServesTheNewestCertificateOverHTTP2(t *testing.T) {
	inBubble(t, Options{}, func(r *rig) {
		before, trustBefore := certificate(r.T, "old.test")
		after, trustAfter := certificate(r.T, "new.test")
		names := http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { _, _ = io.WriteString(w, q.Proto) })
		first, err := r.hub.Mount(addr, before, "/x", names)
		if err != nil {
			r.Fatal(err)
		}
		get := func(name string, trust *x509.CertPool) (string, error) {
			transport := &http.Transport{
				DialContext: r.net.Dial, ForceAttemptHTTP2: true,
				TLSClientConfig: &tls.Config{RootCAs: trust, ServerName: name},
			}
			defer transport.CloseIdleConnections()
			res, err := (&http.Client{Transport: transport}).Get("https://" + addr + "/x")
			if err != nil {
				return "", err
			}
			defer res.Body.Close()
			b, err := io.ReadAll(res.Body)
			return string(b), err
		}
		if got, err := get("old.test", trustBefore); err != nil || got != "HTTP/2.0" {
			r.Errorf("before the reload: %q, %v", got, err)
		}
		if _, err := r.hub.Mount(addr, after, "/x", names); err != nil {
			r.Fatal(err)
		}
		first()
		if got, err := get("new.test", trustAfter); err != nil || got != "HTTP/2.0" {
			r.Errorf("after the reload: %q, %v", got, err)
		}
		if _, err := get("old.test", trustBefore); err == nil {
			r.Error("the old certificate is still served")
		}
		if _, err := r.hub.Mount(addr, nil, "/plain", names); err == nil || !strings.Contains(err.Error(), "to have it without tls needs a restart") {
			r.Errorf("a plain mount at a TLS address: %v", err)
		}
	})
}

func TestOnlyPanicsAreErrorsInTheLog(t *testing.T) {
	var out strings.Builder
	log := serverLog{slog.New(slog.NewTextHandler(&out, nil))}
	_, _ = log.Write([]byte("http: TLS handshake error from 10.0.0.9:1: EOF\n"))
	_, _ = log.Write([]byte("http: panic serving 10.0.0.9:1: boom\ngoroutine 1\n"))
	if got := out.String(); strings.Contains(got, "handshake") || !strings.Contains(got, "level=ERROR") || !strings.Contains(got, "boom") {
		t.Errorf("log:\n%s", got)
	}
}
