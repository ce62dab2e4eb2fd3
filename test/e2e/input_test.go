package e2e

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestAckTimeout: a caller is answered 504 and the message goes on; a repeat
// joins it, and learns the outcome afterwards without a second delivery.
func TestAckTimeout(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	s.rewrite("path: /events", "ack_timeout: 200ms, path: /events")
	s.rewrite("timeout: 5s", "timeout: 60s")
	p := s.start()
	release := ep.holds()
	defer release()
	if a := send(s.url(), "m"); a.code != http.StatusGatewayTimeout || a.id != "m" {
		t.Errorf("answered %+v, want 504 and the id", a)
	}
	if a := send(s.url(), "m"); a.code != http.StatusGatewayTimeout {
		t.Errorf("a repeat was answered %+v", a)
	}
	if a := sendBody(s.url(), "m", `{"key":"another"}`, nil); a.code != http.StatusConflict {
		t.Errorf("another body under the key was answered %+v", a)
	}
	release()
	eventually(t, "the message goes on", func() bool { return ep.got("m") == 1 })
	eventually(t, "a repeat learns the outcome", func() bool { return send(s.url(), "m").status == "delivered" })
	if n := ep.tries("m"); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
	p.stop()
}

// TestOddInput sends what no well-behaved caller does: the answer is a clear
// 4xx, or the message arrives as it is, and pawl goes on.
func TestOddInput(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	s.write(oneEndpoint(ep))
	s.rewrite("path: /events", `auth: { bearer: { token: "{{env.IN_TOKEN}}" } }, path: /events`)
	p := s.start()
	for name, c := range map[string]struct {
		key, body string
		code      int
		detail    string
	}{
		"a body just over max_body": {"big", strings.Repeat("x", 1<<20+1), 413, "1MiB"},
		"a huge body":               {"huge", strings.Repeat("x", 20<<20), 413, ""},
		"an id that is too long":    {strings.Repeat("i", 257), "{}", 400, "256"},
		"an id with a control":      {"a\tb", "{}", 400, "control"},
	} {
		if a := sendBody(s.url(), c.key, c.body, nil); a.code != c.code || !strings.Contains(a.detail, c.detail) {
			t.Errorf("%s: %+v, want %d with %q", name, a, c.code, c.detail)
		}
	}
	for _, key := range []string{strings.Repeat("i", 256), "ключ-ключ", "a/b?c#d%00", `"quoted"\`, "-"} {
		if a := send(s.url(), key); a.code != http.StatusOK || a.id != key || ep.got(key) != 1 {
			t.Errorf("the id %q: %+v, arrived %d times", key, a, ep.got(key))
		}
	}
	for name, raw := range map[string]string{
		"an id with NUL":             "POST /events HTTP/1.1\r\nHost: x\r\nIdempotency-Key: a\x00b\r\nContent-Length: 2\r\n\r\n{}",
		"a hundred thousand headers": "POST /events HTTP/1.1\r\nHost: x\r\n" + strings.Repeat("A: b\r\n", 100_000) + "\r\n",
		"no HTTP":                    "hello\r\n\r\n",
		"two lengths":                "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}x",
		"a wrong path":               "POST /nowhere HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"a wrong method":             "PUT /events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"no token":                   "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"a wrong token":              "POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer no\r\nContent-Length: 2\r\n\r\n{}",
		"a bad gzip":                 "POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + inToken + "\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n{}",
		"an unknown encoding":        "POST /events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + inToken + "\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\n{}",
	} {
		if code := speak(t, s.listen, raw); code < 400 || code > 499 {
			t.Errorf("%s: HTTP %d, want 4xx", name, code)
		}
	}
	// Bytes that are no text, and nothing at all, are bodies like any other.
	for key, body := range map[string]string{"bytes": "\x00\xff\x01", "empty": "", "deep": strings.Repeat("[", 100_000)} {
		ep.answers(func(string) int { return http.StatusBadRequest })
		if a := sendBody(s.url(), key, body, nil); a.status != "dead_lettered" {
			t.Errorf("%s: %+v", key, a)
		}
		if out := s.must(0, "dlq", "inspect", key, "--json"); !strings.Contains(out, `"id":"`+key+`"`) {
			t.Errorf("%s: %s", key, out)
		}
		s.must(0, "dlq", "inspect", key)
	}
	// An id is what the caller says, also where it looks like a path.
	for _, key := range []string{"..", ".", "a//b", "a/../b?c#d%00", "ключ", `"\`, "a b"} {
		if a := send(s.url(), key); a.code == http.StatusBadRequest {
			t.Logf("the id %q is refused: %s", key, a.detail)
			continue
		}
		if out := s.must(0, "dlq", "inspect", "--json", "--", key); len(out) == 0 || decode[struct {
			ID string `json:"id"`
		}](t, out).ID != key {
			t.Errorf("the id %q: %s", key, out)
		}
	}
	ep.answers(nil)
	if a := send(s.url(), "last"); a.status != "delivered" {
		t.Errorf("afterwards: %+v", a)
	}
	p.stop()
}

// speak sends raw bytes and returns the status of the answer. The caller may
// be cut off while it is still sending.
func speak(t *testing.T, address, raw string) int {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.WriteString(conn, raw) }() // the answer may come before its end
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Errorf("no answer to %.60q: %v", raw, err)
		return 0
	}
	defer res.Body.Close()
	return res.StatusCode
}

// certificates makes an authority, and files with certificates of it.
type authority struct {
	t    *testing.T
	key  *ecdsa.PrivateKey
	cert *x509.Certificate
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{t, key, cert, pool}
}

func (a *authority) pem() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.cert.Raw})
}

// issue makes a certificate for 127.0.0.1, good for either side.
func (a *authority) issue() (cert, key []byte) {
	a.t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "one"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, private.Public(), a.key)
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		a.t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: text})
}

// TestTLS serves with a certificate and lets in only callers of the authority.
func TestTLS(t *testing.T) {
	s := newSite(t)
	ep := newEndpoint(t)
	ours, strangers := newAuthority(t), newAuthority(t)
	cert, key := ours.issue()
	for name, text := range map[string][]byte{"cert.pem": cert, "key.pem": key, "ca.pem": ours.pem()} {
		if err := os.WriteFile(s.path(name), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s.write(oneEndpoint(ep))
	s.rewrite("path: /events", "tls: { cert: cert.pem, key: key.pem, client_ca: ca.pem }, path: /events")
	p := s.start()
	call := func(id string, from *authority) error {
		conf := &tls.Config{RootCAs: ours.pool}
		if from != nil {
			pair, err := tls.X509KeyPair(from.issue())
			if err != nil {
				t.Fatal(err)
			}
			conf.Certificates = []tls.Certificate{pair}
		}
		transport := &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}
		r, err := http.NewRequest(http.MethodPost, "https://"+s.listen+"/events", strings.NewReader(bodyOf(id)))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Idempotency-Key", id)
		res, err := (&http.Client{Transport: transport, Timeout: patience}).Do(r)
		if err != nil {
			return err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return fmt.Errorf("HTTP %d", res.StatusCode)
		}
		return nil
	}
	if err := call("good", ours); err != nil || ep.got("good") != 1 {
		t.Errorf("a caller with our certificate: %v", err)
	}
	if err := call("none", nil); err == nil {
		t.Error("a caller without a certificate was let in")
	}
	if err := call("strange", strangers); err == nil {
		t.Error("a caller of another authority was let in")
	}
	if code := speak(t, s.listen, "POST /events HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); code != http.StatusBadRequest {
		t.Errorf("plain HTTP at a TLS port: %d", code)
	}
	p.stop()
}
